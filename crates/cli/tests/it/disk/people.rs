//! What a person reads where nothing can be written.

use insta::assert_snapshot;

use super::disk;
use crate::people::Person;

/// What a person would try.
const TRIED: &[&[&str]] = &[
    &["queue", "list"],
    &["queue", "add", "--thread", "docs", "second"],
    &["queue", "add", "--new", "third"],
    &["queue", "pause", "docs"],
    &["run", "--skip-git-repo-check", "hello"],
    &["thread", "list"],
];

async fn tries(person: &mut Person) {
    for arguments in TRIED {
        person.types(arguments).await;
    }
}

#[tokio::test]
async fn on_a_full_disk_commands_say_what_to_do() {
    let test = "on_a_full_disk_commands_say_what_to_do";
    let Some(disk) = disk(module_path!(), test).await else {
        return;
    };
    let mut person = Person::new();
    person.queued("docs", "first").await;
    disk.fill().unwrap();
    tries(&mut person).await;
    assert_snapshot!(person.story());
}

#[tokio::test]
async fn in_an_empty_home_on_a_full_disk_commands_say_what_to_do() {
    let test = "in_an_empty_home_on_a_full_disk_commands_say_what_to_do";
    let Some(disk) = disk(module_path!(), test).await else {
        return;
    };
    let mut person = Person::new();
    disk.fill().unwrap();
    tries(&mut person).await;
    person.types(&["serve"]).await;
    assert_snapshot!(person.story());
    // Nothing that was begun is in the way later.
    disk.free().unwrap();
    person.queued("docs", "first").await;
}

#[tokio::test]
async fn in_a_read_only_home_commands_say_what_to_do() {
    let test = "in_a_read_only_home_commands_say_what_to_do";
    let Some(disk) = disk(module_path!(), test).await else {
        return;
    };
    let mut person = Person::new();
    person.queued("docs", "first").await;
    disk.make_read_only().await.unwrap();
    tries(&mut person).await;
    person.types(&["serve"]).await;
    assert_snapshot!(person.story());
    // The database can be read there; that is not enough to run a turn.
    let examined = crate::run(person.spec(&["doctor", "--json"])).await;
    assert_eq!(examined.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&examined.stdout).unwrap();
    assert_eq!(report["home"]["writable"], false, "{report}");
    assert_ne!(report["database"]["writable"], true, "{report}");
}

#[tokio::test]
async fn in_an_empty_home_that_is_read_only_commands_say_what_to_do() {
    let test = "in_an_empty_home_that_is_read_only_commands_say_what_to_do";
    let Some(disk) = disk(module_path!(), test).await else {
        return;
    };
    let mut person = Person::new();
    disk.make_read_only().await.unwrap();
    tries(&mut person).await;
    person.types(&["serve"]).await;
    assert_snapshot!(person.story());
}

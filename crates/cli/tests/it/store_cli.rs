//! `turnlane store`, names, releasing a thread, and what a deleted thread leaves.

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::people::Person;
use crate::serve::Daemon;
use crate::serve::pages::database_of;
use crate::{run, shown};

/// The files below a directory that hold this text.
fn holding(directory: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap();
        if kind.is_dir() {
            found.extend(holding(&path, text));
        } else if kind.is_file() {
            let bytes = fs::read(&path).unwrap_or_default();
            if bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
            {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

async fn refusal(person: &Person, arguments: &[&str]) -> String {
    let output = run(person.spec(arguments)).await;
    assert!(!output.status.success(), "{arguments:?}");
    output.stderr_tail
}

#[tokio::test]
async fn a_name_belongs_to_one_thread_until_that_is_archived() {
    let person = Person::new();
    let (first, _) = person.queued("nightly", "hello").await;
    let (second, _) = person.queued("other", "hello").await;
    let text = refusal(&person, &["thread", "rename", "other", "nightly"]).await;
    assert!(
        text.starts_with(&format!(
            "error: the name `nightly` is in use by thread {first}\n"
        )),
        "{text}"
    );
    assert!(text.contains("turnlane thread archive"), "{text}");
    let text = refusal(
        &person,
        &["queue", "add", "--new", "--name", "nightly", "x"],
    )
    .await;
    assert!(
        text.starts_with("error: there is a thread `nightly` already\n"),
        "{text}"
    );

    // The name goes to the second thread, and means that one.
    person.json(&["thread", "archive", "nightly"]).await;
    let renamed = person.json(&["thread", "rename", "other", "nightly"]).await;
    assert_eq!(renamed, [json!({"threadId": second, "name": "nightly"})]);
    person.adds("nightly", "more").await;
    assert_eq!(person.queue(&second).await["depth"], 2);
    let text = refusal(&person, &["thread", "unarchive", &first]).await;
    assert!(
        text.contains(&format!("is in use by thread {second}")),
        "{text}"
    );
}

#[tokio::test]
async fn nothing_of_a_deleted_thread_is_left_in_the_home() {
    let person = Person::new();
    let daemon = person.daemon().await;
    let (kept, _) = person.queued("kept", "KEPTPROMPT").await;
    let (thread, row) = person.queued("docs", "SECRETPROMPT in a test").await;
    for number in 0..20 {
        person.adds("docs", &format!("SECRETPROMPT {number}")).await;
    }
    person.until_idle(&thread).await;
    let home = person.home.turnlane();
    let copies = home.join("attachments").join(row);
    fs::create_dir_all(&copies).unwrap();
    fs::set_permissions(home.join("attachments"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(copies.join("thread"), &thread).unwrap();
    fs::write(copies.join("picture.png"), "SECRETPROMPT").unwrap();
    assert!(!holding(&home, "SECRETPROMPT").is_empty());
    person.json(&["thread", "rm", "--yes", "docs"]).await;
    let gone = async || holding(&home, "SECRETPROMPT").is_empty();
    eventually("nothing of the thread", DEADLINE, gone)
        .await
        .unwrap();
    assert!(!copies.exists());
    assert!(!holding(&home, "KEPTPROMPT").is_empty());
    person.until_idle(&kept).await;
    drop(daemon);
}

#[tokio::test]
async fn a_backup_is_made_beside_a_daemon_and_can_be_used_in_its_place() {
    let person = Person::new();
    let daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "hello").await;
    person.until_idle(&thread).await;
    let file = person.home.path().join("a copy.db");
    let name = file.to_str().unwrap();
    let made = person.json(&["store", "backup", name]).await;
    assert_eq!(made[0]["path"], name);
    assert_eq!(made[0]["bytes"], fs::metadata(&file).unwrap().len());
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = refusal(&person, &["store", "backup", name]).await;
    assert!(text.contains("a backup overwrites nothing"), "{text}");
    let checked = person.json(&["store", "check"]).await;
    assert_eq!(checked[0]["problems"], json!([]));
    assert!(checked[0]["logBytes"].as_u64().unwrap() > 0);
    let text = refusal(&person, &["store", "compact"]).await;
    assert!(text.contains("stop it first"), "{text}");
    drop(daemon);

    let other = Person::new();
    let home = other.home.turnlane();
    fs::create_dir_all(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    fs::copy(&file, home.join("turnlane.db")).unwrap();
    let threads = other.json(&["thread", "list"]).await;
    assert_eq!(threads[0]["id"], thread.as_str());
    let compacted = other.json(&["store", "compact"]).await;
    assert!(compacted[0]["bytesAfter"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn pruning_deletes_old_threads_and_none_with_work() {
    let person = Person::new();
    let daemon = person.daemon().await;
    let (old, _) = person.queued("old", "hello").await;
    person.until_idle(&old).await;
    drop(daemon);
    person.queued("waits", "hello").await;
    let of = |lines: &[Value], done: &str| -> Vec<String> {
        let lines = lines.iter().filter(|line| line["done"] == done);
        lines
            .map(|line| line["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let prune = ["store", "prune", "--older-than", "0s"];
    let unowned = async || {
        // The lane stays the daemon's until its death is noticed.
        let found = person.json(&[&prune[..], &["--dry-run"]].concat()).await;
        of(&found, "found") == ["old"]
    };
    eventually("an idle thread", DEADLINE, unowned)
        .await
        .unwrap();
    let none = person
        .json(&[&prune[..], &["--archived-only", "--yes"]].concat())
        .await;
    assert_eq!(none, Vec::<Value>::new());
    let text = refusal(&person, &prune).await;
    assert!(text.contains("--yes"), "{text}");
    let output = run(person.spec(&[&prune[..], &["--yes", "--json"]].concat())).await;
    let text = String::from_utf8(output.stdout).unwrap();
    let gone: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(of(&gone, "deleted"), ["old"]);
    let left = person.json(&["thread", "list"]).await;
    assert!(left.iter().all(|thread| thread["id"] != old.as_str()));
    let young = person
        .json(&["store", "prune", "--older-than", "30d", "--dry-run"])
        .await;
    assert_eq!(young, Vec::<Value>::new());
}

#[tokio::test]
async fn a_lane_of_a_dead_process_whose_lock_cannot_be_opened_goes_on_by_itself() {
    let person = Person::new();
    let mut daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "hang").await;
    person.until_running(&thread).await;
    let text = refusal(&person, &["thread", "release", "--yes", "docs"]).await;
    assert!(text.contains("which is alive"), "{text}");
    daemon.kill9().await.unwrap();
    // A link to itself is refused to every user, as root's lock file is to others.
    for lock in fs::read_dir(person.home.turnlane().join("turnlane.db.workers")).unwrap() {
        let lock = lock.unwrap().path();
        fs::remove_file(&lock).unwrap();
        symlink(&lock, &lock).unwrap();
    }
    let freed = async || person.queue(&thread).await["running"].is_null();
    eventually("the turn of the dead process", DEADLINE, freed)
        .await
        .unwrap();
    let released = person.json(&["thread", "release", "--yes", "docs"]).await;
    let expected = json!({"threadId": thread, "done": "unowned", "interrupted": false});
    assert_eq!(released, [expected]);
}

/// The value with this key, wherever it stands.
fn find<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match value {
        Value::Object(members) => {
            let within = || members.values().find_map(|member| find(member, key));
            members.get(key).or_else(within)
        }
        Value::Array(members) => members.iter().find_map(|member| find(member, key)),
        _ => None,
    }
}

#[tokio::test]
async fn a_lane_whose_owner_cannot_be_judged_is_named_and_goes_on_when_it_is_released() {
    let person = Person::new();
    let script = person.script();
    let script = ["--script", script.to_str().unwrap()];
    let mut first = Daemon::start(&person.home, &script).await;
    let (thread, row) = person.queued("docs", "hang").await;
    person.until_running(&thread).await;
    person.adds(&thread, "say it").await;
    first.process.kill9().await.unwrap();
    let directory = person.home.turnlane();
    for lock in fs::read_dir(directory.join("turnlane.db.workers")).unwrap() {
        let lock = lock.unwrap().path();
        fs::remove_file(&lock).unwrap();
        symlink(&lock, &lock).unwrap();
    }
    let store = database_of(&person.home);
    let elsewhere = store.execute("UPDATE worker SET host = 'another-host'", []);
    assert_eq!(elsewhere.unwrap(), 1);
    drop(store);

    let next = Daemon::start(&person.home, &script).await;
    let named = format!("thread {thread} waits: ");
    let has = |line: &str| line.contains(&named);
    let line = next.process.wait_for_stderr_line(has, DEADLINE).await;
    let line = line.unwrap();
    let command = format!("turnlane thread release {thread}");
    assert!(line.contains("WARN") && line.contains(&command), "{line}");
    assert!(line.contains("another-host"), "{line}");

    let report = run(person.spec(&["doctor", "--json"])).await;
    assert_eq!(report.status.code(), Some(1), "{}", report.stderr_tail);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let waiting = find(&report, "waitingLanes").unwrap();
    assert_eq!(waiting[0]["threadId"], thread.as_str(), "{waiting}");
    let why = waiting[0]["why"].as_str().unwrap();
    assert!(why.contains("another-host"), "{why}");
    assert!(person.queue(&thread).await["running"].is_object());

    let released = person.json(&["thread", "release", "--yes", "docs"]).await;
    let expected = json!({"threadId": thread, "done": "released", "interrupted": true});
    assert_eq!(released, [expected]);
    let cut = async || person.queue(&thread).await["blocked"]["queuedTurnId"] == row.as_str();
    eventually("the turn that was cut", DEADLINE, cut)
        .await
        .unwrap();
    person.json(&["queue", "rm", &thread, &row]).await;
    person.until_idle(&thread).await;
    let report = run(person.spec(&["doctor", "--json"])).await;
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(find(&report, "waitingLanes"), Some(&json!([])));
}

#[tokio::test]
async fn damage_points_to_the_check_and_a_file_without_a_schema_is_one_sentence() {
    let person = Person::new();
    person.queued("docs", "hello").await;
    let database = person.home.turnlane().join("turnlane.db");
    let whole = fs::read(&database).unwrap();
    let mut file = fs::OpenOptions::new().write(true).open(&database).unwrap();
    // The number of the schema, in the header.
    file.seek(SeekFrom::Start(60)).unwrap();
    file.write_all(&[0; 4]).unwrap();
    drop(file);
    let text = shown(person.spec(&["thread", "list"])).await;
    assert!(text.contains("holds tables but no schema number"), "{text}");
    assert!(
        !text.contains("CREATE TABLE") && text.lines().count() < 8,
        "{text}"
    );
    fs::write(&database, &whole).unwrap();
    let mut file = fs::OpenOptions::new().write(true).open(&database).unwrap();
    file.seek(SeekFrom::Start(60)).unwrap();
    file.write_all(&[0, 0, 0, 99]).unwrap();
    drop(file);
    let text = shown(person.spec(&["doctor"])).await;
    assert!(
        text.contains("name another directory in TURNLANE_HOME"),
        "{text}"
    );
    assert!(!text.contains("put a backup in its place"), "{text}");
    // Every page but the first is lost.
    let mut lost = whole.clone();
    lost[4096..].fill(0x5a);
    fs::write(&database, &lost).unwrap();
    let text = shown(person.spec(&["thread", "list"])).await;
    assert!(text.contains("turnlane store check"), "{text}");
}

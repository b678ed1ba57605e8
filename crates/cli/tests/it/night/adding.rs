//! `turnlane queue add --new`: its settings, its key and its name.

use serde_json::{Value, json};

use crate::app_server::ok;
use crate::people::Person;
use crate::serve::{Daemon, drained};

/// A command that is refused: what it says on standard error.
async fn refused(person: &Person, arguments: &[&str]) -> String {
    let output = crate::run(person.spec(arguments)).await;
    assert!(!output.status.success(), "{arguments:?}");
    assert_eq!(output.stdout, b"", "{arguments:?}");
    output.stderr_tail
}

async fn daemon(person: &Person) -> Daemon {
    let script = person.script();
    Daemon::start(&person.home, &["--script", script.to_str().unwrap()]).await
}

#[tokio::test]
async fn a_new_thread_has_every_setting_that_was_typed() {
    let person = Person::new();
    let daemon = daemon(&person).await;
    let typed = [
        "-c",
        "model_reasoning_effort=high",
        "queue",
        "add",
        "--new",
        "--name",
        "nightly",
        "-s",
        "workspace-write",
        "--network",
        "-a",
        "never",
        "-m",
        "m-1",
        "-c",
        "personality=friendly",
        "--not-before",
        "6h",
        "say hello",
    ];
    let added = person.json(&typed).await.remove(0);
    let thread = added["threadId"].as_str().unwrap();
    assert_eq!(
        added["queuedTurn"]["turnStartParams"]["threadId"], thread,
        "{added}"
    );
    assert_eq!(added["deduplicated"], false);
    assert!(added.get("queuedSubmission").is_none(), "{added}");
    let mut client = daemon.unix().await;
    let resumed = ok(&mut client, "thread/resume", json!({"threadId": thread})).await;
    assert_eq!(resumed["sandbox"]["type"], "workspaceWrite", "{resumed}");
    assert_eq!(resumed["sandbox"]["networkAccess"], true, "{resumed}");
    assert_eq!(resumed["approvalPolicy"], "never", "{resumed}");
    assert_eq!(resumed["model"], "m-1", "{resumed}");
    assert_eq!(resumed["reasoningEffort"], "high", "{resumed}");

    // On the thread that exists a setting goes with the turn.
    let further = [
        "queue",
        "add",
        "--thread",
        "nightly",
        "-s",
        "read-only",
        "-m",
        "m-2",
        "and more",
    ];
    let further = person.json(&further).await.remove(0);
    let params = &further["queuedTurn"]["turnStartParams"];
    assert_eq!(params["model"], "m-2", "{further}");
    assert_eq!(params["sandboxPolicy"]["type"], "readOnly", "{further}");
}

#[tokio::test]
async fn the_answer_says_that_a_turn_also_waits_for_a_time() {
    let mut person = Person::new();
    person.queued("docs", "first").await;
    let add = [
        "queue",
        "add",
        "--thread",
        "docs",
        "--not-before",
        "6h",
        "second",
    ];
    person.types(&add).await;
    let story = person.story();
    assert!(
        story.contains(" on thread docs: 1 turn before it, and not before "),
        "{story}"
    );
    assert!(story.contains("<date> (in 6h)\n"), "{story}");
}

#[tokio::test]
async fn a_setting_without_effect_is_refused_and_nothing_is_stored() {
    let person = Person::new();
    for (typed, named) in [
        (
            &[
                "queue",
                "add",
                "--new",
                "-c",
                "server.shutdown_grace=1s",
                "x",
            ][..],
            "server.shutdown_grace",
        ),
        (
            &["queue", "add", "--new", "-c", "no_such=1", "x"],
            "no_such",
        ),
        (&["queue", "add", "--new", "--network", "x"], "--network"),
        (&["-c", "model=m", "thread", "list"], "turnlane thread list"),
        (&["thread", "list", "-c", "model=m"], "turnlane thread list"),
    ] {
        let said = refused(&person, typed).await;
        assert!(said.contains(named), "{typed:?}: {said}");
    }
    assert!(person.json(&["queue", "list"]).await.is_empty());
}

#[tokio::test]
async fn two_processes_with_one_key_make_one_thread_and_one_turn() {
    let person = Person::new();
    let add = [
        "queue",
        "add",
        "--new",
        "--name",
        "build",
        "--key",
        "b-17",
        "say hello",
    ];
    // Both at once, each with a store of its own.
    let (one, other) = tokio::join!(person.json(&add), person.json(&add));
    assert_eq!(
        one[0]["threadId"], other[0]["threadId"],
        "{one:?} {other:?}"
    );
    let ids = |added: &[Value]| added[0]["queuedTurn"]["id"].clone();
    assert_eq!(ids(&one), ids(&other));
    let thread = one[0]["threadId"].as_str().unwrap().to_owned();
    assert_eq!(person.queue(&thread).await["depth"], 1);
}

#[tokio::test]
async fn a_key_makes_one_thread_and_one_turn_however_often_it_is_used() {
    let person = Person::new();
    let add = [
        "queue",
        "add",
        "--new",
        "--name",
        "build",
        "--key",
        "b-17",
        "say hello",
    ];
    let daemon = daemon(&person).await;
    let first = person.json(&add).await.remove(0);
    assert_eq!(first["deduplicated"], false, "{first}");
    let thread = first["threadId"].as_str().unwrap().to_owned();
    drained(&mut daemon.unix().await, &thread).await;
    let again = person.json(&add).await.remove(0);
    assert_eq!(again["threadId"], thread.as_str());
    assert_eq!(again["deduplicated"], true, "{again}");
    assert_eq!(again["state"], "completed", "{again}");
    assert_eq!(person.json(&["thread", "list"]).await.len(), 1);

    // Another prompt or another setting is another command.
    let other = ["queue", "add", "--new", "--key", "b-17", "say bye"];
    let said = refused(&person, &other).await;
    assert!(said.contains("--key"), "{said}");
    let other = [
        "queue",
        "add",
        "--new",
        "--key",
        "b-17",
        "-a",
        "never",
        "say hello",
    ];
    let said = refused(&person, &other).await;
    assert!(said.contains("--key"), "{said}");
    assert_eq!(person.json(&["thread", "list"]).await.len(), 1);
}

#[tokio::test]
async fn a_command_that_was_cut_off_after_its_thread_goes_on_with_it() {
    let person = Person::new();
    let daemon = daemon(&person).await;
    let cwd = person.home.workspace().canonicalize().unwrap();
    let start = json!({"cwd": cwd, "idempotencyKey": "cut"});
    let mut client = daemon.unix().await;
    let made = ok(&mut client, "thread/start", start).await;
    assert!(made.get("existing").is_none(), "{made}");
    let add = [
        "queue",
        "add",
        "--new",
        "--name",
        "named",
        "--key",
        "cut",
        "say hello",
    ];
    let added = person.json(&add).await.remove(0);
    assert_eq!(added["threadId"], made["thread"]["id"]);
    assert_eq!(added["deduplicated"], false, "{added}");
    let thread = added["threadId"].as_str().unwrap();
    drained(&mut client, thread).await;
    let listed = person.json(&["thread", "list"]).await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["name"], "named");
}

#[tokio::test]
async fn a_name_that_is_taken_is_refused_or_reused() {
    let person = Person::new();
    let (thread, _) = person.queued("nightly", "first").await;
    let again = ["queue", "add", "--new", "--name", "nightly", "second"];
    let said = refused(&person, &again).await;
    assert!(said.contains("--reuse"), "{said}");
    assert!(said.contains("--name"), "{said}");
    assert_eq!(person.queue(&thread).await["depth"], 1);

    let reuse = [
        "queue", "add", "--new", "--name", "nightly", "--reuse", "-a", "never", "second",
    ];
    let added = person.json(&reuse).await.remove(0);
    assert_eq!(added["threadId"], thread.as_str(), "{added}");
    let params = &added["queuedTurn"]["turnStartParams"];
    assert_eq!(params["approvalPolicy"], "never", "{added}");
    assert_eq!(person.queue(&thread).await["depth"], 2);

    // Where there is none it is made, and a key holds on it.
    let fresh = [
        "queue", "add", "--new", "--name", "weekly", "--reuse", "--key", "w", "-m", "m-1", "go",
    ];
    let first = person.json(&fresh).await.remove(0);
    let second = person.json(&fresh).await.remove(0);
    assert_eq!(first["threadId"], second["threadId"]);
    assert_eq!(second["deduplicated"], true, "{second}");
}

//! `turnlane approvals`: asked, listed, decided, end to end.

use insta::assert_snapshot;

use crate::people::Person;

/// What the agent said last on a thread.
async fn last_words(person: &Person, thread: &str) -> String {
    person.until_idle(thread).await;
    let shown = person.json(&["thread", "show", thread]).await.remove(0);
    let turns = shown["turns"].as_array().unwrap();
    let items = turns.last().unwrap()["items"].as_array().unwrap();
    items.last().unwrap()["text"]
        .as_str()
        .unwrap_or("")
        .to_owned()
}

#[tokio::test]
async fn what_is_accepted_is_done() {
    let mut person = Person::new();
    let _daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "clean up").await;
    let approval = person.asked().await;
    let id = approval["approvalId"].as_str().unwrap();
    assert_eq!(approval["command"], "rm -r build");
    assert_eq!(approval["threadId"], thread.as_str());
    person.types(&["thread", "list"]).await;
    person.types(&["approvals", "list"]).await;
    person
        .types(&["approvals", "list", "--thread", "docs"])
        .await;
    person.types(&["approvals", "accept", id]).await;
    person.types(&["approvals", "accept", id]).await;
    person.types(&["approvals", "list"]).await;
    assert_snapshot!(person.story());
    assert_eq!(last_words(&person, &thread).await, "It is gone.");
}

#[tokio::test]
async fn what_is_declined_is_not_done() {
    let person = Person::new();
    let _daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "clean up").await;
    let approval = person.asked().await;
    let id = approval["approvalId"].as_str().unwrap();
    // Enough of the id is enough.
    let said = person.json(&["approvals", "decline", &id[..18]]).await;
    assert_eq!(said[0]["decision"], "decline");
    assert_eq!(said[0]["approvalId"], id);
    assert_eq!(last_words(&person, &thread).await, "I left it.");
}

#[tokio::test]
async fn declining_can_stop_the_turn() {
    let person = Person::new();
    let _daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "clean up").await;
    let approval = person.asked().await;
    let id = approval["approvalId"].as_str().unwrap();
    person.json(&["approvals", "decline", "--stop", id]).await;
    person.until_idle(&thread).await;
    let shown = person.json(&["thread", "show", "docs"]).await.remove(0);
    assert_eq!(shown["turns"][0]["status"], "interrupted");
}

#[tokio::test]
async fn what_nobody_asked_for_cannot_be_decided() {
    let mut person = Person::new();
    let id = "0198c0de-0000-7000-8000-000000000000";
    person.types(&["approvals", "accept", id]).await;
    person.types(&["approvals", "decline", "abcdefgh"]).await;
    person
        .types(&["approvals", "list", "--thread", "docs"])
        .await;
    let _daemon = person.daemon().await;
    person.types(&["approvals", "accept", id]).await;
    assert_snapshot!(person.story());
}

#[tokio::test]
async fn what_another_process_asks_is_listed_and_decided_there() {
    let person = Person::new();
    let mut daemon = person.daemon().await;
    person.queued("docs", "clean up").await;
    let approval = person.asked().await;
    let id = approval["approvalId"].as_str().unwrap();
    // Its socket is gone, the process lives. It would make a missing file again, not one that is there.
    let socket = person.home.turnlane().join("run/app-server.sock");
    let plain = socket.with_extension("plain");
    std::fs::write(&plain, "").unwrap();
    std::fs::rename(&plain, &socket).unwrap();
    let listed = person.json(&["approvals", "list"]).await;
    assert_eq!(listed[0]["approvalId"], id);
    let shown = crate::shown(person.spec(&["approvals", "accept", id])).await;
    let expected = format!("is in use by process {}", daemon.pid());
    assert!(shown.contains(&expected), "{shown}");
    daemon.kill9().await.unwrap();
}

#[tokio::test]
async fn an_approval_is_shown_whole_with_its_thread() {
    let person = Person::new();
    let _daemon = person.daemon().await;
    let (thread, _) = person.queued("nightly", "clean up").await;
    let id = person.asked().await["approvalId"]
        .as_str()
        .unwrap()
        .to_owned();
    let listed = crate::shown(person.spec(&["approvals", "list"])).await;
    let line = format!("{}  {}  nightly  ", &id[28..], &thread[28..]);
    assert!(listed.contains(&line), "{listed}");
    let shown = crate::shown(person.spec(&["approvals", "show", &id[28..]])).await;
    for part in [
        id.as_str(),
        thread.as_str(),
        "name       nightly\n",
        "reason     removes a directory\n",
        "\nrm -r build\n",
    ] {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    let said = person.json(&["approvals", "accept", &id[28..]]).await;
    assert_eq!(said[0]["approvalId"], id.as_str());
    person.until_idle(&thread).await;
    let gone = crate::run(person.spec(&["approvals", "show", &id])).await;
    assert_eq!(gone.status.code(), Some(1));
    assert!(
        gone.stderr_tail.contains("is not open"),
        "{}",
        gone.stderr_tail
    );
}

#[tokio::test]
async fn a_patch_is_shown_as_a_diff_before_it_is_accepted() {
    let person = Person::new();
    let _daemon = person.daemon().await;
    let (thread, _) = person.queued("nightly", "write it").await;
    let id = person.asked().await["approvalId"]
        .as_str()
        .unwrap()
        .to_owned();
    let shown = crate::shown(person.spec(&["approvals", "show", &id])).await;
    assert!(
        shown.contains("add ") && shown.contains("notes.txt\n"),
        "{shown}"
    );
    assert!(
        shown.contains("one\n") && shown.contains("two\n"),
        "{shown}"
    );
    person.json(&["approvals", "decline", &id]).await;
    assert_eq!(last_words(&person, &thread).await, "Not written.");
}

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
    // Its socket is gone, the process lives.
    std::fs::remove_file(person.home.turnlane().join("run/app-server.sock")).unwrap();
    let listed = person.json(&["approvals", "list"]).await;
    assert_eq!(listed[0]["approvalId"], id);
    let shown = crate::shown(person.spec(&["approvals", "accept", id])).await;
    let expected = format!("is in use by process {}", daemon.pid());
    assert!(shown.contains(&expected), "{shown}");
    daemon.kill9().await.unwrap();
}

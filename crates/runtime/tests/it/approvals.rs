//! Approvals: asked, stored, told, decided once, and never a yes by default.

use std::time::Duration;

use turnlane_protocol::approval::{Approval, Decision};
use turnlane_runtime::{Error, NoticeBody, Options};
use turnlane_store::approval::ApprovalQuery;

use crate::support::{Ear, Home, World};

const SCRIPT: &str = "version: 1
turns:
  - steps:
      - approve: {cmd: touch x, accepted: [{say: did it}], declined: [{say: left it}]}
";

fn asked(ear: &Ear) -> Vec<Approval> {
    let requested = |notice: std::sync::Arc<turnlane_runtime::Notice>| match &notice.body {
        NoticeBody::ApprovalRequested(approval) => Some(approval.as_ref().clone()),
        _ => None,
    };
    ear.notices().into_iter().filter_map(requested).collect()
}

async fn open(world: &World) -> usize {
    let open = world.handle.store().approvals(ApprovalQuery::Open).await;
    open.unwrap().len()
}

#[tokio::test]
async fn an_approval_waits_for_somebody_and_is_decided_once() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;
    world.add(thread, "go").await;
    ear.hears("approval requested", 1).await;
    let approval = asked(&ear).remove(0);
    world.handle.store().flush().await.unwrap();
    assert_eq!(open(&world).await, 1, "it is stored while it waits");

    let decide = |decision| {
        world
            .handle
            .decide(thread, approval.approval_id, decision, None)
    };
    decide(Decision::Accept).await.unwrap();
    let late = decide(Decision::Decline).await;
    assert!(matches!(late, Err(Error::ApprovalResolved)), "{late:?}");
    let unknown = turnlane_protocol::ids::ApprovalId::at(1, [3; 10]);
    let decision = Decision::Accept;
    let never = world.handle.decide(thread, unknown, decision, None).await;
    assert!(matches!(never, Err(Error::ApprovalNotFound)), "{never:?}");
    ear.hears("turn Completed", 1).await;
    assert_eq!(ear.said(), "did it");
    assert_eq!(open(&world).await, 0);
    let words = ear.words();
    let at = |word: &str| words.iter().position(|told| told == word).unwrap();
    assert!(at("status waits") < at("approval requested"));
    assert!(at("approval requested") < at("approval Accept"));
}

#[tokio::test]
async fn an_accept_for_the_session_is_not_asked_again_while_loaded() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;
    world.add(thread, "go").await;
    ear.hears("approval requested", 1).await;
    let id = asked(&ear)[0].approval_id;
    let decision = Decision::AcceptForSession;
    world
        .handle
        .decide(thread, id, decision, None)
        .await
        .unwrap();
    world.ended(thread, 1).await;
    world.add(thread, "again").await;
    ear.hears("turn Completed", 2).await;
    assert_eq!(asked(&ear).len(), 1);
    assert_eq!(ear.said(), "did itdid it");
}

#[tokio::test]
async fn an_approval_that_nobody_answers_is_declined() {
    let home = Home::new();
    let options = Options {
        unattended_timeout: Duration::from_millis(20),
        ..Options::default()
    };
    let world = home.start_with(SCRIPT, options).await;
    let thread = world.thread().await;
    world.add(thread, "go").await;
    world.ended(thread, 1).await;
    let items = world.items(thread).await;
    let said = items
        .iter()
        .find(|item| item.kind == "agentMessage")
        .unwrap();
    assert!(
        said.body.as_str().contains("left it"),
        "{}",
        said.body.as_str()
    );
    assert_eq!(open(&world).await, 0);
}

//! Approvals: asked, stored, told, decided once, and never a yes by default.

use std::sync::Arc;
use std::time::Duration;

use turnlane_protocol::approval::{Approval, Decision};
use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::notification::Decider;
use turnlane_protocol::thread::{ActiveFlag, ThreadStatus};
use turnlane_runtime::{
    AfterInterrupt, Answers, ApprovalState, CallerRights, ClientDecision, Drain, Error, NoticeBody,
    Options, StartHow, Subscriber,
};
use turnlane_store::Store as _;
use turnlane_store::approval::ApprovalQuery;
use turnlane_store::queue::RowState;
use turnlane_store::turn::TurnStatus;
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::support::{Ear, Home, World, start};

const SCRIPT: &str = "version: 1
turns:
  - steps:
      - approve: {cmd: touch x, accepted: [{say: did it}], declined: [{say: left it}]}
";

fn asked(ear: &Ear) -> Vec<Approval> {
    let requested = |notice: Arc<turnlane_runtime::Notice>| match &notice.body {
        NoticeBody::ApprovalRequested(asking) => Some(asking.approval.clone()),
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
            .decide(thread, approval.approval_id, ClientDecision::new(decision))
    };
    decide(Decision::Accept).await.unwrap();
    let late = decide(Decision::Decline).await;
    assert!(
        matches!(late, Err(Error::ApprovalResolved { .. })),
        "{late:?}"
    );
    let unknown = turnlane_protocol::ids::ApprovalId::at(1, [3; 10]);
    let decision = Decision::Accept;
    let never = world
        .handle
        .decide(thread, unknown, ClientDecision::new(decision))
        .await;
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
        .decide(thread, id, ClientDecision::new(decision))
        .await
        .unwrap();
    world.ended(thread, 1).await;
    world.add(thread, "again").await;
    ear.hears("turn Completed", 2).await;
    assert_eq!(asked(&ear).len(), 1);
    assert_eq!(ear.said(), "did itdid it");
}

#[tokio::test]
async fn an_approval_without_a_limit_waits_for_an_answer_also_where_nobody_is_attached() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    world.add(thread, "go").await;
    world.add(thread, "behind").await;
    let asked = async || open(&world).await == 1;
    eventually("the question", DEADLINE, asked).await.unwrap();
    let waiting = world.handle.approvals(Some(thread)).await.unwrap();
    assert_eq!(waiting[0].expires_at_ms, None);
    let status = world.handle.status(thread);
    let active_flags = vec![ActiveFlag::WaitingOnApproval];
    assert_eq!(status, ThreadStatus::Active { active_flags });
    // A lane has no timer that could answer: it would have fired by the time of a second look.
    tokio::time::pause();
    tokio::time::advance(Duration::from_hours(24 * 30)).await;
    tokio::time::resume();
    assert_eq!(open(&world).await, 1);
    assert_eq!(world.turns(thread).await.len(), 1, "what follows waits");

    let accept = ClientDecision::new(Decision::Accept);
    world
        .handle
        .respond(waiting[0].approval_id, accept)
        .await
        .unwrap();
    let second = async || world.turns(thread).await.len() == 2;
    eventually("the next turn", DEADLINE, second).await.unwrap();
    assert_eq!(world.turns(thread).await[0].status, TurnStatus::Completed);
}

#[tokio::test]
async fn a_direct_turn_whose_approval_nobody_answers_fails_and_pauses_the_lane() {
    let home = Home::new();
    let options = Options {
        unattended_timeout: Some(Duration::ZERO),
        ..Options::default()
    };
    let world = home.start_with(SCRIPT, options).await;
    let thread = world.thread().await;
    let begun = world.handle.start(thread, start("go", StartHow::OrReject));
    begun.await.unwrap();
    let ended = world.ended(thread, 1).await;
    assert_eq!(ended[0].status, TurnStatus::Failed);
    let paused = world.queue(thread).await.lane.paused.unwrap();
    assert_eq!(paused.reason, "approvalTimeout");
}

#[tokio::test]
async fn an_answer_that_cancels_the_turn_pauses_what_waits_behind_it() {
    for (on_interrupt, behind) in [(AfterInterrupt::Pause, 1), (AfterInterrupt::Continue, 0)] {
        let home = Home::new();
        let options = Options {
            on_interrupt,
            ..Options::default()
        };
        let world = home.start_with(SCRIPT, options).await;
        let thread = world.thread().await;
        let (_, ear) = world.listen(thread).await;
        world.add(thread, "go").await;
        ear.hears("approval requested", 1).await;
        world.add(thread, "behind").await;
        let id = asked(&ear)[0].approval_id;
        let cancel = ClientDecision::new(Decision::Cancel);
        world.handle.decide(thread, id, cancel).await.unwrap();
        ear.hears("turn Interrupted", 1).await;
        if on_interrupt == AfterInterrupt::Continue {
            ear.hears("approval requested", 2).await;
        }
        let page = world.queue(thread).await;
        assert_eq!(page.rows.len(), behind);
        let reason = page.lane.paused.map(|paused| paused.reason);
        assert_eq!(reason, (behind == 1).then(|| "interrupt".to_owned()));
    }
}

#[tokio::test]
async fn an_approval_that_nobody_answers_in_time_is_declined_and_fails_the_turn() {
    let home = Home::new();
    let options = Options {
        unattended_timeout: Some(Duration::from_millis(20)),
        ..Options::default()
    };
    let world = home.start_with(SCRIPT, options).await;
    let thread = world.thread().await;
    world.add(thread, "go").await;
    world.add(thread, "behind").await;
    world.ended(thread, 1).await;
    let items = world.items(thread).await;
    let command = items.iter().find(|item| item.kind == "commandExecution");
    let command = command.unwrap().body.as_str();
    assert!(command.contains(r#""status":"declined""#), "{command}");
    assert!(items.iter().all(|item| item.kind != "agentMessage"));
    assert_eq!(open(&world).await, 0);
    let turns = world.turns(thread).await;
    assert_eq!((turns.len(), turns[0].status), (1, TurnStatus::Failed));
    let error = turns[0].error.as_ref().unwrap().as_str();
    assert!(error.contains(r#""kind":"approvalTimeout""#), "{error}");
    let page = world.queue(thread).await;
    assert_eq!(page.rows.len(), 2);
    assert_eq!(page.rows[0].state, RowState::Blocked, "it holds the lane");
    assert_eq!(page.rows[0].last_turn, Some(turns[0].id));
}

const TWICE: &str = "version: 1
turns:
  - match: again
    steps:
      - approve: {cmd: git status -s, accepted: [{say: did it}], declined: [{say: left it}]}
  - match: other
    steps:
      - approve: {cmd: git push, accepted: [{say: did it}], declined: [{say: left it}]}
  - steps:
      - approve: {cmd: git status, accepted: [{say: did it}], declined: [{say: left it}]}
";

/// Runs a turn, deciding what is asked; how often something was asked.
async fn asked_in(world: &World, thread: ThreadId, text: &str, decision: Decision) -> usize {
    let (id, ear) = world.listen(thread).await;
    world.add(thread, text).await;
    let over = async || {
        for approval in asked(&ear) {
            // It may be decided already.
            let _ = world
                .handle
                .respond(approval.approval_id, ClientDecision::new(decision.clone()))
                .await;
        }
        ear.words().contains(&"turn Completed".to_owned())
    };
    eventually("the turn's end", DEADLINE, over).await.unwrap();
    world.handle.unsubscribe(thread, id).await;
    asked(&ear).len()
}

#[tokio::test]
async fn what_was_accepted_for_the_session_is_not_asked_again_while_the_thread_is_loaded() {
    let home = Home::new();
    let world = home.start(TWICE).await;
    let thread = world.thread().await;
    let for_session = Decision::AcceptForSession;
    assert_eq!(asked_in(&world, thread, "go", for_session).await, 1);
    assert_eq!(asked_in(&world, thread, "go", Decision::Decline).await, 0);
    assert_eq!(
        asked_in(&world, thread, "again", Decision::Decline).await,
        1
    );
    world.handle.unload(thread).await.unwrap();
    assert_eq!(asked_in(&world, thread, "go", Decision::Decline).await, 1);
}

#[tokio::test]
async fn a_decision_that_does_not_count_leaves_the_question_open() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let watcher = Arc::new(Ear::default());
    world
        .handle
        .watch(Arc::clone(&watcher) as Arc<dyn Subscriber>);
    world.add(thread, "go").await;
    watcher.hears("approval requested", 1).await;
    let open = world.handle.approvals(None).await.unwrap();
    let id = open[0].approval_id;
    // The engine proposed no rule.
    let rule = Decision::AcceptWithExecpolicyAmendment {
        execpolicy_amendment: vec!["git".to_owned()],
    };
    let refused = world.handle.respond(id, ClientDecision::new(rule)).await;
    assert!(
        matches!(refused, Err(Error::DecisionNotOffered)),
        "{refused:?}"
    );
    // The threads of these tests have no sandbox.
    for decision in [Decision::Accept, Decision::AcceptForSession] {
        let decided = ClientDecision {
            caller: CallerRights::Confined,
            ..ClientDecision::new(decision)
        };
        let refused = world.handle.respond(id, decided).await;
        assert!(matches!(refused, Err(Error::Unconfined)), "{refused:?}");
    }
    assert_eq!(world.handle.approvals(None).await.unwrap(), open);
    let decided = ClientDecision {
        caller: CallerRights::Confined,
        ..ClientDecision::new(Decision::Decline)
    };
    world.handle.respond(id, decided).await.unwrap();
    watcher.hears("approval Decline", 1).await;
    world.ended(thread, 1).await;
}

#[tokio::test]
async fn whoever_knows_the_id_decides_and_is_told_what_was_decided_before() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let watcher = Arc::new(Ear::default());
    world
        .handle
        .watch(Arc::clone(&watcher) as Arc<dyn Subscriber>);
    world.add(thread, "go").await;
    watcher.hears("approval requested", 1).await;
    let open = world.handle.approvals(None).await.unwrap();
    assert_eq!(open, world.handle.approvals(Some(thread)).await.unwrap());
    assert_eq!(open, asked(&watcher));
    let id = open[0].approval_id;
    world
        .handle
        .respond(id, ClientDecision::new(Decision::Decline))
        .await
        .unwrap();
    let late = world
        .handle
        .respond(id, ClientDecision::new(Decision::Accept))
        .await;
    let decline = Decision::Decline;
    assert!(
        matches!(&late, Err(Error::ApprovalResolved { decision, by: Decider::Client }) if *decision == decline),
        "{late:?}"
    );
    watcher.hears("approval Decline", 1).await;
    assert!(world.handle.approvals(None).await.unwrap().is_empty());
    let unknown = turnlane_protocol::ids::ApprovalId::at(1, [3; 10]);
    let never = world
        .handle
        .respond(unknown, ClientDecision::new(Decision::Accept))
        .await;
    assert!(matches!(never, Err(Error::ApprovalNotFound)), "{never:?}");
    world.ended(thread, 1).await;
}

#[tokio::test]
async fn an_approval_of_a_stopped_turn_is_resolved_once_before_its_end() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;
    world.add(thread, "go").await;
    ear.hears("approval requested", 1).await;
    let id = asked(&ear)[0].approval_id;
    let stop = world
        .handle
        .interrupt(thread, None, AfterInterrupt::Continue, None);
    stop.await.unwrap();
    ear.hears("turn Interrupted", 1).await;
    let words = ear.words();
    let at = |word: &str| words.iter().position(|told| told == word).unwrap();
    assert!(at("approval Cancel") < at("turn Interrupted"));
    let resolved = words.iter().filter(|word| word.starts_with("approval C"));
    assert_eq!(resolved.count(), 1);
    let state = world.handle.approval(id).await.unwrap();
    assert!(
        matches!(
            &state,
            ApprovalState::Resolved {
                decision: Decision::Cancel,
                by: Decider::Interrupt,
                ..
            }
        ),
        "{state:?}"
    );
}

/// Listens, and is never asked.
struct Mute(Ear);

impl Subscriber for Mute {
    fn tell(&self, notice: &Arc<turnlane_runtime::Notice>) {
        self.0.tell(notice);
    }

    fn answers(&self) -> Answers {
        Answers::No
    }
}

#[tokio::test]
async fn somebody_who_only_listens_is_nobody_who_could_answer() {
    let home = Home::new();
    let options = Options {
        unattended_timeout: Some(Duration::ZERO),
        ..Options::default()
    };
    let world = home.start_with(SCRIPT, options).await;
    let thread = world.thread().await;
    let mute = Arc::new(Mute(Ear::default()));
    let listener: Arc<dyn Subscriber> = Arc::clone(&mute) as _;
    world
        .handle
        .subscribe(thread, listener, None)
        .await
        .unwrap();
    world.add(thread, "go").await;
    mute.0.hears("turn Failed", 1).await;
    assert_eq!(mute.0.said(), "");
}

#[tokio::test]
async fn a_question_that_a_graceful_stop_cut_is_not_open_and_is_asked_again_by_the_next_worker() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    world.add(thread, "go").await;
    let asked = async || open(&world).await == 1;
    eventually("the question", DEADLINE, asked).await.unwrap();
    let first = world.handle.approvals(None).await.unwrap().remove(0);
    world.runtime.stop(Duration::ZERO).await.unwrap();
    let left = home.store().approvals(ApprovalQuery::Open).await.unwrap();
    assert!(left.is_empty(), "{left:?}");

    let world = home.start(SCRIPT).await;
    let asked = async || open(&world).await == 1;
    eventually("the question again", DEADLINE, asked)
        .await
        .unwrap();
    let again = world.handle.approvals(None).await.unwrap().remove(0);
    assert_ne!(again.approval_id, first.approval_id);
    let accept = ClientDecision::new(Decision::Accept);
    world
        .handle
        .respond(again.approval_id, accept)
        .await
        .unwrap();
    let turns = world.ended(thread, 2).await;
    assert_eq!(turns[1].status, TurnStatus::Completed);
    let items = world.items(thread).await;
    let messages = items.iter().filter(|item| item.kind == "userMessage");
    assert_eq!(messages.count(), 1);
}

/// A worker that asks and dies: its tasks go with their runtime, and its store with them.
fn ask_and_die(home: &Home) -> ThreadId {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let world = home.start(SCRIPT).await;
        let thread = world.thread().await;
        let (_, ear) = world.listen(thread).await;
        world.add(thread, "go").await;
        ear.hears("approval requested", 1).await;
        world.handle.store().flush().await.unwrap();
        thread
    })
}

#[tokio::test]
async fn an_approval_of_a_dead_worker_is_told_as_decided_to_those_who_watch() {
    let home = Arc::new(Home::new());
    let options = Options {
        drain: Drain::Loaded,
        ..Options::default()
    };
    let world = home.start_with(SCRIPT, options).await;
    let watcher = Arc::new(Ear::default());
    world.handle.watch(Arc::clone(&watcher) as _);
    let dying = Arc::clone(&home);
    let died = tokio::task::spawn_blocking(move || ask_and_die(&dying));
    let thread = died.await.unwrap();
    watcher.hears("approval Cancel", 1).await;
    let told = watcher.notices();
    assert_eq!(told.len(), 1, "{:?}", watcher.words());
    assert_eq!(told[0].thread, thread);
    assert_eq!(open(&world).await, 0);
}

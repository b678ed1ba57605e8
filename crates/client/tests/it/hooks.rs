//! Hooks around threads and turns: what they keep from being sent, what they change, what they see.

mod tools;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use turnlane::{
    BoxFuture, CallError, Client, ConnectError, Endpoint, Hook, HookAction, HookContext, HookIssue,
    HookOutcome, HookPatch, HookPhase, HookSet, IssueClass, MainStatus, Matcher, OnFailure,
    Reconnect, ThreadError, TurnError,
};
use turnlane_rpc::Duplex;
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::double::{Double, Kind, initialized, thread_answer, turn_event};
use crate::rig::{Site, T, joined, nothing_else_is_sent, run, with_thread};

const ALL: [HookPhase; 6] = [
    HookPhase::PreSessionStart,
    HookPhase::PostSessionStart,
    HookPhase::PreRun,
    HookPhase::PreTurn,
    HookPhase::PostTurn,
    HookPhase::PostRun,
];

/// What hooks saw.
type Log = Arc<Mutex<Vec<HookContext>>>;

fn watching(log: &Log) -> HookSet {
    let log = Arc::clone(log);
    let watch = move |context: &HookContext| {
        log.lock().unwrap().push(context.clone());
        Ok(HookAction::Noop)
    };
    HookSet::new().on(Matcher::phases(ALL), ("watch", watch))
}

fn phases(log: &Log) -> Vec<HookPhase> {
    let mut log = log.lock().unwrap();
    log.drain(..).map(|seen| seen.phase).collect()
}

fn blocking(phase: HookPhase) -> HookSet {
    let block = |_: &HookContext| {
        Ok(HookAction::Block {
            message: "not on a Friday".to_owned(),
        })
    };
    HookSet::new().on(Matcher::phases([phase]), ("guard", block))
}

#[tokio::test]
async fn phases_come_in_order_and_a_second_turn_has_its_own_four() {
    let log = Log::default();
    let builder = Client::builder().hooks(watching(&log));
    let (double, client) = Double::connect(Kind::Codex, builder).await;
    let (mut double, _client, thread) = with_thread(double, client).await;
    for turn in ["t1", "t2"] {
        let running = run(&thread, "hello");
        double.start_turn(T, turn).await;
        double.end_turn(T, turn, "hi");
        let outcome = joined(running).await.unwrap();
        let told: Vec<_> = outcome.hooks.runs.iter().map(|run| run.phase).collect();
        assert_eq!(told, ALL[2..]);
        assert_eq!(outcome.hooks.issues, []);
    }
    let seen = log.lock().unwrap().clone();
    assert_eq!(phases(&log), [&ALL[..], &ALL[2..]].concat());
    assert_eq!(seen[1].thread_id.as_ref().unwrap().as_str(), T);
    assert_eq!(seen[2].prompt.as_deref(), Some("hello"));
    assert_eq!(seen[2].turn_id, None);
    assert_eq!(seen[4].turn_id.as_ref().unwrap().as_str(), "t1");
    assert_eq!(seen[4].main_status, Some(MainStatus::Ok));
    assert_eq!(seen[2].correlation_id, seen[5].correlation_id);
    assert_ne!(seen[5].correlation_id, seen[6].correlation_id);
}

#[tokio::test]
async fn the_same_phases_run_for_one_shots_and_streams() {
    let log = Log::default();
    let builder = Client::builder().hooks(watching(&log));
    let (mut double, client) = Double::connect(Kind::Codex, builder).await;
    let one_shot = tokio::spawn({
        let client = client.clone();
        async move { client.run("/srv", "hello").await }
    });
    double.start_thread(T).await;
    double.start_turn(T, "t1").await;
    double.end_turn(T, "t1", "hi");
    joined(one_shot).await.unwrap();
    assert_eq!(phases(&log), ALL);

    let (mut double, _client, thread) = with_thread(double, client).await;
    phases(&log);
    let (stream, _) = tokio::join!(thread.turn("x").stream(), double.start_turn(T, "t2"));
    double.end_turn(T, "t2", "hi");
    let outcome = stream.unwrap().outcome().await.unwrap();
    assert_eq!(outcome.hooks.runs.len(), 4);
    assert_eq!(phases(&log), ALL[2..]);
}

#[tokio::test]
async fn a_no_before_a_thread_sends_nothing() {
    let builder = Client::builder().hooks(blocking(HookPhase::PreSessionStart));
    let (mut double, client) = Double::connect(Kind::Codex, builder).await;
    for opening in [
        client.threads().start("/srv").into_future(),
        client.threads().resume(T).into_future(),
        client.threads().fork(T).into_future(),
    ] {
        let error = opening.await.unwrap_err();
        assert!(matches!(error, ThreadError::Blocked(_)), "{error:?}");
        assert_eq!(
            error.to_string(),
            "blocked by hook 'guard' at PreSessionStart: not on a Friday"
        );
    }
    nothing_else_is_sent(&mut double, &client).await;
}

#[tokio::test]
async fn a_no_before_a_turn_sends_nothing_and_the_next_goes_on() {
    for phase in [HookPhase::PreRun, HookPhase::PreTurn] {
        let log = Log::default();
        let builder = Client::builder().hooks(watching(&log));
        let (double, client) = Double::connect(Kind::Codex, builder).await;
        let (mut double, client, thread) = with_thread(double, client).await;
        phases(&log);
        let error = thread.turn("x").hooks(blocking(phase)).await.unwrap_err();
        assert!(matches!(error, TurnError::Blocked(_)), "{error:?}");
        let text = format!("blocked by hook 'guard' at {phase}: not on a Friday");
        assert_eq!(error.to_string(), text);
        let seen = log.lock().unwrap().clone();
        let last = seen.last().unwrap();
        assert_eq!(last.phase, HookPhase::PostRun);
        assert_eq!(last.main_status, Some(MainStatus::Error));
        nothing_else_is_sent(&mut double, &client).await;

        let running = run(&thread, "y");
        double.start_turn(T, "t1").await;
        double.end_turn(T, "t1", "hi");
        joined(running).await.unwrap();
    }
}

#[tokio::test]
async fn what_hooks_change_is_what_is_sent() {
    let rewrite = |context: &HookContext| {
        let mut patch = HookPatch {
            model: Some("bigger".to_owned()),
            ..HookPatch::default()
        };
        let key = context.phase.to_string();
        patch.metadata.insert(key, json!(1));
        if let Some(prompt) = &context.prompt {
            patch.prompt = Some(format!("{prompt}!"));
        }
        Ok(HookAction::Mutate(patch))
    };
    let pre = [
        HookPhase::PreSessionStart,
        HookPhase::PreRun,
        HookPhase::PreTurn,
    ];
    for kind in [Kind::Codex, Kind::Turnlane] {
        let set = HookSet::new().on(Matcher::phases(pre), ("rewrite", rewrite));
        let builder = Client::builder().hooks(set);
        let (mut double, client) = Double::connect(kind, builder).await;
        let start = client.threads().start("/srv").into_future();
        let (thread, params) = tokio::join!(start, double.start_thread(T));
        assert_eq!(params["model"], "bigger");
        let thread = thread.unwrap();
        let running = run(&thread, "hello");
        let params = double.start_turn(T, "t1").await;
        assert_eq!(params["input"][0]["text"], "hello!!");
        assert_eq!(params["model"], "bigger");
        let metadata = params.get("turnlane").map(|ours| ours["metadata"].clone());
        let expected = json!({"PreRun": 1, "PreTurn": 1});
        assert_eq!(metadata, (kind == Kind::Turnlane).then_some(expected));
        double.end_turn(T, "t1", "hi");
        let outcome = joined(running).await.unwrap();
        let outcomes = outcome.hooks.runs.iter().map(|run| &run.outcome);
        assert!(outcomes.eq([&HookOutcome::Mutated, &HookOutcome::Mutated]));
    }
}

struct Broken(OnFailure);

impl Hook for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn call<'a>(
        &'a self,
        context: &'a HookContext,
    ) -> BoxFuture<'a, Result<HookAction, HookIssue>> {
        Box::pin(std::future::ready(Err(HookIssue {
            hook: "broken".to_owned(),
            phase: context.phase,
            class: IssueClass::Execution,
            message: "no database".to_owned(),
        })))
    }

    fn on_failure(&self) -> OnFailure {
        self.0
    }
}

/// D3: a policy that fails does not let things pass, and a report is never empty.
#[tokio::test]
async fn a_hook_that_fails_blocks_unless_it_says_otherwise_and_is_reported() {
    let at = || Matcher::phases([HookPhase::PreTurn, HookPhase::PostTurn]);
    let (double, client) = Double::plain(Kind::Codex).await;
    let (mut double, client, thread) = with_thread(double, client).await;
    let strict = HookSet::new().on(at(), Broken(OnFailure::Block));
    let error = thread.turn("x").hooks(strict).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "blocked by hook 'broken' at PreTurn: hook failed (execution): no database"
    );
    nothing_else_is_sent(&mut double, &client).await;

    let lenient = HookSet::new().on(at(), Broken(OnFailure::Allow));
    let running = tokio::spawn(thread.turn("y").hooks(lenient).into_future());
    double.start_turn(T, "t1").await;
    double.end_turn(T, "t1", "hi");
    let outcome = joined(running).await.unwrap();
    let issues = outcome.hooks.issues;
    let seen: Vec<_> = issues.iter().map(|one| one.phase).collect();
    assert_eq!(seen, [HookPhase::PreTurn, HookPhase::PostTurn]);
}

#[tokio::test]
async fn post_phases_run_and_say_so_when_a_turn_fails() {
    let log = Log::default();
    let builder = Client::builder().hooks(watching(&log));
    let (double, client) = Double::connect(Kind::Codex, builder).await;
    let (mut double, _client, thread) = with_thread(double, client).await;
    phases(&log);
    let running = run(&thread, "hello");
    double.start_turn(T, "t1").await;
    double.tell("turn/completed", turn_event(T, "t1", "failed"));
    let error = joined(running).await.unwrap_err();
    let TurnError::Failed { outcome, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(outcome.hooks.runs.len(), 4);
    let seen = log.lock().unwrap().clone();
    assert_eq!(seen[2].main_status, Some(MainStatus::Error));
    assert_eq!(phases(&log), ALL[2..]);
}

/// Hangs until it is released.
struct Hangs(Arc<tokio::sync::Notify>);

impl Hook for Hangs {
    fn name(&self) -> &'static str {
        "hangs"
    }

    fn call<'a>(&'a self, _: &'a HookContext) -> BoxFuture<'a, Result<HookAction, HookIssue>> {
        Box::pin(async {
            self.0.notified().await;
            Ok(HookAction::Noop)
        })
    }

    fn timeout(&self) -> Duration {
        Duration::MAX
    }
}

/// D4: a slow hook delays nothing but what it is asked about.
#[tokio::test]
async fn a_slow_hook_delays_no_other_call() {
    let (double, client) = Double::plain(Kind::Codex).await;
    let (mut double, client, thread) = with_thread(double, client).await;
    let go = Arc::new(tokio::sync::Notify::new());
    let set = HookSet::new().on(
        Matcher::phases([HookPhase::PreTurn]),
        Hangs(Arc::clone(&go)),
    );
    let slow = tokio::spawn(thread.turn("slow").hooks(set).into_future());
    nothing_else_is_sent(&mut double, &client).await;
    assert!(!slow.is_finished());
    go.notify_one();
    double.start_turn(T, "t1").await;
    double.end_turn(T, "t1", "hi");
    joined(slow).await.unwrap();
}

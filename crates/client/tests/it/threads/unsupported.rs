//! A server that serves nothing: every method says so at once, and is not asked again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::time::Instant;
use turnlane::{
    CallError, CallOptions, Client, Decision, ForkParams, QueuedTurn, SkillsListParams, SteerError,
    Thread, ThreadError, ThreadId, ThreadListParams, ThreadLoadedListParams, ThreadReadParams,
    ThreadResumeParams, ThreadRollbackParams, ThreadStartParams, Turn, TurnError, TurnStartParams,
    methods,
};
use turnlane_testkit::wait::{DEADLINE, within};

use super::{answered, nothing_was_sent};
use crate::double::{Double, Kind, turn_value};
use crate::rig::{T, rig};

type Counts = Arc<Mutex<BTreeMap<String, usize>>>;

/// How an unknown method is refused: by the code, or in the words of Codex 0.166.
#[derive(Clone, Copy, Debug)]
enum Words {
    Code,
    Codex,
}

/// Refuses everything from now on and counts it.
fn refuse_all(mut double: Double, words: Words) -> (Counts, tokio::task::JoinHandle<()>) {
    let counts = Counts::default();
    let counted = Arc::clone(&counts);
    let task = tokio::spawn(async move {
        loop {
            let asked = double.next().await;
            *counted
                .lock()
                .unwrap()
                .entry(asked.method.clone())
                .or_default() += 1;
            let text = format!(
                "Invalid request: unknown variant `{}`, expected one of `initialize`",
                asked.method
            );
            match words {
                Words::Code => asked.refuse(-32601, "Method not found", &Value::Null),
                Words::Codex => asked.refuse(-32600, &text, &Value::Null),
            }
        }
    });
    (counts, task)
}

fn of_call<R>(result: Result<R, CallError>) -> String {
    match result {
        Err(CallError::Unsupported { method }) => method,
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("it was served"),
    }
}

fn of_thread<R>(result: Result<R, ThreadError>) -> String {
    of_call(result.map_err(|error| match error {
        ThreadError::Call(error) => error,
        error => panic!("{error:?}"),
    }))
}

fn of_turn<R>(result: Result<R, TurnError>) -> String {
    of_call(result.map_err(|error| match error {
        TurnError::Call(error) => error,
        error => panic!("{error:?}"),
    }))
}

fn of_steer<R>(result: Result<R, SteerError>) -> String {
    of_call(result.map_err(|error| match error {
        SteerError::Call(error) => error,
        error => panic!("{error:?}"),
    }))
}

/// What calls found to be not served, and how long each took.
#[derive(Debug, Default)]
struct Round {
    methods: Vec<String>,
    took: Vec<Duration>,
}

impl Round {
    async fn take(&mut self, call: impl Future<Output = String>) {
        let since = Instant::now();
        self.methods.push(call.await);
        self.took.push(since.elapsed());
    }
}

/// The handles that methods are called on.
struct Handles {
    client: Client,
    thread: Thread,
    turn: Turn,
    queued: QueuedTurn,
}

/// Every method of the SDK that asks the server something.
async fn every_method(handles: &Handles) -> Round {
    let mut round = Round::default();
    threads(&mut round, &handles.client).await;
    turns(&mut round, handles).await;
    round
}

async fn threads(round: &mut Round, client: &Client) {
    let id = || ThreadId::from("other");
    let read = |include_turns| ThreadReadParams {
        thread_id: id(),
        include_turns,
    };
    let rollback = ThreadRollbackParams {
        thread_id: id(),
        num_turns: 1,
    };
    let (page, loaded) = (ThreadListParams::default, ThreadLoadedListParams::default);
    let threads = client.threads();
    round
        .take(async { of_thread(threads.start("/srv").await) })
        .await;
    round
        .take(async { of_thread(threads.resume("other").await) })
        .await;
    round
        .take(async { of_thread(threads.fork("other").await) })
        .await;
    round
        .take(async { of_call(threads.list(page()).next().await.unwrap()) })
        .await;
    round
        .take(async { of_thread(client.thread_start(ThreadStartParams::default()).await) })
        .await;
    let resumed = client.thread_resume(id(), ThreadResumeParams::default());
    round.take(async { of_thread(resumed.await) }).await;
    let forked = Box::pin(client.thread_fork(id(), ForkParams::default()));
    round.take(async { of_thread(forked.await) }).await;
    round
        .take(async { of_thread(client.thread_archive(id()).await) })
        .await;
    round
        .take(async { of_thread(client.thread_unarchive(id()).await) })
        .await;
    for whole in [true, false] {
        round
            .take(async { of_thread(client.thread_read(read(whole)).await) })
            .await;
    }
    round
        .take(async { of_call(client.thread_list(page()).await) })
        .await;
    round
        .take(async { of_call(client.thread_loaded_list(loaded()).await) })
        .await;
    round
        .take(async { of_thread(client.thread_rollback(rollback).await) })
        .await;
    let skills = client.skills_list(SkillsListParams::default());
    round.take(async { of_call(skills.await) }).await;
    let typed = client.call::<methods::ThreadLoadedList>(loaded());
    round.take(async { of_call(typed.await) }).await;
    let raw = client.call_raw("a/b", json!({}), CallOptions::default());
    round.take(async { of_call(raw.await) }).await;
    let approvals = client.approvals();
    round.take(async { of_call(approvals.list().await) }).await;
    round
        .take(async { of_call(approvals.respond("a1", Decision::Accept).await) })
        .await;
}

async fn turns(round: &mut Round, handles: &Handles) {
    let Handles {
        client,
        thread,
        turn,
        queued,
    } = handles;
    let said = TurnStartParams {
        input: "x".into(),
        ..TurnStartParams::default()
    };
    round
        .take(async { of_call(client.turn_interrupt(T, "u").await) })
        .await;
    let limit = Duration::from_mins(1);
    let interrupt = client.turn_interrupt_with_timeout(T, "u", limit);
    round.take(async { of_call(interrupt.await) }).await;
    round
        .take(async { of_turn(client.run("/srv", "x").await) })
        .await;
    round
        .take(async { of_turn(thread.turn_start(said).await) })
        .await;
    round
        .take(async { of_steer(thread.turn_steer("u", "x").await) })
        .await;
    round.take(async { of_turn(thread.turn("x").await) }).await;
    let streamed = async { thread.turn("x").stream().await.unwrap().outcome().await };
    round.take(async { of_turn(streamed.await) }).await;
    round
        .take(async { of_turn(thread.turn("x").enqueue().await) })
        .await;
    round.take(async { of_call(thread.queue().await) }).await;
    round
        .take(async { of_call(thread.turns().next().await.unwrap()) })
        .await;
    round.take(async { of_steer(turn.steer("x").await) }).await;
    round.take(async { of_call(turn.interrupt().await) }).await;
    round.take(async { of_turn(turn.outcome().await) }).await;
    round.take(async { of_call(queued.turn().await) }).await;
    round.take(async { of_turn(queued.outcome().await) }).await;
    round.take(async { of_call(queued.delete().await) }).await;
    round.take(async { of_call(thread.archive().await) }).await;
}

/// A server that served a thread, a turn and a row, and from now on nothing.
async fn handles(kind: Kind) -> (Double, Handles) {
    let (mut double, client, thread) = rig(kind).await;
    let said = TurnStartParams {
        input: "x".into(),
        ..TurnStartParams::default()
    };
    let started = json!({"turn": turn_value("t1", "inProgress")});
    let start = thread.turn_start(said);
    let (_, turn) = answered(&mut double, "turn/start", started, start).await;
    let row = json!({"queuedTurn": {"id": "r1"}, "queuedSubmission": {"id": "r1"}});
    let add = thread.turn("x").enqueue();
    let (_, queued) = answered(&mut double, "thread/queue/add", row, add).await;
    double.tell(
        "thread/status/changed",
        json!({"threadId": T, "status": {"type": "idle"}}),
    );
    nothing_was_sent(&mut double, &client).await;
    let handles = Handles {
        turn: turn.unwrap(),
        queued: queued.unwrap(),
        client,
        thread,
    };
    (double, handles)
}

/// Every call is short in one of three tries at least: the machine is not ours alone.
fn all_are_short(tries: &[Round]) {
    for (index, method) in tries[0].methods.iter().enumerate() {
        let best = tries.iter().map(|round| round.took[index]).min().unwrap();
        assert!(best < Duration::from_millis(10), "{method} took {best:?}");
    }
}

#[tokio::test]
async fn every_method_of_the_sdk_is_unsupported_at_once_and_later_without_a_byte() {
    for (kind, words) in [
        (Kind::Turnlane, Words::Code),
        (Kind::Codex, Words::Code),
        (Kind::Codex, Words::Codex),
    ] {
        let (mut firsts, mut seconds) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let (double, handles) = handles(kind).await;
            let (counts, task) = refuse_all(double, words);
            let rounds = Box::pin(async {
                let first = every_method(&handles).await;
                let after_first = counts.lock().unwrap().clone();
                (first, after_first, every_method(&handles).await)
            });
            let (first, after_first, second) =
                within("every method", DEADLINE, rounds).await.unwrap();
            assert_eq!(first.methods, second.methods);
            assert_eq!(after_first, *counts.lock().unwrap(), "something was sent");
            for method in &first.methods {
                assert_eq!(after_first.get(method), Some(&1), "{method}");
            }
            firsts.push(first);
            seconds.push(second);
            task.abort();
        }
        all_are_short(&firsts);
        all_are_short(&seconds);
    }
}

#[tokio::test]
async fn a_binding_is_not_sent_to_a_server_that_would_ignore_it() {
    let (mut double, client, _thread) = rig(Kind::Codex).await;
    let bound = ThreadStartParams {
        binding: Some("nightly".to_owned()),
        ..ThreadStartParams::default()
    };
    let method = of_thread(client.thread_start(bound).await);
    assert_eq!(method, "thread/start");
    nothing_was_sent(&mut double, &client).await;
}

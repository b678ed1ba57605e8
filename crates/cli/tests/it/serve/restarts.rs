//! A daemon that is restarted under load: its clients come back, and miss no turn that was completed.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use turnlane::{Client, Endpoint, Filter, Reconnect, TurnStatus};
use turnlane_testkit::TempHome;
use turnlane_testkit::wait::{DEADLINE, within};

use super::Daemon;

/// How many clients are connected, and how many turns each of them queues between two restarts.
fn size() -> (usize, usize) {
    match std::env::var_os("TURNLANE_TEST_FULL") {
        Some(_) => (50, 6),
        None => (10, 4),
    }
}

const SCRIPT: &str = "version: 1
fallback:
  - say: {text: \"You said: {input}, and said it at some length.\", chunk: 6, delta_ms: 2}";

/// Half of the clients use the socket, the others the websocket.
async fn connect(daemon: &Daemon, who: usize) -> Client {
    let endpoint = if who.is_multiple_of(2) {
        Endpoint::Unix(daemon.socket.clone())
    } else {
        Endpoint::ws(&daemon.url, Some(daemon.token.clone().into())).unwrap()
    };
    let reconnect = Reconnect::Backoff {
        initial: Duration::from_millis(20),
        max: Duration::from_millis(200),
        give_up_after: None,
    };
    let client = Client::builder().endpoint(endpoint).reconnect(reconnect);
    client.connect().await.unwrap()
}

/// Queues turns in rounds and waits for the end of each; what was said.
async fn work(client: Client, who: usize, rounds: usize, begin: Arc<Barrier>) -> usize {
    let thread = client.threads().start(".");
    let thread = thread.await.unwrap();
    // Somebody who listens is told of every end at once, also after a reconnect.
    let ends = Filter::all().thread(thread.id()).method_prefix("turn/");
    let _listens = client.events(ends);
    let mut ended = 0;
    for round in 0..rounds {
        begin.wait().await;
        let mut queued = Vec::new();
        for n in 0..size().1 {
            let text = format!("client {who} round {round} turn {n}");
            let turn = thread.turn(text.as_str()).idempotency_key(&text);
            queued.push((turn.enqueue().await.unwrap(), text));
        }
        for (turn, text) in queued {
            let outcome = within("an outcome", DEADLINE, turn.outcome()).await;
            let outcome = outcome.unwrap().unwrap();
            assert_eq!(outcome.status, TurnStatus::Completed, "{text}: {outcome:?}");
            let said = format!("You said: {text}, and said it at some length.");
            assert_eq!(outcome.text, Some(said));
            ended += 1;
        }
    }
    ended
}

async fn restarted_by(signal: Signal, rounds: usize) {
    let home = TempHome::new().unwrap();
    let script = home.path().join("script.yaml");
    std::fs::write(&script, SCRIPT).unwrap();
    let script = script.to_str().unwrap();
    let mut arguments = vec!["--script", script, "-c", "queue.on_crash=retry"];
    let mut daemon = Daemon::start(&home, &arguments).await;
    let url = daemon.url.clone();
    // The same port again, since clients know no other.
    arguments.extend(["--listen", url.as_str()]);
    let (clients, turns) = size();
    let begin = Arc::new(Barrier::new(clients + 1));
    let mut working = JoinSet::new();
    for who in 0..clients {
        let client = connect(&daemon, who).await;
        working.spawn(work(client, who, rounds, Arc::clone(&begin)));
    }
    for _ in 0..rounds {
        begin.wait().await;
        // In the middle of it: some turns have ended, others run or wait.
        let some = async || daemon.metric("turnlane_turns_ended_total").await >= 3;
        turnlane_testkit::wait::eventually("some ends", DEADLINE, some)
            .await
            .unwrap();
        daemon.signal(signal);
        let status = daemon.process.wait(DEADLINE).await.unwrap();
        if signal == Signal::TERM {
            assert_eq!(status.code(), Some(0));
        }
        daemon = Daemon::start(&home, &arguments).await;
    }
    let all = working.join_all();
    let all = within("all clients", DEADLINE, all).await.unwrap();
    assert_eq!(all, vec![rounds * turns; clients]);
    assert_eq!(daemon.metric("turnlane_queue_depth").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_miss_no_turn_over_restarts_by_sigterm() {
    restarted_by(Signal::TERM, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_miss_no_turn_over_restarts_by_sigkill() {
    restarted_by(Signal::KILL, 3).await;
}

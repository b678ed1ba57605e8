//! A daemon that is restarted under load: its clients come back, and miss no turn that was completed.
//!
//! Each client follows its turns in two ways that must agree: by the outcome of every turn that it
//! queued, and by a stream of events, which shows each end once, or says that something may be missing
//! and then the history has it. A turn that was cut off holds its lane, and its client tries it again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use rustix::process::Signal;
use serde_json::json;
use tokio::sync::{Barrier, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use turnlane::{
    CallError, CallOptions, Client, Endpoint, EventBody, EventStream, Filter, QueuedTurn,
    Reconnect, Thread, TransportError, TurnError, TurnStatus,
};
use turnlane_testkit::TempHome;
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use super::{Daemon, drained, is_full, turns};

/// How many clients are connected.
const CLIENTS: usize = 50;
/// How many of them share a thread with another one.
const SHARING: usize = 10;

/// How many turns each client queues before each of so many restarts.
fn size() -> (usize, usize) {
    if is_full() { (6, 10) } else { (2, 2) }
}

/// By turns in order and by force.
fn signal_of(round: usize) -> Signal {
    if round.is_multiple_of(2) {
        Signal::TERM
    } else {
        Signal::KILL
    }
}

pub(super) const SCRIPT: &str = "version: 1
fallback:
  - say: {text: \"You said: {input}, and said it at some length.\", chunk: 6, delta_ms: 20}";

/// Half of the clients use the socket, the others the websocket.
pub(super) async fn connect(daemon: &Daemon, who: usize) -> Client {
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

/// What a stream of events has shown of a thread.
#[derive(Default)]
struct Heard {
    /// How often the end of a turn was told.
    told: HashMap<String, usize>,
    /// What the history had of ended turns after the stream said that something may be missing.
    read: HashSet<String>,
    gaps: usize,
}

impl Heard {
    /// Follows until each of the turns that `ends` names is known to have been completed.
    async fn follow(
        mut self,
        thread: Thread,
        mut events: EventStream,
        mut ends: oneshot::Receiver<Vec<String>>,
    ) -> Self {
        let mut wanted: Option<Vec<String>> = None;
        loop {
            let knows = |turn: &String| self.told.contains_key(turn) || self.read.contains(turn);
            if wanted.as_ref().is_some_and(|all| all.iter().all(knows)) {
                return self;
            }
            let event = tokio::select! {
                all = &mut ends, if wanted.is_none() => {
                    wanted = Some(all.unwrap());
                    continue;
                }
                event = events.next() => event.unwrap(),
            };
            match event.body {
                EventBody::TurnCompleted(turn) if turn.status == TurnStatus::Completed => {
                    *self.told.entry(turn.id.as_str().to_owned()).or_default() += 1;
                }
                EventBody::Reconnected { .. } => {
                    self.gaps += 1;
                    self.read_history(&thread).await;
                }
                EventBody::TooSlow => panic!("a stream was not read"),
                _ => {}
            }
        }
    }

    async fn read_history(&mut self, thread: &Thread) {
        let mut turns = thread.turns();
        while let Some(turn) = turns.next().await {
            match turn {
                Ok(turn) if turn.status == TurnStatus::Completed => {
                    self.read.insert(turn.id.as_str().to_owned());
                }
                Ok(_) => {}
                // The connection was lost again, which the stream says too.
                Err(CallError::Transport(TransportError::Closed { .. })) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// The end of a turn that completes in the end; one that a crash has cut off is tried again, and how
/// often it was.
pub(super) async fn completed(
    client: &Client,
    thread: &Thread,
    turn: &QueuedTurn,
    text: &str,
) -> (String, usize) {
    // By their ids: one whose retry was lost with its connection is seen twice.
    let mut cut_off = HashSet::new();
    loop {
        let outcome = within(text, DEADLINE, turn.outcome()).await.unwrap();
        match outcome {
            Ok(outcome) => {
                assert_eq!(outcome.status, TurnStatus::Completed, "{text}: {outcome:?}");
                let said = format!("You said: {text}, and said it at some length.");
                assert_eq!(outcome.text, Some(said));
                return (outcome.turn.as_str().to_owned(), cut_off.len());
            }
            Err(TurnError::Failed { turn, info, .. }) => {
                let why = "queued turn was interrupted because its worker stopped";
                assert_eq!(info.message, why, "{text}");
                cut_off.insert(turn.as_str().to_owned());
            }
            Err(error) => panic!("{text}: {error:?}"),
        }
        let row = json!({"threadId": thread.id(), "queuedTurnId": turn.id()});
        let again = client.call_raw("thread/queue/retry", row, CallOptions::default());
        match again.await {
            // Without an answer it was tried again, or the next look shows that it was not.
            Ok(_) | Err(CallError::Transport(TransportError::Closed { .. })) => {}
            Err(error) => panic!("{text}: {error:?}"),
        }
    }
}

/// What became of one client.
struct Worked {
    texts: Vec<String>,
    cut_off: usize,
    gaps: usize,
    /// How many ends its stream left to the history.
    untold: usize,
}

/// Queues turns in rounds and waits for the end of each.
async fn work(client: Client, who: usize, thread: Thread, begin: Arc<Barrier>) -> Worked {
    let ends = Filter::all().thread(thread.id()).method_prefix("turn/");
    let events = client.events(ends);
    let (all, wanted) = oneshot::channel();
    let heard = Heard::default().follow(thread.clone(), events, wanted);
    let heard: JoinHandle<Heard> = tokio::spawn(heard);
    let (turns, rounds) = size();
    let (mut texts, mut ended, mut cut_off) = (Vec::new(), Vec::new(), 0);
    for round in 0..rounds {
        begin.wait().await;
        let mut queued = Vec::new();
        for n in 0..turns {
            let text = format!("client {who} round {round} turn {n}");
            let turn = thread.turn(text.as_str()).idempotency_key(&text);
            queued.push((turn.enqueue().await.unwrap(), text));
        }
        for (turn, text) in queued {
            let (id, tries) = completed(&client, &thread, &turn, &text).await;
            cut_off += tries;
            ended.push(id);
            texts.push(text);
        }
    }
    all.send(ended.clone()).unwrap();
    let heard = within("all events", DEADLINE, heard)
        .await
        .unwrap()
        .unwrap();
    for (turn, times) in &heard.told {
        assert_eq!(*times, 1, "{who}: the end of {turn} was told again");
    }
    let untold = ended.iter().filter(|turn| !heard.told.contains_key(*turn));
    Worked {
        untold: untold.count(),
        texts,
        cut_off,
        gaps: heard.gaps,
    }
}

/// Opens a thread for every client; the first ones share with their neighbour.
async fn begin(daemon: &Daemon, begin: &Arc<Barrier>) -> (JoinSet<Worked>, HashSet<String>) {
    let (mut working, mut threads) = (JoinSet::new(), HashSet::new());
    let mut last = None;
    for who in 0..CLIENTS {
        let client = connect(daemon, who).await;
        let thread = match last.take() {
            Some(id) if who < SHARING => client.threads().resume(id).await.unwrap(),
            _ => client.threads().start(".").await.unwrap(),
        };
        if who.is_multiple_of(2) {
            last = Some(thread.id().clone());
        }
        threads.insert(thread.id().as_str().to_owned());
        working.spawn(work(client, who, thread, Arc::clone(begin)));
    }
    (working, threads)
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stderr, reason = "figures of the full run")]
async fn fifty_clients_miss_no_turn_over_restarts_by_sigterm_and_sigkill() {
    let home = TempHome::new().unwrap();
    let script = home.path().join("script.yaml");
    std::fs::write(&script, SCRIPT).unwrap();
    let mut arguments = vec!["--script", script.to_str().unwrap()];
    let mut daemon = Daemon::start(&home, &arguments).await;
    let url = daemon.url.clone();
    // The same port again, since clients know no other.
    arguments.extend(["--listen", url.as_str()]);
    let (turns_each, rounds) = size();
    let barrier = Arc::new(Barrier::new(CLIENTS + 1));
    let (working, threads) = begin(&daemon, &barrier).await;
    for round in 0..rounds {
        barrier.wait().await;
        // In the middle of it: some turns have ended, others run or wait.
        let ended = async || daemon.metric("turnlane_turns_ended_total").await;
        let before = ended().await;
        let some = async || ended().await >= before + 3;
        eventually("some ends", DEADLINE, some).await.unwrap();
        daemon.signal(signal_of(round));
        let status = daemon.process.wait(DEADLINE).await.unwrap();
        if signal_of(round) == Signal::TERM {
            assert_eq!(status.code(), Some(0));
        }
        daemon = Daemon::start(&home, &arguments).await;
    }
    let all = within("all clients", DEADLINE, working.join_all());
    let all = all.await.unwrap();
    let sum = |of: fn(&Worked) -> usize| all.iter().map(of).sum::<usize>();
    let (cut_off, gaps, untold) = (
        sum(|one| one.cut_off),
        sum(|one| one.gaps),
        sum(|one| one.untold),
    );
    eprintln!(
        "{CLIENTS} clients, {rounds} restarts, {} turns: {cut_off} cut off and tried again, {gaps} \
         gaps, {untold} ends read from the history instead of told",
        sum(|one| one.texts.len())
    );
    assert_eq!(gaps, CLIENTS * rounds, "everybody came back every time");

    let mut client = daemon.unix().await;
    let mut history = Vec::new();
    for thread in &threads {
        drained(&mut client, thread).await;
        history.extend(turns(&mut client, thread).await);
    }
    let with = |status: &str| -> Vec<&str> {
        let some = history.iter().filter(|(_, is)| is == status);
        some.map(|(text, _)| text.as_str()).collect()
    };
    let mut ran = with("completed");
    let mut asked: Vec<&str> = all
        .iter()
        .flat_map(|one| &one.texts)
        .map(String::as_str)
        .collect();
    ran.sort_unstable();
    asked.sort_unstable();
    assert_eq!(ran, asked, "every turn was completed once");
    assert_eq!(asked.len(), CLIENTS * turns_each * rounds);
    assert_eq!(with("interrupted").len(), cut_off);
    assert_eq!(history.len(), asked.len() + cut_off);
}

//! A server that dies at random moments of streaming turns: everybody learns what became of its turn,
//! and no turn is sent twice.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use turnlane::{
    Client, Connection, Endpoint, ItemBody, Reconnect, Thread, TurnError, TurnEvent, TurnStream,
};
use turnlane_engine::scripted::{AbortSteps, Script, Scripted};
use turnlane_rpc::{Duplex, FrameReader, FrameWriter, Inbound};
use turnlane_server::{Embedded, EmbeddedConfig};
use turnlane_testkit::wait::{DEADLINE, within};

use crate::rig::Site;

/// How long after a new connection everybody knows what became of its turn.
const SECOND: Duration = Duration::from_secs(1);

const TALK: &str = "version: 1
fallback:
  - say: {text: \"You said: {input}, and said it at some length.\", chunk: 4, delta_ms: 1}";

/// A server on a folder, as another process would be.
async fn server(folder: &Path) -> Embedded {
    let script = Script::parse("test.yaml", TALK, AbortSteps::Refused).unwrap();
    let engine = Scripted::new(script, Arc::new(|| 0));
    let config = EmbeddedConfig::new(Arc::new(engine)).folder(folder);
    Embedded::start(config).await.unwrap()
}

/// Carries frames one way until either end is gone.
async fn carry(mut from: FrameReader, mut to: FrameWriter) {
    while let Ok(Some(inbound)) = from.next().await {
        match inbound {
            Inbound::Message(frame) => to.push(Bytes::copy_from_slice(&frame)),
            Inbound::Ping(payload) => to.push_pong(&payload),
            Inbound::Close(_) => return,
            _ => continue,
        }
        if to.flush(DEADLINE).await.is_err() {
            return;
        }
    }
}

/// Connects two ends until one of them is gone.
async fn bridge(one: Duplex, other: Duplex) {
    let (one, other) = (one.into_frames(), other.into_frames());
    tokio::select! {
        () = carry(one.reader, other.writer) => {}
        () = carry(other.reader, one.writer) => {}
    }
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// The next event of a turn. With a new connection it comes within a second, unless that is lost too.
async fn next(
    stream: &mut TurnStream,
    connection: &mut watch::Receiver<Connection>,
) -> Option<Result<TurnEvent, TurnError>> {
    loop {
        let since = connection.borrow_and_update().clone();
        let told = async {
            tokio::select! {
                biased;
                event = stream.next() => Some(event),
                changed = connection.changed() => {
                    changed.unwrap();
                    None
                }
            }
        };
        match within("a word", SECOND, told).await {
            Ok(Some(event)) => return event,
            Ok(None) => {}
            Err(late) => {
                let is_lost = matches!(since, Connection::Reconnecting { .. });
                assert!(is_lost, "{late} on {since:?}");
            }
        }
    }
}

/// Runs turns until it is stopped and gives each its own name.
async fn talk(
    (client, thread): (Client, Thread),
    who: usize,
    (begun, stop): (watch::Sender<usize>, CancellationToken),
) -> Talked {
    let mut talked = Talked::default();
    let mut connection = client.connection();
    for n in 0.. {
        if stop.is_cancelled() {
            break;
        }
        let key = format!("client-{who}-turn-{n}");
        talked.keys.push(key.clone());
        let turn = thread
            .turn(key.as_str())
            .idempotency_key(&key)
            .timeout(Duration::MAX);
        let mut stream = turn.stream().await.unwrap();
        let mut has_ended = false;
        while let Some(event) = next(&mut stream, &mut connection).await {
            match event {
                Ok(TurnEvent::Started(_)) => begun.send_modify(|turns| *turns += 1),
                Ok(TurnEvent::Ended(_)) => has_ended = true,
                Ok(TurnEvent::Reattached { .. }) => talked.found_again += 1,
                Ok(_) => {}
                Err(error) => panic!("{key}: {error:?}"),
            }
        }
        assert!(has_ended);
        let outcome = stream.outcome().await.unwrap();
        match outcome.into_success() {
            Ok(outcome) => {
                let text = format!("You said: {key}, and said it at some length.");
                assert_eq!(outcome.text, Some(text));
            }
            Err(TurnError::Interrupted { .. }) => talked.cut_off += 1,
            Err(error) => panic!("{key}: {error:?}"),
        }
    }
    talked
}

/// What a talker has seen.
#[derive(Default)]
struct Talked {
    /// The names of the turns it asked for.
    keys: Vec<String>,
    /// How often a turn went on with another connection.
    found_again: usize,
    /// How many turns ended with their server.
    cut_off: usize,
}

/// How often each message began a turn.
async fn turns_by_message(thread: &Thread) -> HashMap<String, usize> {
    let mut seen = HashMap::new();
    let mut turns = Box::pin(thread.turns());
    while let Some(turn) = turns.next().await {
        let message = turn
            .unwrap()
            .items
            .into_iter()
            .find_map(|item| match item.body {
                ItemBody::UserMessage(message) => message.client_id,
                _ => None,
            });
        *seen.entry(message.unwrap()).or_insert(0) += 1;
    }
    seen
}

#[tokio::test]
async fn a_server_that_dies_at_random_moments_loses_no_turn_and_runs_none_twice() {
    let kills = match std::env::var_os("TURNLANE_TEST_FULL") {
        Some(_) => 200,
        None => 20,
    };
    let mut site = Site::open().await;
    let folder = tempfile::tempdir().unwrap();
    let mut dice = Dice(7);
    let mut embedded = server(folder.path()).await;
    let client = Client::builder()
        .endpoint(Endpoint::Unix(site.path()))
        .reconnect(Reconnect::Backoff {
            initial: Duration::from_millis(1),
            max: Duration::from_millis(5),
            give_up_after: None,
        })
        .connect();
    let client = tokio::spawn(client);
    let mut connection = JoinSet::new();
    connection.spawn(bridge(site.arrival().await, embedded.connect()));
    let client = client.await.unwrap().unwrap();
    let mut threads = Vec::new();
    for _ in 0..3 {
        threads.push(client.threads().start("/").await.unwrap());
    }
    let stop = CancellationToken::new();
    let (begun, mut starts) = watch::channel(0);
    let mut talkers = Vec::new();
    for (who, thread) in threads.iter().enumerate() {
        let of = (client.clone(), thread.clone());
        talkers.push(tokio::spawn(talk(of, who, (begun.clone(), stop.clone()))));
    }
    for _ in 0..kills {
        // A kill meets a turn that runs, or its end.
        starts.mark_unchanged();
        within("a turn", DEADLINE, starts.changed())
            .await
            .unwrap()
            .unwrap();
        for _ in 0..dice.below(300) {
            tokio::task::yield_now().await;
        }
        connection.shutdown().await;
        embedded.stop(Duration::ZERO).await.unwrap();
        drop(embedded);
        embedded = server(folder.path()).await;
        // What came while there was no server is gone too.
        let arrived = site.arrival().await;
        connection.spawn(bridge(arrived, embedded.connect()));
    }
    stop.cancel();
    let mut troubled = 0;
    for (who, talker) in talkers.into_iter().enumerate() {
        let talked = within("the last turns", DEADLINE, talker).await;
        let Talked {
            keys,
            found_again,
            cut_off,
        } = talked.unwrap().unwrap();
        troubled += found_again + cut_off;
        let seen = turns_by_message(&threads[who]).await;
        assert_eq!(seen.len(), keys.len(), "client {who}");
        for key in keys {
            assert_eq!(seen.get(&key), Some(&1), "{key}");
        }
    }
    assert!(
        troubled >= kills,
        "{troubled} turns met one of {kills} kills"
    );
}

#[tokio::test]
async fn a_server_that_is_gone_for_good_ends_everybody() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = server(folder.path()).await;
    let client = Client::connect(Endpoint::io(embedded.connect()))
        .await
        .unwrap();
    let thread = client.threads().start("/").await.unwrap();
    let mut turns = JoinSet::new();
    for n in 0..20 {
        turns.spawn(thread.turn(format!("turn {n}")).run());
    }
    tokio::task::yield_now().await;
    let mut connection = client.connection();
    let stop = tokio::spawn(async move { embedded.stop(Duration::ZERO).await });
    let lost = connection.wait_for(|now| matches!(now, Connection::Closed { .. }));
    within("the loss", DEADLINE, lost).await.unwrap().unwrap();
    let all = async {
        while let Some(turn) = turns.join_next().await {
            match turn.unwrap() {
                Ok(_) | Err(TurnError::Interrupted { .. } | TurnError::Call(_)) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    };
    within("the end of all turns after the loss", SECOND, all)
        .await
        .unwrap();
    stop.await.unwrap().unwrap();
}

//! Many turns at once on one thread of the real server: nobody gets somebody else's answer.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use turnlane::{Client, Endpoint, ItemBody, Thread, TurnError, TurnEvent, WhenBusy};
use turnlane_engine::scripted::{AbortSteps, Gates, Script, Scripted};
use turnlane_server::{Embedded, EmbeddedConfig};
use turnlane_testkit::wait::{DEADLINE, within};

const ECHO: &str = "version: 1\nfallback: {say: \"You said: {input}\"}";
const GATED: &str = "version: 1
turns:
  - match: wait
    steps:
      - say: \"You said: {input}\"
      - await: {gate: open}
fallback: {say: \"You said: {input}\"}";

/// A server that plays a script, and its gates.
async fn server(script: &str) -> (Embedded, Gates) {
    let script = Script::parse("test.yaml", script, AbortSteps::Refused).unwrap();
    let engine = Scripted::new(script, Arc::new(|| 0));
    let gates = engine.gates();
    let server = Embedded::start(EmbeddedConfig::new(Arc::new(engine)));
    (server.await.unwrap(), gates)
}

async fn client(server: &Embedded) -> Client {
    Client::connect(Endpoint::io(server.connect()))
        .await
        .unwrap()
}

async fn thread(client: &Client) -> Thread {
    client.threads().start("/").await.unwrap()
}

#[tokio::test]
async fn a_hundred_turns_at_once_on_one_thread_are_a_hundred_turns_in_call_order() {
    let (server, _) = server(ECHO).await;
    let client = client(&server).await;
    let thread = thread(&client).await;
    let turns = (0..100).map(|n| thread.turn(format!("number {n}.")).into_future());
    let outcomes = within("all turns", DEADLINE, join_all(turns))
        .await
        .unwrap();
    let mut before = None;
    for (n, outcome) in outcomes.into_iter().enumerate() {
        let outcome = outcome.unwrap();
        assert_eq!(outcome.text, Some(format!("You said: number {n}.")));
        // Ids of Turnlane grow.
        assert!(before < Some(outcome.turn.clone()), "{n}");
        before = Some(outcome.turn);
    }
}

#[tokio::test]
async fn fifty_clients_mixing_on_one_thread_all_get_their_own_answers() {
    // Everybody is told about every row, so the work grows with the cube of what is asked at once.
    let asks = match std::env::var_os("TURNLANE_TEST_FULL") {
        Some(_) => 4,
        None => 1,
    };
    let (server, _) = server(ECHO).await;
    let first = client(&server).await;
    let id = thread(&first).await.id().clone();
    let work = (0..50).map(|who| {
        let (server, id) = (server.clone(), id.clone());
        tokio::spawn(async move {
            let client = client(&server).await;
            let thread = client.threads().resume(id).await.unwrap();
            let turns = (0..asks).map(|n| {
                let (text, thread) = (format!("client {who} asks {n}."), thread.clone());
                async move {
                    match (who + n) % 4 {
                        0 => {
                            let turn = thread.turn(text.as_str()).timeout(Duration::MAX);
                            let stream = turn.stream().await.unwrap();
                            (text, stream.outcome().await)
                        }
                        1 => {
                            let queued = thread.turn(text.as_str()).enqueue().await.unwrap();
                            (text, queued.outcome().await)
                        }
                        2 => {
                            let busy = WhenBusy::Reject;
                            let turn = thread.turn(text.as_str()).when_busy(busy);
                            (text, turn.run().await)
                        }
                        _ => {
                            let turn = thread.turn(text.as_str()).timeout(Duration::MAX);
                            (text, turn.run().await)
                        }
                    }
                }
            });
            join_all(turns).await
        })
    });
    let all = within("all clients", 2 * DEADLINE, join_all(work))
        .await
        .unwrap();
    let mut turns = std::collections::HashSet::new();
    for (text, outcome) in all.into_iter().flat_map(Result::unwrap) {
        let outcome = match outcome {
            Err(TurnError::Busy { .. }) => continue,
            outcome => outcome.unwrap(),
        };
        assert_eq!(outcome.text, Some(format!("You said: {text}")));
        assert!(turns.insert(outcome.turn), "two answers of one turn");
    }
    assert!(turns.len() > 50 * asks / 2);
}

#[tokio::test]
async fn a_turn_behind_another_one_waits_in_the_lane_and_tells_its_position() {
    let (server, gates) = server(GATED).await;
    let client = client(&server).await;
    let thread = thread(&client).await;
    let mut first = thread.turn("please wait.").stream().await.unwrap();
    while !matches!(first.next().await, Some(Ok(TurnEvent::Started(_)))) {}
    let mut second = thread.turn("second.").stream().await.unwrap();
    let event = second.next().await.unwrap().unwrap();
    assert!(
        matches!(
            event,
            TurnEvent::Queued {
                position: 0,
                row: Some(_)
            }
        ),
        "{event:?}"
    );
    let mut third = thread.turn("third.").stream().await.unwrap();
    let event = third.next().await.unwrap().unwrap();
    assert!(
        matches!(
            event,
            TurnEvent::Queued {
                position: 1,
                row: Some(_)
            }
        ),
        "{event:?}"
    );
    // The one that leaves is taken out, and nobody else.
    drop(second);
    let event = third.next().await.unwrap().unwrap();
    assert!(
        matches!(event, TurnEvent::Queued { position: 0, .. }),
        "{event:?}"
    );
    gates.open("open");
    assert_eq!(
        first.outcome().await.unwrap().text.as_deref(),
        Some("You said: please wait.")
    );
    assert_eq!(
        third.outcome().await.unwrap().text.as_deref(),
        Some("You said: third.")
    );
    let view = thread.queue().await.unwrap();
    assert_eq!(view.rows.len(), 0);
}

#[tokio::test]
async fn a_running_turn_whose_stream_is_dropped_is_interrupted_and_the_next_runs() {
    let (server, _gates) = server(GATED).await;
    let client = client(&server).await;
    let thread = thread(&client).await;
    let mut first = thread.turn("please wait.").stream().await.unwrap();
    // The message is complete before the interrupt, so that the outcome has its text.
    let has_said = |event: &TurnEvent| matches!(event, TurnEvent::ItemCompleted(item) if matches!(item.body, ItemBody::AgentMessage(_)));
    let said = async { while !has_said(&first.next().await.unwrap().unwrap()) {} };
    within("the message of the first turn", DEADLINE, said)
        .await
        .unwrap();
    let turn = first.turn().unwrap();
    drop(first);
    let next = thread.turn("next.").run().await.unwrap();
    assert_eq!(next.text.as_deref(), Some("You said: next."));
    let outcome = turn.outcome().await.unwrap();
    assert_eq!(outcome.status, turnlane::TurnStatus::Interrupted);
    assert_eq!(outcome.text.as_deref(), Some("You said: please wait."));
}

#[tokio::test]
async fn a_turn_that_takes_too_long_is_interrupted_by_the_server_and_has_ended() {
    let (server, _gates) = server(GATED).await;
    let client = client(&server).await;
    let thread = thread(&client).await;
    let limit = Duration::from_millis(200);
    let turn = thread.turn("please wait.").timeout(limit).run().await;
    assert!(
        matches!(
            turn,
            Err(TurnError::Timeout { turn: Some(_), after, ended: true }) if after == limit
        ),
        "{turn:?}"
    );
}

#[tokio::test]
async fn a_queued_turn_is_attached_to_later_by_another_handle() {
    let (server, gates) = server(GATED).await;
    let client = client(&server).await;
    let thread = thread(&client).await;
    let first = thread.turn("please wait.").enqueue().await.unwrap();
    let second = thread.turn("later.").enqueue().await.unwrap();
    assert!(second.turn().await.unwrap().is_none());
    let third = thread.turn("never.").enqueue().await.unwrap();
    assert!(third.delete().await.unwrap());
    assert!(!third.delete().await.unwrap());
    let outcome = tokio::spawn(async move { second.outcome().await });
    gates.open("open");
    let outcome = within("the queued turn", DEADLINE, outcome).await.unwrap();
    assert_eq!(
        outcome.unwrap().unwrap().text.as_deref(),
        Some("You said: later.")
    );
    let first_turn = first.turn().await.unwrap().unwrap();
    assert_eq!(
        first_turn.outcome().await.unwrap().text.as_deref(),
        Some("You said: please wait.")
    );
    assert_eq!(
        third.outcome().await.unwrap().status,
        turnlane::TurnStatus::Interrupted
    );
}

#[tokio::test]
async fn turns_of_a_thread_in_memory_wait_for_each_other_too() {
    let (server, _) = server(ECHO).await;
    let client = client(&server).await;
    let thread = client.threads().start("/").ephemeral().await.unwrap();
    let turns = (0..10).map(|n| thread.turn(format!("number {n}.")).into_future());
    let outcomes = within("all turns", DEADLINE, join_all(turns))
        .await
        .unwrap();
    for (n, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(
            outcome.unwrap().text,
            Some(format!("You said: number {n}."))
        );
    }
}

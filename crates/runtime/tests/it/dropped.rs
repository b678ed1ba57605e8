//! Items of an answer that is asked for again: seen to begin and to end, and never stored.

use std::sync::Arc;

use turnlane_engine::{
    BoxFuture, Capabilities, Engine, Event, Sink, TurnControl, TurnOutcome, TurnRequest, UsageKind,
};
use turnlane_protocol::ids::ItemId;
use turnlane_protocol::item::ThreadItem;
use turnlane_protocol::notification::DeltaKind;
use turnlane_runtime::{Options, StartHow};

use crate::support::{Home, start};

/// Says something, loses its connection, and says it again.
struct Stutters;

fn message(id: &str, text: &str) -> Box<ThreadItem> {
    let item = serde_json::json!({"id": id, "type": "agentMessage", "text": text});
    Box::new(serde_json::from_value(item).unwrap())
}

async fn say(events: &Sink, id: &str, text: &str, end: fn(Box<ThreadItem>) -> Event) {
    let delta = Event::Delta {
        item_id: ItemId::from(id),
        kind: DeltaKind::AgentMessage,
        text: text.to_owned(),
    };
    for event in [
        Event::ItemStarted(message(id, "")),
        delta,
        end(message(id, text)),
    ] {
        events.emit(event).await.unwrap();
    }
}

impl Engine for Stutters {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            approvals: false,
            steer: false,
            deltas: true,
            resume: true,
            fork: true,
            compact: true,
            revert: true,
            foreign: false,
            usage: UsageKind::None,
        }
    }

    fn run_turn(
        &self,
        _: TurnRequest,
        events: Sink,
        _: TurnControl,
    ) -> BoxFuture<'static, TurnOutcome> {
        Box::pin(async move {
            say(&events, "first", "hel", Event::ItemDropped).await;
            say(&events, "second", "hello", Event::ItemCompleted).await;
            TurnOutcome::completed()
        })
    }
}

#[tokio::test]
async fn an_item_that_was_dropped_is_told_to_its_end_and_not_stored() {
    let home = Home::new();
    let world = home
        .start_engine(Arc::new(Stutters), Options::default())
        .await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;
    let answer = world.handle.start(thread, start("x", StartHow::OrReject));
    answer.await.unwrap();
    ear.hears("turn Completed", 1).await;
    let words = ear.words();
    for word in ["started agentMessage", "completed agentMessage"] {
        assert_eq!(words.iter().filter(|told| *told == word).count(), 2);
    }
    let stored = world.items(thread).await;
    let ids: Vec<_> = stored.iter().skip(1).map(|item| item.id.as_str()).collect();
    assert_eq!(ids, ["second"]);
}

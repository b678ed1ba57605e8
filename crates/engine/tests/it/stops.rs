//! A stop of the worker at every word of a scripted turn, and the turn that continues it.

use std::sync::Arc;

use turnlane_engine::{
    BeforeEnd, BoxFuture, CancelReason, EntryKind, Hooked, Hooks, OutcomeStatus, Said, TurnKind,
    TurnRequest, UnrecordedMessage,
};
use turnlane_protocol::ids::TurnId;
use turnlane_protocol::input::UserInput;
use turnlane_protocol::item::{Extra, ItemBody, ThreadItem, UserMessage};

use crate::support::{Lane, NOW_MS, Seen, numbered, request, scripted};

const SCRIPT: &str = "fallback:\n  - say: {text: \"You said: {input}.\", chunk: 4}";

/// The turn that continues the one a lane has seen, with the steers that were left over.
async fn continued(seen: &Seen, unrecorded: Vec<UnrecordedMessage>) -> Seen {
    let next = TurnRequest {
        kind: TurnKind::Continue,
        input: Vec::new(),
        item_id: None,
        unrecorded,
        ..numbered(2, "", seen.entries.clone())
    };
    Lane::start(scripted(SCRIPT), next).finish().await
}

/// Runs a turn until the engine asks whether it may end; the question stays open.
async fn asked_to_end(lane: &mut Lane) -> Said {
    loop {
        let said = lane.hear().await.unwrap();
        if matches!(said, Said::CloseSteer(_)) {
            return said;
        }
        lane.reply(said);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_after_any_word_leaves_one_completed_turn_with_the_whole_message() {
    let whole = Lane::start(scripted(SCRIPT), request("x")).finish().await;
    let mut completed_at_once = 0;
    // From the first word on: before it, the lane hands the message over as an unrecorded one.
    for words in 1..whole.lines.len() {
        let mut lane = Lane::start(scripted(SCRIPT), request("x"));
        let mut open = None;
        for heard in 1..=words {
            let said = lane.hear().await.unwrap();
            if heard < words {
                lane.reply(said);
            } else {
                open = Some(said);
            }
        }
        lane.end.cancel.cancel(CancelReason::Shutdown);
        let seen = lane.finish().await;
        drop(open);
        seen.assert_whole();
        let last = match seen.outcome().status {
            OutcomeStatus::Completed => {
                completed_at_once += 1;
                seen
            }
            _ => continued(&seen, Vec::new()).await,
        };
        assert_eq!(last.outcome().status, OutcomeStatus::Completed, "{words}");
        let message = last.outcome().last_agent_message.as_deref();
        assert_eq!(message, Some("You said: x."), "{words}: {:#?}", last.lines);
    }
    assert!(completed_at_once > 0, "no stop came after the message");
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_after_the_last_message_still_interrupts() {
    let mut lane = Lane::start(scripted(SCRIPT), request("x"));
    let open = asked_to_end(&mut lane).await;
    lane.end.cancel.cancel(CancelReason::Interrupt);
    let seen = lane.finish().await;
    drop(open);
    assert_eq!(seen.outcome().status, OutcomeStatus::Interrupted);
}

#[tokio::test(start_paused = true)]
async fn a_steer_that_waits_at_a_stop_is_answered_by_the_turn_that_continues() {
    let mut lane = Lane::start(scripted(SCRIPT), request("x"));
    let open = asked_to_end(&mut lane).await;
    lane.steer("more").unwrap();
    lane.end.cancel.cancel(CancelReason::Shutdown);
    let seen = lane.finish().await;
    drop(open);
    assert_eq!(seen.outcome().status, OutcomeStatus::Interrupted);
    let body = ItemBody::UserMessage(UserMessage {
        content: vec![UserInput::text("and this")],
        client_id: None,
        extra: Extra::new(),
    });
    let steer = UnrecordedMessage {
        turn_id: TurnId::at(2, [1; 10]),
        item: ThreadItem::started("more".into(), NOW_MS, body),
    };
    let next = continued(&seen, vec![steer]).await;
    assert_eq!(next.outcome().status, OutcomeStatus::Completed);
    let message = next.outcome().last_agent_message.as_deref();
    assert_eq!(message, Some("You said: and this."));
}

/// Does not decide whether the turn may end.
struct Undecided;

impl Hooks for Undecided {
    fn before_end<'a>(&'a self, _: Option<&'a str>) -> BoxFuture<'a, Hooked<BeforeEnd>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_stopped_before_its_hook_has_answered_is_not_completed() {
    let mut lane = Lane::with_hooks(scripted(SCRIPT), request("x"), Arc::new(Undecided));
    while !lane.seen.lines.iter().any(|line| line.starts_with("usage")) {
        lane.step().await.unwrap();
    }
    lane.end.cancel.cancel(CancelReason::Shutdown);
    let seen = lane.finish().await;
    assert_eq!(seen.outcome().status, OutcomeStatus::Interrupted);
    assert_eq!(seen.entries.last().unwrap().kind, EntryKind::Note);
}

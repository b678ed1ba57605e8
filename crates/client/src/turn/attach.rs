//! A turn by its id: waiting for its end, stopping it, saying more to it.
//!
//! The invariant here: waiting changes nothing, and works at any time: while the turn runs, after its
//! end, and over lost connections. What was missed is read from the history.

use std::time::Duration;

use super::gather::Gathered;
use super::{lookup, wire};
use crate::core::Core;
use crate::error::{CallError, TransportError, TurnError, map};
use crate::event::{EventBody, Place};
use crate::feed::{Fed, TurnFeed};
use crate::hooks::HookReport;
use crate::ids::{ThreadId, TurnId};
use crate::outcome::{TurnOutcome, TurnStatus, TurnView};
use crate::queue;

/// The end of a turn.
pub(super) async fn outcome(
    core: &Core,
    thread: &ThreadId,
    turn: &TurnId,
) -> Result<TurnOutcome, TurnError> {
    let mut feed = core.router.follow(thread, turn);
    // Without it an end would be noticed only by looking.
    crate::thread::listen(core, thread).await;
    let mut patience = lookup::Patience::default();
    let mut gathered = Gathered::default();
    // It may have been there for a while.
    gathered.missed();
    loop {
        match look(core, thread, turn).await {
            Ok(Some(view)) => return Ok(ended(core, thread, gathered, view).await),
            Ok(None) => patience.restore(),
            // After a lost connection the next one is waited for below.
            Err(error) if patience.bears(&error) => {}
            Err(error) => return Err(error),
        }
        let look = patience.next_look();
        match news(&mut feed, turn, &mut gathered, look).await {
            News::Ended(view) => return Ok(ended(core, thread, gathered, *view).await),
            News::Closed(why) => return Err(CallError::Transport(why).into()),
            News::TooMuch => feed = core.router.follow(thread, turn),
            News::Perhaps => {}
        }
    }
}

/// What is told about a turn.
enum News {
    Ended(Box<TurnView>),
    /// There will be no other connection.
    Closed(TransportError),
    /// Something may have been missed.
    TooMuch,
    /// Something may have happened to it.
    Perhaps,
}

async fn news(feed: &mut TurnFeed, turn: &TurnId, gathered: &mut Gathered, look: Duration) -> News {
    let look = tokio::time::sleep(look);
    tokio::pin!(look);
    loop {
        let fed = tokio::select! {
            fed = feed.next() => fed,
            () = &mut look => return News::Perhaps,
        };
        match fed {
            Fed::Event(event) => {
                gathered.take(&event);
                match &event.body {
                    EventBody::TurnCompleted(view) if view.status != TurnStatus::InProgress => {
                        return News::Ended(view.clone());
                    }
                    EventBody::ThreadGone => return News::Perhaps,
                    // Taken out of its lane, unless it has ended in the meantime.
                    EventBody::Queue(queue) if queue.place_of_turn(turn) == Place::Gone => {
                        return News::Perhaps;
                    }
                    _ => {}
                }
            }
            Fed::Lost => {}
            Fed::Reconnected { .. } => return News::Perhaps,
            Fed::Closed(why) => return News::Closed(why),
            Fed::TooSlow => return News::TooMuch,
        }
    }
}

/// The turn if it has ended; none while it runs or waits.
async fn look(
    core: &Core,
    thread: &ThreadId,
    turn: &TurnId,
) -> Result<Option<TurnView>, TurnError> {
    let found = lookup::find_told(core, thread, |view| view.id == *turn).await?;
    if let Some(view) = found {
        return Ok(Some(view).filter(lookup::has_ended));
    }
    // Codex shows a turn only some time after it has answered its start.
    if !core.is_turnlane() {
        return Ok(None);
    }
    match queue::holds(core, thread, turn).await {
        Ok(false) => {}
        // Whether it waits cannot be known, so it may.
        Ok(true) | Err(CallError::Unsupported { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    // It may have become a turn, and even ended, between the two looks.
    match lookup::by_id(core, thread, turn).await? {
        Some(view) => Ok(Some(view).filter(lookup::has_ended)),
        None => Ok(Some(lookup::never_begun(turn, TurnStatus::Interrupted))),
    }
}

/// What became of a turn that has ended.
pub(crate) async fn ended(
    core: &Core,
    thread: &ThreadId,
    mut gathered: Gathered,
    view: TurnView,
) -> TurnOutcome {
    if gathered.lacks_some_of(&view)
        && let Some(items) = lookup::items(core, thread, &view.id).await
    {
        gathered.complete(items);
    }
    gathered.outcome(thread, view, HookReport::default())
}

/// Stops a turn, in the queue too; fine when it has ended.
pub(super) async fn interrupt(
    core: &Core,
    thread: &ThreadId,
    turn: &TurnId,
) -> Result<(), CallError> {
    let stopped = wire::interrupt(core, thread, turn, wire::INTERRUPT_TIMEOUT).await;
    let Err(error) = stopped else {
        return Ok(());
    };
    if let CallError::Rpc(rpc) = &error
        && rpc.reason() == Some("queued")
        && let Some(row) = queue::row_of(core, thread, turn).await?
        && queue::delete(core, thread, &row).await?
    {
        return Ok(());
    }
    if map::is_nothing_to_interrupt(&error)
        && let Some(view) = lookup::by_id(core, thread, turn).await?
        && lookup::has_ended(&view)
    {
        return Ok(());
    }
    Err(error)
}

//! Both ends of the channel between one lane and one running turn.
//!
//! The invariant here: the two ends are made together and belong to one turn; when one is dropped,
//! everybody who waits on the other notices.
//!
//! What the lane does with what it hears is in the runtime.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::cancel::{self, CancelHandle};
use crate::control::{Ask, TurnControl};
use crate::engine::Engine;
use crate::hooks::Hooks;
use crate::outcome::TurnOutcome;
use crate::request::TurnRequest;
use crate::said::Said;
use crate::sink::{QUEUE_MAX, Sink};
use crate::steer::{self, SteerSender};

/// The lane's end. Dropping it ends every call of the engine that waits.
#[derive(Debug)]
pub struct LaneEnd {
    /// Everything the engine says, in order. Closed without [`Said::Ended`]: the engine is lost,
    /// see [`TurnOutcome::lost`].
    pub said: mpsc::Receiver<Said>,
    /// Hands over what was said meanwhile.
    pub steer: SteerSender,
    /// Stops the turn.
    pub cancel: CancelHandle,
}

/// The two ends for one turn.
pub fn channel(hooks: Arc<dyn Hooks>) -> (Sink, TurnControl, LaneEnd) {
    let (said_to, said) = mpsc::channel(QUEUE_MAX);
    let (steer_to, steer) = steer::channel();
    let (cancel_by, cancel) = cancel::channel();
    let sink = Sink::new(said_to);
    let ask = Ask::new(sink.clone(), cancel.clone(), hooks);
    let control = TurnControl { cancel, steer, ask };
    let lane = LaneEnd {
        said,
        steer: steer_to,
        cancel: cancel_by,
    };
    (sink, control, lane)
}

/// Runs a turn and says its outcome last; meant to be spawned.
///
/// A panic of the engine is an outcome like any other: [`TurnOutcome::lost`]. Dropped before its
/// end, it ends the turn without an outcome, and the lane's receiver closes.
pub async fn run(engine: Arc<dyn Engine>, request: TurnRequest, sink: Sink, control: TurnControl) {
    let events = sink.clone();
    let turn = async move { engine.run_turn(request, events, control).await };
    let outcome = caught(turn).await.unwrap_or_else(|| {
        tracing::error!("the engine panicked");
        TurnOutcome::lost()
    });
    // A lane that has gone needs no outcome.
    let _ = sink.ended(outcome).await;
}

/// Says the outcome of a turn that no engine could be given.
pub async fn end(outcome: TurnOutcome, sink: Sink) {
    let _ = sink.ended(outcome).await;
}

/// The future's output; none when it panicked.
async fn caught<T>(future: impl Future<Output = T> + Send) -> Option<T> {
    let mut future = Box::pin(future);
    // Never polled again after a panic, so nobody sees what it left half done.
    std::future::poll_fn(move |context| {
        let polled = AssertUnwindSafe(|| future.as_mut().poll(context));
        match std::panic::catch_unwind(polled) {
            Ok(polled) => polled.map(Some),
            Err(_panic) => std::task::Poll::Ready(None),
        }
    })
    .await
}

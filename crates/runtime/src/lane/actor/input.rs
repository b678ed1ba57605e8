//! What a lane's task waits for, in the order it is looked at.
//!
//! The invariant here: waiting for one thing never loses another; every branch can be dropped and
//! asked again.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use turnlane_engine::{BoxFuture, Reconciled, Said};
use turnlane_store::StoreError;
use turnlane_store::lane::LaneView;

use super::joining::Joined;
use super::results::Done;
use super::{Actor, OPS_MAX};
use crate::lane::command::Command;
use crate::options::BeforeTurnVerdict;

/// How much of what an engine says is taken in at once.
const SAID_AT_ONCE: usize = 64;
/// The wall clock is looked at at least so often, since it may jump.
const WALL_CLOCK_EVERY: Duration = Duration::from_secs(30);
/// After so long in idleness nothing is remembered for those who come back.
const REMEMBER_FOR: Duration = Duration::from_mins(1);

/// Something that came in.
pub(super) enum Input {
    Done(Box<Done>),
    Command(Option<Box<Command>>),
    /// What the engine said; nothing when it is gone.
    Said(Vec<Said>),
    Slot(OwnedSemaphorePermit),
    Hooked(BeforeTurnVerdict),
    /// The engine has said what became of a turn that a dead worker left.
    Reconciled(Box<Reconciled>),
    Looked(Box<Result<LaneView, StoreError>>),
    Joined(Box<Joined>),
    Wake,
    Tick,
    /// Nothing else is ready, and the queue has changed.
    TellQueue,
}

impl Actor {
    /// The next thing that comes in.
    pub(super) async fn next(&mut self) -> Input {
        let timer = self.timer();
        let room = self.ops.len() < OPS_MAX;
        if !self.ops.is_empty() {
            // The store is slower than the lanes: wait with it. It says so itself when it closes.
            let _ = self.shared.store.room().await;
        }
        let tell = self.queue_changed;
        let mut said = Vec::new();
        let engine = self
            .running
            .as_mut()
            .and_then(|running| running.end.as_mut());
        let (ops, joins) = (&mut self.ops, &mut self.joins);
        tokio::select! {
            biased;
            done = front(ops) => Input::Done(Box::new(done)),
            command = self.commands.recv(), if room => Input::Command(command.map(Box::new)),
            _ = hear(engine, &mut said), if room => Input::Said(said),
            permit = ready(&mut self.slot_wait) => Input::Slot(permit),
            verdict = ready(&mut self.hooks) => Input::Hooked(verdict),
            answer = ready(&mut self.asking) => Input::Reconciled(Box::new(answer)),
            look = ready(&mut self.look) => Input::Looked(Box::new(look)),
            joined = any(joins) => Input::Joined(joined),
            () = std::future::ready(()), if tell => Input::TellQueue,
            () = self.face.wake.notified() => Input::Wake,
            () = until(timer) => Input::Tick,
        }
    }

    /// When something becomes due by itself.
    fn timer(&self) -> Option<Instant> {
        let wall = self.wake_at.wall_ms.map(|due_ms| {
            let wait = u64::try_from(due_ms - self.now_ms()).unwrap_or(0);
            Instant::now() + Duration::from_millis(wait).min(WALL_CLOCK_EVERY)
        });
        let mono = self.wake_at.mono.map(|mono| self.loaded_at + mono);
        let turn = self.running.as_ref();
        let timeout = turn.and_then(|running| running.timeout_at);
        let approval = turn.and_then(|running| {
            let patience = self.patience();
            running
                .approvals
                .next_deadline(self.unattended_since, patience)
        });
        let forget = (self.state.is_idle() && self.subscribers.remembers())
            .then(|| self.idle_since + REMEMBER_FOR);
        [wall, mono, timeout, approval, forget]
            .into_iter()
            .flatten()
            .min()
    }

    /// Forgets what was told once the lane has been idle for a while.
    pub(super) fn forget_when_idle(&mut self) {
        if self.state.is_idle() && self.idle_since.elapsed() >= REMEMBER_FOR {
            self.subscribers.forget();
        }
    }
}

/// The result of the operation that was submitted first; operations end in that order.
async fn front(ops: &mut std::collections::VecDeque<BoxFuture<'static, Done>>) -> Done {
    let done = poll_fn(|context| match ops.front_mut() {
        Some(op) => op.as_mut().poll(context),
        None => Poll::Pending,
    })
    .await;
    ops.pop_front();
    done
}

/// What the engine says; never ends when none runs.
async fn hear(engine: Option<&mut turnlane_engine::LaneEnd>, said: &mut Vec<Said>) -> usize {
    match engine {
        Some(end) => end.said.recv_many(said, SAID_AT_ONCE).await,
        None => std::future::pending().await,
    }
}

/// The output of a future that may be there; it is gone afterwards.
async fn ready<T>(slot: &mut Option<std::pin::Pin<Box<dyn Future<Output = T> + Send>>>) -> T {
    let output = poll_fn(|context| match slot {
        Some(future) => future.as_mut().poll(context),
        None => Poll::Pending,
    })
    .await;
    *slot = None;
    output
}

/// The first output of several futures.
async fn any<T>(futures: &mut Vec<BoxFuture<'static, T>>) -> T {
    poll_fn(|context| {
        for at in 0..futures.len() {
            if let Poll::Ready(output) = futures[at].as_mut().poll(context) {
                drop(futures.swap_remove(at));
                return Poll::Ready(output);
            }
        }
        Poll::Pending
    })
    .await
}

async fn until(timer: Option<Instant>) {
    match timer {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

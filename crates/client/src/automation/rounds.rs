//! The loop of an automation: wait for the due time, run a turn, decide.
//!
//! The invariant here: one turn at a time, and none without a look at the wish, the thread and the
//! clock right before it. Every wait ends when somebody wants a stop. A panic anywhere below is an
//! ordinary end of the automation.
//!
//! Which end or due time follows what is decided in `plan.rs`; how a turn is run, in `runner.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tracing::Instrument as _;

use super::clock::Clock;
use super::ledger::Ledger;
use super::plan::{self, End, Seen, Success, Verdict};
use super::runner::{Flight, RunEnd, Runner, Wish, wished};
use super::{AutomationSpec, RunOutcome};

/// How long an interrupted turn may take to end before we go without it.
const INTERRUPT_MAX: Duration = Duration::from_secs(5);

/// What the loop works with.
pub(super) struct Rounds<R> {
    runner: R,
    spec: AutomationSpec,
    clock: Arc<dyn Clock>,
    wish: watch::Receiver<Wish>,
}

/// Runs the loop to its end and publishes that: the task that owns the state.
pub(super) async fn own<R: Runner>(rounds: Rounds<R>, mut ledger: Ledger) {
    // The loop, and with it the thread, is gone before the end is shown: who waited for the end may
    // rely on nothing being held any more.
    let end = caught(rounds.go(&mut ledger)).await;
    ledger.end(end.unwrap_or_else(|| End::failed(plan::PANICKED)));
}

/// The future's output; none if it panicked.
async fn caught<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = Box::pin(future);
    // Nothing of a future that panicked is used again.
    std::future::poll_fn(|cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
        match polled {
            Ok(polled) => polled.map(Some),
            Err(_) => Poll::Ready(None),
        }
    })
    .await
}

impl<R: Runner> Rounds<R> {
    pub(super) fn new(
        runner: R,
        spec: AutomationSpec,
        clock: Arc<dyn Clock>,
        wish: watch::Receiver<Wish>,
    ) -> Self {
        Self {
            runner,
            spec,
            clock,
            wish,
        }
    }

    async fn go(self, ledger: &mut Ledger) -> End {
        loop {
            let Some(due) = ledger.next_due() else {
                return End::failed(plan::NO_DUE_TIME);
            };
            if let Some(end) = self.wait(due).await {
                return end;
            }
            match self.run(due, ledger).await {
                Verdict::Due(next) => ledger.waiting(next),
                Verdict::End(end) => return end,
            }
        }
    }

    /// Waits until the run may start; an end if it may not.
    async fn wait(&self, due: SystemTime) -> Option<End> {
        loop {
            let now = self.clock.now();
            let seen = Seen {
                now,
                wish: *self.wish.borrow(),
                gone: self.runner.gone(),
            };
            if let Some(end) = plan::before_run(&self.spec, due, seen) {
                return Some(end);
            }
            let is_due = now >= due;
            // While the connection is being made again a turn would use up its time for nothing.
            if is_due && self.runner.is_ready() {
                return None;
            }
            // Between being due and being ready only the end of the automation's time counts.
            let until = if is_due { self.spec.stop_at } else { Some(due) };
            tokio::select! {
                () = wished(&self.wish, Wish::Stop) => {}
                () = self.runner.until_gone() => {}
                () = self.runner.until_ready(), if is_due => {}
                () = self.look_again(until) => {}
            }
        }
    }

    async fn look_again(&self, until: Option<SystemTime>) {
        match until {
            Some(until) => self.clock.wait(until).await,
            None => std::future::pending().await,
        }
    }

    /// One run, from its submission to what follows it.
    async fn run(&self, due: SystemTime, ledger: &mut Ledger) -> Verdict {
        let (number, turn) = ledger.running(due, self.clock.now());
        let thread = self.runner.thread_id();
        let span = tracing::info_span!("automation.run", %thread, run = number);
        let flight = Flight {
            wish: self.wish.clone(),
            turn,
        };
        let turn = self.runner.run(&self.spec.prompt, flight).instrument(span);
        let end = tokio::select! {
            biased;
            end = turn => end,
            () = overdue(self.wish.clone()) => RunEnd::Failed(String::new()),
        };
        let finished = self.clock.now();
        let wish = *self.wish.borrow();
        match end {
            RunEnd::Completed => {
                ledger.ran(finished, RunOutcome::Completed);
                let run = Success {
                    due,
                    finished,
                    runs_completed: ledger.runs_completed(),
                };
                plan::after_success(&self.spec, run, wish)
            }
            // Whatever an interrupted turn says of itself: it was told to end and has.
            RunEnd::Failed(_) if wish == Wish::StopNow => {
                ledger.ran(finished, RunOutcome::Interrupted);
                Verdict::End(End::Stopped)
            }
            RunEnd::Failed(error) => {
                let end = End::failed(&error);
                ledger.ran(finished, RunOutcome::Failed { error });
                Verdict::End(end)
            }
        }
    }
}

/// Resolves when an interrupted run has had its time.
async fn overdue(wish: watch::Receiver<Wish>) {
    wished(&wish, Wish::StopNow).await;
    tokio::time::sleep(INTERRUPT_MAX).await;
}

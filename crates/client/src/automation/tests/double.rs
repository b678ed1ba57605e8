//! A thread and clocks that tests move.
//!
//! The invariant here: time is tokio's paused clock plus what a test adds to it, so nothing depends
//! on how fast a machine is. A wall clock that jumps says nothing, as a system's does.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::Instant;

use crate::automation::clock::{Clock, nap};
use crate::automation::runner::{Flight, RunEnd, Runner, Wish, wished};
use crate::automation::{AutomationHandle, AutomationSpec, start};
use crate::ids::{ThreadId, TurnId};
use crate::review::BoxFuture;

/// The moment at which tests begin, moved by some seconds.
pub(super) fn at(seconds: i64) -> SystemTime {
    let begin = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000);
    let by = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { begin - by } else { begin + by }
}

/// Lets this much time pass.
pub(super) async fn pass(time: Duration) {
    let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
}

/// A wall clock that looks again every minute, as the system's does.
#[derive(Clone, Debug)]
pub(super) struct WallClock {
    began: Instant,
    offset_ms: Arc<AtomicI64>,
    looks: Arc<AtomicU64>,
}

impl WallClock {
    fn new() -> Self {
        Self {
            began: Instant::now(),
            offset_ms: Arc::default(),
            looks: Arc::default(),
        }
    }

    /// Sets the clock, either way, or suspends the machine for so long: timers notice neither.
    pub(super) fn jump(&self, by: i64) {
        self.offset_ms.fetch_add(by * 1_000, Ordering::SeqCst);
    }

    /// How often somebody began to wait.
    pub(super) fn waits(&self) -> u64 {
        self.looks.load(Ordering::SeqCst)
    }
}

impl Clock for WallClock {
    fn now(&self) -> SystemTime {
        shifted(
            at(0) + self.began.elapsed(),
            self.offset_ms.load(Ordering::SeqCst),
        )
    }

    fn wait(&self, due: SystemTime) -> BoxFuture<'static, ()> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        Box::pin(pass(nap(self.now(), due)))
    }
}

fn shifted(time: SystemTime, by_ms: i64) -> SystemTime {
    let by = Duration::from_millis(by_ms.unsigned_abs());
    if by_ms < 0 { time - by } else { time + by }
}

/// What a run of the double does.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) takes: Duration,
    pub(super) end: StepEnd,
}

#[derive(Clone, Debug)]
pub(super) enum StepEnd {
    Completes,
    Fails(&'static str),
    Panics,
    /// Ends only when it is interrupted, so long after.
    WhenInterrupted(Duration),
    /// Does not even end then.
    Never,
}

impl Step {
    pub(super) fn completes() -> Self {
        Self::takes(Duration::ZERO)
    }

    pub(super) fn takes(takes: Duration) -> Self {
        Self {
            takes,
            end: StepEnd::Completes,
        }
    }

    pub(super) fn ends(end: StepEnd) -> Self {
        Self {
            takes: Duration::ZERO,
            end,
        }
    }
}

/// A thread that does what a test says, and the clock beside it; clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub(super) clock: WallClock,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    gone: watch::Sender<Option<String>>,
    ready: watch::Sender<bool>,
    /// What the next runs do; the last one stays.
    steps: Mutex<VecDeque<Step>>,
    starts: Mutex<Vec<SystemTime>>,
    in_flight: AtomicUsize,
    interrupts: AtomicUsize,
}

impl Stage {
    pub(super) fn new(step: Step) -> Self {
        Self::with([step])
    }

    pub(super) fn with(steps: impl IntoIterator<Item = Step>) -> Self {
        Self {
            clock: WallClock::new(),
            shared: Arc::new(Shared {
                gone: watch::channel(None).0,
                ready: watch::channel(true).0,
                steps: Mutex::new(steps.into_iter().collect()),
                starts: Mutex::default(),
                in_flight: AtomicUsize::new(0),
                interrupts: AtomicUsize::new(0),
            }),
        }
    }

    pub(super) fn spawn(&self, spec: AutomationSpec) -> AutomationHandle {
        start(self.clone(), spec, Arc::new(self.clock.clone()))
    }

    pub(super) fn close(&self, why: &str) {
        self.shared.gone.send_replace(Some(why.to_owned()));
    }

    pub(super) fn connected(&self, ready: bool) {
        self.shared.ready.send_replace(ready);
    }

    /// When runs were submitted, by the wall clock.
    pub(super) fn starts(&self) -> Vec<SystemTime> {
        self.shared.starts.lock().unwrap().clone()
    }

    /// How many turns run on the server.
    pub(super) fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Ordering::SeqCst)
    }

    /// How many hold it.
    pub(super) fn handles(&self) -> usize {
        Arc::strong_count(&self.shared)
    }

    pub(super) fn interrupts(&self) -> usize {
        self.shared.interrupts.load(Ordering::SeqCst)
    }
}

/// A turn on the server; a dropped one was interrupted.
struct InFlight(Arc<Shared>);

impl InFlight {
    fn begin(shared: &Arc<Shared>) -> Self {
        let others = shared.in_flight.fetch_add(1, Ordering::SeqCst);
        assert_eq!(others, 0, "two turns of one automation at once");
        Self(Arc::clone(shared))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Runner for Stage {
    fn thread_id(&self) -> ThreadId {
        ThreadId::from("thread")
    }

    fn gone(&self) -> Option<String> {
        self.shared.gone.borrow().clone()
    }

    async fn until_gone(&self) {
        let mut gone = self.shared.gone.subscribe();
        let _ = gone.wait_for(Option::is_some).await;
    }

    fn is_ready(&self) -> bool {
        *self.shared.ready.borrow()
    }

    async fn until_ready(&self) {
        let _ = self.shared.ready.subscribe().wait_for(|ready| *ready).await;
    }

    fn run(&self, prompt: &str, flight: Flight) -> BoxFuture<'static, RunEnd> {
        assert_eq!(prompt, "look");
        let shared = Arc::clone(&self.shared);
        let now = self.clock.now();
        Box::pin(async move {
            let _turn = InFlight::begin(&shared);
            let number = {
                let mut starts = shared.starts.lock().unwrap();
                starts.push(now);
                starts.len()
            };
            let _ = flight.turn.set(TurnId::from(format!("turn-{number}")));
            let step = {
                let mut steps = shared.steps.lock().unwrap();
                let step = steps.front().cloned().unwrap();
                if steps.len() > 1 {
                    steps.pop_front();
                }
                step
            };
            pass(step.takes).await;
            match step.end {
                StepEnd::Completes => RunEnd::Completed,
                StepEnd::Fails(why) => RunEnd::Failed(why.to_owned()),
                StepEnd::Panics => panic!("the run panics, as it was told"),
                StepEnd::WhenInterrupted(after) => {
                    wished(&flight.wish, Wish::StopNow).await;
                    shared.interrupts.fetch_add(1, Ordering::SeqCst);
                    pass(after).await;
                    RunEnd::Failed("the turn was interrupted".to_owned())
                }
                StepEnd::Never => std::future::pending().await,
            }
        })
    }
}

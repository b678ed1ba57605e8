//! A thousand automations over a year, with suspends, and clocks set either way.
//!
//! The invariant under test: no drift, no burst, no point twice. What should have happened is found
//! by adding intervals up, one by one, from what the runs really took.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::time::Instant;

use super::double::at;
use super::*;
use crate::automation::runner::{Flight, RunEnd};
use crate::review::BoxFuture;

const AUTOMATIONS: u64 = 1_000;
const JUMPS: usize = 60;
const HOUR: u64 = 60;
const YEAR: u64 = 365 * 24 * HOUR;

/// So many minutes by the wall clock. Everything here takes whole ones.
fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

/// Lets so much time pass by the wall clock, a minute of it in a millisecond of tokio's paused clock,
/// whose timers are slow over a year.
async fn pass(wall: Duration) {
    double::pass(wall / 60_000).await;
}

/// Numbers that look random and are the same in every run of the test.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll() % (high - low)
    }
}

/// A wall clock that wakes who waits when it jumps, so that a year need not be looked at by minutes.
#[derive(Clone, Debug)]
struct YearClock {
    began: Instant,
    offset_minutes: Arc<AtomicI64>,
    jumped: watch::Sender<()>,
}

impl YearClock {
    fn jump(&self, by_minutes: i64) {
        self.offset_minutes.fetch_add(by_minutes, Ordering::SeqCst);
        self.jumped.send_replace(());
    }
}

impl Clock for YearClock {
    fn now(&self) -> SystemTime {
        let passed = 60 * i64::try_from(self.began.elapsed().as_millis()).unwrap();
        at(passed + 60 * self.offset_minutes.load(Ordering::SeqCst))
    }

    fn wait(&self, due: SystemTime) -> BoxFuture<'static, ()> {
        let mut jumped = self.jumped.subscribe();
        let left = due.duration_since(self.now()).unwrap_or_default();
        Box::pin(async move {
            tokio::select! {
                () = pass(left) => {}
                _ = jumped.changed() => {}
            }
        })
    }
}

/// What a run took, by the wall clock, which may have jumped meanwhile.
#[derive(Clone, Copy, Debug)]
struct Run {
    started: SystemTime,
    finished: SystemTime,
}

/// A thread whose turns take as long as the dice say.
struct Timed {
    clock: YearClock,
    dice: Arc<Mutex<Dice>>,
    every: u64,
    runs: Arc<Mutex<Vec<Run>>>,
}

impl Runner for Timed {
    fn thread_id(&self) -> ThreadId {
        ThreadId::from("thread")
    }

    fn gone(&self) -> Option<String> {
        None
    }

    async fn until_gone(&self) {
        std::future::pending::<()>().await;
    }

    fn is_ready(&self) -> bool {
        true
    }

    async fn until_ready(&self) {}

    fn run(&self, _prompt: &str, _flight: Flight) -> BoxFuture<'static, RunEnd> {
        let (clock, runs) = (self.clock.clone(), Arc::clone(&self.runs));
        let takes = {
            let mut dice = self.dice.lock().unwrap();
            match dice.between(0, 10) {
                0 => dice.between(0, 3 * self.every),
                // Exactly one interval: the point at the end is missed.
                1 => self.every,
                _ => dice.between(0, HOUR),
            }
        };
        Box::pin(async move {
            let started = clock.now();
            pass(minutes(takes)).await;
            let finished = clock.now();
            runs.lock().unwrap().push(Run { started, finished });
            RunEnd::Completed
        })
    }
}

/// A jump of the wall clock.
#[derive(Clone, Copy, Debug)]
struct Jump {
    from: SystemTime,
    to: SystemTime,
}

/// Moves the wall clock now and then, for a year.
async fn jump_for_a_year(clock: &YearClock, dice: &mut Dice) -> Vec<Jump> {
    let pause = minutes(YEAR / JUMPS as u64);
    let mut jumps = Vec::new();
    for number in 0..JUMPS {
        pass(pause).await;
        let by = match number % 3 {
            // A suspend: up to three days that timers do not notice.
            0 => i64::try_from(dice.between(0, 72 * HOUR)).unwrap(),
            1 => i64::try_from(dice.between(0, 2 * HOUR)).unwrap(),
            _ => -i64::try_from(dice.between(0, 2 * HOUR)).unwrap(),
        };
        let from = clock.now();
        clock.jump(by);
        jumps.push(Jump {
            from,
            to: clock.now(),
        });
    }
    jumps
}

/// The due time after a run, by adding up.
fn following(due: SystemTime, every: Duration, finished: SystemTime) -> SystemTime {
    let mut next = due + every;
    while next <= finished {
        next += every;
    }
    next
}

/// Fails unless every run began at its due time, or when a jump carried the clock over that.
fn check(first_due: SystemTime, every: Duration, runs: &[Run], jumps: &[Jump]) {
    let mut due = first_due;
    for run in runs {
        let late = run.started != due;
        let jumped_over =
            |jump: &Jump| jump.from <= due && due <= jump.to && run.started == jump.to;
        assert!(
            !late || jumps.iter().any(jumped_over),
            "due {due:?}, {run:?}"
        );
        assert!(run.started >= due, "a run before its time");
        due = following(due, every, run.finished);
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_automations_neither_drift_nor_burst_nor_repeat_over_a_year() {
    let mut dice = Dice(20_261_116);
    let clock = YearClock {
        began: Instant::now(),
        offset_minutes: Arc::default(),
        jumped: watch::channel(()).0,
    };
    let mut all = Vec::new();
    for id in 0..AUTOMATIONS {
        // From four days, doubled, to two months, and a bit.
        let interval = ((96 * HOUR) << dice.between(0, 5)) + dice.between(0, HOUR);
        let start = dice.between(0, 30 * 24 * HOUR);
        let start_at = at(0) + minutes(start);
        let runs: Arc<Mutex<Vec<Run>>> = Arc::default();
        let timed = Timed {
            clock: clock.clone(),
            dice: Arc::new(Mutex::new(Dice(id))),
            every: interval,
            runs: Arc::clone(&runs),
        };
        let every = minutes(interval);
        let spec = AutomationSpec {
            start_at: Some(start_at),
            ..spec(every)
        };
        let handle = super::super::start(timed, spec, Arc::new(clock.clone()));
        all.push((handle, start_at, every, runs));
    }
    let jumps = jump_for_a_year(&clock, &mut dice).await;
    let mut total = 0;
    for (handle, first_due, every, runs) in all {
        handle.stop().await;
        let end = handle.wait().await;
        assert_eq!(end.state, AutomationState::Stopped);
        let runs = runs.lock().unwrap();
        assert_eq!(usize::try_from(end.runs_completed).unwrap(), runs.len());
        assert!(runs.len() > 2);
        check(first_due, every, &runs, &jumps);
        total += runs.len();
    }
    assert!(total > 25_000, "only {total} runs");
}

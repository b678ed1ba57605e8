//! Many kills under load: what was acknowledged is there, nothing ran twice, nothing is stuck.
//!
//! The invariant here: the parent believes only what a child printed. It drives twenty lanes with
//! adds, direct turns, interrupts, pauses and deletions, kills the child at a random moment or lets
//! it die at a named point, starts the next one on the same database, and repeats every add that
//! was not answered. After some deaths the last child drains all lanes, and everything is checked
//! against what was acknowledged ([`check`]).
//!
//! `TURNLANE_CRASH_ROUNDS` deaths (50 if it is not set), seeded by `TURNLANE_CRASH_SEED`.

mod check;
mod load;

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use turnlane_store::Store;
use turnlane_store::lane::Head;
use turnlane_testkit::Random;

use self::load::{Load, Sent};
use super::child;
use super::serving::{Heard, Place, Serving};

/// How many lanes one database has.
const LANES: usize = 20;
/// After how many deaths a database is drained and checked.
const DEATHS: u32 = 25;
/// How long the last child may need for everything that is left.
const DRAIN_LIMIT: Duration = Duration::from_mins(1);
/// How long a child may live whose point is not reached.
const LIFE_MAX: Duration = Duration::from_millis(400);

const SCRIPT: &str = "
version: 1
turns:
  - match: exec
    steps: [{exec: {cmd: make, output: made, ms: 5}}, {say: made}]
  - match: slow
    steps: [{say: {text: one two three four, chunk: 4, delta_ms: 6}}, {say: done}]
  - match: long
    steps: [{say: first}, {await: {ms: 300}}, {say: last}]
  - match: limit
    times: 1
    steps: [{error: {info: rateLimitExceeded, retry_after_ms: 1}}]
  - match: fail
    steps: [{end: failed}]
fallback: {say: 'You said: {input}'}
";

/// The points that every load reaches often.
const POINTS: &[&str] = &[
    "add-a-queued-turn:before-commit",
    "add-a-queued-turn:after-commit",
    "claim:before-submit",
    "accept:after-commit",
    "engine:before-run",
    "write-what-a-turn-has-produced:before-commit",
    "write-what-a-turn-has-produced:after-commit",
    "put:after-commit",
    "turn:ended",
    "complete-a-turn:before-commit",
    "complete-a-turn:after-commit",
    "complete:after-commit",
    "recover-lanes:before-commit",
    "recover-lanes:after-commit",
    "commit:before",
    "commit:after",
];
/// Those that a load reaches now and then.
const RARE_POINTS: &[&str] = &[
    "interrupt:before-cancel",
    "start-a-turn:before-commit",
    "start-a-turn:after-commit",
    "delete-a-queued-turn:before-commit",
    "delete-a-queued-turn:after-commit",
    "retry-a-queued-turn:before-commit",
    "retry-a-queued-turn:after-commit",
    "pause-a-queue:before-commit",
    "pause-a-queue:after-commit",
    "resume-a-queue:before-commit",
    "resume-a-queue:after-commit",
];
/// Those of a load with hooks.
const HOOK_POINTS: &[&str] = &[
    "claim-a-turn:before-commit",
    "claim-a-turn:after-commit",
    "claim:after-commit",
    "hook:before",
    "accept-a-turn:before-commit",
    "accept-a-turn:after-commit",
];
/// Those of a load without.
const PLAIN_POINTS: &[&str] = &[
    "claim-and-accept-a-turn:before-commit",
    "claim-and-accept-a-turn:after-commit",
];
/// The points of the two kinds of load, each of which is used in turn.
const PLAIN: [&[&str]; 3] = [PLAIN_POINTS, POINTS, RARE_POINTS];
const HOOKED: [&[&str]; 3] = [HOOK_POINTS, POINTS, RARE_POINTS];

/// What stands between claim and acceptance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hooks {
    None,
    Go,
}

/// How a child dies.
#[derive(Clone, Debug)]
enum Death {
    /// So long after it was started, whether it serves by then or not.
    SoonAfterStart(Duration),
    /// So long after it began to serve.
    WhileServing(Duration),
    /// By itself, at a point.
    At(String),
}

/// What was seen in all rounds.
#[derive(Debug, Default)]
struct Figures {
    deaths: u32,
    at_points: BTreeMap<String, u32>,
    points_missed: u32,
    before_serving: u32,
    adds: usize,
    repeated: usize,
    turns: usize,
    calls: usize,
    interrupted_by_death: usize,
    retried: usize,
    deleted: usize,
    drain_max: Duration,
}

#[tokio::test]
#[expect(
    clippy::print_stderr,
    reason = "the figures of a long run are read by people"
)]
async fn nothing_acknowledged_is_lost_and_nothing_runs_twice_whenever_a_worker_is_killed() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let rounds: u64 = number("TURNLANE_CRASH_ROUNDS").unwrap_or(50);
    let seed: u64 = number("TURNLANE_CRASH_SEED").unwrap_or(1);
    let mut figures = Figures::default();
    let (plain, hooked) = (PLAIN.concat(), HOOKED.concat());
    let (mut plain, mut hooked) = (
        plain.iter().copied().cycle(),
        hooked.iter().copied().cycle(),
    );
    let mut episode = 0;
    while u64::from(figures.deaths) < rounds {
        let left = u32::try_from(rounds).unwrap() - figures.deaths;
        let deaths = left.min(DEATHS);
        let random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(episode));
        let context = format!("TURNLANE_CRASH_SEED={seed}, database {episode}");
        let (hooks, points) = if episode % 2 == 0 {
            (Hooks::None, &mut plain)
        } else {
            (Hooks::Go, &mut hooked)
        };
        let rounds = Rounds::new(random, context, hooks).await;
        rounds.run(deaths, points, &mut figures).await;
        episode += 1;
    }
    eprintln!("{figures:#?}");
}

/// The rounds on one database.
struct Rounds {
    place: Place,
    load: Load,
    random: Random,
    context: String,
    hooks: Hooks,
}

impl Rounds {
    async fn new(random: Random, context: String, hooks: Hooks) -> Self {
        let place = Place::new();
        let mut maker = place.start(place.child(SCRIPT));
        assert!(maker.ready().await, "{context}");
        let mut threads = Vec::new();
        for _ in 0..LANES {
            threads.push(maker.done("thread").await.parse().unwrap());
        }
        maker.stop().await;
        Self {
            place,
            load: Load::new(threads),
            random,
            context,
            hooks,
        }
    }

    async fn run(
        mut self,
        deaths: u32,
        points: &mut impl Iterator<Item = &'static str>,
        figures: &mut Figures,
    ) {
        for round in 0..deaths {
            let death = self.death(round, points);
            self.round(&death, figures).await;
            figures.deaths += 1;
        }
        let drained = self.drain().await;
        figures.drain_max = figures.drain_max.max(drained);
        check::everything(&self.place, &self.load, &self.context, figures).await;
    }

    fn death(&mut self, round: u32, points: &mut impl Iterator<Item = &'static str>) -> Death {
        let random = &mut self.random;
        if round % 2 == 1 {
            let point = points.next().unwrap();
            let most = if RARE_POINTS.contains(&point) { 1 } else { 6 };
            return Death::At(format!("{point}:{}", 1 + random.below(most)));
        }
        let mut millis = |most: usize| Duration::from_micros(random.below(most * 1_000) as u64);
        if round.is_multiple_of(10) {
            Death::SoonAfterStart(millis(80))
        } else {
            Death::WhileServing(millis(250))
        }
    }

    fn start(&self, death: Option<&Death>) -> Serving {
        let mut spec = self.place.child(SCRIPT);
        if self.hooks == Hooks::Go {
            spec = spec.env(child::HOOKS, "go");
        }
        if let Some(Death::At(point)) = death {
            spec = spec.env("TURNLANE_CRASH_AT", point);
        }
        self.place.start(spec)
    }

    /// One life and death of a child.
    async fn round(&mut self, death: &Death, figures: &mut Figures) {
        let started = Instant::now();
        let mut child = self.start(Some(death));
        if let Death::SoonAfterStart(life) = death {
            // Kept in the log of the parent only if it was heard; nothing is asked of it.
            while !child.is_gone() && child.hear_until(started + *life).await.is_some() {}
            child.kill().await;
            figures.before_serving += 1;
            return;
        }
        if child.ready().await {
            let life = match death {
                Death::WhileServing(life) => *life,
                Death::At(_) | Death::SoonAfterStart(_) => LIFE_MAX,
            };
            self.live(&mut child, Instant::now() + life).await;
        }
        let by_itself = child.is_gone();
        let rest = if by_itself {
            child.dies().await
        } else {
            child.kill().await
        };
        for heard in rest {
            self.load.heard(heard);
        }
        self.load.forget_unanswered();
        match death {
            Death::At(point) if by_itself => {
                let (name, _) = point.rsplit_once(':').unwrap();
                *figures.at_points.entry(name.to_owned()).or_default() += 1;
            }
            Death::At(_) => figures.points_missed += 1,
            Death::SoonAfterStart(_) | Death::WhileServing(_) => {
                assert!(!by_itself, "{}: a child died by itself", self.context);
            }
        }
    }

    /// Gives a child work until it is time to die, or it has died.
    async fn live(&mut self, child: &mut Serving, until: Instant) {
        for command in self.load.repeats() {
            self.send(child, command).await;
        }
        self.heal(child).await;
        while !child.is_gone() && Instant::now() < until {
            let command = self.load.next(&mut self.random, &self.place).await;
            self.send(child, command).await;
            let pause = Duration::from_micros(self.random.below(4_000) as u64);
            self.hear(child, until.min(Instant::now() + pause)).await;
        }
    }

    async fn send(&mut self, child: &mut Serving, command: Option<Sent>) {
        if let Some(sent) = command {
            let number = child.send(&sent.line).await;
            self.load.sent(number, sent);
        }
    }

    async fn hear(&mut self, child: &mut Serving, until: Instant) {
        while !child.is_gone() {
            match child.hear_until(until).await {
                Some(heard) => self.load.heard(heard),
                None => return,
            }
        }
    }

    /// Retries or deletes failed heads, as a person would.
    async fn heal(&mut self, child: &mut Serving) {
        for lane in 0..LANES {
            let thread = self.load.threads[lane].as_uuid().into();
            let view = self.place.store.look(thread).await.unwrap();
            if let Head::Failed { row, .. } = view.head {
                let command = self.load.heal(&mut self.random, lane, row);
                self.send(child, command).await;
            }
        }
    }

    /// Lets a last child run everything that is left; how long it took.
    async fn drain(&mut self) -> Duration {
        let mut child = self.start(None);
        assert!(child.ready().await, "{}", self.context);
        for command in self.load.repeats() {
            self.send(&mut child, command).await;
        }
        for lane in 0..LANES {
            let command = self.load.resume(lane);
            self.send(&mut child, Some(command)).await;
        }
        let started = Instant::now();
        loop {
            self.hear(&mut child, Instant::now() + Duration::from_millis(20))
                .await;
            assert!(!child.is_gone(), "{}: the last child died", self.context);
            self.heal(&mut child).await;
            let left = self.left().await;
            if left.is_empty() && self.load.is_answered() {
                break;
            }
            assert!(
                started.elapsed() < DRAIN_LIMIT,
                "{}: stuck: {left:#?}",
                self.context
            );
        }
        let drained = started.elapsed();
        child.stop().await;
        drained
    }

    /// Lanes in which something waits or runs.
    async fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for thread in &self.load.threads {
            let lane = self
                .place
                .store
                .look(thread.as_uuid().into())
                .await
                .unwrap();
            if lane.depth > 0 || lane.active.is_some() {
                left.push(format!("{lane:?}"));
            }
        }
        left
    }
}

/// What is heard besides answers means nothing to the load.
impl Load {
    fn heard(&mut self, heard: Heard) {
        if let Heard::Answer(number, answer) = heard {
            self.answered(number, answer);
        }
    }
}

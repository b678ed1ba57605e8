//! Runs a list of steps on a store and on the reference, and compares after each of them.
//!
//! The invariant here: a run is decided by its steps alone. It ends with the first difference, in
//! words; it never panics for one, so that shrinking is quiet.

use turnlane_store::lane::LaneView;
use turnlane_store::recovery::{FoundFate, Whose};
use turnlane_store::thread::NewThread;
use turnlane_store::{RowId, ThreadId};

use super::invariants::{self, Seen};
use super::lane::Lane;
use super::op::{End, Op, ask, plain, plain_lane};
use super::picture::Picture;
use super::step::{Event, Step};
use super::world::{MAX_DEPTH, WORKERS, World};
use crate::build::{Db, Hand, new_thread, recover};

/// A database for one run after the other, and somebody who only looks on.
///
/// Opening costs more than a run, so the next run begins with the database that the last one left,
/// all its workers dead: what they had must be recovered before their threads can be deleted.
pub(crate) struct Bench {
    db: Db,
    observer: Hand,
}

impl Bench {
    pub(crate) async fn new(db: Db) -> Self {
        let observer = db.open("observer").await;
        Self { db, observer }
    }

    /// Runs the steps; what differed first, if something did. Then the bench is of no more use.
    pub(crate) async fn run(&self, steps: &[Step]) -> Result<(), String> {
        let mut run = Run::begin(self).await;
        for (nth, step) in steps.iter().enumerate() {
            let event = step.event(&mut run.world);
            let told = format!("step {nth}, {event:?}");
            let step = run.step(event).await;
            step.map_err(|why| format!("{told}: {why}"))?;
        }
        let end = run.end(steps.len() % WORKERS).await;
        end.map_err(|why| format!("at the end: {why}"))
    }
}

/// One run: its workers and what should be in the database.
struct Run<'a> {
    bench: &'a Bench,
    world: World,
    hands: Vec<Hand>,
    /// What was last seen of each lane.
    pictures: Vec<Picture>,
}

impl<'a> Run<'a> {
    async fn begin(bench: &'a Bench) -> Self {
        let world = World::new();
        let mut hands = Vec::new();
        for worker in &world.open {
            hands.push(bench.db.open_as(*worker).await);
        }
        let mut pictures = Vec::new();
        for lane in &world.lanes {
            let thread = NewThread {
                id: lane.thread,
                max_depth: MAX_DEPTH,
                ..new_thread("")
            };
            hands[0].create_thread(thread).await.unwrap();
            let picture = Picture::of(&bench.observer, lane.thread, &[], None);
            pictures.push(picture.await);
        }
        Self {
            bench,
            world,
            hands,
            pictures,
        }
    }

    /// Looks at everything once more, with the eyes of one of the workers; then all die, and the
    /// observer clears up.
    async fn end(mut self, slot: usize) -> Result<(), String> {
        let (me, hand) = (self.world.open[slot], &self.hands[slot]);
        let ready = hand.ready(self.world.now_ms, 100).await.unwrap();
        for lane in &self.world.lanes {
            let rows: Vec<RowId> = lane.rows.keys().copied().collect();
            let last = Picture::of(hand, lane.thread, &rows, None).await;
            same_lane(&last, lane, &lane.view(me))?;
            invariants::liveness(&last, me, self.world.now_ms, &ready)?;
        }
        for hand in self.hands.drain(..) {
            self.bench.db.kill(hand).await;
        }
        let observer = &self.bench.observer;
        let all = recover(Whose::Dead, FoundFate::Done);
        observer
            .recover(all)
            .await
            .map_err(|error| error.to_string())?;
        for lane in &self.world.lanes {
            let deleted = observer.delete_thread(lane.thread).await;
            deleted.map_err(|error| format!("cannot be deleted: {error}"))?;
        }
        Ok(())
    }

    async fn step(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Kill(slot) => {
                let hand = self.hands.remove(slot);
                self.bench.db.kill(hand).await;
                let worker = self.world.replace(slot);
                self.hands.insert(slot, self.bench.db.open_as(worker).await);
                self.compare_all(None, &End::Nothing).await
            }
            Event::Close(slot) => {
                self.hands[slot].close().await.unwrap();
                let worker = self.world.close(slot);
                self.hands[slot] = self.bench.db.open_as(worker).await;
                self.compare_all(None, &End::Nothing).await
            }
            Event::Ask(slot, op) => self.ask(slot, *op).await,
        }
    }

    async fn ask(&mut self, slot: usize, op: Op) -> Result<(), String> {
        let me = self.world.open[slot];
        let expected = self.world.apply(me, &op);
        let answer = ask(&self.hands[slot], op.clone()).await;
        same("the end", &answer.end, &expected)?;
        for lane in answer.lanes {
            let model = self.world.lane(lane.thread).view(me);
            same("the lane shown", &plain_lane(lane), &model)?;
        }
        match thread_of(&op) {
            Some(thread) => self.compare(thread, Some(&op), &expected).await,
            None => self.compare_all(Some(&op), &expected).await,
        }
    }

    async fn compare_all(&mut self, op: Option<&Op>, end: &End) -> Result<(), String> {
        let threads: Vec<_> = self.world.lanes.iter().map(|lane| lane.thread).collect();
        for thread in threads {
            self.compare(thread, op, end).await?;
        }
        Ok(())
    }

    /// Compares one lane with the reference and looks at the invariants.
    async fn compare(
        &mut self,
        thread: ThreadId,
        op: Option<&Op>,
        end: &End,
    ) -> Result<(), String> {
        let index = self
            .world
            .lanes
            .iter()
            .position(|lane| lane.thread == thread);
        let index = index.unwrap();
        let (lane, observer) = (&self.world.lanes[index], &self.bench.observer);
        let rows: Vec<RowId> = lane.rows.keys().copied().collect();
        let before = &self.pictures[index];
        let after = Picture::of(observer, thread, &rows, Some(before)).await;
        let me = observer.worker();
        same_lane(&after, lane, &lane.view(me))?;
        let seen = Seen {
            before,
            op,
            end,
            after: &after,
        };
        invariants::check(&seen)?;
        let ready = observer.ready(self.world.now_ms, 100).await.unwrap();
        invariants::liveness(&after, me, self.world.now_ms, &ready)?;
        self.pictures[index] = after;
        Ok(())
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what} is\n{found:#?}\ninstead of\n{expected:#?}"))
}

fn same_lane(found: &Picture, lane: &Lane, view: &LaneView) -> Result<(), String> {
    same("the lane", &plain_lane(found.lane.clone()), view)?;
    let queue: Vec<_> = found.queue.iter().map(|row| row.id).collect();
    same("the queue", &queue, &lane.visible)?;
    let rows: Vec<_> = found.rows.iter().cloned().map(plain).collect();
    let expected: Vec<_> = lane.rows.values().cloned().map(plain).collect();
    same("the rows", &rows, &expected)?;
    same("the turns", &found.turns, &lane.turns)?;
    same("the items", &found.items, &lane.items)
}

/// The one lane that an operation concerns, unless it is several.
fn thread_of(op: &Op) -> Option<ThreadId> {
    match op {
        Op::Append(append) => Some(append.thread),
        Op::Update(update) => Some(update.thread),
        Op::Move(to) => Some(to.thread),
        Op::Delete(thread, ..)
        | Op::Reorder(thread, ..)
        | Op::Retry(thread, ..)
        | Op::Pause(thread, _)
        | Op::Resume(thread, _)
        | Op::Start(thread, ..)
        | Op::Take(thread) => Some(*thread),
        Op::Claim(claim) | Op::Begin(claim, _) => Some(claim.thread),
        Op::Accept(grip, ..)
        | Op::Unclaim(grip, ..)
        | Op::MarkSent(grip, ..)
        | Op::Steer(grip, _)
        | Op::Put(grip, _)
        | Op::Decide(grip, ..)
        | Op::Release(grip) => Some(grip.thread),
        Op::Complete(complete) => Some(complete.grip.thread),
        Op::Recover(..) => None,
    }
}

//! Runs a list of steps on a store and on the reference, and compares after each of them.
//!
//! The invariant here: a run is decided by its steps alone. It ends with the first difference, in
//! words; it never panics for one, so that shrinking is quiet.

use turnlane_store::lane::LaneView;
use turnlane_store::thread::NewThread;
use turnlane_store::{RowId, ThreadId};

use super::invariants::{self, Seen};
use super::lane::Lane;
use super::op::{End, Op, ask, plain, plain_lane};
use super::picture::Picture;
use super::step::{Event, Step};
use super::world::{MAX_DEPTH, World};
use crate::build::{Db, Hand, new_thread};

/// A database and what should be in it.
struct Run {
    db: Db,
    world: World,
    hands: Vec<Hand>,
    /// What was last seen of each lane.
    pictures: Vec<Picture>,
}

/// Runs the steps on a new database; what differed first, if something did.
pub(crate) async fn run(db: Db, steps: &[Step]) -> Result<(), String> {
    let mut run = Run::begin(db).await;
    for (nth, step) in steps.iter().enumerate() {
        let event = step.event(&mut run.world);
        let told = format!("step {nth}, {event:?}");
        let step = run.step(event).await;
        step.map_err(|why| format!("{told}: {why}"))?;
    }
    Ok(())
}

impl Run {
    async fn begin(db: Db) -> Self {
        let world = World::new();
        let mut hands = Vec::new();
        for worker in &world.open {
            hands.push(db.open_as(*worker).await);
        }
        let mut pictures = Vec::new();
        for lane in &world.lanes {
            let thread = NewThread {
                id: lane.thread,
                max_depth: MAX_DEPTH,
                ..new_thread("")
            };
            hands[0].create_thread(thread).await.unwrap();
            pictures.push(Picture::of(&hands[0], lane.thread, &[]).await);
        }
        Self {
            db,
            world,
            hands,
            pictures,
        }
    }

    async fn step(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Kill(slot) => {
                let hand = self.hands.remove(slot);
                self.db.kill(hand).await;
                let worker = self.world.replace(slot);
                self.hands.insert(slot, self.db.open_as(worker).await);
                self.compare_all(slot, None, &End::Nothing).await
            }
            Event::Close(slot) => {
                self.hands[slot].close().await.unwrap();
                let worker = self.world.close(slot);
                self.hands[slot] = self.db.open_as(worker).await;
                self.compare_all(slot, None, &End::Nothing).await
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
            Some(thread) => self.compare(slot, thread, Some(&op), &expected).await,
            None => self.compare_all(slot, Some(&op), &expected).await,
        }
    }

    async fn compare_all(&mut self, slot: usize, op: Option<&Op>, end: &End) -> Result<(), String> {
        let threads: Vec<_> = self.world.lanes.iter().map(|lane| lane.thread).collect();
        for thread in threads {
            self.compare(slot, thread, op, end).await?;
        }
        Ok(())
    }

    /// Compares one lane with the reference and looks at the invariants.
    async fn compare(
        &mut self,
        slot: usize,
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
        let (lane, hand) = (&self.world.lanes[index], &self.hands[slot]);
        let rows: Vec<RowId> = lane.rows.keys().copied().collect();
        let after = Picture::of(hand, thread, &rows).await;
        let me = self.world.open[slot];
        same_lane(&after, lane, &lane.view(me))?;
        // Whoever looks, only the head bound elsewhere looks different.
        let mut before = self.pictures[index].clone();
        if visible_to_all(&before, &after) {
            before.lane.head = after.lane.head.clone();
        }
        let seen = Seen {
            before: &before,
            op,
            end,
            after: &after,
        };
        invariants::check(&seen)?;
        let ready = hand.ready(self.world.now_ms, 100).await.unwrap();
        invariants::liveness(&after, me, self.world.now_ms, &ready)?;
        self.pictures[index] = after;
        Ok(())
    }
}

/// Whether two pictures have the same head, which each worker may see differently.
fn visible_to_all(before: &Picture, after: &Picture) -> bool {
    before.queue.first() == after.queue.first()
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
    let expected: Vec<_> = lane.rows.values().cloned().collect();
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

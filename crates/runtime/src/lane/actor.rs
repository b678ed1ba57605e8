//! The task of one loaded lane: turns what comes in into events, and effects into deeds.
//!
//! This file owns the loop. The invariant: everything about a thread passes through this one task in
//! one order, so a turn that was just accepted cannot be invisible to the next request. The task
//! waits for room in the store's queue and for reads, never for a commit.
//!
//! The rules are in [`super::state`]; the deeds are in `actor/`.
//!
//! Theory of operation. Inputs, looked at in this order: results of submitted operations (at most
//! [`OPS_MAX`] under way, then nothing else is taken in), commands of clients ([`COMMANDS_MAX`],
//! then whoever asks waits), what the engine says (bounded by its channel, then the engine waits),
//! then slot, hooks, the answer of an engine about a dead worker's turn, reads, wake-ups and the timer, one each. The task ends when the rules say
//! `Unload`; commands that came too late are given to a task loaded anew.

mod answers;
mod closing;
mod commands;
mod completion;
mod effects;
mod given;
mod holds;
mod input;
mod joining;
mod reconciling;
mod results;
mod said;
mod telling;
mod unreviewed;
mod warned;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;
use turnlane_engine::{BoxFuture, Reconciled, TurnKind};
use turnlane_store::lane::LaneView;
use turnlane_store::queue::ClaimedRow;
use turnlane_store::turn::{AcceptedTurn, Complete};
use turnlane_store::{ThreadId, Work};

use self::answers::Pending;
use self::completion::EndedTurn;
use self::input::Input;
use self::joining::Joined;
use self::reconciling::AskedTurn;
use self::results::Done;
use super::accept::ReadParams;
use super::approvals::SessionAccepts;
use super::close::CloseOp;
use super::command::{BegunTurn, Command, Reply};
use super::event::{Event, Now, RequestNo, Unload, Wake};
use super::face::Face;
use super::hold::Hold;
use super::past::{KnownPast, Reading};
use super::reconcile::UndecidedTurn;
use super::state::{LaneOptions, LaneState};
use super::subscribers::Subscribers;
use super::turn::RunningTurn;
use crate::fanout::board::RunningPlace;
use crate::ids;
use crate::options::BeforeTurnVerdict;
use crate::shared::Shared;
use warned::Warned;

/// How many operations of one lane are under way at most.
const OPS_MAX: usize = 256;
/// How many commands wait for one lane at most; then whoever asks waits.
pub(crate) const COMMANDS_MAX: usize = 256;

/// Who is told the news of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Audience {
    /// Its subscribers and those who watch all threads.
    Everybody,
    /// Its subscribers alone: it works on a fan-out item.
    Subscribers,
}

/// The task of one lane; see the module.
pub(crate) struct Actor {
    thread: ThreadId,
    shared: Arc<Shared>,
    commands: mpsc::Receiver<Command>,
    face: Arc<Face>,
    state: LaneState,
    /// Events that deeds have caused, not yet applied.
    events: VecDeque<Event>,
    /// Operations under way, in the order they were submitted, which is the order they end in.
    ops: VecDeque<BoxFuture<'static, Done>>,
    requests: HashMap<RequestNo, Pending>,
    next_request: u64,
    /// A turn that has begun in the store and is not announced or run yet.
    began: Option<Box<AcceptedTurn>>,
    /// A turn that another transaction has begun, not yet taken over.
    given: Option<Box<BegunTurn>>,
    /// The place of the fan-out item that runs here.
    place: Option<RunningPlace>,
    /// Who is told the news of the thread.
    audience: Audience,
    claimed: Option<Box<ClaimedRow>>,
    claimed_for: Option<RequestNo>,
    /// Why hooks blocked the claimed row.
    blocked: Option<String>,
    running: Option<Box<RunningTurn>>,
    /// The end that is being committed, for when it has to be submitted again.
    closing: Option<Box<Complete>>,
    ended: Option<Box<EndedTurn>>,
    slot_wait: Option<BoxFuture<'static, OwnedSemaphorePermit>>,
    slot: Option<OwnedSemaphorePermit>,
    hooks: Option<BoxFuture<'static, BeforeTurnVerdict>>,
    /// The params of the claimed row, where they were read before its acceptance.
    read_params: Arc<Mutex<Option<ReadParams>>>,
    look: Option<Work<LaneView>>,
    /// A turn that a dead worker left and that the engine is not asked about yet.
    undecided: Option<Box<UndecidedTurn>>,
    /// The answer of the engine to come.
    asking: Option<BoxFuture<'static, Reconciled>>,
    /// What is known of the turn that the engine is asked about.
    asked: Option<AskedTurn>,
    /// The history for the turn that is being accepted.
    history: Option<Reading>,
    known: KnownPast,
    joins: Vec<BoxFuture<'static, Box<Joined>>>,
    subscribers: Subscribers,
    unattended_since: Option<Instant>,
    session: SessionAccepts,
    warned: Warned,
    /// The holds that subscribers were told of and that still hold.
    told_holds: Vec<Hold>,
    /// What the turn that began last is for.
    turn_kind: TurnKind,
    /// What is done with the thread when the task ends.
    closes: Vec<(CloseOp, Reply<()>)>,
    /// The worker stops and has no time.
    haste: bool,
    /// A second signal stops the worker: the rules of a crash count.
    forced: bool,
    /// The last known picture, for what is told about the queue.
    lane: Option<LaneView>,
    queue_changed: bool,
    /// How many waits in a row this lane has had.
    waits: u32,
    loaded_at: Instant,
    idle_since: Instant,
    wake_at: Wake,
    unload: Option<Unload>,
}

impl Actor {
    pub(crate) fn new(
        thread: ThreadId,
        shared: Arc<Shared>,
        commands: mpsc::Receiver<Command>,
        face: Arc<Face>,
        slot: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let options = LaneOptions {
            unload_after: shared.options.unload_after,
        };
        let state = match slot {
            Some(_) => LaneState::with_slot(options),
            None => LaneState::new(options),
        };
        let now = Instant::now();
        // Any new id will do: it only has to differ from that of the last load.
        let epoch = ids::new_row(shared.clock.now_ms()).to_string();
        Self {
            thread,
            commands,
            face,
            state,
            events: VecDeque::new(),
            ops: VecDeque::new(),
            requests: HashMap::new(),
            next_request: 0,
            began: None,
            given: None,
            place: None,
            audience: Audience::Everybody,
            claimed: None,
            claimed_for: None,
            blocked: None,
            running: None,
            closing: None,
            ended: None,
            slot_wait: None,
            slot,
            hooks: None,
            read_params: Arc::default(),
            look: Some(shared.store.look(thread)),
            undecided: None,
            asking: None,
            asked: None,
            history: None,
            known: KnownPast::default(),
            joins: Vec::new(),
            subscribers: Subscribers::new(
                ids::wire_thread(thread),
                epoch,
                Arc::clone(&shared.remembered),
            ),
            unattended_since: Some(now),
            session: SessionAccepts::default(),
            warned: Warned::default(),
            told_holds: Vec::new(),
            turn_kind: TurnKind::Turn,
            closes: Vec::new(),
            haste: false,
            forced: false,
            lane: None,
            queue_changed: false,
            waits: 0,
            loaded_at: now,
            idle_since: now,
            wake_at: Wake::default(),
            unload: None,
            shared,
        }
    }

    /// Runs the lane until it is unloaded; why it was.
    pub(crate) async fn run(mut self) -> (Unload, mpsc::Receiver<Command>) {
        loop {
            if let Some(why) = self.unload {
                self.end(why).await;
                return (why, self.commands);
            }
            let input = self.next().await;
            self.take_in(input).await;
        }
    }

    async fn take_in(&mut self, input: Input) {
        match input {
            Input::Done(done) => self.finish(*done),
            Input::Command(Some(command)) => self.command(*command).await,
            // The registry is gone: nobody can reach the lane any more.
            Input::Command(None) => self
                .events
                .push_back(Event::Stop(super::event::StopHow::Now)),
            Input::Said(said) => self.hear(said),
            Input::Slot(permit) => {
                self.slot_wait = None;
                self.slot = Some(permit);
                self.events.push_back(Event::Slot);
            }
            Input::Hooked(verdict) => self.hooked(verdict),
            Input::Reconciled(answer) => self.reconciled(*answer),
            Input::Looked(look) => self.looked(*look),
            Input::Joined(joined) => self.join(*joined),
            Input::Wake => {
                if self.look.is_none() {
                    self.look = Some(self.shared.store.look(self.thread));
                }
            }
            Input::Tick => self.tick(),
            Input::TellQueue => self.tell_queue().await,
        }
        self.apply_events().await;
    }

    /// Applies what has happened until nothing new follows from it.
    async fn apply_events(&mut self) {
        while let Some(event) = self.events.pop_front() {
            let now = self.now();
            for effect in self.state.apply(now, event) {
                self.perform(effect).await;
            }
        }
        if !self.state.is_idle() {
            self.idle_since = Instant::now();
        }
    }

    fn now(&self) -> Now {
        Now {
            wall_ms: self.shared.clock.now_ms(),
            mono: self.loaded_at.elapsed(),
        }
    }

    fn now_ms(&self) -> i64 {
        self.shared.clock.now_ms()
    }

    fn request(&mut self, pending: Pending) -> RequestNo {
        self.next_request += 1;
        let request = RequestNo(self.next_request);
        self.requests.insert(request, pending);
        request
    }
}

//! The state machine of a shim: what the lane says in, events for the orchestrator out.
//!
//! Owned here: which of the states of the contract holds, and which events a happening has, in which
//! order. The invariant: [`Machine::apply`] is pure. It has no clock (inputs carry the time), no channel
//! and no store, and it derives nothing from what a model wrote: only typed ends and error kinds count.
//! Every change of the shown state is an event, and every turn of a message that ends has exactly one
//! terminal receipt.
//!
//! How inputs are obtained is the business of [`crate::run`].

mod detail;
mod ends;
mod input;
mod label;
mod messages;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};

pub(crate) use self::detail::{Block, Detail};
pub(crate) use self::input::{
    EngineHealth, Failure, Fate, Input, LaneHold, LaneView, MessageName, Outcome, Receipt, Repeat,
    TurnEnd, TurnStart,
};
use crate::wire::Event;

/// How many receipts a client that joins is told.
pub(crate) const RECEIPTS_MAX: usize = 100;
/// How many ended turns are remembered, so that one that is told twice is reported once.
const ENDED_MAX: usize = 4_096;

/// A message that was accepted and has not begun.
#[derive(Clone, Debug)]
struct Accepted {
    message: MessageName,
    /// The sender was told that it waits.
    waited: bool,
    /// Which try of the message its row is.
    tries: u32,
}

/// The turn that runs.
#[derive(Clone, Debug)]
struct RunningTurn {
    id: String,
    message: Option<MessageName>,
    attempt: u32,
}

/// The states and what they are derived from.
#[derive(Debug)]
pub(crate) struct Machine {
    thread: String,
    engine_name: String,
    detail: Detail,
    /// When the state that v1 shows began, as time since the start of the shim.
    since: Duration,
    turn: Option<RunningTurn>,
    lane: LaneView,
    engine: EngineHealth,
    /// Questions of the running turn that wait for an answer.
    questions: usize,
    is_stalled: bool,
    is_draining: bool,
    last_activity: Duration,
    stall_after: Option<Duration>,
    /// By row.
    accepted: HashMap<String, Accepted>,
    /// The highest attempt that was announced, by message, of messages that may come again.
    attempts: HashMap<String, u32>,
    /// Rows that hold the lane and were reported.
    failed_rows: HashSet<String>,
    ended: VecDeque<String>,
    receipts: VecDeque<Receipt>,
}

impl Machine {
    pub(crate) fn new(stall_after: Option<Duration>) -> Self {
        Self {
            thread: String::new(),
            engine_name: String::new(),
            detail: Detail::Starting,
            since: Duration::ZERO,
            turn: None,
            lane: LaneView::default(),
            engine: EngineHealth::Usable,
            questions: 0,
            is_stalled: false,
            is_draining: false,
            last_activity: Duration::ZERO,
            stall_after,
            accepted: HashMap::new(),
            attempts: HashMap::new(),
            failed_rows: HashSet::new(),
            ended: VecDeque::new(),
            receipts: VecDeque::new(),
        }
    }

    /// Takes one input at the time `now` since the start of the shim; the events it has.
    pub(crate) fn apply(&mut self, now: Duration, input: Input) -> Vec<Event> {
        let mut events = Vec::new();
        match input {
            Input::Ready {
                thread,
                engine,
                health,
                lane,
                version,
            } => {
                self.thread = thread;
                self.engine_name = engine;
                self.engine = health;
                self.lane = lane;
                self.ready(now, &version, &mut events);
            }
            Input::Successor { thread, lane } => {
                self.thread = thread;
                self.lane = lane;
                self.settle(now, "", &mut events);
            }
            Input::Lane(lane) => {
                self.lane = lane;
                self.settle_idle(now, &mut events);
            }
            Input::Engine(health) => {
                self.engine = health;
                self.settle_idle(now, &mut events);
            }
            Input::Accepted {
                message,
                row,
                position,
                tries,
            } => self.accept(message, row, position, tries, &mut events),
            Input::Repeated { message, repeat } => self.repeat(&message, *repeat, &mut events),
            Input::Refused {
                message,
                code,
                reason,
                retryable,
            } => refuse(&message, code, &reason, retryable, &mut events),
            Input::RowFailed {
                row,
                message,
                reason,
                last_turn,
            } => self.row_failed(row, &message, &reason, last_turn.as_deref(), &mut events),
            Input::TurnStarted(start) => self.turn_started(now, *start, &mut events),
            Input::TurnEnded(end) => self.turn_ended(now, *end, &mut events),
            Input::Recovered(end) => self.recovered(&end, &mut events),
            Input::Questions(open) => {
                self.questions = open;
                self.last_activity = now;
                self.shade(now, &mut events);
            }
            Input::Activity => {
                self.last_activity = now;
                if self.is_stalled {
                    self.is_stalled = false;
                    self.shade(now, &mut events);
                }
            }
            Input::Tick => self.tick(now, &mut events),
            Input::Drain => {
                self.is_draining = true;
                if self.turn.is_none() {
                    self.settle(now, "", &mut events);
                } else {
                    self.shade(now, &mut events);
                }
            }
            Input::Dead {
                exit_code,
                reason,
                last_lines,
            } => self.die(now, exit_code, &reason, &last_lines, &mut events),
        }
        events
    }

    pub(crate) fn thread(&self) -> &str {
        &self.thread
    }

    pub(crate) fn engine(&self) -> &EngineHealth {
        &self.engine
    }

    /// Whether the engine can run a turn, as far as the last check and the lane tell.
    pub(crate) fn engine_trouble(&self) -> EngineHealth {
        match (&self.engine, &self.lane.hold) {
            (EngineHealth::Usable, Some(LaneHold::Waiting { kind, .. }))
                if Block::of_kind(kind) == Block::Engine =>
            {
                EngineHealth::Unusable("the lane waits for its engine".to_owned())
            }
            (engine, _) => engine.clone(),
        }
    }

    pub(crate) fn lane(&self) -> &LaneView {
        &self.lane
    }

    /// The turn that runs.
    pub(crate) fn running(&self) -> Option<&str> {
        self.turn.as_ref().map(|turn| turn.id.as_str())
    }

    /// The message of the turn that runs.
    pub(crate) fn running_message(&self) -> Option<&MessageName> {
        self.turn.as_ref()?.message.as_ref()
    }

    /// The message of a row that was accepted here.
    pub(crate) fn message_of(&self, row: &str) -> Option<&MessageName> {
        self.accepted.get(row).map(|accepted| &accepted.message)
    }

    pub(crate) fn has_ended(&self, turn: &str) -> bool {
        self.ended.iter().any(|ended| ended == turn)
    }

    /// When a silent turn counts as stalled.
    pub(crate) fn stall_at(&self) -> Option<Duration> {
        let waits = self.turn.is_some() && self.questions == 0 && !self.is_stalled;
        let after = self.stall_after.filter(|_| waits)?;
        Some(self.last_activity + after)
    }

    /// The answer to `GetState`.
    pub(crate) fn state(&self, now: Duration) -> Event {
        let since = now.saturating_sub(self.since).as_secs();
        Event::new("State")
            .with("state", self.detail.shown(self.turn.is_some()))
            .with("since_secs", since)
            .with("detail", self.detail.to_string())
            .with("queue_depth", self.lane.depth)
            .with_some("blocked_until", self.blocked_until())
    }

    /// The state for `Welcome`.
    pub(crate) fn snapshot(&self, now: Duration) -> Value {
        Value::Object(self.state(now).fields)
    }

    /// The last receipts, oldest first.
    pub(crate) fn receipts(&self) -> Vec<Value> {
        let receipt = |receipt: &Receipt| json!({"id": receipt.id, "attempt": receipt.attempt, "turn_id": receipt.turn, "outcome": receipt.outcome});
        self.receipts.iter().map(receipt).collect()
    }

    fn blocked_until(&self) -> Option<i64> {
        match (&self.detail, &self.lane.hold) {
            (Detail::Blocked(_), Some(LaneHold::Waiting { until_ms, .. })) => {
                until_ms.map(|until| until.div_euclid(1_000))
            }
            _ => None,
        }
    }

    /// That the lane is ours, with what a client has to know of it.
    pub(crate) fn ready_event(&self, version: &str) -> Event {
        Event::new("Ready")
            .with("protocol", 2)
            .with("thread_id", self.thread.as_str())
            .with("engine", self.engine_name.as_str())
            .with("engine_ok", self.engine == EngineHealth::Usable)
            .with("queue_depth", self.lane.depth)
            .with("version", version)
    }

    fn ready(&mut self, now: Duration, version: &str, events: &mut Vec<Event>) {
        if let EngineHealth::Unusable(reason) = &self.engine {
            let error = Event::new("Error")
                .with("command", "startup")
                .with("reason", reason.as_str())
                .with("code", "engine_unavailable");
            events.push(error);
        }
        self.detail = self.derived();
        self.since = now;
        events.push(self.ready_event(version));
        // A client starts from `idle` after `Ready`; an exhausted thread is another state.
        if self.detail == Detail::ContextExhausted {
            let changed = Event::new("StateChanged")
                .with("from", "idle")
                .with("to", self.detail.shown(false))
                .with("summary", "the thread's context is exhausted")
                .with("detail", self.detail.to_string());
            events.push(changed);
        }
        self.announce_block(None, events);
    }

    /// A running turn became silent, or asks, or goes on.
    fn shade(&mut self, now: Duration, events: &mut Vec<Event>) {
        let detail = self.derived();
        self.enter(now, detail, "", None, events);
    }

    /// Takes the state that lane and engine say where no turn runs.
    fn settle(&mut self, now: Duration, summary: &str, events: &mut Vec<Event>) {
        let before = self.detail;
        let detail = self.derived();
        self.enter(now, detail, summary, None, events);
        if before != self.detail {
            if let Detail::Blocked(block) = before {
                let unblocked = Event::v2("Unblocked").with("reason", block.word());
                events.push(unblocked);
            }
            self.announce_block(None, events);
        }
    }

    /// The same, unless a turn runs, whose end settles the state.
    fn settle_idle(&mut self, now: Duration, events: &mut Vec<Event>) {
        if self.turn.is_none() {
            self.settle(now, "", events);
        }
    }

    fn announce_block(&self, message: Option<&MessageName>, events: &mut Vec<Event>) {
        if let Detail::Blocked(block) = self.detail {
            let blocked = Event::v2("Blocked")
                .with("reason", block.word())
                .with_some("until", self.blocked_until())
                .with_some("message_id", message.map(|message| message.id.as_str()));
            events.push(blocked);
        }
    }

    /// Shows a change of state, if it is one.
    fn enter(
        &mut self,
        now: Duration,
        detail: Detail,
        summary: &str,
        message: Option<&MessageName>,
        events: &mut Vec<Event>,
    ) {
        self.enter_from(
            now,
            self.detail.shown(self.turn.is_some()),
            detail,
            summary,
            message,
            events,
        );
    }

    /// The same, where the turn that the former state belonged to is not known any more.
    fn enter_from(
        &mut self,
        now: Duration,
        from: &'static str,
        detail: Detail,
        summary: &str,
        message: Option<&MessageName>,
        events: &mut Vec<Event>,
    ) {
        let to = detail.shown(self.turn.is_some());
        if from == to && self.detail == detail {
            return;
        }
        let changed = Event::new("StateChanged")
            .with("from", from)
            .with("to", to)
            .with("summary", summary)
            .with("detail", detail.to_string())
            .with_some("message_id", message.and_then(MessageName::echoed));
        if from == to {
            // Clients of v1 would read a change from one state to the same.
            events.push(Event {
                reach: crate::wire::Reach::V2,
                ..changed
            });
        } else {
            self.since = now;
            events.push(changed);
        }
        self.detail = detail;
    }

    /// The state that follows from what is known.
    fn derived(&self) -> Detail {
        if self.detail == Detail::Dead {
            return Detail::Dead;
        }
        if self.is_draining {
            return Detail::Draining;
        }
        if self.turn.is_some() {
            return match (self.questions > 0, self.is_stalled) {
                (true, _) => Detail::Waiting,
                (false, true) => Detail::Stalled,
                (false, false) => Detail::Working,
            };
        }
        if matches!(self.engine, EngineHealth::Unusable(_)) {
            return Detail::Blocked(Block::Engine);
        }
        match &self.lane.hold {
            None => Detail::Idle,
            Some(LaneHold::Exhausted) => Detail::ContextExhausted,
            Some(LaneHold::Paused) => Detail::Blocked(Block::Paused),
            Some(LaneHold::FailedHead) => Detail::Blocked(Block::FailedHead),
            Some(LaneHold::Waiting { kind, .. }) => Detail::Blocked(Block::of_kind(kind)),
        }
    }

    fn tick(&mut self, now: Duration, events: &mut Vec<Event>) {
        let Some(at) = self.stall_at().filter(|at| *at <= now) else {
            return;
        };
        let after = self.stall_after.unwrap_or_default();
        let silent = now.saturating_sub(at) + after;
        self.is_stalled = true;
        let secs = silent.as_secs();
        let warning = Event::new("Warning")
            .with("message", format!("no output from the agent for {secs} s"))
            .with("idle_secs", secs);
        events.push(warning);
        let turn = self.running().map(str::to_owned);
        let stalled = Event::v2("Stalled").with("silent_secs", secs);
        events.push(stalled.with_some("turn_id", turn));
        self.shade(now, events);
    }

    fn die(
        &mut self,
        now: Duration,
        exit_code: Option<i32>,
        reason: &str,
        last_lines: &str,
        events: &mut Vec<Event>,
    ) {
        let from = self.detail.shown(self.turn.is_some());
        self.turn = None;
        self.enter_from(now, from, Detail::Dead, reason, None, events);
        let died = Event::new("Died")
            .with("exit_code", exit_code.map_or(Value::Null, Value::from))
            .with("last_lines", last_lines)
            .with("reason", reason);
        events.push(died);
    }

    fn remember_end(&mut self, turn: &str) {
        self.ended.push_back(turn.to_owned());
        if self.ended.len() > ENDED_MAX {
            self.ended.pop_front();
        }
    }

    fn record(&mut self, receipt: Receipt) {
        self.receipts.push_back(receipt);
        if self.receipts.len() > RECEIPTS_MAX {
            self.receipts.pop_front();
        }
    }
}

fn refuse(
    message: &MessageName,
    code: &'static str,
    reason: &str,
    retryable: bool,
    events: &mut Vec<Event>,
) {
    if message.is_given {
        let failed = Event::new("DeliveryFailed")
            .with("id", message.id.as_str())
            .with("reason", reason)
            .with("code", code)
            .with("retryable", retryable);
        events.push(failed);
    } else {
        let error = Event::new("Error")
            .with("command", "SendMessage")
            .with("reason", reason)
            .with("code", code);
        events.push(error);
    }
    let rejected = Event::v2("MessageRejected")
        .with("id", message.id.as_str())
        .with("code", code)
        .with("reason", reason)
        .with("retryable", retryable);
    events.push(rejected);
}

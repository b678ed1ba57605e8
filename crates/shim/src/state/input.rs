//! What the state machine is told.

use serde_json::Value;

/// One happening.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// The lane is ours.
    Ready {
        thread: String,
        engine: String,
        health: EngineHealth,
        lane: LaneView,
        version: String,
    },
    /// Another thread took the lane's place.
    Successor {
        thread: String,
        lane: LaneView,
    },
    /// The queue is another one.
    Lane(LaneView),
    /// The engine was checked again.
    Engine(EngineHealth),
    /// A message is on disk.
    Accepted {
        message: MessageName,
        row: String,
        /// How many rows stand in front of it.
        position: u32,
        /// Which try of the message the row is, by the sender's wish.
        tries: u32,
    },
    /// A message that was sent before needs no second run.
    Repeated {
        message: MessageName,
        repeat: Box<Repeat>,
    },
    /// A message was not accepted.
    Refused {
        message: MessageName,
        code: &'static str,
        reason: String,
        retryable: bool,
    },
    /// A row could not be started, or its outcome is unknown, and it holds the lane.
    RowFailed {
        row: String,
        message: MessageName,
        reason: String,
        last_turn: Option<String>,
    },
    TurnStarted(Box<TurnStart>),
    TurnEnded(Box<TurnEnd>),
    /// A turn that ended while no shim was there.
    Recovered(Box<TurnEnd>),
    /// How many questions of the running turn wait for an answer.
    Questions(usize),
    /// The engine said something.
    Activity,
    /// Time has passed.
    Tick,
    /// No further turn begins.
    Drain,
    /// Everything has ended.
    Dead {
        exit_code: Option<i32>,
        reason: String,
        last_lines: String,
    },
}

/// The name of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MessageName {
    pub(crate) id: String,
    /// False for an id of ours, which v1 does not echo.
    pub(crate) is_given: bool,
}

impl MessageName {
    /// The id, where the sender gave it.
    pub(crate) fn echoed(&self) -> Option<&str> {
        self.is_given.then_some(self.id.as_str())
    }
}

/// Whether the engine can run a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EngineHealth {
    Usable,
    /// Why not.
    Unusable(String),
}

/// What a queue says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaneView {
    pub(crate) depth: u32,
    pub(crate) hold: Option<LaneHold>,
}

/// What keeps a queue from going on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LaneHold {
    /// The shim paused it because its thread is exhausted.
    Exhausted,
    Paused,
    FailedHead,
    Waiting {
        kind: String,
        until_ms: Option<i64>,
    },
}

/// A turn that has begun and is on disk.
#[derive(Clone, Debug)]
pub(crate) struct TurnStart {
    pub(crate) turn: String,
    pub(crate) row: Option<String>,
    /// None for a turn of another client.
    pub(crate) message: Option<MessageName>,
    /// Which try of its message it is, as far as its row knows.
    pub(crate) attempt: u32,
    /// It ran before this shim was there.
    pub(crate) is_found: bool,
    /// When it began, in seconds since 1970, where that was read.
    pub(crate) started_at: Option<i64>,
}

/// A turn that has ended.
#[derive(Clone, Debug)]
pub(crate) struct TurnEnd {
    pub(crate) turn: String,
    /// Its thread, where it is not the present one of the lane.
    pub(crate) former_thread: Option<String>,
    /// The row that it was the turn of.
    pub(crate) row: Option<String>,
    pub(crate) message: Option<MessageName>,
    pub(crate) attempt: u32,
    pub(crate) outcome: Outcome,
    /// What became of the row.
    pub(crate) fate: Fate,
    /// The text of the last agent message.
    pub(crate) response: String,
    /// The counts of turn and thread as JSON, null where they are unknown.
    pub(crate) usage: Value,
    /// The queue after the end, where it was looked at.
    pub(crate) lane: Option<LaneView>,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Completed,
    Failed(Failure),
    Interrupted(Failure),
}

/// Why a turn failed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Failure {
    /// The word of the error kind.
    pub(crate) kind: String,
    pub(crate) message: String,
    /// When the provider said that trying again makes sense, in seconds since 1970.
    pub(crate) retry_at: Option<i64>,
    /// The engine or its worker died, and what the turn has done is not known.
    pub(crate) is_unknown: bool,
}

/// What became of a turn's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    /// It waits at the head and runs again.
    PutBack,
    /// It holds the lane.
    Holds,
}

/// How far a message that was sent again had come.
#[derive(Clone, Debug)]
pub(crate) enum Repeat {
    Waiting { position: u32 },
    Running { turn: String },
    Completed(Box<TurnEnd>),
}

/// The terminal receipt of a message.
#[derive(Clone, Debug)]
pub(crate) struct Receipt {
    pub(crate) id: String,
    pub(crate) attempt: u32,
    pub(crate) turn: String,
    pub(crate) outcome: &'static str,
}

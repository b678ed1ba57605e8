//! The cases about turns that run, end, or are put back.
//!
//! The invariant here: items that were written are kept, the model is not called again unless the
//! row's policy or the put-back rule says so.

use super::{At, Case, Last, case};

const MID_STREAM: &[&str] = &[
    "turn a runs: userMessage agentMessage",
    "a started",
    "b queued",
    "called a",
];
const HELD: &[&str] = &[
    "turn a interrupted: userMessage agentMessage",
    "a blocked",
    "b queued",
    "called a",
];

/// Running and ending.
pub(super) const RUN: &[Case] = &[
    Case {
        steps: &[
            "add a block gated",
            "add b block hello",
            "until item agentMessage",
        ],
        left: MID_STREAM,
        rest: HELD,
        ..case(
            "mid-stream, onCrash block: the row holds the lane",
            At::Kill,
        )
    },
    Case {
        steps: &[
            "add a continue gated",
            "add b block hello",
            "until item agentMessage",
        ],
        left: MID_STREAM,
        rest: &[
            "turn a interrupted: userMessage agentMessage",
            "turn b completed: userMessage agentMessage",
            "a done",
            "b done",
            "called a",
            "called b",
        ],
        ..case("mid-stream, onCrash continue: the next row runs", At::Kill)
    },
    Case {
        steps: &[
            "add a retry gated",
            "add b block hello",
            "until item agentMessage",
        ],
        left: MID_STREAM,
        rest: &[
            "turn a interrupted: userMessage agentMessage",
            "turn a completed: userMessage agentMessage",
            "turn b completed: userMessage agentMessage",
            "a done",
            "b done",
            "called a",
            "called a",
            "called b",
        ],
        ..case("mid-stream, onCrash retry: it runs again, first", At::Kill)
    },
    Case {
        steps: &[
            "start d gated",
            "add b block hello",
            "until item agentMessage",
        ],
        left: &[
            "turn d runs: userMessage agentMessage",
            "d started",
            "b queued",
            "called d",
        ],
        rest: &[
            "turn d interrupted: userMessage agentMessage",
            "turn b completed: userMessage agentMessage",
            "b done",
            "d done",
            "called d",
            "called b",
        ],
        ..case(
            "direct turn mid-stream: history only, the lane goes on",
            At::Kill,
        )
    },
    Case {
        steps: &["add a block command", "until item commandExecution"],
        left: &[
            "turn a runs: userMessage commandExecution",
            "a started",
            "called a",
        ],
        rest: &[
            "turn a interrupted: userMessage commandExecution",
            "a blocked",
            "called a",
        ],
        ..case(
            "command running: interrupted, the completed one is kept",
            At::Kill,
        )
    },
    Case {
        steps: &["add a block gated"],
        last: Last::Either,
        left: &["turn a runs: userMessage", "a started", "called a"],
        rest: &["turn a interrupted: userMessage", "a blocked", "called a"],
        ..case(
            "items, before commit: absent",
            At::Point("write-what-a-turn-has-produced:before-commit"),
        )
    },
    Case {
        steps: &["add a block gated"],
        last: Last::Either,
        left: &[
            "turn a runs: userMessage agentMessage",
            "a started",
            "called a",
        ],
        rest: &[
            "turn a interrupted: userMessage agentMessage",
            "a blocked",
            "called a",
        ],
        ..case(
            "items, after commit: there",
            At::Point("write-what-a-turn-has-produced:after-commit"),
        )
    },
    Case {
        steps: &["add a block gated"],
        last: Last::Either,
        left: &[
            "turn a runs: userMessage agentMessage",
            "a started",
            "called a",
        ],
        rest: &[
            "turn a interrupted: userMessage agentMessage",
            "a blocked",
            "called a",
        ],
        ..case(
            "items committed and known: there",
            At::Point("put:after-commit"),
        )
    },
    Case {
        steps: &[
            "add a block gated",
            "add b block hello",
            "until item agentMessage",
            "gate go",
        ],
        last: Last::Either,
        left: MID_STREAM,
        rest: HELD,
        ..case(
            "turn ended, before its end is submitted: as mid-stream",
            At::Point("turn:ended"),
        )
    },
    Case {
        steps: &[
            "add a block gated",
            "add b block hello",
            "until item agentMessage",
            "gate go",
        ],
        last: Last::Either,
        left: MID_STREAM,
        rest: HELD,
        ..case(
            "turn ended, before complete commit: as mid-stream",
            At::Point("complete-a-turn:before-commit"),
        )
    },
    Case {
        steps: &[
            "add a block gated",
            "add b block hello",
            "until item agentMessage",
            "gate go",
        ],
        last: Last::Either,
        left: &[
            "turn a completed: userMessage agentMessage",
            "a done",
            "b queued",
            "called a",
        ],
        rest: &[
            "turn a completed: userMessage agentMessage",
            "turn b completed: userMessage agentMessage",
            "a done",
            "b done",
            "called a",
            "called b",
        ],
        ..case(
            "complete, after commit: done, the next row runs",
            At::Point("complete-a-turn:after-commit"),
        )
    },
    Case {
        steps: &[
            "add a block gated",
            "add b block hello",
            "until item agentMessage",
            "gate go",
        ],
        last: Last::Either,
        left: &[
            "turn a completed: userMessage agentMessage",
            "a done",
            "b queued",
            "called a",
        ],
        rest: &[
            "turn a completed: userMessage agentMessage",
            "turn b completed: userMessage agentMessage",
            "a done",
            "b done",
            "called a",
            "called b",
        ],
        ..case(
            "complete committed, before notifications: done, the next row runs",
            At::Point("complete:after-commit"),
        )
    },
    Case {
        steps: &["add a block limit"],
        last: Last::Either,
        left: &["turn a runs: userMessage", "a started", "called a"],
        rest: &["turn a interrupted: userMessage", "a blocked", "called a"],
        ..case(
            "put back, before commit: as mid-stream",
            At::Point("complete-a-turn:before-commit"),
        )
    },
    Case {
        steps: &["add a block limit"],
        last: Last::Either,
        left: &[
            "waiting",
            "turn a failed muted: userMessage",
            "a queued",
            "called a",
        ],
        rest: &[
            "turn a failed muted: userMessage",
            "turn a completed: userMessage agentMessage",
            "a done",
            "called a",
            "called a",
        ],
        ..case(
            "put back, after commit: at the head, the lane waits, runs once after it",
            At::Point("complete-a-turn:after-commit"),
        )
    },
];

//! The cases about turns that run, end, are put back or are interrupted.
//!
//! The invariant here: items that were complete are kept, and the model is not asked again unless the
//! row's policy or the put-back rule says so.

use super::{At, Case, Do, Last, case};

/// A turn whose first item is stored, and one behind it.
const MID_STREAM: &[Do] = &[
    Do::Add("a: gated", "block"),
    Do::Add("b: hello", "block"),
    Do::Stored("agentMessage"),
];
const AND_ON: &[Do] = &[
    Do::Add("a: gated", "block"),
    Do::Add("b: hello", "block"),
    Do::Stored("agentMessage"),
    Do::Release,
];
const INTERRUPTED: &[Do] = &[
    Do::Add("a: gated", "block"),
    Do::Add("b: hello", "block"),
    Do::Stored("agentMessage"),
    Do::Interrupt("a: gated", "continue"),
];
const HELD: &[&str] = &[
    "interrupted a: gated = userMessage agentMessage",
    "failed a: gated: queued turn was interrupted because its worker stopped",
    "pending b: hello",
    "asked a: gated",
];
const DONE: &[&str] = &[
    "completed a: gated = userMessage agentMessage",
    "pending b: hello",
    "asked a: gated",
];
const BOTH_DONE: &[&str] = &[
    "completed a: gated = userMessage agentMessage",
    "completed b: hello = userMessage agentMessage",
    "asked a: gated",
    "asked b: hello",
];

/// Running.
pub(super) const RUN: &[Case] = &[
    Case {
        steps: &[
            Do::Add("a: silent", "block"),
            Do::Add("b: hello", "block"),
            Do::Reached,
        ],
        found: &[
            "interrupted a: silent = userMessage",
            "failed a: silent: queued turn was interrupted because its worker stopped",
            "pending b: hello",
            "asked a: silent",
        ],
        rest: &[
            "interrupted a: silent = userMessage",
            "failed a: silent: queued turn was interrupted because its worker stopped",
            "pending b: hello",
            "asked a: silent",
        ],
        ..case("model request sent: the row holds the lane", At::Kill)
    },
    Case {
        steps: &[Do::Add("a: half", "block"), Do::Reached],
        found: &[
            "interrupted a: half = userMessage",
            "failed a: half: queued turn was interrupted because its worker stopped",
            "asked a: half",
        ],
        then: &[Do::Delete("a: half")],
        rest: &["interrupted a: half = userMessage", "asked a: half"],
        ..case("in the middle of an item: it is not kept", At::Kill)
    },
    Case {
        steps: MID_STREAM,
        found: HELD,
        rest: HELD,
        ..case(
            "mid-stream, onCrash block: the row holds the lane",
            At::Kill,
        )
    },
    Case {
        steps: &[
            Do::Add("a: gated", "continue"),
            Do::Add("b: hello", "block"),
            Do::Stored("agentMessage"),
        ],
        found: &[
            "interrupted a: gated = userMessage agentMessage",
            "pending b: hello",
            "asked a: gated",
        ],
        rest: &[
            "interrupted a: gated = userMessage agentMessage",
            "completed b: hello = userMessage agentMessage",
            "asked a: gated",
            "asked b: hello",
        ],
        ..case("mid-stream, onCrash continue: the next row runs", At::Kill)
    },
    Case {
        steps: &[
            Do::Add("a: gated", "retry"),
            Do::Add("b: hello", "block"),
            Do::Stored("agentMessage"),
        ],
        found: &[
            "interrupted a: gated = userMessage agentMessage",
            "pending a: gated",
            "pending b: hello",
            "asked a: gated",
        ],
        rest: &[
            "interrupted a: gated = userMessage agentMessage",
            "completed a: gated = userMessage agentMessage",
            "completed b: hello = userMessage agentMessage",
            "asked a: gated",
            "asked a: gated (2 times told)",
            "asked b: hello",
        ],
        ..case("mid-stream, onCrash retry: it runs again, first", At::Kill)
    },
    Case {
        steps: &[
            Do::Direct("d: gated"),
            Do::Add("b: hello", "block"),
            Do::Stored("agentMessage"),
        ],
        found: &[
            "interrupted d: gated = userMessage agentMessage",
            "pending b: hello",
            "asked d: gated",
        ],
        rest: &[
            "interrupted d: gated = userMessage agentMessage",
            "completed b: hello = userMessage agentMessage",
            "asked d: gated",
            "asked b: hello",
        ],
        ..case(
            "direct turn mid-stream: history only, the lane goes on",
            At::Kill,
        )
    },
    Case {
        steps: &[Do::Add("a: command", "block"), Do::Running],
        found: &[
            "interrupted a: command = userMessage commandExecution",
            "failed a: command: queued turn was interrupted because its worker stopped",
            "asked a: command",
            "asked a: command",
        ],
        rest: &[
            "interrupted a: command = userMessage commandExecution",
            "failed a: command: queued turn was interrupted because its worker stopped",
            "asked a: command",
            "asked a: command",
        ],
        ..case(
            "command running: interrupted, the completed one is kept, no process is left",
            At::Kill,
        )
    },
    Case {
        steps: &[Do::Add("a: gated", "block")],
        last: Last::Either,
        found: &[
            "interrupted a: gated = userMessage",
            "failed a: gated: queued turn was interrupted because its worker stopped",
            "asked a: gated",
        ],
        rest: &[
            "interrupted a: gated = userMessage",
            "failed a: gated: queued turn was interrupted because its worker stopped",
            "asked a: gated",
        ],
        ..case(
            "items, before commit: absent",
            At::Point("write-what-a-turn-has-produced:before-commit"),
        )
    },
    Case {
        steps: &[Do::Add("a: gated", "block")],
        last: Last::Either,
        found: &[
            "interrupted a: gated = userMessage agentMessage",
            "failed a: gated: queued turn was interrupted because its worker stopped",
            "asked a: gated",
        ],
        rest: &[
            "interrupted a: gated = userMessage agentMessage",
            "failed a: gated: queued turn was interrupted because its worker stopped",
            "asked a: gated",
        ],
        ..case(
            "items, after commit: there",
            At::Point("write-what-a-turn-has-produced:after-commit"),
        )
    },
];

/// Ending, and being put back.
pub(super) const END: &[Case] = &[
    Case {
        steps: AND_ON,
        last: Last::Either,
        found: HELD,
        rest: HELD,
        ..case(
            "turn ended, before its end is submitted: as mid-stream",
            At::Point("turn:ended"),
        )
    },
    Case {
        steps: AND_ON,
        last: Last::Either,
        found: HELD,
        rest: HELD,
        ..case(
            "turn ended, before complete commit: as mid-stream",
            At::Point("complete-a-turn:before-commit"),
        )
    },
    Case {
        steps: AND_ON,
        last: Last::Either,
        found: DONE,
        rest: BOTH_DONE,
        ..case(
            "complete, after commit: done, the next row runs",
            At::Point("complete-a-turn:after-commit"),
        )
    },
    Case {
        steps: AND_ON,
        last: Last::Either,
        found: DONE,
        rest: BOTH_DONE,
        ..case(
            "complete committed, before notifications: done, the next row runs",
            At::Point("complete:after-commit"),
        )
    },
    Case {
        steps: &[Do::Add("a: limit", "block")],
        last: Last::Either,
        found: &[
            "interrupted a: limit = userMessage",
            "failed a: limit: queued turn was interrupted because its worker stopped",
            "asked a: limit",
        ],
        rest: &[
            "interrupted a: limit = userMessage",
            "failed a: limit: queued turn was interrupted because its worker stopped",
            "asked a: limit",
        ],
        ..case(
            "put back, before commit: as mid-stream",
            At::Point("complete-a-turn:before-commit"),
        )
    },
    Case {
        steps: &[Do::Add("a: limit", "block")],
        last: Last::Either,
        found: &[
            "waiting",
            "failed a: limit = userMessage",
            "pending a: limit",
            "asked a: limit",
        ],
        rest: &[
            "failed a: limit = userMessage",
            "completed a: limit = userMessage agentMessage",
            "asked a: limit",
            "asked a: limit",
        ],
        ..case(
            "put back, after commit: at the head, the lane waits, runs once after it",
            At::Point("complete-a-turn:after-commit"),
        )
    },
];

/// Interrupting.
pub(super) const INTERRUPT: &[Case] = &[
    Case {
        steps: INTERRUPTED,
        last: Last::Unanswered,
        found: HELD,
        rest: HELD,
        ..case(
            "interrupt, before the engine is told: interrupted, by onCrash",
            At::Point("interrupt:before-cancel"),
        )
    },
    Case {
        steps: INTERRUPTED,
        last: Last::Unanswered,
        found: HELD,
        rest: HELD,
        ..case(
            "interrupt, engine stopped, end not submitted: interrupted, by onCrash",
            At::Point("turn:ended"),
        )
    },
    Case {
        steps: INTERRUPTED,
        last: Last::Unanswered,
        found: HELD,
        rest: HELD,
        ..case(
            "interrupt, before complete commit: interrupted, by onCrash",
            At::Point("complete-a-turn:before-commit"),
        )
    },
    Case {
        steps: INTERRUPTED,
        last: Last::Unanswered,
        found: &[
            "interrupted a: gated = userMessage agentMessage",
            "pending b: hello",
            "asked a: gated",
        ],
        rest: &[
            "interrupted a: gated = userMessage agentMessage",
            "completed b: hello = userMessage agentMessage",
            "asked a: gated",
            "asked b: hello",
        ],
        ..case(
            "interrupt, after complete commit: interrupted, done, the next row runs",
            At::Point("complete-a-turn:after-commit"),
        )
    },
    Case {
        steps: &[
            Do::Add("a: gated", "block"),
            Do::Add("b: hello", "block"),
            Do::Stored("agentMessage"),
            Do::Interrupt("a: gated", "pause"),
        ],
        last: Last::Unanswered,
        found: &[
            "paused",
            "interrupted a: gated = userMessage agentMessage",
            "pending b: hello",
            "asked a: gated",
        ],
        rest: &[
            "paused",
            "interrupted a: gated = userMessage agentMessage",
            "pending b: hello",
            "asked a: gated",
        ],
        ..case(
            "interrupt with pause, after complete commit: the pause is there too",
            At::Point("complete-a-turn:after-commit"),
        )
    },
];

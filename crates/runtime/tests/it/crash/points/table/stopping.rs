//! The cases about interrupts, and about recovery itself.
//!
//! The invariant here: a turn that was being stopped is never found running, and recovery that was
//! cut off ends as recovery that was not.

use super::{At, Case, Last, case};

/// Interrupting.
pub(super) const INTERRUPT: &[Case] = &[
    Case {
        steps: &[
            "add a block gated",
            "add b block hello",
            "until item agentMessage",
            "interrupt continue",
        ],
        last: Last::Unanswered,
        left: &[
            "turn a runs: userMessage agentMessage",
            "a started",
            "b queued",
            "called a",
        ],
        rest: &[
            "turn a interrupted: userMessage agentMessage",
            "a blocked",
            "b queued",
            "called a",
        ],
        ..case(
            "interrupt, before the engine is told: interrupted, by onCrash",
            At::Point("interrupt:before-cancel"),
        )
    },
    Case {
        steps: &[
            "add a block gated",
            "add b block hello",
            "until item agentMessage",
            "interrupt continue",
        ],
        last: Last::Unanswered,
        left: &[
            "turn a runs: userMessage agentMessage",
            "a started",
            "b queued",
            "called a",
        ],
        rest: &[
            "turn a interrupted: userMessage agentMessage",
            "a blocked",
            "b queued",
            "called a",
        ],
        ..case(
            "interrupt, engine stopped, end not submitted: interrupted, by onCrash",
            At::Point("turn:ended"),
        )
    },
    Case {
        steps: &[
            "add a block gated",
            "add b block hello",
            "until item agentMessage",
            "interrupt continue",
        ],
        last: Last::Unanswered,
        left: &[
            "turn a runs: userMessage agentMessage",
            "a started",
            "b queued",
            "called a",
        ],
        rest: &[
            "turn a interrupted: userMessage agentMessage",
            "a blocked",
            "b queued",
            "called a",
        ],
        ..case(
            "interrupt, before complete commit: interrupted, by onCrash",
            At::Point("complete-a-turn:before-commit"),
        )
    },
    Case {
        steps: &[
            "add a block gated",
            "add b block hello",
            "until item agentMessage",
            "interrupt continue",
        ],
        last: Last::Unanswered,
        left: &[
            "turn a interrupted: userMessage agentMessage",
            "a done",
            "b queued",
            "called a",
        ],
        rest: &[
            "turn a interrupted: userMessage agentMessage",
            "turn b completed: userMessage agentMessage",
            "a done",
            "b done",
            "called a",
            "called b",
        ],
        ..case(
            "interrupt, after complete commit: interrupted, done, the next row runs",
            At::Point("complete-a-turn:after-commit"),
        )
    },
    Case {
        steps: &[
            "add a block gated",
            "add b block hello",
            "until item agentMessage",
            "interrupt pause",
        ],
        last: Last::Unanswered,
        left: &[
            "paused",
            "turn a interrupted: userMessage agentMessage",
            "a done",
            "b queued",
            "called a",
        ],
        rest: &[
            "paused",
            "turn a interrupted: userMessage agentMessage",
            "a done",
            "b queued",
            "called a",
        ],
        ..case(
            "interrupt with pause, after complete commit: the pause is there too",
            At::Point("complete-a-turn:after-commit"),
        )
    },
];

/// Stopping in an orderly way.
pub(super) const STOP: &[Case] = &[
    Case {
        steps: STOPPED,
        last: Last::Unanswered,
        left: &[
            "turn a runs: userMessage agentMessage",
            "a started",
            "b queued",
            "called a",
        ],
        rest: &[
            "turn a interrupted: userMessage agentMessage",
            "a blocked",
            "b queued",
            "called a",
        ],
        ..case(
            "graceful stop, before its commit: as mid-stream",
            At::Point("complete-a-turn:before-commit"),
        )
    },
    Case {
        steps: STOPPED,
        last: Last::Unanswered,
        left: CUT,
        rest: CONTINUED,
        ..case(
            "graceful stop, after its commit: pending at the head, then continued once",
            At::Point("complete-a-turn:after-commit"),
        )
    },
    Case {
        steps: STOPPED,
        last: Last::Answered,
        left: CUT,
        rest: CONTINUED,
        ..case(
            "graceful stop, killed behind it: pending at the head, then continued once",
            At::Kill,
        )
    },
];

const STOPPED: &[&str] = &[
    "add a block gated",
    "add b block hello",
    "until item agentMessage",
    "stop",
];
const CUT: &[&str] = &[
    "turn a interrupted: userMessage agentMessage",
    "a queued",
    "b queued",
    "called a",
];
const CONTINUED: &[&str] = &[
    "turn a interrupted: userMessage agentMessage",
    // Its message is in the history, and the script that goes on has nothing left to say.
    "turn a completed: ",
    "turn b completed: userMessage agentMessage",
    "a done",
    "b done",
    "called a",
    "called a",
    "called b",
];

/// Recovering.
pub(super) const RECOVER: &[Case] = &[
    Case {
        steps: &[
            "add a block gated",
            "add b block hello",
            "until item agentMessage",
        ],
        left: &[
            "turn a runs: userMessage agentMessage",
            "a started",
            "b queued",
            "called a",
        ],
        rest: &[
            "turn a interrupted: userMessage agentMessage",
            "a blocked",
            "b queued",
            "called a",
        ],
        ..case(
            "recovery, before its commit: again, same outcome",
            At::Recovery("recover-lanes:before-commit"),
        )
    },
    Case {
        steps: &[
            "add a retry gated",
            "add b block hello",
            "until item agentMessage",
        ],
        left: &[
            "turn a runs: userMessage agentMessage",
            "a started",
            "b queued",
            "called a",
        ],
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
        ..case(
            "recovery of a row to be retried, before its commit: again, same outcome",
            At::Recovery("recover-lanes:before-commit"),
        )
    },
    Case {
        steps: &[
            "add a block gated",
            "add b block hello",
            "until item agentMessage",
        ],
        left: &[
            "turn a runs: userMessage agentMessage",
            "a started",
            "b queued",
            "called a",
        ],
        rest: &[
            "turn a interrupted: userMessage agentMessage",
            "a blocked",
            "b queued",
            "called a",
        ],
        ..case(
            "recovery, after its commit: again, same outcome",
            At::Recovery("recover-lanes:after-commit"),
        )
    },
    Case {
        steps: &[
            "add a retry gated",
            "add b block hello",
            "until item agentMessage",
        ],
        left: &[
            "turn a runs: userMessage agentMessage",
            "a started",
            "b queued",
            "called a",
        ],
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
        ..case(
            "recovery of a row to be retried, after its commit: again, same outcome",
            At::Recovery("recover-lanes:after-commit"),
        )
    },
];

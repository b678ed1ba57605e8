//! The cases about recovery itself: who comes after a crash dies as well.
//!
//! The invariant here: recovery that was cut off ends as recovery that was not. Its first four steps
//! are one transaction, as no foreign engine is to be asked; the fifth is to drain.

use super::{At, Case, Do, case};

const BLOCKS: &[Do] = &[
    Do::Add("a: gated", "block"),
    Do::Add("b: hello", "block"),
    Do::Stored("agentMessage"),
];
const RETRIES: &[Do] = &[
    Do::Add("a: gated", "retry"),
    Do::Add("b: hello", "block"),
    Do::Stored("agentMessage"),
];
const HELD: &[&str] = &[
    "interrupted a: gated = userMessage agentMessage",
    "failed a: gated: queued turn was interrupted because its worker stopped",
    "pending b: hello",
    "asked a: gated",
];
const WAITS: &[&str] = &[
    "interrupted a: gated = userMessage agentMessage",
    "pending a: gated",
    "pending b: hello",
    "asked a: gated",
];
const RAN: &[&str] = &[
    "interrupted a: gated = userMessage agentMessage",
    "completed a: gated = userMessage agentMessage",
    "completed b: hello = userMessage agentMessage",
    "asked a: gated",
    "asked a: gated (2 times told)",
    "asked b: hello",
];

const fn retries(says: &'static str, point: &'static str) -> Case {
    Case {
        steps: RETRIES,
        found: WAITS,
        rest: RAN,
        ..case(says, At::Next(point))
    }
}

/// Somebody opens a thread whose queue is paused, and the lane is taken for it.
const fn opened(says: &'static str, point: &'static str) -> Case {
    Case {
        steps: &[Do::Pause, Do::Add("a: hello", "block")],
        found: &["paused", "pending a: hello"],
        then: &[Do::Resume],
        rest: &[
            "completed a: hello = userMessage agentMessage",
            "asked a: hello",
        ],
        ..case(says, At::Next(point))
    }
}

/// Taking.
pub(super) const TAKE: &[Case] = &[
    opened(
        "the lane is taken, before commit: as if nobody had",
        "take-a-lane:before-commit",
    ),
    opened(
        "the lane is taken, after commit: it is free again",
        "take-a-lane:after-commit",
    ),
];

/// Recovering.
pub(super) const RECOVER: &[Case] = &[
    Case {
        steps: BLOCKS,
        found: HELD,
        rest: HELD,
        ..case(
            "recovery, before its commit: again, same outcome",
            At::Next("recover-lanes:before-commit"),
        )
    },
    Case {
        steps: BLOCKS,
        found: HELD,
        rest: HELD,
        ..case(
            "recovery, after its commit: again, same outcome",
            At::Next("recover-lanes:after-commit"),
        )
    },
    retries(
        "recovery of a row to be retried, before its commit: again, same outcome",
        "recover-lanes:before-commit",
    ),
    retries(
        "recovery of a row to be retried, after its commit: again, same outcome",
        "recover-lanes:after-commit",
    ),
    retries(
        "what was recovered is claimed, not submitted: runs once",
        "claim:before-submit",
    ),
    retries(
        "what was recovered is claimed, before commit: runs once",
        "claim-and-accept-a-turn:before-commit",
    ),
    Case {
        steps: RETRIES,
        found: &[
            "interrupted a: gated = userMessage agentMessage",
            "interrupted a: gated = userMessage",
            "pending a: gated",
            "pending b: hello",
            "asked a: gated",
        ],
        rest: &[
            "interrupted a: gated = userMessage agentMessage",
            "interrupted a: gated = userMessage",
            "completed a: gated = userMessage agentMessage",
            "completed b: hello = userMessage agentMessage",
            "asked a: gated",
            "asked a: gated (3 times told)",
            "asked b: hello",
        ],
        ..case(
            "what was recovered is claimed, after commit: interrupted again, then runs once",
            At::Next("claim-and-accept-a-turn:after-commit"),
        )
    },
];

//! The cases about changes of the queue.
//!
//! The invariant here: a change is wholly there or not at all, on either side of its commit; what was
//! found is also the order in which the rows run.

use super::{At, Case, Do, Last, case};

const PAUSE: Do = Do::Pause;
const A: Do = Do::Add("a: hello", "block");
const B: Do = Do::Add("b: hello", "block");
const C: Do = Do::Add("c: hello", "block");

const AS_ADDED: &[&str] = &[
    "paused",
    "pending a: hello",
    "pending b: hello",
    "pending c: hello",
];
const RAN_AS_ADDED: &[&str] = &[
    "completed a: hello = userMessage agentMessage",
    "completed b: hello = userMessage agentMessage",
    "completed c: hello = userMessage agentMessage",
    "asked a: hello",
    "asked b: hello",
    "asked c: hello",
];

/// Three rows wait in a paused lane and are changed; then the pause ends.
const fn change(says: &'static str, point: &'static str) -> Case {
    Case {
        last: Last::Unanswered,
        found: AS_ADDED,
        then: &[Do::Resume],
        rest: RAN_AS_ADDED,
        ..case(says, At::Point(point))
    }
}

/// Reordering, moving, deleting, updating.
pub(super) const CHANGE: &[Case] = &[
    Case {
        steps: &[
            PAUSE,
            A,
            B,
            C,
            Do::Reorder(&["c: hello", "b: hello", "a: hello"]),
        ],
        ..change(
            "reorder, before commit: wholly before",
            "reorder-a-queue:before-commit",
        )
    },
    Case {
        steps: &[
            PAUSE,
            A,
            B,
            C,
            Do::Reorder(&["c: hello", "b: hello", "a: hello"]),
        ],
        found: &[
            "paused",
            "pending c: hello",
            "pending b: hello",
            "pending a: hello",
        ],
        rest: &[
            "completed c: hello = userMessage agentMessage",
            "completed b: hello = userMessage agentMessage",
            "completed a: hello = userMessage agentMessage",
            "asked c: hello",
            "asked b: hello",
            "asked a: hello",
        ],
        ..change(
            "reorder, after commit: wholly after",
            "reorder-a-queue:after-commit",
        )
    },
    Case {
        steps: &[PAUSE, A, B, C, Do::First("c: hello")],
        ..change(
            "move, before commit: wholly before",
            "move-a-queued-turn:before-commit",
        )
    },
    Case {
        steps: &[PAUSE, A, B, C, Do::First("c: hello")],
        found: &[
            "paused",
            "pending c: hello",
            "pending a: hello",
            "pending b: hello",
        ],
        rest: &[
            "completed c: hello = userMessage agentMessage",
            "completed a: hello = userMessage agentMessage",
            "completed b: hello = userMessage agentMessage",
            "asked c: hello",
            "asked a: hello",
            "asked b: hello",
        ],
        ..change(
            "move, after commit: wholly after",
            "move-a-queued-turn:after-commit",
        )
    },
    Case {
        steps: &[PAUSE, A, B, C, Do::Delete("b: hello")],
        ..change(
            "delete, before commit: wholly before",
            "delete-a-queued-turn:before-commit",
        )
    },
    Case {
        steps: &[PAUSE, A, B, C, Do::Delete("b: hello")],
        found: &["paused", "pending a: hello", "pending c: hello"],
        rest: &[
            "completed a: hello = userMessage agentMessage",
            "completed c: hello = userMessage agentMessage",
            "asked a: hello",
            "asked c: hello",
        ],
        ..change(
            "delete, after commit: wholly after",
            "delete-a-queued-turn:after-commit",
        )
    },
    Case {
        steps: &[PAUSE, A, B, C, Do::Update("b: hello", "b: other")],
        ..change(
            "update, before commit: wholly before",
            "update-a-queued-turn:before-commit",
        )
    },
    Case {
        steps: &[PAUSE, A, B, C, Do::Update("b: hello", "b: other")],
        found: &[
            "paused",
            "pending a: hello",
            "pending b: other",
            "pending c: hello",
        ],
        rest: &[
            "completed a: hello = userMessage agentMessage",
            "completed b: other = userMessage agentMessage",
            "completed c: hello = userMessage agentMessage",
            "asked a: hello",
            "asked b: other",
            "asked c: hello",
        ],
        ..change(
            "update, after commit: wholly after",
            "update-a-queued-turn:after-commit",
        )
    },
];

/// Pausing, resuming, and letting a failed head go on.
pub(super) const HOLD: &[Case] = &[
    Case {
        steps: &[
            Do::Add("a: gated", "continue"),
            B,
            Do::Stored("agentMessage"),
            PAUSE,
        ],
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
            "pause, before commit: not paused",
            At::Point("pause-a-queue:before-commit"),
        )
    },
    Case {
        steps: &[
            Do::Add("a: gated", "continue"),
            B,
            Do::Stored("agentMessage"),
            PAUSE,
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
            "pause, after commit: paused",
            At::Point("pause-a-queue:after-commit"),
        )
    },
    Case {
        steps: &[PAUSE, A, Do::Resume],
        last: Last::Unanswered,
        found: &["paused", "pending a: hello"],
        rest: &["paused", "pending a: hello"],
        ..case(
            "resume, before commit: still paused",
            At::Point("resume-a-queue:before-commit"),
        )
    },
    Case {
        steps: &[PAUSE, A, Do::Resume],
        last: Last::Unanswered,
        found: &["pending a: hello"],
        rest: &[
            "completed a: hello = userMessage agentMessage",
            "asked a: hello",
        ],
        ..case(
            "resume, after commit: the row runs",
            At::Point("resume-a-queue:after-commit"),
        )
    },
    Case {
        steps: &[Do::Add("a: bad", "block"), B, Do::Held, Do::Retry("a: bad")],
        last: Last::Unanswered,
        found: &[
            "failed a: bad = userMessage",
            "failed a: bad: no",
            "pending b: hello",
            "asked a: bad",
        ],
        rest: &[
            "failed a: bad = userMessage",
            "failed a: bad: no",
            "pending b: hello",
            "asked a: bad",
        ],
        ..case(
            "retry, before commit: it still holds the lane",
            At::Point("retry-a-queued-turn:before-commit"),
        )
    },
    Case {
        steps: &[Do::Add("a: bad", "block"), B, Do::Held, Do::Retry("a: bad")],
        last: Last::Unanswered,
        found: &[
            "failed a: bad = userMessage",
            "pending a: bad",
            "pending b: hello",
            "asked a: bad",
        ],
        rest: &[
            "failed a: bad = userMessage",
            "completed a: bad = userMessage agentMessage",
            "completed b: hello = userMessage agentMessage",
            "asked a: bad",
            "asked a: bad (2 times told)",
            "asked b: hello",
        ],
        ..case(
            "retry, after commit: it runs, and what is behind it",
            At::Point("retry-a-queued-turn:after-commit"),
        )
    },
];

//! The cases about changes of the queue.
//!
//! The invariant here: a change is wholly there or not at all, on either side of its commit.

use super::{At, Case, Last, case};

/// Changing the queue.
pub(super) const CHANGE: &[Case] = &[
    Case {
        steps: &[
            "pause",
            "add a block hello",
            "add b block hello",
            "add c block hello",
            "reorder c b a",
        ],
        last: Last::Unanswered,
        left: &["paused", "a queued", "b queued", "c queued"],
        then: &[("resume", "")],
        rest: &[
            "turn a completed: userMessage agentMessage",
            "turn b completed: userMessage agentMessage",
            "turn c completed: userMessage agentMessage",
            "a done",
            "b done",
            "c done",
            "called a",
            "called b",
            "called c",
        ],
        ..case(
            "reorder, before commit: wholly before",
            At::Point("reorder-a-queue:before-commit"),
        )
    },
    Case {
        steps: &[
            "pause",
            "add a block hello",
            "add b block hello",
            "add c block hello",
            "reorder c b a",
        ],
        last: Last::Unanswered,
        left: &["paused", "c queued", "b queued", "a queued"],
        then: &[("resume", "")],
        rest: &[
            "turn c completed: userMessage agentMessage",
            "turn b completed: userMessage agentMessage",
            "turn a completed: userMessage agentMessage",
            "a done",
            "b done",
            "c done",
            "called c",
            "called b",
            "called a",
        ],
        ..case(
            "reorder, after commit: wholly after",
            At::Point("reorder-a-queue:after-commit"),
        )
    },
    Case {
        steps: &[
            "pause",
            "add a block hello",
            "add b block hello",
            "add c block hello",
            "move c 0",
        ],
        last: Last::Unanswered,
        left: &["paused", "a queued", "b queued", "c queued"],
        then: &[("resume", "")],
        rest: &[
            "turn a completed: userMessage agentMessage",
            "turn b completed: userMessage agentMessage",
            "turn c completed: userMessage agentMessage",
            "a done",
            "b done",
            "c done",
            "called a",
            "called b",
            "called c",
        ],
        ..case(
            "move, before commit: wholly before",
            At::Point("move-a-queued-turn:before-commit"),
        )
    },
    Case {
        steps: &[
            "pause",
            "add a block hello",
            "add b block hello",
            "add c block hello",
            "move c 0",
        ],
        last: Last::Unanswered,
        left: &["paused", "c queued", "a queued", "b queued"],
        then: &[("resume", "")],
        rest: &[
            "turn c completed: userMessage agentMessage",
            "turn a completed: userMessage agentMessage",
            "turn b completed: userMessage agentMessage",
            "a done",
            "b done",
            "c done",
            "called c",
            "called a",
            "called b",
        ],
        ..case(
            "move, after commit: wholly after",
            At::Point("move-a-queued-turn:after-commit"),
        )
    },
    Case {
        steps: &[
            "pause",
            "add a block hello",
            "add b block hello",
            "add c block hello",
            "delete b",
        ],
        last: Last::Unanswered,
        left: &["paused", "a queued", "b queued", "c queued"],
        then: &[("resume", "")],
        rest: &[
            "turn a completed: userMessage agentMessage",
            "turn b completed: userMessage agentMessage",
            "turn c completed: userMessage agentMessage",
            "a done",
            "b done",
            "c done",
            "called a",
            "called b",
            "called c",
        ],
        ..case(
            "delete, before commit: wholly before",
            At::Point("delete-a-queued-turn:before-commit"),
        )
    },
    Case {
        steps: &[
            "pause",
            "add a block hello",
            "add b block hello",
            "add c block hello",
            "delete b",
        ],
        last: Last::Unanswered,
        left: &["paused", "b cancelled", "a queued", "c queued"],
        then: &[("resume", "")],
        rest: &[
            "turn a completed: userMessage agentMessage",
            "turn c completed: userMessage agentMessage",
            "a done",
            "b cancelled",
            "c done",
            "called a",
            "called c",
        ],
        ..case(
            "delete, after commit: wholly after",
            At::Point("delete-a-queued-turn:after-commit"),
        )
    },
    Case {
        steps: &[
            "pause",
            "add a block hello",
            "add b block hello",
            "add c block hello",
            "update b b changed",
        ],
        last: Last::Unanswered,
        left: &["paused", "a queued", "b queued", "c queued"],
        then: &[("resume", "")],
        rest: &[
            "turn a completed: userMessage agentMessage",
            "turn b completed: userMessage agentMessage",
            "turn c completed: userMessage agentMessage",
            "a done",
            "b done",
            "c done",
            "called a",
            "called b",
            "called c",
        ],
        ..case(
            "update, before commit: wholly before",
            At::Point("update-a-queued-turn:before-commit"),
        )
    },
    Case {
        steps: &[
            "pause",
            "add a block hello",
            "add b block hello",
            "add c block hello",
            "update b b changed",
        ],
        last: Last::Unanswered,
        left: &["paused", "a queued", "b queued, changed", "c queued"],
        then: &[("resume", "")],
        rest: &[
            "turn a completed: userMessage agentMessage",
            "turn b completed: userMessage agentMessage",
            "turn c completed: userMessage agentMessage",
            "a done",
            "b done, changed",
            "c done",
            "called a",
            "called b",
            "called c",
        ],
        ..case(
            "update, after commit: wholly after",
            At::Point("update-a-queued-turn:after-commit"),
        )
    },
    Case {
        steps: &["add a block gated", "until item agentMessage", "pause"],
        last: Last::Unanswered,
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
            "pause, before commit: not paused",
            At::Point("pause-a-queue:before-commit"),
        )
    },
    Case {
        steps: &[
            "add a continue gated",
            "add b block hello",
            "until item agentMessage",
            "pause",
        ],
        last: Last::Unanswered,
        left: &[
            "paused",
            "turn a runs: userMessage agentMessage",
            "a started",
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
            "pause, after commit: paused",
            At::Point("pause-a-queue:after-commit"),
        )
    },
    Case {
        steps: &["pause", "add a block hello", "resume"],
        last: Last::Unanswered,
        left: &["paused", "a queued"],
        rest: &["paused", "a queued"],
        ..case(
            "resume, before commit: still paused",
            At::Point("resume-a-queue:before-commit"),
        )
    },
    Case {
        steps: &["pause", "add a block hello", "resume"],
        last: Last::Unanswered,
        left: &["a queued"],
        rest: &[
            "turn a completed: userMessage agentMessage",
            "a done",
            "called a",
        ],
        ..case(
            "resume, after commit: the row runs",
            At::Point("resume-a-queue:after-commit"),
        )
    },
];

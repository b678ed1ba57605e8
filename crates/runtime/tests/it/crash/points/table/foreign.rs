//! The cases about engines that are other programs: the mark before the hand-over, what their history
//! tells after a crash, and stops.
//!
//! The invariant here: a turn that the engine took is never handed to it again unless its row's policy
//! says so, and one that it never took runs once.

use super::{At, Case, EngineOf, Last, case};

const fn foreign(says: &'static str, at: At) -> Case {
    Case {
        engine: EngineOf::Foreign,
        ..case(says, at)
    }
}

const ACCEPTED: &[&str] = &["turn a runs: userMessage", "a started"];
const TAKEN: &[&str] = &["turn a runs: userMessage", "a started", "called a"];
const RAN_ONCE: &[&str] = &[
    "turn a completed: userMessage agentMessage",
    "a done",
    "called a",
];
const RAN_AFTER_A_LOSS: &[&str] = &[
    "turn a interrupted muted: userMessage",
    "turn a completed: userMessage agentMessage",
    "a done, lost 1",
    "called a",
];
const HELD: &[&str] = &["turn a interrupted: userMessage", "a blocked", "called a"];

/// Handing a turn over.
pub(super) const HAND_OVER: &[Case] = &[
    Case {
        steps: &["add a block before", "until item userMessage"],
        left: ACCEPTED,
        rest: RAN_AFTER_A_LOSS,
        ..foreign("killed before the mark: muted, runs once", At::Kill)
    },
    Case {
        steps: &["add a block hello"],
        last: Last::Either,
        left: ACCEPTED,
        rest: RAN_AFTER_A_LOSS,
        ..foreign(
            "the mark, before commit: muted, runs once",
            At::Point("mark-a-queued-turn-as-sent:before-commit"),
        )
    },
    Case {
        steps: &["add a block hello"],
        last: Last::Either,
        left: ACCEPTED,
        rest: RAN_AFTER_A_LOSS,
        ..foreign(
            "the mark written, not handed over: absent, runs once",
            At::Point("engine:sent"),
        )
    },
    Case {
        steps: &["start d hello"],
        last: Last::Either,
        left: &["turn d runs: userMessage", "d started"],
        rest: &["turn d interrupted: userMessage", "d done"],
        ..foreign(
            "a direct turn, the mark written, not handed over: interrupted, done",
            At::Point("engine:sent"),
        )
    },
    Case {
        steps: &["add a block hello"],
        last: Last::Either,
        left: TAKEN,
        rest: HELD,
        ..foreign(
            "handed over, acceptance not recorded: interrupted, held",
            At::Point("engine:handed-over"),
        )
    },
    Case {
        steps: &["add a continue hello"],
        last: Last::Either,
        left: TAKEN,
        rest: &["turn a interrupted: userMessage", "a done", "called a"],
        ..foreign(
            "handed over, onCrash continue: done with its turn",
            At::Point("engine:handed-over"),
        )
    },
    Case {
        steps: &["add a retry hello"],
        last: Last::Either,
        left: TAKEN,
        rest: &[
            "turn a interrupted: userMessage",
            "turn a completed: userMessage agentMessage",
            "a done",
            "called a",
            "called a",
        ],
        ..foreign(
            "handed over, onCrash retry: runs again",
            At::Point("engine:handed-over"),
        )
    },
];

/// What the engine's history tells.
pub(super) const RECONCILE: &[Case] = &[
    Case {
        steps: &["add a block finished", "until call a"],
        left: TAKEN,
        rest: RAN_ONCE,
        ..foreign("ended in its history: items and end taken over", At::Kill)
    },
    Case {
        steps: &["add a block told", "until item agentMessage"],
        left: &[
            "turn a runs: userMessage agentMessage",
            "a started",
            "called a",
        ],
        rest: RAN_ONCE,
        ..foreign("an item that was stored before is not doubled", At::Kill)
    },
    Case {
        steps: &["add a block broken", "add b block hello", "until call a"],
        left: &[
            "turn a runs: userMessage",
            "a started",
            "b queued",
            "called a",
        ],
        rest: &[
            "turn a failed: userMessage",
            "turn b completed: userMessage agentMessage",
            "a done",
            "b done",
            "called a",
            "called b",
        ],
        ..foreign("failed in its history: failed, the next row runs", At::Kill)
    },
    Case {
        steps: &[
            "add a block stuck",
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
        ..foreign("in progress in its history: interrupted, held", At::Kill)
    },
    Case {
        steps: &["start d finished", "until call d"],
        left: &["turn d runs: userMessage", "d started", "called d"],
        rest: &[
            "turn d completed: userMessage agentMessage",
            "d done",
            "called d",
        ],
        ..foreign("a direct turn, ended in its history: completed", At::Kill)
    },
    Case {
        steps: &["add a block finished", "until call a"],
        left: TAKEN,
        rest: RAN_ONCE,
        ..foreign(
            "the next worker dies before it takes the lane",
            At::Recovery("recover-lanes:before-commit"),
        )
    },
    Case {
        steps: &["add a block finished", "until call a"],
        left: TAKEN,
        rest: RAN_ONCE,
        ..foreign(
            "the next worker dies with the answer: asked again, the same end",
            At::Reconcile("reconcile:decided"),
        )
    },
    Case {
        steps: &["add a block finished", "until call a"],
        left: TAKEN,
        rest: RAN_ONCE,
        ..foreign(
            "the next worker dies before the end is recorded",
            At::Reconcile("complete-a-turn:before-commit"),
        )
    },
    Case {
        steps: &["add a block finished", "until call a"],
        left: TAKEN,
        rest: RAN_ONCE,
        ..foreign(
            "the next worker dies when the end is recorded",
            At::Reconcile("complete-a-turn:after-commit"),
        )
    },
];

/// An orderly stop.
pub(super) const STOP: &[Case] = &[
    Case {
        steps: &["add a block before", "until item userMessage", "stop"],
        left: &["turn a interrupted muted: userMessage", "a queued"],
        rest: &[
            "turn a interrupted muted: userMessage",
            "turn a completed: userMessage agentMessage",
            "a done",
            "called a",
        ],
        ..foreign("stopped before the hand-over: runs once, anew", At::Kill)
    },
    Case {
        steps: &["add a block stuck", "until item agentMessage", "stop"],
        left: &[
            "turn a interrupted: userMessage agentMessage",
            "a blocked",
            "called a",
        ],
        rest: &[
            "turn a interrupted: userMessage agentMessage",
            "a blocked",
            "called a",
        ],
        ..foreign("stopped after the hand-over: by onCrash", At::Kill)
    },
];

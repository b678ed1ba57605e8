//! The cases: a point, what came before it, what is left, what follows.
//!
//! The invariant here: each line of the documented table of crash points has a case; both sides of a
//! commit are two cases.

mod changes;
mod foreign;
mod running;
mod stopping;

use super::{At, Case, EngineOf, Hooks, Last};

/// Those of engines whose history is ours.
pub(super) const CASES: &[&[Case]] = &[
    ADD,
    TAKE,
    running::RUN,
    stopping::INTERRUPT,
    stopping::STOP,
    changes::CHANGE,
    stopping::RECOVER,
];

/// Those of engines that are other programs.
pub(super) const FOREIGN_CASES: &[&[Case]] =
    &[foreign::HAND_OVER, foreign::RECONCILE, foreign::STOP];

pub(super) const fn case(says: &'static str, at: At) -> Case {
    Case {
        says,
        at,
        hooks: Hooks::None,
        engine: EngineOf::Scripted,
        steps: &[],
        last: Last::Answered,
        left: &[],
        then: &[],
        rest: &[],
    }
}

const RAN: &[&str] = &[
    "turn a completed: userMessage agentMessage",
    "a done",
    "called a",
];
const RAN_AFTER_A_LOSS: &[&str] = &[
    "turn a completed: userMessage agentMessage",
    "a done, lost 1",
    "hooked a",
    "called a",
];
const RAN_AFTER_A_SECOND_HOOK: &[&str] = &[
    "turn a completed: userMessage agentMessage",
    "a done, lost 1",
    "hooked a",
    "hooked a",
    "called a",
];

/// A row that does not get beyond its hook, for as long as that hook hangs.
pub(super) const HELD_IN_A_HOOK: Case = Case {
    hooks: Hooks::Hang,
    steps: &["add a block hello", "until hook a"],
    rest: &["a blocked, lost 2", "hooked a", "hooked a", "hooked a"],
    ..case("dead in a hook three times: held", At::Kill)
};

/// Adding.
const ADD: &[Case] = &[
    Case {
        steps: &["add a block hello"],
        last: Last::Unanswered,
        then: &[("add a block hello", "new")],
        rest: RAN,
        ..case(
            "add, before commit: no row, no answer",
            At::Point("add-a-queued-turn:before-commit"),
        )
    },
    Case {
        steps: &["add a block hello"],
        last: Last::Unanswered,
        left: &["a queued"],
        then: &[("add a block hello", "repeated")],
        rest: RAN,
        ..case(
            "add, after commit: row there, repeating gives the same row",
            At::Point("add-a-queued-turn:after-commit"),
        )
    },
    Case {
        steps: &["pause", "add a block hello", "resume"],
        last: Last::Either,
        left: &["a queued"],
        rest: RAN,
        ..case(
            "after the answer, before the claim: pending, runs once",
            At::Point("claim:before-submit"),
        )
    },
];

/// Claiming and accepting.
const TAKE: &[Case] = &[
    Case {
        steps: &["add a block hello"],
        last: Last::Either,
        left: &["a queued"],
        rest: RAN,
        ..case(
            "claim and accept in one, before commit: pending, runs once",
            At::Point("claim-and-accept-a-turn:before-commit"),
        )
    },
    Case {
        hooks: Hooks::Go,
        steps: &["add a block hello"],
        last: Last::Either,
        left: &["a queued"],
        rest: &[
            "turn a completed: userMessage agentMessage",
            "a done",
            "hooked a",
            "called a",
        ],
        ..case(
            "claim, before commit: pending, runs once",
            At::Point("claim-a-turn:before-commit"),
        )
    },
    Case {
        hooks: Hooks::Go,
        steps: &["add a block hello"],
        last: Last::Either,
        left: &["a claimed"],
        rest: RAN_AFTER_A_LOSS,
        ..case(
            "claim, after commit: pending again, runs once",
            At::Point("claim-a-turn:after-commit"),
        )
    },
    Case {
        hooks: Hooks::Go,
        steps: &["add a block hello"],
        last: Last::Either,
        left: &["a claimed"],
        rest: RAN_AFTER_A_LOSS,
        ..case(
            "claim committed and known: pending again, runs once",
            At::Point("claim:after-commit"),
        )
    },
    Case {
        hooks: Hooks::Go,
        steps: &["add a block hello"],
        last: Last::Either,
        left: &["a claimed"],
        rest: RAN_AFTER_A_LOSS,
        ..case(
            "before a hook: pending again, runs once",
            At::Point("hook:before"),
        )
    },
    Case {
        hooks: Hooks::Hang,
        steps: &["add a block hello", "until hook a"],
        left: &["a claimed", "hooked a"],
        rest: RAN_AFTER_A_SECOND_HOOK,
        ..case("during a hook: pending again, runs once", At::Kill)
    },
    Case {
        hooks: Hooks::Go,
        steps: &["add a block hello"],
        last: Last::Either,
        left: &["a claimed", "hooked a"],
        rest: RAN_AFTER_A_SECOND_HOOK,
        ..case(
            "accept, before commit: pending again, runs once",
            At::Point("accept-a-turn:before-commit"),
        )
    },
    Case {
        hooks: Hooks::Go,
        steps: &["add a block hello"],
        last: Last::Either,
        left: &["turn a runs: userMessage", "a started", "hooked a"],
        rest: &["turn a interrupted: userMessage", "a blocked", "hooked a"],
        ..case(
            "accept, after commit: interrupted, the model saw nothing",
            At::Point("accept-a-turn:after-commit"),
        )
    },
    Case {
        steps: &["add a block hello"],
        last: Last::Either,
        left: &["turn a runs: userMessage", "a started"],
        rest: &["turn a interrupted: userMessage", "a blocked"],
        ..case(
            "accept committed and known: interrupted, the model saw nothing",
            At::Point("accept:after-commit"),
        )
    },
    Case {
        steps: &["add a block hello"],
        last: Last::Either,
        left: &["turn a runs: userMessage", "a started"],
        rest: &["turn a interrupted: userMessage", "a blocked"],
        ..case(
            "before the model request: interrupted, the model saw nothing",
            At::Point("engine:before-run"),
        )
    },
    Case {
        steps: &["add a continue hello"],
        last: Last::Either,
        left: &["turn a runs: userMessage", "a started"],
        rest: &["turn a interrupted: userMessage", "a done"],
        ..case(
            "before the model request, onCrash continue: done with its turn",
            At::Point("engine:before-run"),
        )
    },
    Case {
        steps: &["add a retry hello"],
        last: Last::Either,
        left: &["turn a runs: userMessage", "a started"],
        rest: &[
            "turn a interrupted: userMessage",
            "turn a completed: userMessage agentMessage",
            "a done",
            "called a",
        ],
        ..case(
            "before the model request, onCrash retry: runs again",
            At::Point("engine:before-run"),
        )
    },
    Case {
        steps: &["start d hello"],
        last: Last::Unanswered,
        ..case(
            "direct turn, before commit: nothing",
            At::Point("start-a-turn:before-commit"),
        )
    },
    Case {
        steps: &["start d hello"],
        last: Last::Unanswered,
        left: &["turn d runs: userMessage", "d started"],
        rest: &["turn d interrupted: userMessage", "d done"],
        ..case(
            "direct turn, after commit: interrupted, in history",
            At::Point("start-a-turn:after-commit"),
        )
    },
];

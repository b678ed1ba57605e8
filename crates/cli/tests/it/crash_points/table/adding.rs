//! The cases about adding, and about what happens before the model is asked.

use super::{At, Case, Do, Last, case};

const HELLO: &[Do] = &[Do::Add("a: hello", "block")];
const WAITS: &[&str] = &["pending a: hello"];
const RAN: &[&str] = &[
    "completed a: hello = userMessage agentMessage",
    "asked a: hello",
];
const HELD: &[&str] = &[
    "interrupted a: hello = userMessage",
    "failed a: hello: queued turn was interrupted because its worker stopped",
];

/// Adding.
pub(super) const ADD: &[Case] = &[
    Case {
        steps: HELLO,
        last: Last::Unanswered,
        then: HELLO,
        rest: RAN,
        ..case(
            "add, before commit: no row, no answer",
            At::Point("add-a-queued-turn:before-commit"),
        )
    },
    Case {
        steps: HELLO,
        last: Last::Unanswered,
        found: WAITS,
        rest: RAN,
        ..case(
            "add, after commit, before the answer: the row is there, and runs",
            At::Point("add-a-queued-turn:after-commit"),
        )
    },
    Case {
        steps: HELLO,
        last: Last::Unanswered,
        found: WAITS,
        then: HELLO,
        rest: RAN,
        ..case(
            "add, after commit, asked again at once: the same row",
            At::Point("add-a-queued-turn:after-commit"),
        )
    },
    Case {
        steps: &[Do::Pause, Do::Add("a: hello", "block"), Do::Resume],
        last: Last::Either,
        found: WAITS,
        rest: RAN,
        ..case(
            "after the answer, before the claim: pending, runs once",
            At::Point("claim:before-submit"),
        )
    },
];

/// Claiming and accepting.
pub(super) const CLAIM: &[Case] = &[
    Case {
        steps: HELLO,
        last: Last::Either,
        found: WAITS,
        rest: RAN,
        ..case(
            "claim, before commit: pending, runs once",
            At::Point("claim-and-accept-a-turn:before-commit"),
        )
    },
    Case {
        steps: HELLO,
        last: Last::Either,
        found: HELD,
        rest: HELD,
        ..case(
            "accept, after commit: interrupted, the model saw nothing",
            At::Point("claim-and-accept-a-turn:after-commit"),
        )
    },
    Case {
        steps: HELLO,
        last: Last::Either,
        found: HELD,
        then: &[Do::Retry("a: hello")],
        rest: &[
            "interrupted a: hello = userMessage",
            "completed a: hello = userMessage agentMessage",
            "asked a: hello (2 times told)",
        ],
        ..case(
            "accept committed and known: the model saw nothing, until somebody retries",
            At::Point("accept:after-commit"),
        )
    },
    Case {
        steps: HELLO,
        last: Last::Either,
        found: HELD,
        rest: HELD,
        ..case(
            "before the model request: the model saw nothing",
            At::Point("engine:before-run"),
        )
    },
    Case {
        steps: &[Do::Add("a: hello", "continue")],
        last: Last::Either,
        found: &["interrupted a: hello = userMessage"],
        rest: &["interrupted a: hello = userMessage"],
        ..case(
            "before the model request, onCrash continue: done with its turn",
            At::Point("engine:before-run"),
        )
    },
    Case {
        steps: &[Do::Add("a: hello", "retry")],
        last: Last::Either,
        found: &["interrupted a: hello = userMessage", "pending a: hello"],
        rest: &[
            "interrupted a: hello = userMessage",
            "completed a: hello = userMessage agentMessage",
            "asked a: hello (2 times told)",
        ],
        ..case(
            "before the model request, onCrash retry: runs again",
            At::Point("engine:before-run"),
        )
    },
    Case {
        steps: &[Do::Direct("d: hello")],
        last: Last::Unanswered,
        ..case(
            "direct turn, before commit: nothing",
            At::Point("start-a-turn:before-commit"),
        )
    },
    Case {
        steps: &[Do::Direct("d: hello")],
        last: Last::Unanswered,
        found: &["interrupted d: hello = userMessage"],
        rest: &["interrupted d: hello = userMessage"],
        ..case(
            "direct turn, after commit: interrupted, in history",
            At::Point("start-a-turn:after-commit"),
        )
    },
];

//! What people see of a run, row by row.

use serde_json::{Value, json};
use turnlane_protocol::exec_events::{Failure, Usage as LineUsage};

use super::super::items::{Phase, shown};
use super::*;

fn human(colour: Colour, look: Look) -> Human {
    Human {
        colour,
        look,
        engine: "native".to_owned(),
    }
}

fn plain() -> Human {
    human(Colour::Off, Look::Elsewhere)
}

/// What a run says of an item of the protocol.
fn told(item: &Value, phase: Phase) -> Told {
    let mut item = item.clone();
    item["id"] = json!("i");
    let item: turnlane::Item = serde_json::from_value(item).unwrap();
    let body = shown(&item, phase, "/w".as_ref()).unwrap();
    let line = Item {
        id: "item_0".to_owned(),
        body,
    };
    Told {
        event: match phase {
            Phase::Started => Event::ItemStarted { item: line },
            Phase::Completed => Event::ItemCompleted { item: line },
        },
        item: Some(Box::new(item)),
    }
}

fn of(event: Event) -> Told {
    Told { event, item: None }
}

fn failed(kind: ErrorKind) -> Told {
    of(Event::TurnFailed {
        error: Failure {
            message: "why".to_owned(),
            kind,
            retry_at: None,
        },
        turn_id: "t".to_owned(),
    })
}

fn command(status: &str, code: Option<i32>) -> Value {
    json!({"type": "commandExecution", "command": "sh -c 'x'", "cwd": "/d", "status": status,
           "commandActions": [], "exitCode": code, "durationMs": 12, "aggregatedOutput": "out\n"})
}

#[test]
fn every_kind_of_item_has_its_words() {
    let human = plain();
    let begun = human.told(&told(&command("inProgress", None), Phase::Started));
    assert_eq!(begun, "exec\nsh -c 'x' in /d\n");
    for (item, text) in [
        (
            command("completed", Some(0)),
            " succeeded in 12ms:\nout\n\n",
        ),
        (
            command("completed", None),
            " still ran after 12ms:\nout\n\n",
        ),
        (command("failed", Some(3)), " exited 3 in 12ms:\nout\n\n"),
        (command("failed", None), " failed in 12ms:\nout\n\n"),
        (command("declined", None), " declined:\nout\n\n"),
        (
            json!({"type": "agentMessage", "text": "hi"}),
            "native\nhi\n",
        ),
        (
            json!({"type": "reasoning", "summary": ["a", "b"], "content": []}),
            "a\nb\n",
        ),
        (
            json!({"type": "fileChange", "status": "completed", "changes": [
                {"path": "a", "kind": {"type": "add"}, "diff": ""},
                {"path": "/b", "kind": {"type": "delete"}, "diff": ""}]}),
            "patch: completed\n/w/a\n/b\n",
        ),
        (
            json!({"type": "mcpToolCall", "server": "s", "tool": "t", "arguments": {},
                   "status": "failed", "result": null, "error": {"message": "m"}}),
            "mcp: s/t (failed)\n",
        ),
        (
            json!({"type": "webSearch", "query": "q", "action": null}),
            "web search: q\n",
        ),
    ] {
        assert_eq!(human.told(&told(&item, Phase::Completed)), text, "{item}");
    }
}

#[test]
fn plans_warnings_and_ends_have_their_words() {
    let human = plain();
    let item = |body| Item {
        id: "item_0".to_owned(),
        body,
    };
    let todo = |text: &str, completed| TodoItem {
        text: text.to_owned(),
        completed,
    };
    let list = || ItemBody::TodoList {
        items: vec![todo("a", true), todo("b", false)],
    };
    let shown = "plan:\n  [x] a\n  [ ] b\n";
    assert_eq!(
        human.told(&of(Event::ItemStarted { item: item(list()) })),
        shown
    );
    assert_eq!(
        human.told(&of(Event::ItemUpdated { item: item(list()) })),
        shown
    );
    assert_eq!(
        human.told(&of(Event::ItemCompleted { item: item(list()) })),
        ""
    );
    let warning = ItemBody::Error {
        message: "w".to_owned(),
    };
    let item = item(warning);
    assert_eq!(
        human.told(&of(Event::ItemCompleted { item })),
        "warning: w\n"
    );
    let error = Event::Error {
        message: "why".to_owned(),
        kind: ErrorKind::Network,
        will_retry: true,
    };
    assert_eq!(human.told(&of(error)), "ERROR: why\n");
    assert_eq!(
        human.told(&failed(ErrorKind::Interrupted)),
        "turn interrupted\n"
    );
    assert_eq!(human.told(&failed(ErrorKind::Timeout)), "ERROR: why\n");
    for said_before in [ErrorKind::Network, ErrorKind::Other, ErrorKind::Unknown] {
        assert_eq!(human.told(&failed(said_before)), "");
    }
    let completed = Event::TurnCompleted {
        usage: LineUsage::default(),
        turn_usage: None,
        turn_id: "t".to_owned(),
    };
    assert_eq!(human.told(&of(completed)), "");
}

#[test]
fn the_footer_counts_what_is_paid_for_of_turn_and_thread() {
    let counts = |factor: i64| TokenCounts {
        input_tokens: 100 * factor,
        cached_input_tokens: 40 * factor,
        output_tokens: 7 * factor,
        ..TokenCounts::default()
    };
    let usage = Usage {
        turn: Some(counts(1)),
        thread: Some(counts(3)),
        ..Usage::default()
    };
    assert_eq!(plain().footer(&usage), "tokens used\n67 (thread 201)\n");
}

#[test]
fn characters_that_nobody_sees_are_made_visible_wherever_the_text_goes() {
    let text = "a\x1b[2Jb\r\nc\td\u{9b}1m\u{7f}";
    let on = |look| human(Colour::Off, look);
    // Whatever a model or a command may have written.
    for item in [
        json!({"type": "agentMessage", "text": text}),
        json!({"type": "reasoning", "summary": [text], "content": []}),
        json!({"type": "webSearch", "query": text, "action": null}),
        json!({"type": "mcpToolCall", "server": text, "tool": text, "arguments": {},
               "status": "completed", "result": null, "error": null}),
        json!({"type": "fileChange", "status": "completed", "changes": [
            {"path": text, "kind": {"type": "add"}, "diff": ""}]}),
        json!({"type": "commandExecution", "command": text, "cwd": text, "status": "completed",
               "commandActions": [], "exitCode": 0, "aggregatedOutput": text}),
    ] {
        for phase in [Phase::Started, Phase::Completed] {
            if phase == Phase::Started && item["type"] != "commandExecution" {
                continue;
            }
            for look in [Look::Terminal, Look::Elsewhere] {
                let shown = on(look).told(&told(&item, phase));
                assert!(
                    !shown.contains(['\x1b', '\u{9b}', '\u{7f}', '\r']),
                    "{shown:?}"
                );
                assert!(shown.contains("a\\u{1b}[2Jb\nc\td"), "{shown}");
            }
        }
    }
}

#[test]
fn colours_are_used_where_they_are_on() {
    let human = human(Colour::On, Look::Terminal);
    let usage = Usage::default();
    let expected = "\x1b[2mtokens used\x1b[0m\nunknown (thread 0)\n";
    assert_eq!(human.footer(&usage), expected);
    let reasoning = json!({"type": "reasoning", "summary": ["a"], "content": []});
    let shown = human.told(&told(&reasoning, Phase::Completed));
    assert_eq!(shown, "\x1b[2ma\x1b[0m\n", "dimmed");
}

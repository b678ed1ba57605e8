//! Streams with the quirks of Codex 0.166, and streams of nonsense.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const THREAD: &str = "01a1e099-a4bd-7e00-8ac9-0161f278d518";
const NOW_MS: i64 = 1_767_225_600_000;

/// What a stream told: the transcript, its steps in short, and whether every item ended once.
struct Replay {
    transcript: Transcript,
    steps: Vec<String>,
}

fn replay<T: AsRef<[u8]>>(lines: impl IntoIterator<Item = T>) -> Replay {
    replay_in(None, lines)
}

fn replay_in<T: AsRef<[u8]>>(resumed: Option<&str>, lines: impl IntoIterator<Item = T>) -> Replay {
    let resumed = resumed.map(str::to_owned);
    let mut transcript = Transcript::new("turn".to_owned(), "/work".to_owned(), resumed);
    let mut steps = Vec::new();
    for line in lines {
        transcript.read_line(RawLine::Whole(line.as_ref()), NOW_MS, &mut steps);
    }
    transcript.close_items(NOW_MS + 5, &mut steps);
    assert_whole(&steps);
    let steps = steps.iter().map(short).collect();
    Replay { transcript, steps }
}

/// Every item began once and ended once, after it began.
fn assert_whole(steps: &[Step]) {
    let (mut open, mut ended) = (HashSet::new(), HashSet::new());
    for step in steps {
        match step {
            Step::Emit(Event::ItemStarted(item)) => {
                assert!(open.insert(item.id.to_string()), "began twice: {item:?}");
                assert!(
                    !ended.contains(item.id.as_str()),
                    "began after its end: {item:?}"
                );
            }
            Step::Emit(Event::ItemCompleted(item)) => {
                assert!(open.remove(item.id.as_str()), "ended unbegun: {item:?}");
                assert!(ended.insert(item.id.to_string()));
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "never ended: {open:?}");
}

fn short(step: &Step) -> String {
    match step {
        Step::Emit(Event::ItemStarted(item)) => format!("+{} {}", item.id, item.type_word()),
        Step::Emit(Event::ItemCompleted(item)) => {
            let item = serde_json::to_value(item).unwrap();
            let status = item["status"].as_str().or(item["text"].as_str());
            let status = status.or(item["summary"][0].as_str()).unwrap_or("-");
            format!("-{} {status}", item["id"].as_str().unwrap())
        }
        Step::Emit(Event::Warning(text)) => format!("warning {text}"),
        Step::Emit(Event::Retry(error)) => format!("retry {:?}", error.kind.as_ref().unwrap()),
        Step::Emit(Event::Plan { plan, .. }) => format!("plan {}", json!(plan)),
        Step::Emit(other) => format!("{other:?}"),
        Step::ThreadStarted(id) => format!("thread {id}"),
        Step::TurnStarted => "turn".to_owned(),
    }
}

fn item(event: &str, item: &Value) -> String {
    json!({"type": format!("item.{event}"), "item": item}).to_string()
}

fn message(id: u32, text: &str) -> String {
    let id = format!("item_{id}");
    item(
        "completed",
        &json!({"id": id, "type": "agent_message", "text": text}),
    )
}

fn head() -> [String; 2] {
    let thread = json!({"type": "thread.started", "thread_id": THREAD}).to_string();
    [thread, json!({"type": "turn.started"}).to_string()]
}

fn retry(n: u32) -> String {
    let text = format!("Reconnecting... {n}/2 (stream disconnected before completion: x)");
    json!({"type": "error", "message": text}).to_string()
}

#[test]
fn every_quirk_of_the_stream_has_its_rule() {
    let [thread, turn] = head();
    let lines = [
        thread,
        // Before the turn: a warning.
        item("completed", &json!({"id": "item_0", "type": "error", "message": "no metadata"})),
        turn,
        "this line is not JSON".to_owned(),
        String::new(),
        r#"{"type":"item.started","item":{"id":"item_1","type":"web_search","id":"ws_1","query":""}}"#.to_owned(),
        r#"{"type":"item.completed","item":{"id":"item_1","type":"web_search","id":"ws_1","query":"q"}}"#.to_owned(),
        json!({"type": "later.event", "x": 1}).to_string(),
        item("completed", &json!({"id": "item_9", "type": "later_item"})),
        message(2, "cut off"),
        retry(1),
        message(3, "cut off"),
        retry(2),
        message(4, "cut off, but longer"),
        json!({"type": "error", "error": {"message": "older form"}}).to_string(),
        item("started", &json!({"id": "item_5", "type": "todo_list", "items": [{"text": "a", "completed": false}]})),
        item("updated", &json!({"id": "item_5", "type": "todo_list", "items": [{"text": "a", "completed": true}]})),
        item("started", &json!({"id": "item_6", "type": "command_execution", "command": "ls", "status": "in_progress"})),
        message(7, "the answer"),
        item("completed", &json!({"id": "item_8", "type": "reasoning", "text": "late thought"})),
        r#"{"type":"turn.completed","usage":{"input_tokens":100,"cached_input_tokens":40,"cache_write_input_tokens":0,"output_tokens":20,"reasoning_output_tokens":5}}"#.to_owned(),
    ];
    let told = replay(&lines);
    assert_eq!(
        told.steps,
        [
            &format!("thread {THREAD}"),
            "warning no metadata",
            "turn",
            "warning a line of Codex's output was skipped: it is not a JSON object",
            "+turn/item_1 webSearch",
            "-turn/item_1 -",
            "+turn/item_2 agentMessage",
            "-turn/item_2 cut off",
            "retry Network",
            "retry Network",
            "+turn/item_4 agentMessage",
            "-turn/item_4 cut off, but longer",
            r#"plan [{"status":"pending","step":"a"}]"#,
            r#"plan [{"status":"completed","step":"a"}]"#,
            "+turn/item_6 commandExecution",
            "+turn/item_7 agentMessage",
            "-turn/item_7 the answer",
            "+turn/item_8 reasoning",
            "-turn/item_8 late thought",
            "-turn/item_6 failed",
        ]
    );
    let transcript = told.transcript;
    assert_eq!(transcript.last_message.as_deref(), Some("the answer"));
    assert_eq!(transcript.last_error.as_deref(), Some("older form"));
    let Some(TerminalLine::Completed { usage: Some(usage) }) = transcript.terminal else {
        panic!("{:?}", transcript.terminal);
    };
    assert_eq!((usage.input_tokens, usage.output_tokens), (100, 20));
}

#[test]
fn an_announced_retry_is_no_progress() {
    let [thread, turn] = head();
    let mut transcript = Transcript::new("turn".to_owned(), "/".to_owned(), None);
    let mut steps = Vec::new();
    for line in [thread, turn] {
        transcript.read_line(RawLine::Whole(line.as_bytes()), NOW_MS, &mut steps);
    }
    let before = transcript.progress;
    let waiting = json!({"type": "error", "message": "Reconnecting... waiting for network (x)"});
    let waiting = waiting.to_string();
    transcript.read_line(RawLine::Whole(waiting.as_bytes()), NOW_MS, &mut steps);
    assert_eq!(transcript.progress, before);
    assert_eq!(transcript.events, 3);
}

#[test]
fn the_words_of_a_model_are_never_taken_for_an_error() {
    let [thread, turn] = head();
    let quoting = message(
        0,
        "You've hit your usage limit. Reconnecting... try again at 9:05 PM.",
    );
    let told = replay([thread, turn, quoting]);
    assert!(told.transcript.last_error.is_none());
    assert!(told.transcript.terminal.is_none());
    assert!(!told.steps.iter().any(|step| step.starts_with("retry")));
}

#[test]
fn the_reason_of_a_failure_is_found_in_every_form() {
    let failed = |line: Value, before: &[String]| {
        let lines = before.iter().cloned().chain([line.to_string()]);
        match replay(lines).transcript.terminal {
            Some(TerminalLine::Failed {
                message,
                kind,
                retry_at,
            }) => (message, kind, retry_at),
            other => panic!("{other:?}"),
        }
    };
    let error = json!({"type": "error", "message": "earlier"}).to_string();
    let line = json!({"type": "turn.failed", "error": {"message": "m"}});
    assert_eq!(failed(line, &[]), ("m".to_owned(), None, None));
    let line =
        json!({"type": "turn.failed", "error": {"message": "m", "kind": "quota", "retry_at": 7}});
    assert_eq!(
        failed(line, &[]),
        ("m".to_owned(), Some(ErrorKind::Quota), Some(7))
    );
    let line = json!({"type": "turn.failed", "error": {"message": "m", "kind": "novel"}});
    assert_eq!(failed(line, &[]).1, None);
    let line = json!({"type": "turn.failed"});
    assert_eq!(failed(line.clone(), &[error]).0, "earlier");
    assert_eq!(failed(line, &[]).0, "Codex gave no reason");
}

#[test]
fn the_first_terminal_line_counts() {
    let completed = json!({"type": "turn.completed", "usage": {"input_tokens": 1}}).to_string();
    let failed = json!({"type": "turn.failed", "error": {"message": "m"}}).to_string();
    let told = replay([completed, failed]);
    let expected = TerminalLine::Completed { usage: None };
    assert_eq!(told.transcript.terminal, Some(expected));
}

#[test]
fn another_thread_is_a_fault_and_nothing_of_it_is_told() {
    let [thread, turn] = head();
    let lines = [thread.clone(), turn, message(0, "from elsewhere")];
    let told = replay_in(Some("01a1e099-0000-7000-8000-000000000000"), &lines);
    assert_eq!(told.transcript.thread_fault, Some(EndCause::ResumeMismatch));
    assert!(told.steps.is_empty(), "{:?}", told.steps);
    let told = replay_in(Some(&THREAD.to_uppercase()), &lines);
    assert_eq!(told.transcript.thread_fault, None);
    assert_eq!(told.steps.len(), 3, "a resumed thread is not saved again");
    let unnamed = json!({"type": "thread.started", "thread_id": "--last"}).to_string();
    assert_eq!(
        replay([unnamed]).transcript.thread_fault,
        Some(EndCause::BadThreadId)
    );
}

#[test]
fn ids_that_repeat_or_are_missing_do_no_harm() {
    let command = json!({"id": "item_0", "type": "command_execution", "command": "ls"});
    let nameless = json!({"type": "agent_message", "text": "no id"});
    let endless = json!({"id": "x".repeat(1000), "type": "agent_message", "text": "long id"});
    let told = replay([
        item("started", &command),
        item("started", &command),
        item("completed", &command),
        item("completed", &command),
        item("started", &command),
        item("completed", &nameless),
        item("completed", &endless),
    ]);
    assert_eq!(
        told.steps,
        [
            "+turn/item_0 commandExecution",
            "-turn/item_0 inProgress",
            "+turn/line_6 agentMessage",
            "-turn/line_6 no id",
            "+turn/line_7 agentMessage",
            "-turn/line_7 long id",
        ]
    );
}

#[test]
fn skipped_lines_are_warned_of_a_few_times_and_counted() {
    let told = replay(vec!["nonsense"; 10]);
    assert_eq!(told.steps.len(), 4);
    assert_eq!(
        told.steps[3],
        "warning 7 more lines of Codex's output were skipped"
    );
    let mut transcript = Transcript::new("t".to_owned(), "/".to_owned(), None);
    let mut steps = Vec::new();
    transcript.read_line(RawLine::TooLong, 0, &mut steps);
    assert_eq!(
        short(&steps[0]),
        "warning a line of Codex's output was skipped: it is longer than 16 MiB"
    );
}

#[test]
fn items_beyond_the_bound_are_told_when_they_end() {
    let command = |n: usize| json!({"id": format!("item_{n}"), "type": "command_execution"});
    let count = OPEN_ITEMS_MAX + 10;
    let started = (0..count).map(|n| item("started", &command(n)));
    let completed = (0..count).map(|n| item("completed", &command(n)));
    let told = replay(started.chain(completed));
    assert_eq!(told.steps.len(), 2 * count);
}

/// Lines that are nearly events: known types and members with values of every sort.
fn near_event() -> impl Strategy<Value = String> {
    let kind = prop::sample::select(vec![
        "thread.started",
        "turn.started",
        "turn.completed",
        "turn.failed",
        "error",
        "item.started",
        "item.updated",
        "item.completed",
        "other",
        "",
    ]);
    let item_kind = prop::sample::select(vec![
        "agent_message",
        "reasoning",
        "command_execution",
        "file_change",
        "mcp_tool_call",
        "collab_tool_call",
        "web_search",
        "todo_list",
        "error",
        "other",
    ]);
    let value = prop_oneof![
        Just(json!(null)),
        any::<i64>().prop_map(|number| json!(number)),
        ".{0,8}".prop_map(|text| json!(text)),
        Just(json!(["x", {"kind": "add", "path": "/p", "text": 1}])),
        Just(json!({"message": "m", "content": 7, "status": "pending_init", "type": "open_page"})),
        Just(json!("Reconnecting... 1/2")),
    ];
    let members = prop::collection::btree_map(
        prop::sample::select(vec![
            "text",
            "message",
            "command",
            "status",
            "exit_code",
            "changes",
            "arguments",
            "result",
            "error",
            "action",
            "items",
            "receiver_thread_ids",
            "agents_states",
            "usage",
            "tool",
        ]),
        value,
        0..6,
    );
    (kind, item_kind, 0..4_u8, members).prop_map(|(kind, item_kind, id, members)| {
        let mut item = json!({"id": format!("item_{id}"), "type": item_kind});
        let mut line = json!({"type": kind, "thread_id": THREAD});
        for (name, value) in members {
            item[name] = value.clone();
            line[name] = value;
        }
        line["item"] = item;
        line.to_string()
    })
}

proptest! {
    #[test]
    fn no_bytes_stop_the_reader(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..20)) {
        let told = replay(lines.into_iter().chain([message(0, "still read").into_bytes()]));
        prop_assert_eq!(told.transcript.last_message.as_deref(), Some("still read"));
    }

    #[test]
    fn no_event_breaks_the_life_of_items(lines in prop::collection::vec(near_event(), 0..40)) {
        replay(lines);
    }
}

//! What a run says of what it is told: the table of ends, row by row.

use serde_json::{Value, json};
use turnlane::{ErrorKind, Plan, PlanStep, TokenCounts, TurnView};

use super::*;

const THREAD: &str = "thread-1";
const TURN: &str = "turn-1";

fn event(thread: &str, turn: Option<&str>, method: &str, body: EventBody) -> Heard {
    Heard {
        method: method.to_owned(),
        thread: Some(thread.to_owned()),
        turn: turn.map(str::to_owned),
        body,
    }
}

fn of_turn(body: EventBody) -> Heard {
    event(THREAD, Some(TURN), "", body)
}

fn view(turn: &str, status: TurnStatus) -> Box<TurnView> {
    Box::new(TurnView {
        id: turn.into(),
        status,
        items: Vec::new(),
        error: None,
        usage: None,
        started_at: None,
        completed_at: None,
        duration: None,
        queued_turn: None,
        attempt: None,
    })
}

fn ended(turn: &str, status: TurnStatus) -> EventBody {
    EventBody::TurnCompleted(view(turn, status))
}

fn failing(message: &str, will_retry: bool) -> EventBody {
    EventBody::Error(Box::new(ErrorInfo {
        message: message.to_owned(),
        info: None,
        kind: ErrorKind::Network,
        retry_at: None,
        retry_estimated: false,
        http_status: None,
        details: None,
        will_retry,
        outcome_known: true,
        blocked_by: None,
    }))
}

fn item(id: &str, value: Value) -> Box<Item> {
    let mut value = value;
    value["id"] = json!(id);
    Box::new(serde_json::from_value(value).unwrap())
}

fn message(id: &str, text: &str) -> Box<Item> {
    item(
        id,
        json!({"type": "agentMessage", "text": text, "completedAtMs": 1}),
    )
}

fn command(id: &str, status: &str) -> Box<Item> {
    let ended = (status != "inProgress").then_some(1);
    item(
        id,
        json!({"type": "commandExecution", "command": "c", "cwd": "/w", "status": status,
                    "commandActions": [], "completedAtMs": ended}),
    )
}

fn run() -> Run {
    let mut run = Run::new(THREAD, PathBuf::from("/w"));
    run.accepted(TURN);
    run
}

/// The words of what was said: types, and items with their ids.
fn words(told: &[Told]) -> Vec<String> {
    let word = |told: &Told| {
        let line = serde_json::to_value(&told.event).unwrap();
        let kind = line["type"].as_str().unwrap();
        match line["item"]["id"].as_str() {
            Some(id) => format!("{kind} {id}"),
            None => kind.to_owned(),
        }
    };
    told.iter().map(word).collect()
}

fn finish(run: &mut Run) -> (Vec<String>, End) {
    let ending = run.ended().cloned().unwrap();
    let (told, end) = run.finish(ending);
    (words(&told), end)
}

#[test]
fn only_the_typed_end_of_the_own_turn_ends_a_run() {
    let mut run = run();
    for other in [
        event(
            "thread-2",
            Some(TURN),
            "",
            ended(TURN, TurnStatus::Completed),
        ),
        event(
            "thread-2",
            Some("turn-2"),
            "",
            ended("turn-2", TurnStatus::Failed),
        ),
        event(
            THREAD,
            Some("turn-2"),
            "",
            ended("turn-2", TurnStatus::Completed),
        ),
        of_turn(ended(TURN, TurnStatus::InProgress)),
        event("thread-2", None, "thread/closed", EventBody::ThreadGone),
        event("thread-2", None, "thread/deleted", EventBody::ThreadGone),
        event(THREAD, None, "thread/closed", EventBody::ThreadGone),
        event(
            THREAD,
            Some("turn-2"),
            "",
            EventBody::ItemCompleted(message("i", "no")),
        ),
        event("thread-2", Some(TURN), "", failing("no", false)),
    ] {
        assert!(run.take(other).is_empty());
        assert!(run.ended().is_none() && !run.is_gone() && !run.is_failing());
    }
    run.take(of_turn(ended(TURN, TurnStatus::Completed)));
    assert_eq!(
        finish(&mut run),
        (
            vec!["turn.started".to_owned(), "turn.completed".to_owned()],
            End::Completed
        )
    );
}

#[test]
fn a_fan_out_over_a_hundred_rows_ends_with_its_own_turn() {
    let mut run = run();
    for row in 0..100 {
        let (thread, turn) = (format!("row-{row}"), format!("turn of row-{row}"));
        run.take(event(
            &thread,
            Some(&turn),
            "",
            ended(&turn, TurnStatus::Completed),
        ));
        assert!(run.ended().is_none());
    }
    run.take(of_turn(ended(TURN, TurnStatus::Failed)));
    assert_eq!(finish(&mut run).1, End::Failed);
}

#[test]
fn each_status_has_its_last_word() {
    let mut interrupted = run();
    interrupted.take(of_turn(EventBody::TurnStarted(view(
        TURN,
        TurnStatus::InProgress,
    ))));
    interrupted.take(of_turn(EventBody::ItemStarted(command("a", "inProgress"))));
    interrupted.take(of_turn(ended(TURN, TurnStatus::Interrupted)));
    let ending = interrupted.ended().cloned().unwrap();
    let (told, end) = interrupted.finish(ending);
    assert_eq!(words(&told), ["item.completed item_0", "turn.failed"]);
    assert_eq!(end, End::Interrupted);
    let last = serde_json::to_value(&told[1].event).unwrap();
    assert_eq!(last["error"]["kind"], "interrupted");
    let item = serde_json::to_value(&told[0].event).unwrap();
    assert_eq!(item["item"]["status"], "failed");

    let mut strange = run();
    strange.take(of_turn(ended(
        TURN,
        TurnStatus::Unknown("melted".to_owned()),
    )));
    assert_eq!(finish(&mut strange).1, End::Failed, "never a success");
}

#[test]
fn an_error_is_said_once_and_a_retry_goes_on() {
    let mut run = run();
    let told = run.take(of_turn(failing("Reconnecting... 1/2 (x)", true)));
    assert_eq!(words(&told), ["turn.started", "error"]);
    assert!(!run.is_failing());
    let told = run.take(of_turn(failing("broken", false)));
    assert_eq!(words(&told), ["error"]);
    assert!(run.is_failing());
    // As servers do that tell it of the call and of the turn.
    assert!(run.take(of_turn(failing("broken", false))).is_empty());
    let mut failed = view(TURN, TurnStatus::Failed);
    let EventBody::Error(error) = failing("broken", false) else {
        unreachable!();
    };
    failed.error = Some(*error);
    run.take(of_turn(EventBody::TurnCompleted(failed)));
    assert_eq!(
        finish(&mut run),
        (vec!["turn.failed".to_owned()], End::Failed)
    );
}

#[test]
fn what_was_missed_is_read_back_and_nothing_is_said_twice() {
    let mut run = run();
    run.take(of_turn(EventBody::ItemStarted(command("a", "inProgress"))));
    run.take(of_turn(EventBody::Lagged { missed: 3 }));
    run.take(of_turn(EventBody::ItemCompleted(message("m1", "one"))));
    run.take(of_turn(ended(TURN, TurnStatus::Completed)));
    assert!(run.has_gap());
    let stored = [
        command("a", "completed"),
        message("m1", "one"),
        command("b", "failed"),
        message("m2", "two"),
    ];
    let told = run.read_back(stored.into_iter().map(|item| *item).collect());
    assert_eq!(
        words(&told),
        [
            "item.completed item_0",
            "item.started item_2",
            "item.completed item_2",
            "item.completed item_3"
        ]
    );
    let started = serde_json::to_value(&told[1].event).unwrap();
    assert_eq!(started["item"]["status"], "in_progress");
    assert_eq!(run.last_message(), Some("two"));
    assert!(!run.has_gap());
    assert_eq!(
        finish(&mut run),
        (vec!["turn.completed".to_owned()], End::Completed)
    );
}

#[test]
fn the_plan_ends_directly_before_the_last_line() {
    let mut run = run();
    let plan = |status| {
        let step = PlanStep {
            step: "a".to_owned(),
            status,
        };
        EventBody::Plan(Plan {
            explanation: None,
            steps: vec![step],
        })
    };
    let told = run.take(of_turn(plan(PlanStepStatus::Pending)));
    assert_eq!(words(&told), ["turn.started", "item.started item_0"]);
    let told = run.take(of_turn(plan(PlanStepStatus::Completed)));
    assert_eq!(words(&told), ["item.updated item_0"]);
    run.take(of_turn(EventBody::ItemStarted(command("a", "inProgress"))));
    run.take(of_turn(ended(TURN, TurnStatus::Failed)));
    let (said, _) = finish(&mut run);
    assert_eq!(
        said,
        [
            "item.completed item_1",
            "item.completed item_0",
            "error",
            "turn.failed"
        ]
    );
}

#[test]
fn usage_is_the_threads_and_zeros_where_nobody_knows() {
    let mut run = run();
    let counts = |input_tokens| TokenCounts {
        input_tokens,
        ..TokenCounts::default()
    };
    let mut view = view(TURN, TurnStatus::Completed);
    view.usage = Some(Usage {
        thread: Some(counts(7)),
        turn: None,
        ..Usage::default()
    });
    run.take(of_turn(EventBody::TurnCompleted(view)));
    let ending = run.ended().cloned().unwrap();
    let (told, _) = run.finish(ending);
    let last = serde_json::to_value(&told.last().unwrap().event).unwrap();
    assert_eq!(last["usage"]["input_tokens"], 7);
    assert_eq!(last["turn_usage"], Value::Null);
    assert_eq!(last["turn_id"], TURN);
}

#[test]
fn a_thread_that_is_archived_or_deleted_ends_the_run() {
    for method in ["thread/archived", "thread/deleted"] {
        let mut run = run();
        run.take(event(THREAD, None, method, EventBody::ThreadGone));
        assert!(run.is_gone());
        let (told, end) = run.give_up("gone", ErrorKind::Other);
        assert_eq!(
            (words(&told), end),
            (
                ["turn.started", "error", "turn.failed"]
                    .map(str::to_owned)
                    .to_vec(),
                End::Failed
            )
        );
    }
}

#[test]
fn warnings_are_items_before_and_in_the_turn() {
    let mut run = run();
    let told = run.take(event(
        THREAD,
        None,
        "warning",
        EventBody::Warning("w".to_owned()),
    ));
    assert_eq!(words(&told), ["item.completed item_0"]);
    let told = run.take(of_turn(EventBody::ItemCompleted(message("m", "x"))));
    assert_eq!(words(&told), ["turn.started", "item.completed item_1"]);
    let told = run.take(event(
        "thread-2",
        None,
        "warning",
        EventBody::Warning("w".to_owned()),
    ));
    assert!(told.is_empty());
}

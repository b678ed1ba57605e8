//! What answers become, as lines a person can read.
//!
//! Each row of the contract's two tables is one test in `events` or `disorder`; every stream of
//! them is also cut at every byte in `splits`.

mod disorder;
mod events;
mod mock;
mod splits;
mod whole;

use serde_json::Value;
use turnlane_protocol::ids::ItemId;
use turnlane_protocol::item::ItemBody;

use super::*;

/// A row: its name, its stream, and what it becomes.
struct Row {
    name: &'static str,
    stream: String,
    told: Vec<String>,
}

/// Makes one test per row, and `all` to run them otherwise.
macro_rules! rows {
    ($($name:ident: [$($frame:expr),* $(,)?] => [$($told:expr),* $(,)?];)*) => {
        pub(super) fn all() -> Vec<super::Row> {
            vec![$(super::Row {
                name: stringify!($name),
                stream: [$(String::from($frame)),*].concat(),
                told: vec![$(String::from($told)),*],
            }),*]
        }

        $(#[test]
        fn $name() {
            let row = all().into_iter().find(|row| row.name == stringify!($name)).unwrap();
            assert_eq!(super::told(&[row.stream.as_bytes()]), row.told);
        })*
    };
}
use rows;

/// An event in its frame.
fn event(kind: &str, mut members: Value) -> String {
    members["type"] = kind.into();
    format!("event: {kind}\ndata: {members}\n\n")
}

/// `response.` may be left out here.
macro_rules! e {
    ($kind:literal) => { super::event(concat!("response.", $kind), serde_json::json!({})) };
    ($kind:literal, $($members:tt)+) => {
        super::event(concat!("response.", $kind), serde_json::json!($($members)+))
    };
}
use e;

fn counting() -> impl FnMut() -> ItemId {
    let mut count = 0;
    move || {
        count += 1;
        ItemId::from(format!("i{count}"))
    }
}

fn told_of(mut reader: ResponseStream<impl FnMut() -> ItemId>, chunks: &[&[u8]]) -> Vec<String> {
    let mut steps = Vec::new();
    let pushed = chunks
        .iter()
        .try_for_each(|chunk| reader.push(chunk, &mut steps));
    let ended = pushed.and_then(|()| reader.finish(&mut steps));
    reader.abandon(&mut steps);
    let mut told: Vec<String> = steps.iter().map(line).collect();
    told.extend(ended.err().map(|error| format!("error: {error}")));
    told
}

/// The steps of a streamed answer, then those of giving it up, then the error if there was one.
fn told(chunks: &[&[u8]]) -> Vec<String> {
    told_of(ResponseStream::new(Body::Events, counting()), chunks)
}

fn shown(body: &ItemBody) -> String {
    match body {
        ItemBody::AgentMessage(message) => match &message.phase {
            Some(phase) => format!("message {:?} {phase:?}", message.text),
            None => format!("message {:?}", message.text),
        },
        ItemBody::Reasoning(reasoning) => {
            format!("reasoning {:?} {:?}", reasoning.summary, reasoning.content)
        }
        ItemBody::WebSearch(search) => format!("search {:?}", search.query),
        other => format!("{other:?}"),
    }
}

fn line(step: &Step) -> String {
    match step {
        Step::Opened { item_id, body } => format!("{item_id} opened: {}", shown(body)),
        Step::TextDelta { item_id, delta } => format!("{item_id} + {delta:?}"),
        Step::ReasoningSummaryPartAdded {
            item_id,
            summary_index,
        } => {
            format!("{item_id} summary part {summary_index}")
        }
        Step::ReasoningSummaryDelta {
            item_id,
            summary_index,
            delta,
        } => {
            format!("{item_id} summary {summary_index} + {delta:?}")
        }
        Step::ReasoningTextDelta {
            item_id,
            content_index,
            delta,
        } => {
            format!("{item_id} thought {content_index} + {delta:?}")
        }
        Step::Completed(done) => {
            let raw = done.raw.as_ref().map_or("not replayed", |_| "replayed");
            let body = shown(&done.body);
            format!(
                "{} completed at {}, {raw}: {body}",
                done.item_id, done.place
            )
        }
        Step::Kept { place, raw } => format!("kept at {place}: {raw}"),
        Step::LeftOpen { item_id, body } => format!("{item_id} left open: {}", shown(body)),
        Step::Call(call) => format!(
            "call {} at {}: {}({})",
            call.call_id, call.place, call.name, call.arguments
        ),
        Step::Warning(text) => format!("warning: {text}"),
        Step::Usage(usage) => format!(
            "usage {} = {} ({} cached, {} written) + {} ({} reasoning)",
            usage.total_tokens,
            usage.input_tokens,
            usage.cached_input_tokens,
            usage.cache_write_input_tokens,
            usage.output_tokens,
            usage.reasoning_output_tokens
        ),
        Step::Terminal(Terminal::Completed { end_turn: None }) => "completed".to_owned(),
        Step::Terminal(Terminal::Completed {
            end_turn: Some(end),
        }) => {
            format!("completed, end of turn {end}")
        }
        Step::Terminal(Terminal::Incomplete {
            reason,
            calls_dropped,
        }) => {
            format!("incomplete: {reason}, {calls_dropped} calls dropped")
        }
        Step::Terminal(Terminal::Failed { error }) => format!("failed: {error}"),
    }
}

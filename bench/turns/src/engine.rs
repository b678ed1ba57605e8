//! What the native engine does by itself: the body of a long request, and a patch.
//!
//! No server and no model: these are parts of a turn that Codex offers no way to measure apart. A
//! patch stands beside a plain write of the same file with its fsync, since a disk's own time is
//! most of both.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use turnlane_engine::Entry;
use turnlane_engine::native::history::{Answer, Author, Pictures, Produced, Reasoning, View};
use turnlane_engine::native::patch::{DiskFiles, Patch, Plan};
use turnlane_engine::native::request::{Body, Fields};
use turnlane_protocol::ids::{ThreadId, TurnId};

use turnlane_benchkit::Figures;

const ROUNDS: usize = 50;
/// Two entries each: a call and its answer.
const CALLS: usize = 5_000;
/// What makes an answer long enough for ten megabytes in all.
const ANSWER_BYTES: usize = 1_800;
const LINES: usize = 10_000;

/// Milliseconds of each, at the median and at the 99th percentile.
pub(crate) fn run() -> anyhow::Result<()> {
    turnlane_benchkit::println("| | p50 ms | p99 ms |");
    turnlane_benchkit::println("| --- | ---: | ---: |");
    let history = history();
    let (times, bytes) = requests(&history);
    let entries = history.len();
    row(
        &format!("request of {entries} entries, {bytes} bytes"),
        &times,
    );
    let folder = tempfile::tempdir().context("no folder for the patched file")?;
    let [patched, written] = patches(folder.path())?;
    row("patch of one chunk, verified and written", &patched);
    row("plain write and fsync of the same file", &written);
    Ok(())
}

fn row(what: &str, times: &Figures) {
    let (middle, late) = (times.percentile(50), times.percentile(99));
    turnlane_benchkit::println(&format!("| {what} | {middle:.2} | {late:.2} |"));
}

fn history() -> Vec<Entry> {
    let author = Author {
        turn_id: TurnId::at(1, [1; 10]),
        provider: "p".to_owned(),
        model: "m".to_owned(),
    };
    let round = |nth: usize| {
        let call_id = format!("call_{nth}");
        let answer = Answer {
            call_id: call_id.clone(),
            text: "x".repeat(ANSWER_BYTES),
        };
        let call = Produced::Call {
            call_id,
            name: "exec_command".to_owned(),
            arguments: "{\"cmd\":\"make test\"}".to_owned(),
        };
        [author.output(&[call]), author.answers(&[answer])]
    };
    (0..CALLS).flat_map(round).flatten().collect()
}

fn requests(history: &[Entry]) -> (Figures, usize) {
    let fields = Fields {
        model: "m",
        instructions: "be good",
        tools: &[],
        effort: None,
        summary: None,
        verbosity: None,
        output_schema: None,
        service_tier: None,
        max_output_tokens: None,
        thread_id: ThreadId::at(1, [1; 10]),
        drop: &[],
    };
    let view = View {
        provider: "p".to_owned(),
        reasoning: Reasoning::Encrypted,
        pictures: Pictures::Sent,
    };
    let mut times = Figures::default();
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        let view = view.clone();
        let before = turnlane_benchkit::now();
        let body = Body::new(&fields, view, history);
        times.add_time(before.elapsed());
        bytes = body.as_bytes().len();
    }
    (times, bytes)
}

/// A patch in the middle of a file, and the same content written plainly, in turn.
fn patches(folder: &Path) -> anyhow::Result<[Figures; 2]> {
    let path = folder.join("long.rs");
    let lines: Vec<String> = (0..LINES).map(|nth| format!("line {nth}")).collect();
    let old = lines.join("\n") + "\n";
    let middle = LINES / 2;
    let text = format!(
        "*** Begin Patch\n*** Update File: long.rs\n@@\n line {}\n-line {middle}\n+changed\n line {}\n\
         *** End Patch\n",
        middle - 1,
        middle + 1
    );
    let [mut patched, mut written] = [Figures::default(), Figures::default()];
    for _ in 0..ROUNDS {
        let before = turnlane_benchkit::now();
        let mut file = File::create(&path)?;
        file.write_all(old.as_bytes())?;
        file.sync_all()?;
        written.add_time(before.elapsed());

        let before = turnlane_benchkit::now();
        let patch = Patch::parse(&text)?;
        let plan = Plan::make(&patch, &DiskFiles::new(folder.to_owned()))?;
        plan.apply()?;
        patched.add_time(before.elapsed());
    }
    Ok([patched, written])
}

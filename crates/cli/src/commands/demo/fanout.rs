//! `turnlane demo fanout`: one task over a table, killed in the middle, continued, retried, exported.
//!
//! The invariant here: every command that is shown is the command that is run, by this same program in
//! the demo's home. At the end the stored results are compared with what was claimed.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use tokio::time::timeout;
use turnlane_process::{
    Delivery, Event, Process, ProcessService, Signal, Spec, StreamName, Target, Until,
};

use super::Pace;
use super::folder::Folder;
use super::view::View;
use super::worker::{containment, environment};
use crate::shown::Ink;
use crate::shown::text::{counted, visible};

const HEAD: &str = "\
One task over a table: one agent per row, one result per row. No model, no key, no network: a script
plays the agents, and everything else is real.
";

const NEXT: &str = "
  turnlane fanout run files.csv --id path --instruction 'Review {path}' -s read-only -o reviews.csv
                                  the same with your model: export OPENAI_API_KEY first
  … --dry-run                     what would be sent; nothing is stored, no model is called
  … --schema review.json -j 16    results that fit a JSON Schema, 16 agents at once
  turnlane fanout list            every job, also those that were cut off

docs/fanout.md has a worked example.
";

/// The table: the rows below `src` end at once, those below `tests` run when the kill comes.
const ROWS: [&str; 12] = [
    "src/args.rs",
    "src/legacy.rs",
    "src/lib.rs",
    "src/main.rs",
    "src/queue.rs",
    "src/store.rs",
    "tests/args.rs",
    "tests/crash.rs",
    "tests/lib.rs",
    "tests/main.rs",
    "tests/queue.rs",
    "tests/store.rs",
];
/// Rows that have ended when the process is killed, and rows that run then.
const ENDED: usize = 6;
const KILLED: usize = 6;

/// The agents. The first attempt of a row below `tests` takes a minute, so that the kill finds it running.
const AGENTS: &str = r#"version: 1
turns:
  - match: "Attempt 1 ended"
    steps: REPORT
  - match: "Review src/legacy.rs"
    steps: [{error: {info: badRequest, message: "the provider refused this prompt"}}]
  - match: "Review tests/"
    steps: [{await: {ms: 60000}}]
fallback: REPORT
"#;

/// The steps of an agent that delivers its result.
const REPORT: &str = r#"[{await: {ms: PAUSE}}, {call: {tool: report_agent_job_result, arguments:
  '{"job_id":"{line:Job ID: }","item_id":"{line:Item ID: }","result":{"score":4}}'}}]"#;

const RUN: &[&str] = &[
    "fanout",
    "run",
    "files.csv",
    "--id",
    "path",
    "--instruction",
    "Review {path}",
    "--script",
    "agents.yaml",
    "-j",
    "6",
    "-o",
    "reviews.csv",
];

/// The longest time that a command may take.
const LIMIT: Duration = Duration::from_mins(1);

/// Tells the story; fails when something that it claims is not so.
pub(super) async fn tell(
    view: &View,
    folder: &Folder,
    service: &ProcessService,
    pace: Pace,
) -> anyhow::Result<()> {
    let story = Story {
        view,
        folder,
        service,
    };
    view.plain(HEAD)?;
    view.chapter("1. A table").await?;
    let table = format!("path\n{}\n", ROWS.join("\n"));
    let pause = if pace == Pace::Readable { "700" } else { "1" };
    let agents = AGENTS.replace("REPORT", &REPORT.replace("PAUSE", pause));
    for (name, text) in [("files.csv", &table), ("agents.yaml", &agents)] {
        let path = folder.work().join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let rows = counted(ROWS.len(), "row");
    view.line(
        0,
        Ink::Plain,
        &format!("files.csv: {rows}, the column `path`"),
    )?;

    view.chapter("2. One agent per row, six at once; kill -9 in the middle")
        .await?;
    story.kill_in_the_middle().await?;

    view.chapter("3. The same command continues the job")
        .await?;
    story.shows(RUN, 3).await?;

    view.chapter("4. The row that failed, and once more")
        .await?;
    story
        .shows(&["fanout", "items", "files", "--state", "failed"], 0)
        .await?;
    story
        .shows(&["fanout", "retry", "files", "--script", "agents.yaml"], 0)
        .await?;

    view.chapter("5. The results").await?;
    story
        .shows(
            &["fanout", "export", "files", "-o", "flat.csv", "--flatten"],
            0,
        )
        .await?;
    let table = folder.work().join("reviews.csv");
    let table = std::fs::read_to_string(table).context("reviews.csv was not written")?;
    for line in table.lines().take(3) {
        view.line(1, Ink::Dim, line)?;
    }
    view.line(
        1,
        Ink::Dim,
        &format!("… {} lines in reviews.csv", table.lines().count()),
    )?;

    let tally = story.tally().await?;
    view.chapter("Checked: the stored results, read back")
        .await?;
    view.plain(&tally.shown())?;
    tally.check(table.lines().count())?;
    view.plain(&format!(
        "\n{}{NEXT}",
        view.paint(Ink::Bold, "What to type next")
    ))
}

struct Story<'a> {
    view: &'a View,
    folder: &'a Folder,
    service: &'a ProcessService,
}

impl Story<'_> {
    /// Runs the job until half of its rows have ended, then kills the process that runs it.
    async fn kill_in_the_middle(&self) -> anyhow::Result<()> {
        let words = [RUN, &["--json"]].concat();
        self.view.line(0, Ink::Plain, &typed(&words))?;
        let process = self.start(&words).await?;
        let half = timeout(LIMIT, until_half(&process)).await;
        half.context("the job did not come to its middle")??;
        let text = format!("{ENDED} rows have ended, one of them failed; {KILLED} agents run");
        self.view.line(1, Ink::Plain, &text)?;
        process.signal(Signal::Kill, Target::Leader);
        let status = process.wait(Until::Exited, Some(LIMIT)).await;
        let status = status.context("the process was killed and is still there")?;
        ensure!(
            status.signal == Some(Signal::Kill.number()),
            "the process ended by itself before it was killed"
        );
        let text = format!(
            "kill -9 {}: it gets no time for anything",
            process.info().pid
        );
        self.view.line(1, Ink::Plain, &text)
    }

    /// Runs a command to its end and shows it with what it says; its exit code is known.
    async fn shows(&self, words: &[&str], code: i32) -> anyhow::Result<()> {
        self.view.line(0, Ink::Plain, &typed(words))?;
        let (stdout, stderr) = self.run(words, code).await?;
        for line in stdout.lines().chain(stderr.lines()) {
            self.view.line(1, Ink::Dim, line)?;
        }
        Ok(())
    }

    async fn run(&self, words: &[&str], code: i32) -> anyhow::Result<(String, String)> {
        let process = self.start(words).await?;
        let status = process.wait(Until::Closed, Some(LIMIT)).await;
        let status = status.with_context(|| format!("`{}` does not end", typed(words)))?;
        let output = process.snapshot();
        if status.code != code {
            bail!(
                "`{}` ended with {}, not {code}: {}",
                typed(words),
                status.code,
                visible(&output.stderr.text())
            );
        }
        Ok((output.stdout.text(), output.stderr.text()))
    }

    async fn start(&self, words: &[&str]) -> anyhow::Result<Process> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let argv =
            std::iter::once(program.into_os_string()).chain(words.iter().map(OsString::from));
        let spec = Spec {
            env: environment(self.folder),
            delivery: Delivery::Retain,
            containment: containment(self.service),
            ..Spec::new(argv, self.folder.work())
        };
        let process = self.service.spawn(spec).await;
        process.context("cannot start this program again")
    }

    /// Reads the results back.
    async fn tally(&self) -> anyhow::Result<Tally> {
        let words = ["fanout", "export", "files", "-o", "-", "--format", "jsonl"];
        let (stdout, _) = self.run(&words, 0).await?;
        let mut tally = Tally::default();
        for line in stdout.lines() {
            let item: Value = serde_json::from_str(line).context("the export is no JSON")?;
            tally.rows += 1;
            tally.results += usize::from(!item["result"].is_null());
            let attempts = item["attempts"].as_u64().unwrap_or(0);
            tally.attempts += usize::try_from(attempts)?;
        }
        Ok(tally)
    }
}

/// What was found at the end.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    rows: usize,
    results: usize,
    attempts: usize,
}

impl Tally {
    fn shown(&self) -> String {
        let Self {
            rows,
            results,
            attempts,
        } = self;
        let again = attempts.saturating_sub(*rows);
        format!(
            "  rows       {rows}\n  \
             results    {results}\n  \
             attempts   {attempts}: {rows} rows, {again} again ({KILLED} by the kill, 1 by the retry)\n  \
             lost       {}\n  \
             doubled    {}\n",
            rows.saturating_sub(*results),
            again.saturating_sub(KILLED + 1),
        )
    }

    /// Compares it with what the demo claims; the table has a header.
    fn check(&self, lines: usize) -> anyhow::Result<()> {
        let claimed = Self {
            rows: ROWS.len(),
            results: ROWS.len(),
            attempts: ROWS.len() + KILLED + 1,
        };
        ensure!(
            *self == claimed && lines == ROWS.len() + 1,
            "the demo did not find what it claims: {self:?}, {lines} lines instead of {claimed:?}\n  \
             this is a defect; please report it with the output above"
        );
        Ok(())
    }
}

/// A command as a person types it.
fn typed(words: &[&str]) -> String {
    let quoted = words.iter().map(|word| {
        if word.contains([' ', '{']) {
            format!("'{word}'")
        } else {
            (*word).to_owned()
        }
    });
    format!("$ turnlane {}", quoted.collect::<Vec<_>>().join(" "))
}

/// Reads the JSON lines of a run until half of its rows have ended and the others run.
async fn until_half(process: &Process) -> anyhow::Result<()> {
    let mut output = process.output().context("its output is read elsewhere")?;
    let mut text = String::new();
    while let Some(event) = output.next().await {
        match event {
            Event::Output {
                stream: StreamName::Stdout,
                bytes,
                ..
            } => text.push_str(&String::from_utf8_lossy(&bytes)),
            Event::Output { .. } => {}
            Event::Exited { .. } | Event::Closed { .. } => break,
        }
        let progress = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let is_half = progress.map(|it| it["counts"].clone()).any(|counts| {
            counts["succeeded"] == ENDED - 1 && counts["failed"] == 1 && counts["running"] == KILLED
        });
        if is_half {
            return Ok(());
        }
    }
    let said = process.snapshot().stderr.text();
    bail!("the job ended before its middle: {}", visible(&said))
}

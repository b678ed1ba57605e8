//! The programs that are measured, each with a home of its own.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use turnlane_benchkit::Whose;
use turnlane_testkit::mock_model::{MockModel, Reply};
use turnlane_testkit::{ProcessSpec, TempHome, TestProcess};

/// Longer than any run that is not broken.
const LIMIT: Duration = Duration::from_mins(1);

/// A program and its home.
pub(crate) struct Contender {
    pub(crate) program: OsString,
    pub(crate) home: TempHome,
}

/// What one run took.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// To the first line.
    pub(crate) first: Duration,
    /// To the exit.
    pub(crate) exit: Duration,
    /// The thread it printed.
    pub(crate) thread: String,
}

/// A model that says hello to whoever asks.
pub(crate) async fn model() -> anyhow::Result<MockModel> {
    let mock = MockModel::start().await?;
    mock.choose_with(|_request| Some(Reply::text("hello")));
    Ok(mock)
}

impl Contender {
    /// In a new home; `None` when Codex is not there.
    pub(crate) fn new(whose: Whose, mock: &MockModel) -> anyhow::Result<Option<Self>> {
        let Some(program) = whose.program()? else {
            return Ok(None);
        };
        let home = TempHome::new()?;
        home.use_model(&mock.base_url())?;
        Ok(Some(Self { program, home }))
    }

    /// The arguments of one run: `before` stands before the prompt.
    pub(crate) fn args(before: &[&str]) -> Vec<OsString> {
        let exec = ["exec", "--json", "--skip-git-repo-check"];
        let all = exec.iter().chain(before).chain(&["say hello"]);
        all.map(OsString::from).collect()
    }

    /// Starts it with these arguments and no input.
    pub(crate) fn start(&self, args: Vec<OsString>) -> anyhow::Result<TestProcess> {
        let spec = ProcessSpec::new(&self.program).args(args);
        let spec = spec
            .envs(self.home.env())
            .current_dir(self.home.workspace());
        let mut process = TestProcess::start(spec)?;
        drop(process.take_stdin());
        Ok(process)
    }

    /// Runs one prompt to its end, which must be a good one.
    pub(crate) async fn run(&self, before: &[&str]) -> anyhow::Result<Run> {
        let began = turnlane_benchkit::now();
        let mut process = self.start(Self::args(before))?;
        let stdout = process.take_stdout().context("no standard output")?;
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        stdout.read_line(&mut line).await?;
        let first = began.elapsed();
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).await?;
        let status = process.wait(LIMIT).await?;
        let exit = began.elapsed();
        ensure!(
            status.success() && rest.contains("turn.completed"),
            "{} ended with {status}: {line}{rest}{}",
            self.program.display(),
            process.stderr_tail()
        );
        let thread = thread_id(&line)?;
        Ok(Run {
            first,
            exit,
            thread,
        })
    }
}

/// The id in the first line of a run.
fn thread_id(line: &str) -> anyhow::Result<String> {
    let (_, rest) = line
        .split_once("\"thread_id\":\"")
        .with_context(|| format!("no thread in {line}"))?;
    let (id, _) = rest.split_once('"').context("no end of the id")?;
    Ok(id.to_owned())
}

//! One run of `turnlane fanout` as a process of its own, and what it took.
//!
//! Processor time is what this benchmark's ended children have computed, before and after: it holds the
//! descendants that the process waited for. Only one child ends at a time.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use turnlane_benchkit::{Whose, float, now, tree};
use turnlane_testkit::{ProcessSpec, TempHome, TestProcess};

use crate::model::WorkerModel;

/// Longer than any run that is measured takes.
const LIMIT: Duration = Duration::from_mins(20);

/// How often the memory of a running process is read.
const READ_EVERY: Duration = Duration::from_millis(2);

/// How often the processes of a run are counted.
const COUNT_EVERY: u32 = 20;

/// What a run took.
pub(crate) struct Taken {
    pub(crate) code: Option<i32>,
    pub(crate) wall: Duration,
    pub(crate) cpu_seconds: f64,
    /// The largest resident set of the process in megabytes.
    pub(crate) peak_mb: f64,
    /// The most processes that lived at once.
    pub(crate) processes: usize,
    pub(crate) stderr: String,
}

/// Makes a home that uses this model.
pub(crate) fn home(model: &WorkerModel) -> anyhow::Result<TempHome> {
    let home = TempHome::new()?;
    turnlane_benchkit::use_model(&home, &model.base_url())?;
    Ok(home)
}

/// Writes a table with the column `name`.
pub(crate) fn write_names(path: &Path, rows: usize) -> anyhow::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(file, "name")?;
    for row in 0..rows {
        writeln!(file, "n{row}")?;
    }
    Ok(file.flush()?)
}

/// The command that starts a program with these arguments in a home.
pub(crate) fn spec(program: &Path, home: &TempHome, arguments: &[&str]) -> ProcessSpec {
    ProcessSpec::new(program)
        .args(arguments.iter().copied())
        .envs(turnlane_benchkit::variables(home))
        .current_dir(home.workspace())
}

/// Our program.
pub(crate) fn ours() -> anyhow::Result<std::path::PathBuf> {
    Ok(Whose::Ours.program()?.context("our program")?.into())
}

/// The arguments of a run over `in.csv`.
pub(crate) const RUN: [&str; 10] = [
    "fanout",
    "run",
    "in.csv",
    "--instruction",
    "Describe {name}",
    "-o",
    "out.csv",
    "--no-progress",
    "-j",
    "64",
];

/// Runs a program to its end.
pub(crate) async fn measured(spec: ProcessSpec) -> anyhow::Result<Taken> {
    let me = std::process::id().cast_signed();
    let cpu_before = tree::children_seconds(me)?;
    let began = now();
    let mut process = TestProcess::start(spec)?;
    let (mut peak_bytes, mut processes, mut reads) = (0, 1, 0_u32);
    let status = loop {
        if let Some(status) = process.try_wait()? {
            break status;
        }
        // A process that has just ended has no memory to read.
        peak_bytes = process.rss_peak_bytes().unwrap_or(0).max(peak_bytes);
        if reads.is_multiple_of(COUNT_EVERY) {
            let below = tree::descendants(process.pid())?.len();
            processes = processes.max(below + 1);
        }
        reads += 1;
        anyhow::ensure!(began.elapsed() < LIMIT, "{}", process.stderr_tail());
        tokio::time::sleep(READ_EVERY).await;
    };
    Ok(Taken {
        code: status.code(),
        wall: began.elapsed(),
        cpu_seconds: tree::children_seconds(me)? - cpu_before,
        peak_mb: megabytes(peak_bytes),
        processes,
        stderr: process.stderr_tail(),
    })
}

/// Runs a program that must succeed.
pub(crate) async fn succeeded(spec: ProcessSpec) -> anyhow::Result<Taken> {
    let taken = measured(spec).await?;
    anyhow::ensure!(taken.code == Some(0), "{:?}: {}", taken.code, taken.stderr);
    Ok(taken)
}

/// Bytes as megabytes.
pub(crate) fn megabytes(bytes: u64) -> f64 {
    float(usize::try_from(bytes).unwrap_or(usize::MAX)) / 1e6
}

/// The lines of a file.
pub(crate) fn lines(path: &Path) -> anyhow::Result<usize> {
    let file = File::open(path).with_context(|| format!("no {}", path.display()))?;
    let mut count = 0;
    for line in BufReader::new(file).split(b'\n') {
        line?;
        count += 1;
    }
    Ok(count)
}

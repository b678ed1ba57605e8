//! Calls of `fsync` and `fdatasync` per item, counted by `strace`.
//!
//! `strace` stops the process only at these calls (`--seccomp-bpf`), so the commits are grouped nearly
//! as they are without it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use turnlane_benchkit::{float, goal, println};

use crate::model::WorkerModel;
use crate::run::{RUN, home, ours, spec, succeeded, write_names};
use crate::scaled;

pub(crate) async fn run() -> anyhow::Result<()> {
    let items = scaled(1_000, 50);
    let Some(strace) = strace() else {
        println("Not measured: `strace` is not installed.");
        return Ok(());
    };
    let model = WorkerModel::start(Duration::ZERO).await?;
    let idle = calls(&strace, &model, 1).await?;
    let all = calls(&strace, &model, items).await?;
    println(&format!(
        "Counted by `strace -f -c --seccomp-bpf -e trace=fsync,fdatasync`: {all} calls for {items} items, \
         {idle} for a job of one item."
    ));
    goal::head();
    let per_item = float(all) / float(items);
    goal::at_most("fsyncs per item, 64 in flight", per_item, 1.0);
    Ok(())
}

fn strace() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut found = std::env::split_paths(&path).map(|directory| directory.join("strace"));
    found.find(|program| program.exists())
}

async fn calls(strace: &Path, model: &WorkerModel, items: usize) -> anyhow::Result<usize> {
    let home = home(model)?;
    write_names(&home.workspace().join("in.csv"), items)?;
    let (summary, program) = (home.path().join("summary"), ours()?);
    let (shown, program) = (summary.to_string_lossy(), program.to_string_lossy());
    let counting = [
        "-f",
        "-c",
        "--seccomp-bpf",
        "-e",
        "trace=fsync,fdatasync",
        "-o",
    ];
    let arguments = [&counting[..], &[&*shown, &*program], &RUN].concat();
    succeeded(spec(strace, &home, &arguments)).await?;
    count(&std::fs::read_to_string(&summary)?)
}

/// Adds up the column `calls` of a summary.
fn count(summary: &str) -> anyhow::Result<usize> {
    let mut calls = 0;
    for line in summary.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let Some(&("fsync" | "fdatasync")) = fields.last() {
            calls += fields[3].parse::<usize>()?;
        }
    }
    Ok(calls)
}

#[cfg(test)]
mod tests {
    #[test]
    fn calls_of_both_kinds_are_added_up() {
        let summary = "% time     seconds  usecs/call     calls    errors syscall\n\
            ------ ----------- ----------- --------- --------- ----------------\n\
             99.97    0.622888          23       292           fdatasync\n\
              0.03    0.000405         202         2         1 fsync\n\
            ------ ----------- ----------- --------- --------- ----------------\n\
            100.00    1.274776          47       294         1 total\n";
        assert_eq!(super::count(summary).unwrap(), 294);
    }
}

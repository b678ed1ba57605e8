//! How fast output and spawns are, beside what the system itself can do.
//!
//! Figures, not promises: for them, an optimised build on a quiet machine and larger numbers in
//! `TURNLANE_PROCESS_FIGURE_MB` and `TURNLANE_PROCESS_FIGURE_SPAWNS`.

use std::io::Read;
use std::time::Duration;

use tokio::time::Instant;
use turnlane_process::{Event, ProcessService, Until};

use crate::support::{PIPE, PTY, count_from, end_of, say, services, sh, sh_with, start};

fn total() -> usize {
    count_from("TURNLANE_PROCESS_FIGURE_MB", 64) << 20
}

#[tokio::test(flavor = "multi_thread")]
async fn output_and_spawns_have_figures() {
    for service in services() {
        let kind = service.report().containment.name();
        let (mut bare, mut ours) = (0.0_f64, 0.0_f64);
        for _ in 0..3 {
            bare = bare.max(bare_pipe(&service).await);
            ours = ours.max(through_the_service(&service, PIPE).await);
        }
        say(&format!(
            "pipe, {kind}: bare {bare:.0} MB/s, ours {ours:.0} MB/s, {:.2}",
            ours / bare
        ));
        let ours = through_the_service(&service, PTY).await;
        say(&format!("pty, {kind}: {ours:.0} MB/s"));
        let spawn = spawn_and_wait(&service).await;
        say(&format!(
            "spawn and wait, {kind}: p50 {:?}, p99 {:?}",
            spawn.0, spawn.1
        ));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn rate(bytes: usize, took: Duration) -> f64 {
    bytes as f64 / took.as_secs_f64() / 1e6
}

fn writer(total: usize) -> String {
    format!(
        "exec dd if=/dev/zero bs=128k count={} 2>/dev/null",
        total / (128 * 1024)
    )
}

/// The same child with a named pipe, and a loop that reads it into one buffer.
async fn bare_pipe(service: &ProcessService) -> f64 {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, mode).unwrap();
    let script = format!("{} >\"{}\"", writer(total()), fifo.display());
    let _process = start(service, sh(&script)).await;
    let read = move || {
        let mut reader = std::fs::File::open(fifo).unwrap();
        let mut buffer = vec![0; 64 * 1024];
        let begun = Instant::now();
        let mut seen = 0;
        loop {
            match reader.read(&mut buffer).unwrap() {
                0 => return rate(seen, begun.elapsed()),
                count => seen += count,
            }
        }
    };
    tokio::task::spawn_blocking(read).await.unwrap()
}

async fn through_the_service(service: &ProcessService, io: turnlane_process::Io) -> f64 {
    let total = if io == PTY { total() / 32 } else { total() };
    let process = start(service, sh_with(&writer(total), io)).await;
    let mut output = process.output().unwrap();
    let read = async move {
        let begun = Instant::now();
        let mut seen = 0;
        while let Some(event) = output.next().await {
            if let Event::Output { bytes, .. } = event {
                seen += bytes.len();
            }
        }
        assert!(seen >= total, "{seen} of {total}");
        rate(seen, begun.elapsed())
    };
    tokio::spawn(read).await.unwrap()
}

async fn spawn_and_wait(service: &ProcessService) -> (Duration, Duration) {
    let mut times = Vec::new();
    let mut spec = sh("");
    spec.argv = vec!["/bin/true".into()];
    let count = count_from("TURNLANE_PROCESS_FIGURE_SPAWNS", 100).max(1);
    for _ in 0..count {
        let begun = Instant::now();
        let process = start(service, spec.clone()).await;
        end_of(&process, Until::Exited).await;
        times.push(begun.elapsed());
    }
    times.sort();
    (times[count / 2], times[count * 99 / 100])
}

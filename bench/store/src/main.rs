//! How close the store and the lanes come to what the disk allows.
//!
//! Each table stands beside its physical limit, a 4 KiB write followed by fdatasync on the same
//! file system, and beside what one would write without thinking: a pool of five connections that
//! each commit one statement per call. The contenders take turns in rounds, so that a noisy moment
//! of the machine falls on all alike; figures are medians over the rounds, and what counts are the
//! ratios within one run.
//!
//! Named sections (`memory`, `adds`, `turns`, `order`, `depth`, `drain`) run alone. The files are
//! in the folder for temporary files: `TMPDIR` says which disk is measured.

mod adds;
mod depth;
mod drain;
mod memory;
mod order;
mod ours;
mod pool;
mod turns;
mod world;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use turnlane_benchkit::{now, println};

/// Rounds that take turns.
const ROUNDS: usize = 5;

type Section = (&'static str, fn() -> anyhow::Result<()>);

/// Memory comes first, while the process is small.
const SECTIONS: [Section; 6] = [
    ("memory", memory::run),
    ("adds", adds::run),
    ("turns", turns::run),
    ("order", order::run),
    ("depth", depth::run),
    ("drain", drain::run),
];

fn main() -> anyhow::Result<()> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    for (name, run) in SECTIONS {
        if named.is_empty() || named.iter().any(|named| named == name) {
            run()?;
            println("");
        }
    }
    Ok(())
}

/// What the process has computed so far; a busy machine does not make it longer.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

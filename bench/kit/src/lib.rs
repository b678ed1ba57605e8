//! What benchmarks share: named sections, figures, tables, whose program is measured and how it is
//! started, a lean client, a model that answers at once, and the disk as the physical limit.
//!
//! The invariant here: a figure that was not measured is shown as such and never as a number. What is
//! measured, and how, is the business of each benchmark.

#![forbid(unsafe_code)]

mod disk;
mod figures;
pub mod goal;
mod model;
mod program;
mod sample;
pub mod table;
pub mod tree;
mod wire;

use std::ffi::OsString;
use std::time::Instant;

use anyhow::{Context as _, bail};

pub use disk::Disk;
pub use figures::{Figures, both, float, median};
pub use model::InstantModel;
pub use program::{Program, use_model, variables};
pub use sample::{Sample, per_second};
pub use wire::{Message, Wire};

/// Whose program is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Codex's own.
    Codex,
    /// Ours.
    Ours,
}

impl Whose {
    /// In the order of a table's columns.
    pub const BOTH: [Self; 2] = [Self::Codex, Self::Ours];

    /// Its program: ours beside the benchmark, Codex's where `TURNLANE_TEST_CODEX` says, or none.
    pub fn program(self) -> anyhow::Result<Option<OsString>> {
        match self {
            Self::Codex => Ok(std::env::var_os("TURNLANE_TEST_CODEX")),
            Self::Ours => {
                let path = std::env::current_exe()?.with_file_name("turnlane");
                if !path.exists() {
                    let path = path.display();
                    bail!(
                        "{path} is missing; build it with `cargo build --release -p turnlane-cli`"
                    );
                }
                Ok(Some(path.into_os_string()))
            }
        }
    }
}

/// Whether only a short run was asked for, which shows that the benchmark works and measures little.
pub fn is_quick() -> bool {
    std::env::args().skip(1).any(|argument| argument == QUICK)
}

const QUICK: &str = "--quick";

/// Returns the number in an argument such as `--lanes=50`.
pub fn number_argument(name: &str) -> Option<usize> {
    let prefix = format!("--{name}=");
    std::env::args()
        .skip(1)
        .find_map(|argument| argument.strip_prefix(&prefix)?.parse().ok())
}

/// Runs the sections that the arguments name, or all, each under its heading. Arguments that begin with
/// `--` name no section.
pub fn main(
    sections: &[&'static str],
    run: impl AsyncFn(&'static str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let named: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    for name in sections {
        if named.is_empty() || named.iter().any(|named| named == name) {
            println(&format!("### {name}\n"));
            runtime.block_on(run(name))?;
            println("");
        }
    }
    Ok(())
}

/// Writes a line of the result.
#[expect(clippy::print_stdout, reason = "the result of a benchmark")]
pub fn println(line: &str) {
    println!("{line}");
}

/// The one clock of a benchmark.
#[expect(
    clippy::disallowed_methods,
    reason = "measuring is what a benchmark is for"
)]
pub fn now() -> Instant {
    Instant::now()
}

//! The crash proof: a server is killed by `SIGKILL` again and again while it works, and what it had
//! acknowledged is compared with what is there afterwards.
//!
//! One script for every server, ours and Codex's: each round starts it in the same home, resumes its
//! threads, gives it work over one connection and kills it at a random moment up to half a second after
//! an acknowledged `thread/queue/add`. In most rounds the lanes first come to rest, and then queue,
//! history and what the model saw are compared with the ledger of what was answered. The invariant here:
//! a server is blamed only for what it had acknowledged ([`Ledger`]), and every choice follows from the
//! seed, which every report and every error names.
//!
//! How a server works inside is not known here. Named crash points are the runtime's own tests.

#![forbid(unsafe_code)]

mod ledger;
mod model;
mod report;
mod rest;
mod server;
mod trial;
mod work;

use std::path::Path;

pub use ledger::{Asked, Faults, Ledger, Seen, Turn, Way};
pub use report::{Report, table};
pub use server::{Contender, Kind};

/// What somebody does to a server's home while the server is dead: to show that the proof notices.
pub type Sabotage = Box<dyn FnMut(&Path) -> anyhow::Result<()>>;

/// One run of the proof.
pub struct Options {
    /// Who is killed.
    pub contender: Contender,
    /// How often.
    pub kills: usize,
    /// What all choices follow from.
    pub seed: u64,
    /// Nothing, except where the proof itself is on trial.
    pub sabotage: Option<Sabotage>,
}

/// Kills a server as often as asked, in a new home, and reports what was found.
///
/// Faults of the server are in the report; an error means that the run itself could not go on.
pub async fn run(options: Options) -> anyhow::Result<Report> {
    use anyhow::Context as _;

    let (seed, kind) = (options.seed, options.contender.kind);
    let ran = trial::run(options).await;
    ran.with_context(|| format!("{}, seed {seed}", kind.name()))
}

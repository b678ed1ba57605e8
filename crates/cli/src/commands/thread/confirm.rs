//! Asks the person at the terminal before something is done that cannot be undone.
//!
//! The invariant here: silence, an end of input and a person who cannot be asked never mean yes.

use std::io::{self, BufRead as _, IsTerminal as _};

use anyhow::{Context as _, bail};
use tokio::signal::unix::{SignalKind, signal};

use crate::shown::{Colour, out};

/// A person's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Yes,
    No,
}

/// Asks a question of yes or no; none where the person left with Ctrl-C. `instead` is what else can be
/// typed where no person can be asked.
pub(crate) async fn asked(question: &str, instead: &str) -> anyhow::Result<Option<Said>> {
    if !io::stdin().is_terminal() {
        bail!(
            "this is for good, and nobody can be asked here\n  \
             repeat the command with --yes, or {instead}"
        );
    }
    let mut interrupted = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    out::tell(&format!("{question} [y/N] "), Colour::Off);
    // Elsewhere: whoever waits for a line waits for no signal.
    let reading = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).map(|_| answer)
    });
    tokio::select! {
        biased;
        _ = interrupted.recv() => Ok(None),
        answer = reading => Ok(Some(match answer??.trim() {
            "y" | "Y" | "yes" => Said::Yes,
            _ => Said::No,
        })),
    }
}

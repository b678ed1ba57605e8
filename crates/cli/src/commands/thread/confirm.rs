//! Asks the person at the terminal before something is done that cannot be undone.
//!
//! The invariant here: silence, an end of input and a person who cannot be asked never mean yes.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use tokio::signal::unix::{SignalKind, signal};

use crate::session::INTERRUPTED;
use crate::shown::{Colour, note, out};

/// Asks a question of yes or no. None if the person says yes; else the person is told `undone`, and this
/// is the exit code. `instead` is what else a person can type where standard input is no terminal.
pub(crate) async fn declined(
    question: &str,
    instead: &str,
    undone: &str,
) -> anyhow::Result<Option<ExitCode>> {
    if !io::stdin().is_terminal() {
        bail!(
            "the command asks first, and standard input is no terminal: {question}\n  \
             repeat the command with --yes, or {instead}"
        );
    }
    let mut interrupted = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    out::tell(&format!("{question} [y/N] "), Colour::Off);
    // On a thread of its own: a read of standard input cannot be given up for a signal.
    let reading = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).map(|_| answer)
    });
    tokio::select! {
        biased;
        _ = interrupted.recv() => {
            note(&format!("\n{undone}"));
            Ok(Some(ExitCode::from(INTERRUPTED)))
        }
        answer = reading => Ok(match answer??.trim() {
            "y" | "Y" | "yes" => None,
            _ => {
                note(undone);
                Some(ExitCode::FAILURE)
            }
        }),
    }
}

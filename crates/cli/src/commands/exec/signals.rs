//! Signals that end a run: which one came, and how this process then ends.
//!
//! The invariant here: whoever sends SIGTERM or SIGHUP sees that signal in the wait status, as if we
//! had not caught it.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal that ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Caught {
    Interrupt,
    Terminate,
    HangUp,
}

/// The signals that end a run, caught from now on.
#[derive(Debug)]
pub(in crate::commands) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None where whoever started us wants it ignored, as `nohup` does.
    hang_up: Option<Signal>,
}

impl Signals {
    pub(in crate::commands) fn catch() -> anyhow::Result<Self> {
        let caught =
            |kind, name: &str| signal(kind).with_context(|| format!("cannot wait for {name}"));
        Ok(Self {
            interrupt: caught(SignalKind::interrupt(), "SIGINT")?,
            terminate: caught(SignalKind::terminate(), "SIGTERM")?,
            hang_up: if is_ignored(SignalKind::hangup()) {
                None
            } else {
                Some(caught(SignalKind::hangup(), "SIGHUP")?)
            },
        })
    }

    /// The next one. Loses nothing when cancelled.
    pub(in crate::commands) async fn next(&mut self) -> Caught {
        tokio::select! {
            _ = self.interrupt.recv() => Caught::Interrupt,
            _ = self.terminate.recv() => Caught::Terminate,
            () = hung_up(self.hang_up.as_mut()) => Caught::HangUp,
        }
    }
}

async fn hung_up(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Whether a signal was ignored when we were started.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let bit = u32::try_from(kind.as_raw_value() - 1).unwrap_or(0);
    mask.is_some_and(|mask| mask >> bit & 1 == 1)
}

impl Caught {
    /// Ends this process as the signal would have; returns where it has an exit code instead.
    pub(in crate::commands) fn raise(self) {
        let signal = match self {
            Self::Interrupt => return,
            Self::Terminate => turnlane_process::EndSignal::Terminate,
            Self::HangUp => turnlane_process::EndSignal::HangUp,
        };
        turnlane_process::end_by_signal(signal);
    }
}

//! Signals that end a server: the first asks, the second insists.

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// What signals have asked for.
pub(crate) struct Signals {
    pub(crate) hurry: CancellationToken,
}

/// The first SIGTERM or SIGINT cancels `stop`, the second one makes the stop hurry.
pub(crate) fn stop_by_signals(stop: CancellationToken) -> anyhow::Result<Signals> {
    let hurry = CancellationToken::new();
    let signals = Signals {
        hurry: hurry.clone(),
    };
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    tokio::spawn(async move {
        for token in [stop, hurry] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            token.cancel();
        }
    });
    Ok(signals)
}

//! Signals that end a server: the first asks, the second insists.
//!
//! SIGHUP has two meanings. The system sends it when a terminal goes away, and nobody meant to stop a
//! daemon by closing a window. A supervisor sends it on purpose. A daemon that had a terminal goes on,
//! one that never had one stops.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// What signals have asked for.
pub(crate) struct Signals {
    pub(crate) hurry: CancellationToken,
}

/// What SIGHUP means to a server.
pub(crate) enum Hangup {
    /// What it means to any program: its end, at once.
    Ends,
    /// The same as SIGTERM.
    Stops,
    /// The terminal is gone, and the server goes on without it; called once.
    Detaches(Box<dyn FnOnce() + Send>),
}

/// The first SIGTERM or SIGINT cancels `stop`, the second one makes the stop hurry.
pub(crate) fn stop_by_signals(stop: CancellationToken, hangup: Hangup) -> anyhow::Result<Signals> {
    let hurry = CancellationToken::new();
    let signals = Signals {
        hurry: hurry.clone(),
    };
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let (mut hung_up, mut detach) = match hangup {
        Hangup::Ends => (None, None),
        Hangup::Stops => (Some(wait_for_hangup()?), None),
        Hangup::Detaches(detach) => (Some(wait_for_hangup()?), Some(detach)),
    };
    let goes_on = detach.is_some();
    tokio::spawn(async move {
        for token in [stop, hurry] {
            loop {
                tokio::select! {
                    _ = terminate.recv() => break,
                    _ = interrupt.recv() => break,
                    () = next(&mut hung_up) => {}
                }
                if !goes_on {
                    break;
                }
                // The shell and the system may both tell of one terminal.
                if let Some(detach) = detach.take() {
                    detach();
                }
            }
            token.cancel();
        }
    });
    Ok(signals)
}

/// SIGUSR1, which `turnlane serve stop --now` sends, cancels `stop` and the token returned: the stop has
/// no grace, and is none the less a graceful one.
pub(crate) fn stop_at_once(stop: CancellationToken) -> anyhow::Result<CancellationToken> {
    let mut sent = signal(SignalKind::user_defined1()).context("cannot wait for SIGUSR1")?;
    let at_once = CancellationToken::new();
    let token = at_once.clone();
    tokio::spawn(async move {
        if sent.recv().await.is_some() {
            token.cancel();
            stop.cancel();
        }
    });
    Ok(at_once)
}

fn wait_for_hangup() -> anyhow::Result<Signal> {
    signal(SignalKind::hangup()).context("cannot wait for SIGHUP")
}

/// The next one of a signal; never where it is not waited for.
async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

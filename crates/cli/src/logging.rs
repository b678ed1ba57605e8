//! Logs, on standard error: chosen by `RUST_LOG`, as JSON with `LOG_FORMAT=json`.

use std::io::IsTerminal as _;

use anyhow::{anyhow, bail};
use tracing_subscriber::EnvFilter;

/// What commands log unless told otherwise.
pub(crate) const QUIET: &str = "warn";
/// What a daemon logs unless told otherwise: also what happens to lanes.
pub(crate) const DAEMON: &str = "warn,turnlane_runtime=info";

/// Starts logging for the whole process; called once, first.
pub(crate) fn start(usual: &str) -> anyhow::Result<()> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(given) if !given.is_empty() => EnvFilter::try_new(&given)
            // Its causes repeat each other, so only the outermost is shown.
            .map_err(|why| anyhow!("RUST_LOG is not a log filter: {given}: {why}"))?,
        _ => EnvFilter::new(usual),
    };
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match std::env::var("LOG_FORMAT").as_deref() {
        Ok("json") => logs.json().flatten_event(true).init(),
        Ok("text" | "") | Err(_) => logs.with_ansi(std::io::stderr().is_terminal()).init(),
        Ok(other) => bail!("LOG_FORMAT is neither `json` nor `text`: {other}"),
    }
    Ok(())
}

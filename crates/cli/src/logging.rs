//! Logs, on standard error: chosen by `RUST_LOG`, as JSON with `LOG_FORMAT=json`.

use std::io::IsTerminal as _;

use anyhow::{anyhow, bail};
use tracing_subscriber::EnvFilter;

use crate::shown::out::{Colour, LogForm, LogWriter};

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
    let logs = tracing_subscriber::fmt().with_env_filter(filter);
    match std::env::var("LOG_FORMAT").as_deref() {
        Ok("json") => {
            let logs = logs.with_writer(|| LogWriter(LogForm::Json));
            logs.json().flatten_event(true).init();
        }
        Ok("text" | "") | Err(_) => {
            let is_terminal = std::io::stderr().is_terminal();
            let colour = if is_terminal { Colour::On } else { Colour::Off };
            let logs = logs.with_writer(move || LogWriter(LogForm::Text(colour)));
            logs.with_ansi(is_terminal).init();
        }
        Ok(other) => bail!("LOG_FORMAT is neither `json` nor `text`: {other}"),
    }
    Ok(())
}

//! Logs, on standard error: chosen by `RUST_LOG`, as JSON with `LOG_FORMAT=json`.
//!
//! The invariant here: with `LOG_FORMAT=json` every line that a server writes to standard error is one
//! JSON object, whether it comes from the log or is said to people.

use std::io::{self, IsTerminal as _};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{anyhow, bail};
use serde_json::json;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

use crate::shown::out::{self, Colour, LogForm, LogWriter};

/// What commands log unless told otherwise.
pub(crate) const QUIET: &str = "warn";
/// What a daemon logs unless told otherwise: also what happens to lanes.
pub(crate) const DAEMON: &str = "warn,turnlane_runtime=info,turnlane_server=info,turnlane=info";

/// What a shim logs unless told otherwise: also where work was preserved.
pub(crate) const SHIM: &str = "warn,turnlane_shim=info";

/// What `fanout` logs unless told otherwise: failed items are counted in its progress and listed by it.
pub(crate) const JOBS: &str = "warn,turnlane_runtime::journal=error";

/// Whether lines are JSON; text until it was chosen.
static IS_JSON: AtomicBool = AtomicBool::new(false);

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
            IS_JSON.store(true, Ordering::Relaxed);
            let logs = logs.with_writer(|| LogWriter(LogForm::Json));
            logs.json().flatten_event(true).init();
        }
        Ok("text" | "") | Err(_) => {
            let is_terminal = io::stderr().is_terminal();
            let colour = if is_terminal { Colour::On } else { Colour::Off };
            let logs = logs.with_writer(move || LogWriter(LogForm::Text(colour)));
            logs.with_ansi(is_terminal).init();
        }
        Ok(other) => bail!("LOG_FORMAT is neither `json` nor `text`: {other}"),
    }
    Ok(())
}

/// How much a line of a server matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    Info,
    Error,
}

/// Writes a line of a server for people to standard error, whatever is logged.
pub(crate) fn announce(weight: Weight, line: &str) -> io::Result<()> {
    if !IS_JSON.load(Ordering::Relaxed) {
        return out::try_tell(&format!("{line}\n"), Colour::Off);
    }
    let level = match weight {
        Weight::Info => "INFO",
        Weight::Error => "ERROR",
    };
    // As the lines of the log have it.
    let mut timestamp = String::new();
    let _ = SystemTime.format_time(&mut Writer::new(&mut timestamp));
    let line = json!({
        "timestamp": timestamp, "level": level, "message": line, "target": "turnlane",
    });
    io::Write::write_all(
        &mut LogWriter(LogForm::Json),
        format!("{line}\n").as_bytes(),
    )
}

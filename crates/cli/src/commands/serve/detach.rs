//! `turnlane serve --detach`: starts the daemon as a process of its own session and waits until it is
//! ready.
//!
//! The invariant here: success is told only after the daemon said that it serves, and a daemon that
//! could not start is told with its own reason. The two processes share one pipe, the standard output
//! of the daemon, which carries one line.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
#[expect(
    clippy::disallowed_types,
    reason = "the daemon outlives this program, and the process service ends what it started"
)]
use std::process::Command;
use std::process::{ExitCode, Stdio};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use super::log_file::LogFile;
use crate::home;
use crate::shown::{Colour, out};

/// More is not the one line that a daemon writes.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// What a daemon tells the process that started it.
#[derive(Debug, Serialize, Deserialize)]
struct Ready {
    pid: u32,
    listen: Vec<String>,
}

/// Starts this program again with the same arguments.
#[expect(clippy::disallowed_types, reason = "see the import")]
pub(super) fn start() -> anyhow::Result<ExitCode> {
    let home = home::open()?;
    home::make(&home)?;
    let log = LogFile::open(&home)?;
    let before = log.file.metadata()?.len();
    let program = std::env::current_exe().context("cannot find this program")?;
    let arguments = std::env::args_os().skip(1).map(|argument| {
        if argument == "--detach" {
            OsString::from("--detached")
        } else {
            argument
        }
    });
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    out::give_streams(&mut command, log.file.try_clone()?);
    let mut daemon = command.spawn().context("cannot start the daemon")?;
    let pipe = daemon.stdout.take().context("the daemon has no output")?;
    let mut line = String::new();
    BufReader::new(pipe.take(LINE_BYTES_MAX))
        .read_line(&mut line)
        .context("cannot hear from the daemon")?;
    let Ok(Ready { pid, listen }) = serde_json::from_str(&line) else {
        daemon.wait().context("cannot wait for the daemon")?;
        let written = fs::read(&log.path).unwrap_or_default();
        let skip = usize::try_from(before).unwrap_or(usize::MAX);
        let written = String::from_utf8_lossy(written.get(skip..).unwrap_or_default());
        bail!("{}\n  its log is {}", reason(&written), log.path.display());
    };
    let mut text = String::new();
    for url in listen {
        let _ = writeln!(text, "listening on {url}");
    }
    let path = log.path.display();
    let _ = writeln!(text, "process {pid} serves; its log is {path}");
    out::print(&text, Colour::Off)?;
    Ok(ExitCode::SUCCESS)
}

/// Why a daemon did not start, from what it has written.
fn reason(written: &str) -> String {
    let plain = |line: &str| line.strip_prefix("error: ").map(str::to_owned);
    let json = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        plain(line["message"].as_str()?)
    };
    let mut lines = written.lines().rev();
    let found = lines.find_map(|line| plain(line).or_else(|| json(line)));
    match found {
        Some(reason) => format!("the daemon did not start: {reason}"),
        None => "the daemon ended before it was ready".to_owned(),
    }
}

/// Tells the process that started this one that the daemon serves, and lets it go.
pub(super) fn tell_ready(listen: Vec<String>) -> anyhow::Result<()> {
    let pid = std::process::id();
    // A starter that is gone is told nothing, and the daemon serves all the same.
    let _ = out::print_json(&Ready { pid, listen });
    out::redirect_output(&File::open("/dev/null")?)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_of_a_daemon_is_its_reason() {
        let text = "listening on x\nerror: the port is in use\n";
        let why = "the daemon did not start: the port is in use";
        assert_eq!(reason(text), why);
        let json = "{\"level\":\"ERROR\",\"message\":\"error: the port is in use\"}\n";
        assert_eq!(reason(json), why);
        assert_eq!(reason(""), "the daemon ended before it was ready");
    }
}

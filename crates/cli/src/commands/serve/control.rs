//! `turnlane serve stop` and `turnlane serve status`: the daemon of a home, from outside.
//!
//! The invariant here: only the process that holds the socket of this home is signalled, by a
//! descriptor of the process, so that no other process with the same pid ever is.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::json;

use super::record::{self, Other, Presence};
use crate::args::{ServeStatus, ServeStop};
use crate::shown::time::utc;
use crate::shown::{Form, Screen};
use crate::{home, runtime};

/// The exit code of `status` where no daemon serves.
const NOT_RUNNING: u8 = 3;

/// Stops the daemon and waits for its end.
pub(super) fn stop(args: &ServeStop) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let home = home::open()?;
    let pid = match record::presence(&home) {
        Presence::Listening(pid) | Presence::Suspended(pid) | Presence::Stopping(pid) => pid,
        Presence::Denied => bail!(denied(&home)),
        Presence::Absent => {
            match screen.form {
                Form::Json => screen.json(&json!({"pid": null, "stopped": false}))?,
                Form::People => screen.print(&format!("no daemon runs in {}\n", home.display()))?,
            }
            return Ok(ExitCode::SUCCESS);
        }
    };
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let process = process.context("the daemon has no process id here")?;
    let process = pidfd_open(process, PidfdFlags::empty())
        .with_context(|| format!("cannot find process {pid}"))?;
    // The descriptor is that of the daemon only if the daemon is still that process.
    let now = record::presence(&home);
    // Not two SIGTERM: the second one is the rules of a crash, and might meet the first.
    let kind = if args.now { Signal::USR1 } else { Signal::TERM };
    let signal = || {
        pidfd_send_signal(&process, kind).with_context(|| format!("cannot signal process {pid}"))
    };
    match now {
        Presence::Listening(again) if again == pid => signal()?,
        Presence::Suspended(again) if again == pid => {
            screen.hint(&format!(
                "process {pid} is suspended; it stops after `kill -CONT {pid}`"
            ));
            signal()?;
        }
        Presence::Stopping(again) if again == pid && args.now => signal()?,
        // It was told to stop before; a second signal would interrupt its turns.
        Presence::Stopping(again) if again == pid => {}
        Presence::Listening(_)
        | Presence::Suspended(_)
        | Presence::Stopping(_)
        | Presence::Absent
        | Presence::Denied => bail!("the daemon changed meanwhile\n  repeat the command"),
    }
    if !args.now {
        screen.hint(&format!(
            "process {pid} lets running turns end; `turnlane serve stop --now` interrupts them"
        ));
    }
    let mut ended = [PollFd::new(&process, PollFlags::IN)];
    poll(&mut ended, None).context("cannot wait for the daemon")?;
    match screen.form {
        Form::Json => screen.json(&json!({"pid": pid, "stopped": true}))?,
        Form::People => screen.print(&format!("process {pid} has stopped\n"))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells whether a daemon serves.
pub(super) fn status(args: &ServeStatus) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let home = home::open()?;
    let presence = record::presence(&home);
    let other = match presence {
        Presence::Listening(_) => {
            runtime::block_on(async { record::other(&home, &home::socket(&home)).await })?
        }
        Presence::Absent | Presence::Suspended(_) | Presence::Stopping(_) | Presence::Denied => {
            Other::default()
        }
    };
    let shown = home.display();
    let (word, pid, text) = match presence {
        Presence::Listening(pid) => ("running", Some(pid), running(&home, pid, &other)),
        Presence::Suspended(pid) => (
            "suspended",
            Some(pid),
            format!(
                "process {pid} serves {shown} and is suspended: `kill -CONT {pid}` lets it go on"
            ),
        ),
        Presence::Stopping(pid) => (
            "stopping",
            Some(pid),
            format!("process {pid} is stopping: its last turns come to their end"),
        ),
        Presence::Denied => bail!(denied(&home)),
        Presence::Absent => (
            "none",
            None,
            format!("no daemon runs in {shown}; start one with `turnlane serve`"),
        ),
    };
    match screen.form {
        Form::Json => screen.json(&json!({
            "state": word, "pid": pid, "startedAtMs": other.since_ms, "version": other.version,
            "listen": other.urls,
        }))?,
        Form::People => screen.print(&format!("{text}\n"))?,
    }
    Ok(match presence {
        Presence::Listening(_) | Presence::Suspended(_) => ExitCode::SUCCESS,
        Presence::Stopping(_) | Presence::Absent | Presence::Denied => NOT_RUNNING.into(),
    })
}

fn running(home: &Path, pid: u32, other: &Other) -> String {
    let mut places = vec![home::socket(home).display().to_string()];
    places.extend(other.urls.iter().cloned());
    let since = match other.since_ms {
        Some(at_ms) => format!(" since {}", utc(at_ms.div_euclid(1_000))),
        None => String::new(),
    };
    let version = match &other.version {
        Some(version) => format!(" (version {version})"),
        None => String::new(),
    };
    let (home, places) = (home.display(), places.join(" and "));
    format!("process {pid}{version} serves {home}{since}, on {places}")
}

fn denied(home: &Path) -> String {
    format!(
        "the socket of {} belongs to another user\n  run the command as the owner of that directory",
        home.display()
    )
}

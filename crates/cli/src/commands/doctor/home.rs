//! The home directory: whether it can be used, and who else could change what is in it.
//!
//! The invariant here: a directory that does not exist yet is not made, and one that cannot be looked
//! into is never reported as absent. Whether the directory can be written to is found out by writing
//! to it.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde_json::json;
use turnlane_protocol::method::ServerStatusAnswer;
use turnlane_store::sqlite::ROOM_NEEDED_BYTES;

use super::{Finding, Mark, Part, daemon, database};
use crate::assembly::DATABASE;
use crate::home::{self, trust};
use crate::shown::Screen;
use crate::shown::text::quoted;

/// The findings, and what the daemon says of itself where one answers.
pub(super) async fn look(screen: &Screen) -> (Vec<Part>, Option<ServerStatusAnswer>) {
    let mut part = Part::new("Home: settings, tokens, the database");
    let mut status = None;
    match home::find() {
        Ok(home) => {
            directory(&mut part, &home);
            access(&mut part, &home);
            database::look(&mut part, &home);
            super::store::waiting_lanes(&mut part, &home.join(DATABASE));
            status = daemon::look(&mut part, &home, screen).await;
        }
        Err(error) => {
            let found = Finding::new(Mark::Fix, "directory", format!("{error:#}"));
            part.findings.push(found);
        }
    }
    (vec![part], status)
}

fn directory(part: &mut Part, home: &Path) {
    let shown = home.display();
    let looked = fs::metadata(home);
    let exists = !matches!(&looked, Err(error) if error.kind() == ErrorKind::NotFound);
    // One that is yet to be made needs a directory above it that can be written to.
    let above = home.ancestors().find(|above| above.exists());
    let writable = above.unwrap_or(home);
    let written = match &looked {
        Ok(_) => try_to_write(home),
        Err(_) if exists => Err(io::Error::from(ErrorKind::PermissionDenied)),
        Err(_) => rustix::fs::access(writable, rustix::fs::Access::WRITE_OK).map_err(Into::into),
    };
    let found = match (&written, exists) {
        (Ok(()), true) => Finding::new(Mark::Yes, "directory", format!("{shown}")),
        (Ok(()), false) => Finding::new(
            Mark::Fine,
            "directory",
            format!("{shown} does not exist yet; the first command that stores something makes it"),
        ),
        (Err(error), _) => Finding::new(
            Mark::Fix,
            "directory",
            format!("{shown} cannot be written to: {error}"),
        )
        .next(match error.kind() {
            ErrorKind::PermissionDenied => format!(
                "run: chmod u+rwx {}, or name another directory in TURNLANE_HOME",
                quoted(&writable.display().to_string())
            ),
            _ => "make it writable for you, or name another directory in TURNLANE_HOME".to_owned(),
        }),
    };
    part.findings.push(found);
    let free =
        rustix::fs::statvfs(writable).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    let found = match free {
        Ok(free) if free < ROOM_NEEDED_BYTES => {
            let (free, needed) = (bytes(free), bytes(ROOM_NEEDED_BYTES));
            Finding::new(Mark::Fix, "room", format!("{free} are free")).next(format!(
                "free some space, to at least {needed}: with none nothing new is taken in"
            ))
        }
        Ok(free) => Finding::new(Mark::Yes, "room", format!("{} are free", bytes(free))),
        Err(error) => Finding::new(Mark::Fix, "room", error.to_string()),
    };
    part.findings.push(found);
    let facts = json!({
        "path": home, "exists": exists, "writable": written.is_ok(), "freeBytes": free.ok(),
    });
    part.facts.insert("home".to_owned(), facts);
}

/// Tells which files of the home other users control. Other commands stop at the first one.
fn access(part: &mut Part, home: &Path) {
    let entries = fs::read_dir(home);
    if entries.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied) {
        // Said of the directory already; each of its files would repeat it.
        part.facts.insert("access".to_owned(), json!([]));
        return;
    }
    let faults = trust::faults(home);
    let mut told = Vec::new();
    for fault in &faults {
        let problem = fault.problem();
        told.push(json!({"path": fault.path(), "problem": problem, "next": fault.remedy()}));
        let mut found = Finding::new(Mark::Fix, "access", problem);
        found.next = fault.remedy();
        part.findings.push(found);
    }
    if faults.is_empty() && home.exists() {
        let text = "no other user can change what is in it, or read tokens and keys";
        part.findings.push(Finding::new(Mark::Yes, "access", text));
    }
    part.facts.insert("access".to_owned(), json!(told));
}

/// Makes a file and removes it.
fn try_to_write(directory: &Path) -> io::Result<()> {
    let path = directory.join(format!(".doctor-{}", std::process::id()));
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    fs::remove_file(path)
}

/// `512 B`, `1.5 GB`.
pub(crate) fn bytes(count: u64) -> String {
    let mut left = count;
    let mut rest = 0;
    let mut unit = "B";
    for larger in ["kB", "MB", "GB", "TB"] {
        if left < 1_000 {
            break;
        }
        (left, rest, unit) = (left / 1_000, left % 1_000, larger);
    }
    match unit {
        "B" => format!("{left} B"),
        unit => format!("{left}.{} {unit}", rest / 100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_in_units_of_a_thousand() {
        for (count, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (1_960_000, "1.9 MB"),
            (47_000_000_000, "47.0 GB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }
}

//! Our folder, what is stored there, and who serves it.
//!
//! The invariant here: a folder that does not exist yet is not made, and a database is read and never
//! written. Whether the folder can be written to is found out by writing to it.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde_json::{Map, Value, json};
use tokio::net::UnixStream;
use turnlane_store::{StoreError, sqlite};

use super::{Finding, Mark, Part};
use crate::assembly::DATABASE;
use crate::commands::serve::record;
use crate::home::{self, trust};
use crate::shown::Screen;

/// With less than this nothing new is taken in soon.
const FREE_BYTES_MIN: u64 = 64 << 20;

pub(super) async fn look(screen: &Screen) -> Vec<Part> {
    let mut part = Part {
        title: "Home: settings, tokens, the database",
        findings: Vec::new(),
        facts: Map::new(),
    };
    match home::find() {
        Ok(home) => {
            folder(&mut part, &home);
            access(&mut part, &home);
            database(&mut part, &home);
            super::store::waiting_lanes(&mut part, &home.join(DATABASE));
            daemon(&mut part, &home, screen).await;
        }
        Err(error) => {
            let found = Finding::new(Mark::Broken, "folder", format!("{error:#}"));
            part.findings.push(found);
        }
    }
    vec![part]
}

fn folder(part: &mut Part, home: &Path) {
    let shown = home.display();
    let exists = home.exists();
    // One that is yet to be made needs a folder above it that can be written to.
    let above = home.ancestors().find(|above| above.exists());
    let writable = above.unwrap_or(home);
    let written = if exists {
        try_to_write(home)
    } else {
        rustix::fs::access(writable, rustix::fs::Access::WRITE_OK).map_err(Into::into)
    };
    let found = match (&written, exists) {
        (Ok(()), true) => Finding::new(Mark::Yes, "folder", format!("{shown}")),
        (Ok(()), false) => Finding::new(
            Mark::No,
            "folder",
            format!("{shown} is not there yet; the first command that stores something makes it"),
        ),
        (Err(error), _) => Finding::new(
            Mark::Broken,
            "folder",
            format!("{shown} cannot be written to: {error}"),
        )
        .next("make it writable for you, or name another folder in TURNLANE_HOME"),
    };
    part.findings.push(found);
    let free =
        rustix::fs::statvfs(writable).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    let found = match free {
        Ok(free) if free < FREE_BYTES_MIN => {
            Finding::new(Mark::Broken, "room", format!("{} are free", bytes(free)))
                .next("free some space: with none nothing new is taken in")
        }
        Ok(free) => Finding::new(Mark::Yes, "room", format!("{} are free", bytes(free))),
        Err(error) => Finding::new(Mark::Broken, "room", error.to_string()),
    };
    part.findings.push(found);
    let facts = json!({
        "path": home, "exists": exists, "writable": written.is_ok(), "freeBytes": free.ok(),
    });
    part.facts.insert("home".to_owned(), facts);
}

/// Tells which files of the home other users control. Other commands stop at the first one.
fn access(part: &mut Part, home: &Path) {
    let faults = trust::faults(home);
    let mut told = Vec::new();
    for fault in &faults {
        let problem = fault.problem();
        told.push(json!({"path": fault.path(), "problem": problem, "next": fault.remedy()}));
        let mut found = Finding::new(Mark::Broken, "access", problem);
        found.next = fault.remedy();
        part.findings.push(found);
    }
    if faults.is_empty() && home.exists() {
        let text = "no other user can change what is in it";
        part.findings.push(Finding::new(Mark::Yes, "access", text));
    }
    part.facts.insert("access".to_owned(), json!(told));
}

/// Makes a file and removes it.
fn try_to_write(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!(".doctor-{}", std::process::id()));
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    fs::remove_file(path)
}

fn database(part: &mut Part, home: &Path) {
    let path = home.join(DATABASE);
    let size = sqlite::size(&path).map(sqlite::Size::total_bytes);
    if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
        // Told as a fault of the home; opening a pipe would wait.
        part.facts.insert("database".to_owned(), Value::Null);
        return;
    }
    let Ok(size) = size else {
        let text = format!("{} is not there yet; nothing is stored", path.display());
        part.findings.push(Finding::new(Mark::No, "database", text));
        part.facts.insert("database".to_owned(), Value::Null);
        return;
    };
    let inspected = sqlite::inspect(&path);
    let mut facts = json!({"path": path, "bytes": size});
    let restore = "stop whatever uses it, keep a copy, and put a backup in its place";
    let found = match &inspected {
        Ok(found) if found.faults.is_empty() => {
            facts["schema"] = json!(found.schema);
            let text = format!("sound, {}, schema {}", bytes(size), found.schema);
            Finding::new(Mark::Yes, "database", text)
        }
        Ok(found) => {
            facts["schema"] = json!(found.schema);
            facts["faults"] = json!(found.faults);
            let first = found.faults.first().map(String::as_str).unwrap_or_default();
            let text = format!("{} is damaged: {first}", path.display());
            Finding::new(Mark::Broken, "database", text).next(restore)
        }
        Err(error) => {
            facts["faults"] = json!([error.to_string()]);
            let found = Finding::new(Mark::Broken, "database", error.to_string());
            match error {
                // The sentence itself says what to do.
                StoreError::NewerSchema { .. } => found,
                _ => found.next(restore),
            }
        }
    };
    part.findings.push(found);
    part.facts.insert("database".to_owned(), facts);
}

async fn daemon(part: &mut Part, home: &Path, screen: &Screen) {
    let socket = home::socket(home);
    if UnixStream::connect(&socket).await.is_err() {
        let found = Finding::new(Mark::No, "daemon", "none runs: queued turns wait")
            .next("start one with `turnlane serve`");
        part.findings.push(found);
        part.facts.insert("daemon".to_owned(), Value::Null);
        return;
    }
    let other = record::other(home, &socket).await;
    let mut places = vec![socket.display().to_string()];
    places.extend(other.urls.iter().cloned());
    let pid = other
        .pid
        .map_or_else(|| "a process".to_owned(), |pid| format!("process {pid}"));
    let since = match other.since_ms {
        Some(at_ms) => format!("started {}", screen.ago(at_ms)),
        None => "an app-server, which runs what its clients load".to_owned(),
    };
    let text = format!("{pid}, {since}, on {}", places.join(" and "));
    part.findings.push(Finding::new(Mark::Yes, "daemon", text));
    let facts = json!({"pid": other.pid, "startedAtMs": other.since_ms, "listen": places});
    part.facts.insert("daemon".to_owned(), facts);
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

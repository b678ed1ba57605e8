//! The database of a home: whether it is sound, and whether this process could write to it.
//!
//! The invariant here: the database is read whole, and its write lock is taken and given back. Nothing
//! is written to it. A file that cannot be looked at is never reported as absent.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use turnlane_store::{StoreError, sqlite};

use super::home::bytes;
use super::{Finding, Mark, Part};
use crate::assembly::DATABASE;
use crate::shown::text::quoted;

/// The files that SQLite keeps beside a database.
const BESIDE: [&str; 2] = ["-wal", "-shm"];

pub(super) fn look(part: &mut Part, home: &Path) {
    let path = home.join(DATABASE);
    let found = match fs::metadata(&path) {
        // The access check reports it; opening a pipe would wait.
        Ok(found) if !found.is_file() => None,
        // What is stored is in the log too until it is copied.
        Ok(_) => Some(sqlite::size(&path).map(sqlite::Size::total_bytes)),
        Err(error) => Some(Err(error)),
    };
    let size = match found {
        None => {
            part.facts.insert("database".to_owned(), Value::Null);
            return;
        }
        Some(Err(error)) => {
            part.findings.push(unseen(&path, &error));
            part.facts.insert("database".to_owned(), Value::Null);
            return;
        }
        Some(Ok(size)) => size,
    };
    let mut facts = json!({"path": path, "bytes": size});
    let denied = denied(&path);
    if !denied.is_empty() {
        // Not opened: SQLite would make the files beside it with the same permissions, and they would
        // stay when those of the database are mended.
        facts["writable"] = json!(false);
        part.findings.push(read_only(&denied));
        part.facts.insert("database".to_owned(), facts);
        return;
    }
    let sound = inspected(&path, size, &mut facts);
    // A damaged database is not written to either; one finding is enough.
    let finding = match sound.mark {
        Mark::Yes => {
            let written = sqlite::try_write(&path).map_err(in_one_line);
            let written = written.and_then(|()| try_workers(&path));
            facts["writable"] = json!(written.is_ok());
            match written {
                Ok(()) => sound,
                Err(error) => unwritable(&path, &error),
            }
        }
        Mark::Fine | Mark::Fix => sound,
    };
    part.findings.push(finding);
    part.facts.insert("database".to_owned(), facts);
}

fn beside(path: &Path) -> impl Iterator<Item = PathBuf> {
    let name = path.as_os_str().to_owned();
    BESIDE.into_iter().map(move |suffix| {
        let mut name = name.clone();
        name.push(suffix);
        PathBuf::from(name)
    })
}

/// The directory of the locks of all workers.
fn workers(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".workers");
    PathBuf::from(name)
}

/// Whether this process could make the lock that every worker needs.
fn try_workers(path: &Path) -> Result<(), String> {
    let directory = workers(path);
    let wanted = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    match rustix::fs::access(&directory, wanted) {
        // The first worker makes it.
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(format!(
            "{}: {}",
            directory.display(),
            io::Error::from(error)
        )),
    }
}

fn unseen(path: &Path, error: &io::Error) -> Finding {
    let shown = path.display();
    match error.kind() {
        ErrorKind::NotFound => Finding::new(
            Mark::Fine,
            "database",
            format!("{shown} does not exist yet; nothing is stored"),
        ),
        _ => Finding::new(
            Mark::Fix,
            "database",
            format!("cannot read {shown}: {error}"),
        )
        .next("give yourself access to the home directory first"),
    }
}

fn inspected(path: &Path, size: u64, facts: &mut Value) -> Finding {
    let restore =
        "stop every turnlane process, keep a copy of the file, and put a backup in its place";
    match sqlite::inspect(path) {
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
            Finding::new(Mark::Fix, "database", text).next(restore)
        }
        Err(error) => {
            let next = match &error {
                StoreError::NewerSchema { .. } => {
                    "use the version of turnlane that wrote it, or a newer one"
                }
                _ => restore,
            };
            let error = in_one_line(error);
            facts["faults"] = json!([error]);
            Finding::new(Mark::Fix, "database", error).next(next)
        }
    }
}

/// The files of the database that this process may not write.
fn denied(path: &Path) -> Vec<PathBuf> {
    let files = std::iter::once(path.to_owned()).chain(beside(path));
    let files = files.chain([workers(path)]);
    let is_denied = |path: &PathBuf| {
        let writes = rustix::fs::access(path, rustix::fs::Access::WRITE_OK);
        path.exists() && writes.is_err()
    };
    files.filter(is_denied).collect()
}

/// Names the files whose permissions keep this process from writing.
fn read_only(denied: &[PathBuf]) -> Finding {
    let shown: Vec<_> = denied
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let named: Vec<_> = shown.iter().map(|path| quoted(path)).collect();
    let text = format!("this user cannot write {}", shown.join(" and "));
    let next = format!("run: chmod u+rwX {}", named.join(" "));
    Finding::new(Mark::Fix, "database", text).next(next)
}

/// The write lock could not be had, for another reason than permissions.
fn unwritable(path: &Path, error: &str) -> Finding {
    let text = format!("{} cannot be written: {error}", path.display());
    Finding::new(Mark::Fix, "database", text)
        .next("stop the process that holds it, or look at the disk, and try again")
}

fn in_one_line(error: StoreError) -> String {
    format!("{:#}", anyhow::Error::new(error))
}

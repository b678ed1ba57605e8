//! The file that says which turn was reported last.
//!
//! The invariant here: the file decides only what is reported after a restart. It is replaced after a
//! terminal receipt was written to the channel, so a receipt may be told twice after a crash and is never
//! lost. Without the file nothing old is reported.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The last turn that was reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastReported {
    pub(crate) binding: String,
    pub(crate) thread: String,
    /// None while nothing of the thread was reported.
    pub(crate) turn: Option<String>,
}

/// Writes the newest state of the file, in a task of its own.
#[derive(Debug)]
pub(crate) struct ReceiptsFile {
    newest: watch::Sender<Option<LastReported>>,
    writing: JoinHandle<()>,
}

impl ReceiptsFile {
    pub(crate) fn start(directory: &Path, binding: &str) -> Self {
        let path = path(directory, binding);
        let (newest, mut changes) = watch::channel(None);
        let writing = tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let Some(last) = changes.borrow_and_update().clone() else {
                    continue;
                };
                let path = path.clone();
                let writing = tokio::task::spawn_blocking(move || write(&path, &last));
                match writing.await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => {
                        tracing::warn!(%error, "what was reported could not be recorded");
                    }
                    // A panic: the next record finds this task ended.
                    Err(_) => return,
                }
            }
        });
        Self { newest, writing }
    }

    /// Records a turn; an older one that is not written yet is left out. False when the task that writes
    /// has panicked.
    pub(crate) fn record(&self, last: LastReported) -> bool {
        self.newest.send(Some(last)).is_ok()
    }

    /// Waits until the newest one is written.
    pub(crate) async fn close(self) {
        drop(self.newest);
        let _ = self.writing.await;
    }
}

/// What the file says; none where there is none of this binding.
pub(crate) fn read(directory: &Path, binding: &str) -> Option<LastReported> {
    let text = fs::read(path(directory, binding)).ok()?;
    let last: LastReported = serde_json::from_slice(&text).ok()?;
    (last.binding == binding).then_some(last)
}

/// Writes the file at once.
pub(crate) fn store(directory: &Path, last: &LastReported) -> io::Result<()> {
    write(&path(directory, &last.binding), last)
}

fn path(directory: &Path, binding: &str) -> PathBuf {
    let hash = Sha256::digest(binding.as_bytes());
    let mut name = String::with_capacity(32);
    for byte in hash.iter().take(16) {
        let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
        name.extend([digit(byte >> 4), digit(byte & 0xf)]);
    }
    directory.join(format!("{name}.json"))
}

fn write(path: &Path, last: &LastReported) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let staged = path.with_extension(format!("{}.new", std::process::id()));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&staged)?;
    file.write_all(&serde_json::to_vec(last)?)?;
    // A rename without it may leave an empty file after a loss of power.
    file.sync_all()?;
    fs::rename(&staged, path)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_newest_record_of_a_binding_is_found_again() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("shim");
        assert_eq!(read(&directory, "b"), None);
        let file = ReceiptsFile::start(&directory, "b");
        let last = |turn: &str| LastReported {
            binding: "b".to_owned(),
            thread: "t".to_owned(),
            turn: Some(turn.to_owned()),
        };
        file.record(last("1"));
        file.record(last("2"));
        file.close().await;
        assert_eq!(read(&directory, "b"), Some(last("2")));
        assert_eq!(read(&directory, "c"), None);
    }
}

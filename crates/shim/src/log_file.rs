//! The readable log of a member: one tagged line per line of text, appended, rotated, never truncated.
//!
//! The invariant here: the log never stops the agent. A disk that is full, or a path that cannot be opened,
//! is told once on standard error, and lines are left out from then on.
//!
//! Theory of operation: one thread writes; lines reach it through a channel of [`LINES_MAX`] places. When
//! that is full, lines are left out and their number is written when there is room.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use crate::capture::Speaker;

/// Lines that wait for the disk.
const LINES_MAX: usize = 4_096;
/// A log as long as this is rotated.
const ROTATED_BYTES: u64 = 50 * 1_048_576;
/// Rotated logs that are kept.
const ROTATED_KEPT: u32 = 5;

/// The log of one member.
#[derive(Debug)]
pub(crate) struct LogFile {
    lines: Option<SyncSender<String>>,
    writing: Option<JoinHandle<()>>,
    left_out: u64,
}

impl LogFile {
    /// A log at `path`, or none.
    pub(crate) fn open(path: Option<&Path>) -> Self {
        let mut log = Self {
            lines: None,
            writing: None,
            left_out: 0,
        };
        let Some(path) = path else {
            return log;
        };
        let (sender, receiver) = sync_channel(LINES_MAX);
        let path = path.to_owned();
        let writing = std::thread::Builder::new().name("shim-log".to_owned());
        match writing.spawn(move || write_all(&path, &receiver, ROTATED_BYTES)) {
            Ok(writing) => {
                log.lines = Some(sender);
                log.writing = Some(writing);
            }
            Err(error) => tracing::warn!(%error, "the log could not be started"),
        }
        log
    }

    pub(crate) fn write(&mut self, speaker: Speaker, text: &str) {
        for line in text.lines() {
            self.put(format!("{} {line}\n", speaker.tag()));
        }
    }

    fn put(&mut self, line: String) {
        let Some(lines) = &self.lines else {
            return;
        };
        if self.left_out > 0 {
            let gap = format!("[shim] {} lines were left out\n", self.left_out);
            if lines.try_send(gap).is_ok() {
                self.left_out = 0;
            }
        }
        match lines.try_send(line) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.left_out += 1,
            // The writer gave up and said why.
            Err(TrySendError::Disconnected(_)) => self.lines = None,
        }
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        drop(self.lines.take());
        if let Some(writing) = self.writing.take() {
            let _ = writing.join();
        }
    }
}

fn write_all(path: &Path, lines: &Receiver<String>, rotated_bytes: u64) {
    let written = append_all(path, lines, rotated_bytes);
    if let Err(error) = written {
        tracing::warn!(path = %path.display(), %error, "the log stops here");
    }
}

fn append_all(path: &Path, lines: &Receiver<String>, rotated_bytes: u64) -> io::Result<()> {
    let (mut file, mut bytes) = open(path)?;
    while let Ok(line) = lines.recv() {
        if bytes >= rotated_bytes {
            rotate(path)?;
            (file, bytes) = open(path)?;
        }
        // One write per line: a reader never sees half of one.
        file.write_all(line.as_bytes())?;
        bytes += line.len() as u64;
    }
    Ok(())
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

fn rotate(path: &Path) -> io::Result<()> {
    let name = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    for number in (1..ROTATED_KEPT).rev() {
        match fs::rename(name(number), name(number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(path, name(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_survives_restarts_and_rotation() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        for round in 0..2 {
            let mut log = LogFile::open(Some(&path));
            log.write(Speaker::Shim, &format!("start {round}\nmore"));
        }
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(
            text,
            "[shim] start 0\n[shim] more\n[shim] start 1\n[shim] more\n"
        );
        let (sender, receiver) = sync_channel(8);
        for line in ["a\n", "b\n", "c\n"] {
            sender.send(line.to_owned()).unwrap();
        }
        drop(sender);
        append_all(&path, &receiver, 2).unwrap();
        let rotated =
            |number: u32| fs::read_to_string(directory.path().join(format!("log.{number}")));
        assert_eq!(fs::read_to_string(&path).unwrap(), "c\n");
        assert_eq!(rotated(1).unwrap(), "b\n");
        assert_eq!(rotated(2).unwrap(), "a\n");
        assert_eq!(rotated(3).unwrap(), text);
    }

    #[test]
    fn a_log_that_cannot_be_written_stops_nothing() {
        let mut log = LogFile::open(Some(Path::new("/proc/nowhere/log")));
        for _ in 0..10 {
            log.write(Speaker::Assistant, "text");
        }
    }
}

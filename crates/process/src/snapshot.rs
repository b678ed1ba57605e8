//! What is kept of a process's output, as a picture.

use bytes::Bytes;

use crate::spec::TerminalSize;
use crate::status::ExitStatus;

/// Head and tail of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamSnapshot {
    /// The first bytes.
    pub head: Bytes,
    /// The last bytes, not overlapping the head.
    pub tail: Bytes,
    /// Bytes written in all.
    pub total_bytes: u64,
    /// Bytes between head and tail that were not kept.
    pub omitted_bytes: u64,
}

impl StreamSnapshot {
    /// Head and tail as text, with a marker between them if something is missing.
    pub fn text(&self) -> String {
        let mut text = Vec::with_capacity(self.head.len() + self.tail.len());
        text.extend_from_slice(&self.head);
        if self.omitted_bytes > 0 {
            let marker = format!("\n[... {} bytes omitted ...]\n", self.omitted_bytes);
            text.extend_from_slice(marker.as_bytes());
        }
        text.extend_from_slice(&self.tail);
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// A picture of a process; taking it neither stalls nor consumes anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Standard output of a process with pipes.
    pub stdout: StreamSnapshot,
    /// Standard error of a process with pipes.
    pub stderr: StreamSnapshot,
    /// The terminal's stream.
    pub terminal: StreamSnapshot,
    /// Whether any stream lost its middle.
    pub truncated: bool,
    /// Whether the leader lives.
    pub running: bool,
    /// How it ended.
    pub status: Option<ExitStatus>,
    /// The terminal's size.
    pub size: Option<TerminalSize>,
    /// Pids of members that outlived the leader.
    pub survivors: Vec<i32>,
}

//! Says in the log that file descriptors have run out.
//!
//! A process that could not be started for want of a descriptor is reported to its caller, which is
//! often a model. Only the operator can raise the limit, so the log names it too.
//!
//! The invariant here: one service writes at most one line per [`SILENCE`].

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::time::Instant;

use crate::error::SpawnError;

/// How long nothing more is written after a line.
const SILENCE: Duration = Duration::from_mins(1);

/// The log lines of one service about descriptors.
#[derive(Debug, Default)]
pub(crate) struct DescriptorLog {
    last: Mutex<Option<Instant>>,
}

impl DescriptorLog {
    /// Writes a line if the error says that descriptors ran out and none was written lately.
    pub(crate) fn note(&self, error: &SpawnError) {
        let Some(errno @ (libc::EMFILE | libc::ENFILE)) = error.os_error else {
            return;
        };
        if !self.is_due() {
            return;
        }
        if errno == libc::ENFILE {
            tracing::error!(
                "a process was not started: this system has no free file descriptor; raise the \
                 sysctl fs.file-max, or end programs that hold many files open"
            );
            return;
        }
        let limit = getrlimit(Resource::Nofile).current;
        let limit = limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
        tracing::error!(
            limit,
            "a process was not started: file descriptors ran out; raise the limit of open files with \
             `ulimit -n 1024` in the shell that starts the daemon, or with LimitNOFILE=1024 in its \
             systemd unit"
        );
    }

    /// Whether a line may be written now; the next one may follow after [`SILENCE`].
    fn is_due(&self) -> bool {
        let now = Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| now.duration_since(last) >= SILENCE);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_line_is_written_once_per_minute() {
        let log = DescriptorLog::default();
        let mut written = Vec::new();
        for _ in 0..5 {
            written.push(log.is_due());
            tokio::time::advance(Duration::from_secs(25)).await;
        }
        assert_eq!(written, [true, false, false, true, false]);
    }
}

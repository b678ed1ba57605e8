//! Whether a failure looks like the sandbox's doing. A hint for people, never a decision.

use turnlane_process::{Process, Snapshot};

/// By the signal of a forbidden system call.
const CODE_OF_SIGSYS: i32 = 128 + 31;

/// What programs say when something is not allowed.
const WORDS: [&[u8]; 7] = [
    b"operation not permitted",
    b"permission denied",
    b"read-only file system",
    b"seccomp",
    b"sandbox",
    b"landlock",
    b"failed to write file",
];

/// Whether a policy was in force and the process failed in a way that looks like it.
pub(crate) fn looks_denied(process: &Process) -> bool {
    process.info().sandbox.is_enforced() && failed_like_it(&process.snapshot())
}

fn failed_like_it(snapshot: &Snapshot) -> bool {
    match snapshot.status {
        None => false,
        Some(status) if status.code == 0 => false,
        Some(status) if status.code == CODE_OF_SIGSYS => true,
        Some(_) => [&snapshot.stdout, &snapshot.stderr, &snapshot.terminal]
            .into_iter()
            .any(|stream| says_so(&stream.head) || says_so(&stream.tail)),
    }
}

fn says_so(output: &[u8]) -> bool {
    let lower = output.to_ascii_lowercase();
    WORDS
        .iter()
        .any(|word| memchr::memmem::find(&lower, word).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnlane_process::{ExitStatus, Reason, Rusage, StreamSnapshot};

    fn ended(code: i32, stderr: &'static str) -> Snapshot {
        Snapshot {
            stdout: StreamSnapshot::default(),
            stderr: StreamSnapshot {
                tail: stderr.into(),
                ..StreamSnapshot::default()
            },
            terminal: StreamSnapshot::default(),
            truncated: false,
            running: false,
            status: Some(ExitStatus {
                code,
                signal: None,
                reason: Reason::Exited,
                rusage: Rusage::default(),
            }),
            size: None,
            survivors: Vec::new(),
        }
    }

    #[test]
    fn only_a_failure_that_says_so_looks_denied() {
        assert!(failed_like_it(&ended(1, "touch: Read-Only File System\n")));
        assert!(failed_like_it(&ended(159, "")));
        assert!(!failed_like_it(&ended(0, "permission denied")));
        assert!(!failed_like_it(&ended(1, "no such file")));
    }
}

//! Whether a failure looks like the sandbox's doing.
//!
//! A guess from the exit code and the words in the output. It is a hint for whoever reads a result,
//! never a decision: a program may print these words for any reason, or fail without them.

use crate::report::Confined;
use crate::status::ExitStatus;

/// What programs say when the kernel refused them something.
const WORDS: [&[u8]; 7] = [
    b"operation not permitted",
    b"permission denied",
    b"read-only file system",
    b"seccomp",
    b"sandbox",
    b"landlock",
    b"failed to write file",
];

/// What a shell shows for a process that died of a forbidden system call.
const CODE_SIGSYS: i32 = 128 + libc::SIGSYS;

/// Whether a process that ended like this and left this output was probably stopped by its sandbox.
///
/// `output` is what was retained, one piece per stretch without a gap (head and tail of each stream).
pub(crate) fn looks_denied<'a>(
    confined: &Confined,
    status: &ExitStatus,
    output: impl IntoIterator<Item = &'a [u8]>,
) -> bool {
    confined.is_enforced()
        && status.code != 0
        && (status.code == CODE_SIGSYS || output.into_iter().any(has_word))
}

/// The words begin with one of six letters, so most of a piece is passed over quickly.
fn has_word(piece: &[u8]) -> bool {
    (0..piece.len()).any(|at| {
        let rest = &piece[at..];
        matches!(
            rest[0].to_ascii_lowercase(),
            b'o' | b'p' | b'r' | b's' | b'l' | b'f'
        ) && WORDS
            .iter()
            .any(|word| rest.len() >= word.len() && rest[..word.len()].eq_ignore_ascii_case(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{FsEnforcement, NetworkEnforcement};
    use crate::status::{Reason, Rusage};

    fn confined(fs: FsEnforcement, network: NetworkEnforcement) -> Confined {
        Confined {
            policy: "custom",
            fs,
            landlock_abi: None,
            network,
            scopes: false,
        }
    }

    fn ended(code: i32) -> ExitStatus {
        ExitStatus {
            code,
            signal: None,
            reason: Reason::Exited,
            rusage: Rusage::default(),
        }
    }

    #[test]
    fn a_failure_with_a_telling_word_in_any_piece_looks_denied() {
        let confined = confined(FsEnforcement::Landlock, NetworkEnforcement::Open);
        for said in [
            "sh: 1: cannot create /etc/x: Permission denied\n",
            "OPERATION NOT PERMITTED",
            "touch: cannot touch 'x': Read-only file system",
            "blocked by SeccomP",
            "Landlock",
            "failed to write file",
            "the sandbox said no",
        ] {
            let pieces = [b"head".as_slice(), said.as_bytes()];
            assert!(looks_denied(&confined, &ended(1), pieces), "{said}");
        }
    }

    #[test]
    fn a_forbidden_system_call_needs_no_words() {
        let confined = confined(FsEnforcement::None, NetworkEnforcement::Seccomp);
        assert!(looks_denied(&confined, &ended(159), []));
    }

    #[test]
    fn success_other_words_and_no_policy_do_not() {
        let enforced = confined(FsEnforcement::Landlock, NetworkEnforcement::Seccomp);
        let open = confined(FsEnforcement::None, NetworkEnforcement::Open);
        let denied = [b"permission denied".as_slice()];
        assert!(!looks_denied(&enforced, &ended(0), denied));
        assert!(!looks_denied(&open, &ended(1), denied));
        assert!(!looks_denied(&open, &ended(159), []));
        assert!(!looks_denied(
            &enforced,
            &ended(1),
            [b"no such file".as_slice(), b"perm"]
        ));
        // A gap between head and tail is a gap: words are not put together across it.
        assert!(!looks_denied(
            &enforced,
            &ended(1),
            [b"permission ".as_slice(), b"denied"]
        ));
    }
}

//! Attributes of a child that are its parent's, made stricter: file mode mask and OOM score.
//!
//! Called between the clone and the exec, where the rules of `child` hold: system calls only, nothing
//! that allocates. The invariant here: an attribute only ever becomes stricter than the service's own.

use super::syscall::{address, call, fd, word};

/// The least that every child's file mode mask takes away.
const UMASK: usize = 0o022;

/// The score of confined processes, of at most 1000, and as text.
const OOM_SCORE: u32 = 500;
const OOM_SCORE_TEXT: &[u8] = b"500";

/// Sets the file mode mask to 022 and whatever else the service's own mask takes away: a user with
/// 077 gets no world-readable files from commands. The mask of a clone without `CLONE_FS` is a copy,
/// so the parent's is neither changed nor read from `/proc`.
pub(super) fn tighten_umask() {
    // SAFETY: the mask is this process's own; the call cannot fail and returns the mask before it.
    let inherited = unsafe { call(libc::SYS_umask, [UMASK, 0, 0, 0, 0, 0]) };
    if let Ok(inherited) = inherited
        && inherited | UMASK != UMASK
    {
        // SAFETY: as above.
        let _ = unsafe { call(libc::SYS_umask, [inherited | UMASK, 0, 0, 0, 0, 0]) };
    }
}

/// Makes the kernel end this process before the service when memory runs out. A higher score that the
/// service has itself stays. What fails is left: the service has reported that it would.
pub(super) fn raise_oom_score() {
    let flags = word(libc::O_RDWR | libc::O_CLOEXEC);
    let path = c"/proc/self/oom_score_adj";
    let mut text = [0_u8; 16];
    // SAFETY: the path ends with NUL, buffer and text are as long as said, and the descriptor is used
    // and closed here only, in a table that is this process's own. The score is this process's own as
    // well, although the memory is not: the kernel does not share it with a vfork's parent.
    unsafe {
        let opened = call(
            libc::SYS_openat,
            [fd(libc::AT_FDCWD), address(path.as_ptr()), flags, 0, 0, 0],
        );
        let Ok(file) = opened else { return };
        let buffer = address(text.as_mut_ptr());
        let read = call(libc::SYS_read, [file, buffer, text.len(), 0, 0, 0]);
        if read.is_ok_and(|len| score(text.get(..len).unwrap_or_default()) < OOM_SCORE) {
            let wanted = OOM_SCORE_TEXT;
            let _ = call(
                libc::SYS_write,
                [file, address(wanted.as_ptr()), wanted.len(), 0, 0, 0],
            );
        }
        let _ = call(libc::SYS_close, [file, 0, 0, 0, 0, 0]);
    }
}

/// A score as the kernel writes it. A negative one is read as 0, which is as good for comparing.
fn score(text: &[u8]) -> u32 {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |score, digit| {
        u32::saturating_add(u32::saturating_mul(score, 10), u32::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_read_as_the_kernel_writes_them() {
        let cases: [(&[u8], u32); 5] = [
            (b"0\n", 0),
            (b"500\n", 500),
            (b"1000\n", 1000),
            (b"-900\n", 0),
            (b"", 0),
        ];
        for (text, expected) in cases {
            assert_eq!(score(text), expected);
        }
    }
}

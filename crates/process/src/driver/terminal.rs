//! What only a terminal has: a foreground group and a size.
//!
//! Both are asked of the master by whoever calls, without the driver: neither waits for anything.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::process::{getsid, kill_process_group};
use rustix::termios::{Winsize, tcgetpgrp, tcsetwinsize};

use crate::error::ResizeError;
use crate::spec::{Signal, TerminalSize};

/// The largest number of rows or columns.
const SIDE_MAX: u16 = 10_000;

/// Sends a signal to the terminal's foreground group; false if there is none. The leader of the
/// process leads the terminal's session.
pub(super) fn signal_foreground(master: BorrowedFd<'_>, leader: i32, signal: Signal) -> bool {
    let Ok(group) = tcgetpgrp(master) else {
        return false;
    };
    // The number of a group that is gone may be somebody else's by now: then the session differs.
    // When only the group's first process is gone, the number is still taken and nobody has it.
    match getsid(Some(group)) {
        Ok(session) if session.as_raw_nonzero().get() != leader => return false,
        Ok(_) | Err(Errno::SRCH) => {}
        Err(_) => return false,
    }
    rustix::process::Signal::from_named_raw(signal.number())
        .is_some_and(|signal| kill_process_group(group, signal).is_ok())
}

/// Whether a size is one.
pub(crate) fn check_size(size: TerminalSize) -> Result<(), ResizeError> {
    let fits = |side: u16| (1..=SIDE_MAX).contains(&side);
    if fits(size.rows) && fits(size.cols) {
        Ok(())
    } else {
        Err(ResizeError::BadSize)
    }
}

/// Tells the terminal its size. One that is gone does not mind.
pub(crate) fn resize(master: BorrowedFd<'_>, size: TerminalSize) {
    let told = tcsetwinsize(
        master,
        Winsize {
            ws_row: size.rows,
            ws_col: size.cols,
            ws_xpixel: 0,
            ws_ypixel: 0,
        },
    );
    if let Err(error) = told {
        tracing::debug!(%error, "terminal was not resized");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_has_at_least_one_cell_and_at_most_ten_thousand_a_side() {
        let ask = |rows, cols| check_size(TerminalSize { rows, cols });
        assert_eq!(ask(1, 10_000), Ok(()));
        assert_eq!(ask(0, 80), Err(ResizeError::BadSize));
        assert_eq!(ask(24, 10_001), Err(ResizeError::BadSize));
    }
}

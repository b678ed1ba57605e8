//! How this process itself ends by a signal that it caught.
//!
//! The invariant here: whoever waits for this process sees the signal it sent, as if it had not been
//! caught. What has to be in order before that is the caller's business: nothing runs afterwards.

/// A signal that asks a process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndSignal {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP.
    HangUp,
}

/// Ends this process by `signal`, with its default action. Destructors do not run.
///
/// Returns only where the signal is blocked, which nobody does here.
pub fn end_by_signal(signal: EndSignal) {
    let number = match signal {
        EndSignal::Interrupt => libc::SIGINT,
        EndSignal::Terminate => libc::SIGTERM,
        EndSignal::HangUp => libc::SIGHUP,
    };
    // SAFETY: both calls take a valid signal number and touch no memory of ours; the default action
    // replaces a handler that no code of this process needs any more.
    unsafe {
        libc::signal(number, libc::SIG_DFL);
        libc::raise(number);
    }
}

//! Descriptors the runtime watches.
//!
//! The invariant here: a watched descriptor is owned by its watch, so it leaves epoll before it is
//! closed. A new child holds copies of descriptors until its exec has closed them, and epoll would
//! go on reporting a closed one otherwise.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::keeper::{Held, Starting};
use crate::launch::LaunchError;

/// A descriptor in the runtime's epoll.
pub(super) type Watched<T> = AsyncFd<Inside<T>>;

/// Whose descriptor is the same and open as long as the value lives. Not for others to implement.
pub(super) trait Steady: AsFd {}

impl Steady for OwnedFd {}
/// Its socket is private to it and never replaced.
impl Steady for Held {}
/// Its socket is private to it and never replaced.
impl Steady for Starting {}

/// What is watched; it can be read and used, but not replaced.
#[derive(Debug)]
pub(super) struct Inside<T>(T);

impl<T> Inside<T> {
    pub(super) fn get(&self) -> &T {
        &self.0
    }
}

/// The result of a start, see [`Starting::poll`]. Here because an exclusive reference must not leave
/// this file: it could replace what is watched.
pub(super) fn poll_start(
    starting: &mut Watched<Starting>,
) -> io::Result<Option<Result<Held, LaunchError>>> {
    starting.get_mut().0.poll()
}

/// Takes it out of epoll.
pub(super) fn unwatch<T: Steady>(watched: Watched<T>) -> T {
    watched.into_inner().0
}

impl<T: AsFd> AsFd for Inside<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl<T: AsFd> AsRawFd for Inside<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// Watches `inner`. To be called inside a runtime. Fails when the system has no room for another
/// watch, and then gives it back.
pub(super) fn watch<T: Steady>(inner: T, interest: Interest) -> Result<Watched<T>, Unwatched<T>> {
    // SAFETY: a `Steady` value owns its descriptor, keeps it open and always names the same one; the
    // watch owns the value and gives out only shared references to it until it is gone.
    let watched = unsafe { AsyncFd::register_with_interest(Inside(inner), interest) };
    watched.map_err(|error| {
        let (Inside(inner), error) = error.into_parts();
        Unwatched { inner, error }
    })
}

/// What could not be watched, and why.
#[derive(Debug)]
pub(super) struct Unwatched<T> {
    pub(super) inner: T,
    pub(super) error: io::Error,
}

impl<T> From<Unwatched<T>> for io::Error {
    fn from(unwatched: Unwatched<T>) -> Self {
        unwatched.error
    }
}

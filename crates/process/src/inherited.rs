//! A socket that the parent process gave under a fixed number.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

/// Duplicates stay above the numbers that parents agree upon.
const LOWEST: RawFd = 10;

/// Returns a duplicate of the stream socket `number`, or none where there is no such socket.
///
/// To be called before this process opens anything: a later descriptor may have that number. The original
/// stays open, and no child inherits either of them.
pub fn inherited_socket(number: RawFd) -> io::Result<Option<OwnedFd>> {
    let mut kind = MaybeUninit::<libc::c_int>::uninit();
    let mut length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(4);
    // SAFETY: both pointers are valid for the call, and the kernel writes at most `length` bytes. A
    // number that is no socket is an error and nothing else.
    let asked = unsafe {
        libc::getsockopt(
            number,
            libc::SOL_SOCKET,
            libc::SO_TYPE,
            kind.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if asked != 0 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::EBADF | libc::ENOTSOCK) => Ok(None),
            _ => Err(error),
        };
    }
    // SAFETY: the call succeeded, so the kernel has written the value.
    if unsafe { kind.assume_init() } != libc::SOCK_STREAM {
        return Ok(None);
    }
    // SAFETY: neither call touches memory of ours. The number was a socket a moment ago; were it closed
    // meanwhile, the calls would fail.
    let duplicate = unsafe {
        libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC);
        libc::fcntl(number, libc::F_DUPFD_CLOEXEC, LOWEST)
    };
    if duplicate < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the duplicate is new, so nothing else owns it.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(duplicate) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    #[test]
    fn only_a_stream_socket_is_taken() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert!(inherited_socket(ours.as_raw_fd()).unwrap().is_some());
        let (datagrams, _other) = UnixDatagram::pair().unwrap();
        assert!(inherited_socket(datagrams.as_raw_fd()).unwrap().is_none());
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(inherited_socket(file.as_raw_fd()).unwrap().is_none());
        assert!(inherited_socket(1_000_000).unwrap().is_none());
    }
}

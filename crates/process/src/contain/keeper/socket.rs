//! Messages with descriptors over a pair of connected sockets.
//!
//! One message is one packet: never split, never joined, never half read. A packet whose descriptors
//! did not all arrive is an error, because what they were for cannot be done.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// Descriptors in one packet.
pub(super) const FDS_MAX: usize = 16;

/// Two connected ends, closed on exec, blocking.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let pair = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    Ok(pair)
}

/// Whether a call waits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    Yes,
    No,
}

/// Sends one packet without descriptors if that is possible without waiting.
pub(super) fn send_now(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    send(socket, &[IoSlice::new(bytes)], &[], Wait::No)
}

/// Sends one packet made of `parts`.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    parts: &[IoSlice<'_>],
    fds: &[BorrowedFd<'_>],
    wait: Wait,
) -> io::Result<()> {
    let flags = match wait {
        Wait::Yes => SendFlags::NOSIGNAL,
        Wait::No => SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
    };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("too many descriptors in one packet"));
    }
    rustix::io::retry_on_intr(|| rustix::net::sendmsg(socket, parts, &mut control, flags))?;
    Ok(())
}

/// Receives one packet into `buffer` and its descriptors into `fds`; 0 is the end. A packet that is
/// longer than the buffer is an error.
pub(super) fn recv(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    fds: &mut Vec<OwnedFd>,
    wait: Wait,
) -> io::Result<usize> {
    let flags = match wait {
        Wait::Yes => RecvFlags::CMSG_CLOEXEC,
        Wait::No => RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
    };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags)
    })?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(rustix::io::Errno::MFILE.into());
    }
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Err(rustix::io::Errno::MSGSIZE.into());
    }
    Ok(received.bytes)
}

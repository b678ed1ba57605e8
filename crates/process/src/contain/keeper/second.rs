//! The second keeper: a copy of the keeper that does nothing unless service and keeper die together.
//!
//! Under `cgroup` nothing follows a service and a keeper that are killed in the same moment: leaders
//! get the kernel's signal, their descendants do not. The second keeper waits for the service's end as
//! the keeper does, has the same descriptors open and ends the same cgroup. A keeper that is killed
//! alone leaves it to the service, which ends everything, puts the next keeper in office and then
//! dismisses it. Under `reaper` every holder is a second keeper already.
//!
//! The invariant: it kills no process while the service lives. Only the end of the link, without a
//! dismissal before it, or the end of the service's process makes it act.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags};

use super::cgroup;
use super::protocol::{PACKET_MAX, ToKeeper};
use super::socket::{self, Wait};

/// The name of a second keeper in `/proc`. Not the keeper's, so that ending one by name spares the
/// other.
pub(super) const NAME: &std::ffi::CStr = c"tl-second";

/// Waits for the service's end and ends the cgroup, or returns when dismissed.
pub(super) fn stand_by(link: &OwnedFd, service: Option<&OwnedFd>, directory: &Path) {
    let _ = rustix::thread::set_name(NAME);
    let mut buffer = [0; PACKET_MAX];
    loop {
        let mut fds = [
            PollFd::new(link, PollFlags::IN),
            PollFd::new(service.unwrap_or(link), PollFlags::IN),
        ];
        if rustix::event::poll(&mut fds, None).is_err() {
            continue; // Interrupted.
        }
        let service_gone = service.is_some() && !fds[1].revents().is_empty();
        // Read in any case: a dismissal that was sent before the end still counts.
        match socket::recv(link.as_fd(), &mut buffer, &mut Vec::new(), Wait::No) {
            Ok(len @ 1..) => {
                if ToKeeper::decode(&buffer[..len]) == Some(ToKeeper::Dismiss) {
                    return;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && !service_gone => {}
            Ok(0) | Err(_) => break,
        }
    }
    cgroup::end(directory);
}

//! Which peers our listeners refuse: commands that run in a sandbox, of this worker or of another one.
//!
//! A command with network could otherwise be a client of its own daemon, and accept its own questions.
//! How such a process is recognised is the business of the process service; when it is asked, that of
//! the listeners.

use turnlane_process::{ProcessService, SocketPeer};
use turnlane_rpc::listen::{PeerAddr, PeerFilter};

/// Refuses every peer that descends from a confined process.
pub(crate) fn refuse_confined(service: ProcessService) -> PeerFilter {
    PeerFilter::new(move |peer| match *peer {
        PeerAddr::Tcp { remote, local } => service.is_confined_peer(SocketPeer::Tcp {
            peer: remote,
            ours: local,
        }),
        PeerAddr::Unix { pid: Some(pid), .. } => service.is_confined_peer(SocketPeer::Pid(pid)),
        // A system that does not name the process has no sandbox of ours either.
        PeerAddr::Unix { pid: None, .. } => false,
    })
}

//! Whether the client at the other end of a socket is a confined command.
//!
//! A sandbox with network can reach the listeners of its own daemon, and a client of the daemon may
//! run commands without a sandbox or accept an approval. Listeners therefore refuse every client that
//! carries the mark of a confined process (`mark`), whichever service on this machine started it.
//!
//! The invariant here: a client whose process cannot be identified counts as confined. A
//! command can close its end, exit, hand its socket to a child or hide it in another socket's queue
//! after it has sent a request; none of that may turn it into an ordinary client.
//!
//! Looking a pid up is one read. A TCP client on this machine costs a look at the descriptors of every
//! process of this user, a few milliseconds for some hundred processes; clients of other machines cost
//! a system call or two. What is done about a confined client is decided by the listener.

mod owner;
mod table;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::mark::{self, Mark};
use owner::SocketOwner;

/// Scans for a socket's owner: one alone may miss a descriptor that moves from process to process
/// while `/proc` is read.
const ROUNDS: usize = 3;

/// The other end of a connection that a listener has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketPeer {
    /// The process that connected to a unix socket, as the kernel says it (`SO_PEERCRED`).
    Pid(i32),
    /// A TCP connection.
    Tcp {
        /// The client's address.
        peer: SocketAddr,
        /// The address the client connected to.
        ours: SocketAddr,
    },
}

/// Returns whether the process behind `peer` descends from one that was started under an enforced
/// policy.
pub(crate) fn is_confined(peer: SocketPeer, mark: &Mark) -> bool {
    match peer {
        // The client is outside of this pid namespace, so no service in here started it.
        SocketPeer::Pid(..=0) => false,
        // The process is gone. An ordinary client has no use for an answer any more; a confined one
        // may have left its socket to a child. That the number was given to another process since the
        // connect takes a turn through all pids, which no command has the time for.
        SocketPeer::Pid(pid) => mark::of(pid).is_none_or(|value| mark.is_confined(value)),
        SocketPeer::Tcp { peer, ours } => {
            let (peer, ours) = (canonical(peer), canonical(ours));
            is_local(peer) && is_tcp_confined(peer, ours, mark)
        }
    }
}

fn is_tcp_confined(peer: SocketAddr, ours: SocketAddr, mark: &Mark) -> bool {
    let uid = rustix::process::geteuid().as_raw();
    let mut last = None;
    for _ in 0..ROUNDS {
        let Some(socket) = table::find(peer, ours) else {
            return true; // It was closed.
        };
        // It was closed, and the kernel only says goodbye. Comes before the user, which the kernel
        // shows as root then: a confined client that closes at once must not pass for another user's.
        if socket.inode == 0 {
            return true;
        }
        // Confined processes have the service's user and no right to change it.
        if socket.uid != uid {
            return false;
        }
        let scan = owner::find(socket.inode, uid, mark);
        match scan.owner {
            SocketOwner::Confined => return true,
            SocketOwner::Free => return false,
            // A process whose descriptors we may not read has it, perhaps: that of an ssh tunnel.
            // Believed only if no confined process came or went between two scans.
            SocketOwner::Unreadable if last.as_ref() == Some(&scan.confined) => return false,
            SocketOwner::Unreadable => last = Some(scan.confined),
            SocketOwner::Hidden | SocketOwner::None => {}
        }
    }
    true
}

/// The address without its disguise as IPv6.
fn canonical(mut address: SocketAddr) -> SocketAddr {
    // Not made anew: a link-local address is of no use without its interface.
    address.set_ip(address.ip().to_canonical());
    address
}

/// Returns whether an address is one of this machine's: the kernel then talks to it from the same
/// address.
/// Counts as local where the kernel does not say.
fn is_local(address: SocketAddr) -> bool {
    if address.ip().is_loopback() {
        return true;
    }
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // No packet is sent: connecting a datagram socket only chooses a route.
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    source.map_or(true, |source| source.ip() == address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_told_from_others() {
        assert!(is_local("127.3.2.1:1".parse().unwrap()));
        assert!(is_local("[::1]:1".parse().unwrap()));
        // An address for documentation belongs to no machine; without a route the kernel cannot say.
        let other: SocketAddr = "192.0.2.1:1".parse().unwrap();
        let routed = UdpSocket::bind("0.0.0.0:0").unwrap().connect(other);
        assert_eq!(is_local(other), routed.is_err());
        let mapped: SocketAddr = "[::ffff:127.0.0.1]:80".parse().unwrap();
        assert_eq!(canonical(mapped), "127.0.0.1:80".parse().unwrap());
    }

    #[test]
    fn a_process_outside_of_the_pid_namespace_is_free_and_one_that_is_gone_is_not() {
        let mark = Mark::choose();
        assert!(!is_confined(SocketPeer::Pid(0), &mark));
        assert!(is_confined(SocketPeer::Pid(i32::MAX), &mark));
        let own = std::process::id().cast_signed();
        assert!(!is_confined(SocketPeer::Pid(own), &mark));
    }

    #[test]
    fn a_client_in_this_process_is_free_until_it_closes() {
        let mark = Mark::choose();
        for listen in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = std::net::TcpListener::bind(listen) else {
                continue; // A machine without IPv6.
            };
            let mut address = listener.local_addr().unwrap();
            if address.ip().is_unspecified() {
                address.set_ip("127.0.0.1".parse().unwrap());
            }
            let client = std::net::TcpStream::connect(address).unwrap();
            let (accepted, peer) = listener.accept().unwrap();
            let ours = accepted.local_addr().unwrap();
            let peer = SocketPeer::Tcp { peer, ours };
            assert!(!is_confined(peer, &mark), "{listen}");
            drop(client);
            assert!(is_confined(peer, &mark), "{listen}");
        }
    }
}

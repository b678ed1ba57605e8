//! The kernel's tables of TCP sockets, `/proc/net/tcp` and `tcp6`.
//!
//! Finds the socket of a client on this machine. Reads the tables line by line and stops at the
//! socket, so that a machine with many connections costs time but no memory.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The entry of a table about one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TcpSocket {
    pub(super) uid: u32,
    /// 0 once its process closed it.
    pub(super) inode: u64,
}

/// The socket at `local` that is connected to `remote`; both without IPv4 in the disguise of IPv6.
pub(super) fn find(local: SocketAddr, remote: SocketAddr) -> Option<TcpSocket> {
    // The tables name no interfaces.
    let [local, remote] = [local, remote].map(|end| SocketAddr::new(end.ip(), end.port()));
    // An IPv4 connection may belong to a socket of either kind.
    let tables: &[&str] = match local {
        SocketAddr::V4(_) => &["/proc/net/tcp", "/proc/net/tcp6"],
        SocketAddr::V6(_) => &["/proc/net/tcp6"],
    };
    tables.iter().find_map(|table| {
        let lines = BufReader::new(File::open(table).ok()?).lines();
        let mut sockets = lines.map_while(Result::ok);
        sockets.find_map(|line| {
            let (ends, socket) = parse(&line)?;
            (ends == (local, remote)).then_some(socket)
        })
    })
}

/// `sl local remote state queues timer retransmits uid timeout inode ...`.
fn parse(line: &str) -> Option<((SocketAddr, SocketAddr), TcpSocket)> {
    let mut fields = line.split_whitespace().skip(1);
    let ends = (address(fields.next()?)?, address(fields.next()?)?);
    let mut fields = fields.skip(4);
    let uid = fields.next()?.parse().ok()?;
    let inode = fields.nth(1)?.parse().ok()?;
    Some((ends, TcpSocket { uid, inode }))
}

/// `0100007F:1F90`: words of 32 bits in the machine's order, then the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |index: usize| {
        let word = u32::from_str_radix(ip.get(index * 8..index * 8 + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let ip: IpAddr = match ip.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let mut octets = [0; 16];
            for (index, part) in octets.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(index)?);
            }
            Ipv6Addr::from(octets).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn both_kinds_of_lines_are_read() {
        let line = "   3: 0100007F:9C40 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  \
                    1000        0 48213 1 0000000000000000 20 4 30 10 -1";
        let ends = (
            "127.0.0.1:40000".parse().unwrap(),
            "127.0.0.1:8080".parse().unwrap(),
        );
        let socket = TcpSocket {
            uid: 1000,
            inode: 48213,
        };
        assert_eq!(parse(line), Some((ends, socket)));
        let mapped = "0000000000000000FFFF00000100007F:1F90";
        assert_eq!(address(mapped), Some(ends.1));
        let six = "00000000000000000000000001000000:0050";
        assert_eq!(address(six), Some("[::1]:80".parse().unwrap()));
        assert_eq!(parse("  sl  local_address rem_address   st tx_queue"), None);
        assert_eq!(address("0100007:1F90"), None);
        assert_eq!(address("é00007F:1F90"), None);
    }
}

//! Sockets of others, of the network, and of the server that runs us.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::scene::Scene;
use crate::sys::{Answer, at, close, into, sys};
use crate::tries::{Tries, Verdict};

/// How long a listener may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

const STREAM: i32 = libc::SOCK_STREAM;
const DATAGRAM: i32 = libc::SOCK_DGRAM;
const PACKETS: i32 = libc::SOCK_SEQPACKET;

/// `sockaddr_un`, and how much of it counts.
struct UnixAddress {
    bytes: [u8; 110],
    length: usize,
}

impl UnixAddress {
    /// A path; one that begins with `@` is an abstract name.
    fn new(name: &str) -> Self {
        let mut bytes = [0; 110];
        bytes[..2].copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
        let name = name.as_bytes();
        let length = name.len().min(107);
        bytes[2..2 + length].copy_from_slice(&name[..length]);
        let is_abstract = name.first() == Some(&b'@');
        if is_abstract {
            bytes[2] = 0;
        }
        let length = 2 + length + usize::from(!is_abstract);
        Self { bytes, length }
    }
}

fn socket(family: i32, kind: i32, protocol: i32) -> Answer {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    sys(
        libc::SYS_socket,
        &[family as usize, kind as usize, protocol as usize],
    )
}

fn connect(fd: i64, address: &UnixAddress) -> Answer {
    sys(
        libc::SYS_connect,
        &[fd as usize, at(&address.bytes), address.length],
    )
}

/// Sends one byte to an address without connecting, in two ways.
fn send(fd: i64, address: &UnixAddress) -> [Answer; 2] {
    let byte = [b'x'];
    let (fd, name, length) = (fd as usize, at(&address.bytes), address.length);
    let part = [at(&byte), 1];
    // `msghdr`.
    let header = [name, length, at(&part), 1, 0, 0, 0];
    [
        sys(libc::SYS_sendto, &[fd, at(&byte), 1, 0, name, length]),
        sys(libc::SYS_sendmsg, &[fd, at(&header), 0]),
    ]
}

pub(super) fn unix(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    for (key, kind) in [
        ("unix-stream", STREAM),
        ("unix-packets", PACKETS),
        ("unix-datagrams", DATAGRAM),
        ("unix-abstract", STREAM),
    ] {
        let address = UnixAddress::new(scene.text(key));
        let fd = match socket(libc::AF_UNIX, kind, 0) {
            Ok(fd) => fd,
            Err(errno) => {
                tries.must_fail(key, Err(errno));
                continue;
            }
        };
        tries.must_fail(format!("connect to {key}"), connect(fd, &address));
        close(fd);
        if kind == DATAGRAM {
            if let Ok(fd) = socket(libc::AF_UNIX, kind, 0) {
                let [sent, sent_message] = send(fd, &address);
                tries.must_fail(format!("send to {key}"), sent);
                tries.must_fail(format!("send a message to {key}"), sent_message);
                close(fd);
            }
            // A pair is allowed; an address must not lead out of it.
            let mut pair = [0_i32; 2];
            let made = [
                libc::AF_UNIX as usize,
                DATAGRAM as usize,
                0,
                into(&mut pair),
            ];
            if sys(libc::SYS_socketpair, &made).is_ok() {
                let [sent, sent_message] = send(pair[0].into(), &address);
                tries.must_fail("send out of a pair", sent);
                tries.must_fail("send a message out of a pair", sent_message);
                tries.must_fail("connect a pair", connect(pair[0].into(), &address));
            }
        }
    }
    tries.verdict()
}

pub(super) fn network(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    if scene.says("network") {
        tries.skip("the policy allows the network");
        return tries.verdict();
    }
    for (what, family, kind) in [
        ("tcp", libc::AF_INET, STREAM),
        ("udp", libc::AF_INET, DATAGRAM),
        ("tcp6", libc::AF_INET6, STREAM),
        ("udp6", libc::AF_INET6, DATAGRAM),
        ("netlink", libc::AF_NETLINK, libc::SOCK_RAW),
    ] {
        tries.must_fail(what, socket(family, kind, 0));
    }
    let port = scene.number("tcp-port") as u16;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let connected = TcpStream::connect_timeout(&address, PATIENCE);
    tries.must_not("connect to the bystander", connected.is_ok());
    let listening = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    tries.must_not("listen", listening.is_ok());
    tries.verdict()
}

pub(super) fn raw(_: &Scene) -> Verdict {
    let mut tries = Tries::default();
    for (what, family, kind, protocol) in [
        ("packets", libc::AF_PACKET, libc::SOCK_RAW, 0x0300),
        ("raw", libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP),
        ("raw6", libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_ICMPV6),
        ("vsock", libc::AF_VSOCK, STREAM, 0),
        ("vsock datagrams", libc::AF_VSOCK, DATAGRAM, 0),
        ("xdp", 44, libc::SOCK_RAW, 0),
        ("bluetooth", libc::AF_BLUETOOTH, libc::SOCK_RAW, 1),
        (
            "audit",
            libc::AF_NETLINK,
            libc::SOCK_RAW,
            libc::NETLINK_KOBJECT_UEVENT + 100,
        ),
    ] {
        tries.must_fail(what, socket(family, kind, protocol));
    }
    tries.verdict()
}

/// Talks to the server with the right token. A server answers none of its own commands.
pub(super) fn own_server(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    for key in ["server-socket", "exec-server-socket"] {
        let path = scene.text(key);
        if path.is_empty() {
            continue;
        }
        match socket(libc::AF_UNIX, STREAM, 0) {
            Ok(fd) => {
                let connected = connect(fd, &UnixAddress::new(path));
                // A connection that is closed without an answer reached nobody.
                let answered = connected.is_ok() && answers(fd);
                tries.must_not(format!("answer on the {key}"), answered);
                close(fd);
            }
            Err(errno) => tries.must_fail(key, Err(errno)),
        }
    }
    for key in ["server-port", "exec-server-port"] {
        let port = scene.number(key);
        if port <= 0 {
            continue;
        }
        let token = scene.text(&key.replace("-port", "-token"));
        for token in [token, ""] {
            let answer = upgrade(port as u16, token);
            let accepted = answer.starts_with("HTTP/1.1 101") || answer.starts_with("HTTP/1.1 200");
            tries.must_not(format!("answer on the {key}: {answer}"), accepted);
        }
    }
    tries.verdict()
}

/// Sends a request on a connected socket; whether anything of JSON comes back.
fn answers(fd: i64) -> bool {
    let request = b"{\"id\":1,\"method\":\"initialize\",\"params\":{\"clientInfo\":\
        {\"name\":\"attacker\",\"version\":\"0\"}}}\n";
    let _ = sys(
        libc::SYS_write,
        &[fd as usize, request.as_ptr() as usize, request.len()],
    );
    let mut poll = libc::pollfd {
        fd: fd as i32,
        events: libc::POLLIN,
        revents: 0,
    };
    let patience = libc::timespec {
        tv_sec: 3,
        tv_nsec: 0,
    };
    let _ = sys(libc::SYS_ppoll, &[into(&mut poll), 1, at(&patience), 0, 8]);
    let mut buffer = [0_u8; 512];
    sys(libc::SYS_read, &[fd as usize, into(&mut buffer), 512]).is_ok_and(|count| count > 0)
}

/// The first line of the answer to a websocket's upgrade; empty if none comes.
fn upgrade(port: u16, token: &str) -> String {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let Ok(mut stream) = TcpStream::connect_timeout(&address, PATIENCE) else {
        return String::new();
    };
    let authorization = match token {
        "" => String::new(),
        token => format!("Authorization: Bearer {token}\r\n"),
    };
    let request = format!(
        "GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{authorization}Connection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let _ = stream.write_all(request.as_bytes());
    let mut answer = [0; 256];
    let count = stream.read(&mut answer).unwrap_or(0);
    let answer = String::from_utf8_lossy(&answer[..count]).into_owned();
    answer.lines().next().unwrap_or_default().to_owned()
}

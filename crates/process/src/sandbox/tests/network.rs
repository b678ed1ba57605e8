//! No network: neither outside nor to sockets of this machine; and network where it is allowed.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use super::*;

const REFUSED: &[&str] = &[
    "tcp",
    "udp",
    "tcp6",
    "netlink",
    "vsock",
    "unix_datagram",
    "unix_connect",
    "tcp_connect",
    "tcp_listen",
    "unix_listen",
    "datagram_pair",
    "send_to",
];

/// What programs use inside of themselves.
const ALLOWED: &[&str] = &["unix", "pair", "pair_write"];

struct Listening {
    place: Place,
    tcp: TcpListener,
    _unix: UnixListener,
}

impl Listening {
    fn new() -> Self {
        let place = Place::new();
        Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            _unix: UnixListener::bind(place.outside().join("socket")).unwrap(),
            place,
        }
    }

    fn attempt(&self, policy: &Sandbox, who: Who) -> Outcome {
        let port = self.tcp.local_addr().unwrap().port().to_string();
        let attempt = Attempt {
            place: &self.place,
            list: "network",
            who,
        };
        attempt.with(policy, &[("TRY_PORT", port.into())])
    }
}

#[test]
fn without_network_nothing_is_connected_to() {
    if !has(Need::Mounts) {
        return;
    }
    let listening = Listening::new();
    for policy in [
        Sandbox::ReadOnly { network: false },
        listening.place.workspace(),
        Sandbox::Custom {
            rules: vec![everything(Access::Write)],
            network: false,
        },
        Sandbox::ExternalSandbox { network: false },
    ] {
        for who in [Who::Child, Who::Descendant] {
            let outcome = listening.attempt(&policy, who);
            outcome.expect(REFUSED, &[libc::EPERM]);
            outcome.allows(ALLOWED);
            assert_eq!(outcome.confined.network, NetworkEnforcement::Seccomp);
        }
    }
}

#[test]
fn with_network_the_internet_is_open_and_other_programs_are_not() {
    if !has(Need::Confinement) {
        return;
    }
    let listening = Listening::new();
    let outcome = listening.attempt(&Sandbox::ReadOnly { network: true }, Who::Child);
    outcome.allows(&[
        "tcp",
        "udp",
        "tcp_connect",
        "tcp_listen",
        "pair",
        "pair_write",
    ]);
    let local = [
        "unix",
        "unix_datagram",
        "unix_connect",
        "unix_listen",
        "datagram_pair",
        "vsock",
    ];
    outcome.expect(&local, &[libc::EPERM]);
    assert_eq!(outcome.confined.network, NetworkEnforcement::Open);
}

#[test]
fn without_a_sandbox_or_with_anothers_everything_can_be_connected_to() {
    let listening = Listening::new();
    for policy in [
        Sandbox::ExternalSandbox { network: true },
        Sandbox::DangerFullAccess,
    ] {
        let outcome = listening.attempt(&policy, Who::Child);
        outcome.allows(ALLOWED);
        outcome.allows(&["tcp", "udp", "tcp_connect", "tcp_listen", "unix_connect"]);
        assert_eq!(outcome.confined.network, NetworkEnforcement::Open);
    }
}

#[test]
fn a_setting_opens_the_sockets_of_other_programs() {
    if !has(Need::Confinement) {
        return;
    }
    let listening = Listening::new();
    let around = Surroundings {
        local_sockets: LocalSockets::Open,
        ..nowhere()
    };
    let port = listening.tcp.local_addr().unwrap().port().to_string();
    let attempt = Attempt {
        place: &listening.place,
        list: "network",
        who: Who::Child,
    };
    for (network, expected) in [(true, 0), (false, libc::EPERM)] {
        let policy = Sandbox::ReadOnly { network };
        let confinement = machine().confine(&policy, around).unwrap();
        let outcome = attempt.confined(confinement, &[("TRY_PORT", port.clone().into())]);
        outcome.expect(&["unix_connect", "tcp_connect"], &[expected]);
    }
}

#[test]
fn what_somebody_else_confines_has_no_network_and_all_files() {
    if !has(Need::Confinement) {
        return;
    }
    let place = Place::new();
    let policy = Sandbox::ExternalSandbox { network: false };
    let outcome = attempt(&place, "files", &policy);
    outcome.allows(&["create_outside", "write_outside", "create_in_root"]);
    assert_eq!(outcome.confined.fs, FsEnforcement::None);
    assert!(outcome.confined.is_enforced());
    let outcome = attempt(&place, "service", &policy);
    outcome.expect(&["ptrace", "io_uring", "by_handle"], &[libc::EPERM]);
}

//! Which clients of a socket are confined commands: whatever they do to their parents, sessions and
//! descriptors, and whichever service started them.
//!
//! Each test runs under every containment that holds a whole tree, as root and as an ordinary user
//! where it can.

use turnlane_process::{ContainmentKind, Sandbox, SocketPeer, Spec};

use crate::containment_host::{Host, User, users};
use crate::support::{say, service, service_of, sh, start, until_it_says};

const KINDS: [&str; 2] = ["cgroup", "reaper"];

/// Policies that are enforced.
const POLICIES: [&str; 2] = ["read-only", "workspace-write"];

async fn host(user: User, kind: &str) -> Option<Host> {
    Host::start(user, kind, 0, "pipe").await
}

#[tokio::test]
async fn a_confined_daemon_is_known_by_its_pid_to_every_service() {
    // A process that left session and parent, and says its pid.
    let daemon = "(setsid bash -c 'echo $BASHPID; sleep 1000' &) ; sleep 1000";
    let other = service();
    for user in users() {
        for kind in KINDS {
            let Some(mut host) = host(user, kind).await else {
                continue;
            };
            for (policy, expected) in [
                ("read-only", true),
                ("workspace-write", true),
                ("open", false),
            ] {
                let pid = host.ask(&format!("confined {policy} {daemon}")).await;
                let judged = host.ask(&format!("peer {pid}")).await;
                assert_eq!(judged, expected.to_string(), "{user:?}, {kind}, {policy}");
                // A service that did not start it needs to ask no other one.
                let peer = SocketPeer::Pid(pid.parse().unwrap());
                assert_eq!(other.is_confined_peer(peer), expected, "{kind}, {policy}");
            }
            let own = host.pid();
            assert_eq!(host.ask(&format!("peer {own}")).await, "false");
        }
    }
    other.stop().await;
}

#[tokio::test]
async fn a_confined_process_is_known_where_there_are_only_process_groups() {
    let service = service_of(ContainmentKind::Group).unwrap();
    for (network, sandbox) in [true, false].map(|network| (network, Sandbox::ReadOnly { network }))
    {
        let spec = Spec {
            sandbox,
            ..sh("echo up; sleep 1000")
        };
        let process = start(&service, spec).await;
        until_it_says(&process, "up").await;
        let peer = SocketPeer::Pid(process.info().pid);
        assert!(service.is_confined_peer(peer), "network: {network}");
    }
    let process = start(&service, sh("echo up; sleep 1000")).await;
    until_it_says(&process, "up").await;
    assert!(!service.is_confined_peer(SocketPeer::Pid(process.info().pid)));
    service.stop().await;
}

#[tokio::test]
async fn a_confined_process_cannot_take_its_mark_off() {
    // The shell lowers the limit as far as it goes, then tries to raise it.
    let hide = "ulimit -x 0; ulimit -x unlimited 2>/dev/null; ulimit -Hx 1000000 2>/dev/null; \
                prlimit --pid $$ --locks=unlimited 2>/dev/null; echo $BASHPID; sleep 1000";
    for user in users() {
        for kind in KINDS {
            let Some(mut host) = host(user, kind).await else {
                continue;
            };
            for policy in POLICIES {
                let pid = host.ask(&format!("confined {policy} {hide}")).await;
                let judged = host.ask(&format!("peer {pid}")).await;
                assert_eq!(judged, "true", "{user:?}, {kind}, {policy}");
            }
        }
    }
}

#[tokio::test]
async fn a_confined_tcp_client_is_found_by_its_socket() {
    for user in users() {
        for kind in KINDS {
            let Some(mut host) = host(user, kind).await else {
                continue;
            };
            for (policy, expected) in [
                ("read-only", true),
                ("workspace-write", true),
                ("open", false),
            ] {
                let judged = host.ask(&format!("tcp {policy}")).await;
                assert_eq!(judged, expected.to_string(), "{user:?}, {kind}, {policy}");
            }
        }
    }
}

#[tokio::test]
async fn a_socket_that_is_under_way_between_processes_is_not_taken_for_a_free_one() {
    if !has_python() {
        say("SKIPPED: no python3 to send a descriptor with");
        return;
    }
    // Connects, sends the socket into the queue of another one and closes it.
    let program = "import socket,sys,signal,array\n\
        c=socket.create_connection((sys.argv[1],int(sys.argv[2])))\n\
        a,b=socket.socketpair()\n\
        a.sendmsg([b\"x\"],[(socket.SOL_SOCKET,socket.SCM_RIGHTS,array.array(\"i\",[c.fileno()]))])\n\
        c.close()\nprint(1,flush=True)\nsignal.pause()";
    for user in users() {
        for kind in KINDS {
            let Some(mut host) = host(user, kind).await else {
                continue;
            };
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let script = format!(
                "confined read-only printf '%b' '{}' | python3 - 127.0.0.1 {port}",
                program.replace('\n', "\\n")
            );
            assert_eq!(host.ask(&script).await, "1");
            let (accepted, peer) = listener.accept().unwrap();
            let ours = accepted.local_addr().unwrap();
            let line = format!("tcp-peer {peer} {ours}");
            assert_eq!(host.ask(&line).await, "true", "{user:?}, {kind}");
        }
    }
}

fn has_python() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join("python3").exists())
}

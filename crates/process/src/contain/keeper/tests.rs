//! Keeper, holders and link against real processes.
//!
//! The keeper is the binary of these tests itself. Every tree is marked by an argument that occurs
//! nowhere else, and "nobody is left" is looked up in `/proc`, not believed.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::Timespec;
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::*;
use crate::contain::{Ended, How};
use crate::launch::{self, OurEnds, Plan, Slots, Stage};
use crate::spec::{Delivery, Io, Signal, Spec, Stdin, Target, TerminalSize};

const PIPE: Io = Io::Pipe {
    stdin: Stdin::Closed,
};
const PTY: Io = Io::Pty(TerminalSize { rows: 24, cols: 80 });

/// A tree with a member that left the session and a daemon that left its parent, each with `mark` as
/// its argument.
const TREE: &str = "setsid sh -c 'sleep 1000; : $0' $0 & (setsid sh -c 'sleep 1000; : $0' $0 &) & \
                    echo up; sleep 1000; : $0";

fn plan(argv: &[&str]) -> Plan {
    let path = std::env::var_os("PATH").unwrap_or_default();
    launch::prepare(&Spec::new(argv, "/"), vec![("PATH".into(), path)]).unwrap()
}

/// A keeper that is gone with everything when dropped.
fn keeper(hold: &[OwnedFd]) -> KeeperLink {
    let mut slots = Slots::reserve().unwrap();
    KeeperLink::start(&mut slots, None, hold, Job::Hold).unwrap()
}

fn start(link: &KeeperLink, argv: &[&str], io: Io) -> (Held, OurEnds) {
    let (theirs, ours) = launch::open_ends(io, Delivery::Stream).unwrap();
    let held = link
        .spawn_held(&plan(argv), &theirs, None)
        .unwrap()
        .unwrap();
    (held, ours)
}

/// An argument nobody else has.
fn mark(name: &str) -> String {
    format!("tl-{name}-{}", std::process::id())
}

/// Pids of those who have `mark` among their arguments.
fn marked(mark: &str) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has_mark = |pid: &i32| {
        let text = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        text.split(|byte| *byte == 0)
            .any(|word| word == mark.as_bytes())
    };
    pids.filter(has_mark).collect()
}

async fn all_up(mark: &str, expected: usize) {
    let up = async || marked(mark).len() == expected;
    eventually("everybody to be up", DEADLINE, up)
        .await
        .unwrap();
}

/// Waits until exactly so many are in it: a count by marks may be right while a shell still forks.
async fn grown(held: &Held, expected: usize) {
    let grown = async || held.members().len() == expected;
    eventually("all members", DEADLINE, grown).await.unwrap();
}

async fn nobody_left(mark: &str) {
    let nobody = async || marked(mark).is_empty();
    eventually("nobody to be left", DEADLINE, nobody)
        .await
        .unwrap();
}

/// The next message, waited for.
fn next(held: &Held) -> HolderMessage {
    let within = Timespec {
        tv_sec: 30,
        tv_nsec: 0,
    };
    assert!(link::is_ready(held.as_fd(), within), "the holder is silent");
    held.recv().unwrap()
}

fn exit_of(message: HolderMessage) -> (Ended, bool) {
    match message {
        HolderMessage::Exited { ended, empty } => (ended, empty),
        other => panic!("not an exit: {other:?}"),
    }
}

fn kill9(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_process_in_a_holder_tells_its_exit_and_that_nobody_is_left() {
    let link = keeper(&[]);
    let (held, _ends) = start(&link, &["sh", "-c", "exit 7"], PIPE);
    let (ended, empty) = exit_of(next(&held));
    assert_eq!((ended.how, empty), (How::Code(7), true));
    assert!(ended.rusage.max_resident_bytes > 100_000);
    assert!(matches!(next(&held), HolderMessage::Gone));
    assert!(matches!(held.recv(), Some(HolderMessage::Gone)));
    assert!(!held.signal(Signal::Kill, Target::All));
    assert!(held.members().is_empty());
}

#[test]
fn a_program_that_is_not_there_fails_with_its_stage() {
    let link = keeper(&[]);
    let (theirs, _ours) = launch::open_ends(PIPE, Delivery::Stream).unwrap();
    let failed = link.spawn_held(&plan(&["/no/such/program"]), &theirs, None);
    let error = failed.unwrap().unwrap_err();
    assert_eq!((error.stage, error.errno), (Stage::Exec, libc::ENOENT));
}

#[test]
fn a_request_without_a_spare_is_refused_not_forgotten() {
    let (requests, theirs) = socket::pair().unwrap();
    let (ours, holders) = socket::pair().unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    let fds = [holders.as_fd(), null.as_fd(), null.as_fd(), null.as_fd()];
    let request = [std::io::IoSlice::new(b"P\0")];
    socket::send(requests.as_fd(), &request, &fds, socket::Wait::No).unwrap();
    drop(holders);
    holder::refuse(theirs.as_fd(), libc::EAGAIN);
    let error = Starting::new(ours).wait().unwrap().unwrap_err();
    assert_eq!((error.stage, error.errno), (Stage::Clone, libc::EAGAIN));
    // Nothing waits now, and that is no error.
    holder::refuse(theirs.as_fd(), libc::EAGAIN);
}

#[test]
fn a_plan_of_a_megabyte_arrives_whole() {
    let link = keeper(&[]);
    let long: Vec<String> = (0..1000).map(|n| format!("{n:01000}")).collect();
    let mut argv = vec!["sh", "-c", "exit $(($# - 900))", "sh"];
    argv.extend(long.iter().map(String::as_str));
    let (held, _ends) = start(&link, &argv, PIPE);
    assert_eq!(exit_of(next(&held)).0.how, How::Code(100));
}

#[tokio::test]
async fn a_kill_reaches_the_daemon_and_the_session_of_its_own() {
    let link = keeper(&[]);
    for (name, io) in [("kill-pipe", PIPE), ("kill-pty", PTY)] {
        let mark = mark(name);
        let (held, _ends) = start(&link, &["sh", "-c", TREE, &mark], io);
        all_up(&mark, 3).await;
        grown(&held, 6).await;
        held.kill();
        let (ended, _) = exit_of(next(&held));
        assert_eq!(ended.how, How::Signal(libc::SIGKILL));
        nobody_left(&mark).await;
        held.kill();
    }
}

#[tokio::test]
async fn letting_go_of_a_process_ends_it() {
    let link = keeper(&[]);
    let mark = mark("let-go");
    let (held, ends) = start(&link, &["sh", "-c", TREE, &mark], PIPE);
    all_up(&mark, 3).await;
    drop((held, ends));
    nobody_left(&mark).await;
}

#[tokio::test]
async fn survivors_are_held_and_counted_until_they_are_killed() {
    let link = keeper(&[]);
    let mark = mark("survivors");
    let script = "setsid sh -c 'sleep 1000; : $0' $0 & exit 3";
    let (held, _ends) = start(&link, &["sh", "-c", script, &mark], PIPE);
    let (ended, empty) = exit_of(next(&held));
    assert_eq!((ended.how, empty), (How::Code(3), false));
    all_up(&mark, 1).await;
    assert!(!held.members().is_empty());
    held.kill();
    assert!(matches!(next(&held), HolderMessage::Empty));
    nobody_left(&mark).await;
}

#[tokio::test]
async fn a_signal_reaches_the_leader_the_group_or_everybody() {
    let link = keeper(&[]);
    let (held, _ends) = start(&link, &["sleep", "1000"], PIPE);
    assert!(held.signal(Signal::Interrupt, Target::Leader));
    assert_eq!(exit_of(next(&held)).0.how, How::Signal(libc::SIGINT));

    let mark = mark("group");
    let script = "setsid sh -c 'sleep 1000; : $0' $0 & sleep 1000; : $0";
    let (held, _ends) = start(&link, &["sh", "-c", script, &mark], PIPE);
    all_up(&mark, 2).await;
    grown(&held, 4).await;
    assert!(held.signal(Signal::Terminate, Target::Group));
    assert_eq!(exit_of(next(&held)).0.how, How::Signal(libc::SIGTERM));
    assert!(!held.signal(Signal::Terminate, Target::Group));
    assert!(
        !marked(&mark).is_empty(),
        "a session of its own is no group of ours"
    );
    assert!(held.signal(Signal::Terminate, Target::All));
    assert!(matches!(next(&held), HolderMessage::Empty));
}

#[tokio::test]
async fn a_fork_loop_is_ended() {
    let link = keeper(&[]);
    let mark = mark("loop");
    // Bounded by its depth in generations, not in time: every generation forks three and ends.
    let script = "f() { [ $1 -gt 0 ] || exec sleep 1000; f $(($1-1)) & f $(($1-1)) & f $(($1-1)) & }; \
                  f 5; : $0; while :; do (sleep 1000 &) ; [ $((n=n+1)) -lt 300 ] || sleep 1000; done";
    let (held, _ends) = start(&link, &["sh", "-c", script, &mark], PIPE);
    let many = async || held.members().len() > 150;
    eventually("the loop to grow", DEADLINE, many)
        .await
        .unwrap();
    let members = held.members();
    held.kill();
    while !matches!(next(&held), HolderMessage::Gone) {}
    nobody_left(&mark).await;
    let lives = |pid: &&i32| std::path::Path::new(&format!("/proc/{pid}")).exists();
    assert_eq!(members.iter().filter(lives).count(), 0);
}

#[tokio::test]
async fn the_end_of_the_link_ends_every_tree_and_lets_go_of_what_was_held() {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let link = keeper(&[writer]);
    let mark = mark("link");
    let trees: Vec<_> = (0..10)
        .map(|n| {
            start(
                &link,
                &["sh", "-c", TREE, &mark],
                if n % 2 == 0 { PIPE } else { PTY },
            )
        })
        .collect();
    all_up(&mark, 30).await;
    assert!(!link::is_ready(reader.as_fd(), Timespec::default()));
    drop(link);
    // Nobody holds the other end any more, so nobody marked may be alive.
    assert!(link::is_ready(reader.as_fd(), Timespec::default()));
    assert!(marked(&mark).is_empty());
    drop(trees);
}

#[tokio::test]
async fn when_a_holder_is_killed_its_tree_ends_and_others_live() {
    let link = keeper(&[]);
    let (killed, spared) = (mark("holder-killed"), mark("holder-spared"));
    let (first, _ends) = start(&link, &["sh", "-c", TREE, &killed], PIPE);
    let (second, _more_ends) = start(&link, &["sh", "-c", TREE, &spared], PIPE);
    all_up(&killed, 3).await;
    all_up(&spared, 3).await;
    grown(&second, 6).await;
    kill9(first.holder_pid());
    assert!(matches!(next(&first), HolderMessage::Gone));
    nobody_left(&killed).await;
    assert_eq!(marked(&spared).len(), 3);
    assert!(second.recv().is_none());
    // The keeper is well.
    let (third, _third_ends) = start(&link, &["sh", "-c", "exit 5"], PIPE);
    assert_eq!(exit_of(next(&third)).0.how, How::Code(5));
}

#[tokio::test]
async fn when_the_keeper_is_killed_every_holder_ends_its_tree() {
    // As the service is: the holders fall to us.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let link = keeper(&[]);
    let mark = mark("keeper");
    let trees: Vec<_> = (0..5)
        .map(|_| start(&link, &["sh", "-c", TREE, &mark], PIPE))
        .collect();
    all_up(&mark, 15).await;
    assert!(!link.is_dead());
    kill9(link.pid());
    nobody_left(&mark).await;
    assert!(link.is_dead());
    for (held, _) in &trees {
        assert!(
            matches!(next(held), HolderMessage::Gone),
            "the status is lost"
        );
    }
    let reaped = async || reap_fallen_holders() == 0;
    eventually("the holders to be reaped", DEADLINE, reaped)
        .await
        .unwrap();
    let begun = link.begin(
        &plan(&["true"]),
        &launch::open_ends(PIPE, Delivery::Stream).unwrap().0,
        None,
    );
    assert!(begun.and_then(Starting::wait).is_err());
}

#[test]
fn a_program_that_is_no_keeper_is_refused() {
    let mut slots = Slots::reserve().unwrap();
    for (argv, why) in [
        (vec!["true"], "it ended without an answer"),
        (
            vec!["sh", "-c", "echo hello >&0; exec cat"],
            "it answered as something else",
        ),
        (vec!["/no/such/program"], "not found"),
    ] {
        let argv: Vec<_> = argv.into_iter().map(Into::into).collect();
        let error = KeeperLink::start(&mut slots, Some(&argv), &[], Job::Hold).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn a_stopped_holder_still_ends_its_process() {
    let link = keeper(&[]);
    let (held, _ends) = start(&link, &["sleep", "1000"], PIPE);
    let holder = rustix::process::Pid::from_raw(held.holder_pid()).unwrap();
    rustix::process::kill_process(holder, rustix::process::Signal::STOP).unwrap();
    held.kill();
    assert_eq!(exit_of(next(&held)).0.how, How::Signal(libc::SIGKILL));
}

#[expect(clippy::print_stderr, reason = "figures are to be seen")]
fn say(line: &str) {
    eprintln!("{line}");
}

/// A line of a status file, in KiB.
fn kib(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let value = line.and_then(|line| line.split_whitespace().next());
    value.unwrap().parse().unwrap()
}

#[test]
fn a_holder_takes_little_memory() {
    let link = keeper(&[]);
    let long = "x".repeat(100_000);
    // Also after a request that did not fit into a packet.
    for argument in ["", long.as_str()] {
        let (held, _ends) = start(&link, &["sh", "-c", "sleep 1000", argument], PIPE);
        let of = |file: &str| {
            let path = format!("/proc/{}/{file}", held.holder_pid());
            std::fs::read_to_string(path).unwrap()
        };
        let own = kib(&of("smaps_rollup"), "Private_Dirty:");
        let tables = kib(&of("status"), "VmPTE:");
        say(&format!(
            "a holder has {own} KiB of its own and {tables} KiB of page tables"
        ));
        // How much of its memory it shares with the keeper varies a little.
        assert!(own <= 150, "{own} KiB");
    }
}

#[tokio::test]
async fn many_processes_leave_only_spares_behind() {
    const ROUNDS: u32 = 200;
    let link = keeper(&[]);
    let plan = plan(&["true"]);
    let (theirs, _ours) = launch::open_ends(PIPE, Delivery::Discard).unwrap();
    let before = tokio::time::Instant::now();
    for _ in 0..ROUNDS {
        let held = link.spawn_held(&plan, &theirs, None).unwrap().unwrap();
        assert_eq!(exit_of(next(&held)).0.how, How::Code(0));
    }
    say(&format!(
        "{:?} from spawn to exit",
        before.elapsed() / ROUNDS
    ));
    let root = tree::Root::of(link.pid()).unwrap();
    let settled = async || {
        let mut children = 0;
        root.children(|_, _| children += 1);
        children == 2
    };
    eventually("two spares and nobody else", DEADLINE, settled)
        .await
        .unwrap();
}

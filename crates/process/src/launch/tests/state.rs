//! The state every child starts with, and the state of this process afterwards.

use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::spec::Limits;

#[test]
fn a_child_runs_with_its_arguments_environment_and_directory() {
    let mut spec = sh(r#"echo "$0 $1 $A"; pwd; echo oops >&2; exit 3"#);
    spec.argv.extend(["zero".into(), "one".into()]);
    spec.env.vars.insert("A".into(), "a".into());
    spec.cwd = "/usr".into();
    let ran = run(&spec).unwrap();
    assert_eq!(ran.stdout, "zero one a\n/usr\n");
    assert_eq!(ran.stderr, "oops\n");
    assert_eq!((ran.code, ran.signal), (Some(3), None));
}

#[test]
fn a_child_has_the_environment_it_was_given_and_nothing_else() {
    let mut spec = Spec::new(["env"], "/");
    assert_eq!(run(&spec).unwrap().stdout, "");
    spec.env.vars.insert("ONLY".into(), "this".into());
    assert_eq!(run(&spec).unwrap().stdout, "ONLY=this\n");
}

#[test]
fn a_child_sees_another_name_when_it_is_given_one() {
    let mut spec = sh("echo $0");
    spec.argv.truncate(1);
    spec.argv
        .extend(["-c".into(), "tr '\\0' ' ' < /proc/$$/cmdline".into()]);
    spec.arg0 = Some("-other".into());
    assert!(run(&spec).unwrap().stdout.starts_with("-other -c"));
}

#[test]
fn a_child_leads_a_session_and_a_group_and_has_no_terminal() {
    let mut slots = Slots::reserve().unwrap();
    let held = Held::start(&mut slots, &cat(), None);
    let stat = std::fs::read_to_string(held.proc("stat")).unwrap();
    let fields: Vec<i32> = stat[stat.rfind(')').unwrap() + 4..]
        .split_whitespace()
        .take(5)
        .map(|field| field.parse().unwrap())
        .collect();
    let pid = held.launched.pid;
    let us = i32::try_from(std::process::id()).unwrap();
    // Parent, group, session, terminal, its foreground group.
    assert_eq!(fields, [us, pid, pid, 0, -1]);
}

#[test]
fn a_child_has_three_descriptors_whatever_this_process_has_open() {
    let low = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3).unwrap();
    // Two that an exec would not close, one of them far above the slots.
    let kept = rustix::io::dup(&low).unwrap();
    let high = rustix::io::fcntl_dupfd_cloexec(&low, 500).unwrap();
    rustix::io::fcntl_setfd(&high, rustix::io::FdFlags::empty()).unwrap();
    let mut slots = Slots::reserve().unwrap();
    let held = Held::start(&mut slots, &cat(), None);
    let open = || {
        let open = std::fs::read_dir(held.proc("fd")).unwrap();
        let mut open: Vec<_> = open.map(|entry| entry.unwrap().file_name()).collect();
        open.sort();
        open
    };
    // The loader has a library open for a moment; a descriptor of ours would stay.
    let given_up = Instant::now() + Duration::from_mins(1);
    while open() != ["0", "1", "2"] && Instant::now() < given_up {
        std::thread::yield_now();
    }
    assert_eq!(open(), ["0", "1", "2"]);
    drop((low, kept, high));
}

#[test]
fn a_child_starts_without_blocked_or_ignored_signals() {
    let mut slots = Slots::reserve().unwrap();
    let before = own_state();
    // Rust programs ignore SIGPIPE, which a child must not inherit.
    let ignored = u64::from_str_radix(&before["SigIgn"], 16).unwrap();
    assert_ne!(ignored & (1 << (libc::SIGPIPE - 1)), 0);
    let held = Held::start(&mut slots, &cat(), None);
    for field in ["SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd"] {
        assert_eq!(held.status(field), "0000000000000000", "{field}");
    }
    assert_eq!(own_state()["SigIgn"], before["SigIgn"]);
}

#[test]
fn nothing_of_this_process_is_inherited_that_should_not_be_or_changed() {
    alone(
        "state::nothing_of_this_process_is_inherited_that_should_not_be_or_changed",
        || {
            rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
            let set = |signals: &[i32]| {
                // SAFETY: the set is initialised by the first call and lives here.
                unsafe {
                    let mut set = std::mem::zeroed();
                    libc::sigemptyset(&raw mut set);
                    for signal in signals {
                        libc::sigaddset(&raw mut set, *signal);
                    }
                    libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, ptr::null_mut());
                    libc::signal(libc::SIGHUP, libc::SIG_IGN);
                    libc::signal(libc::SIGRTMIN() + 3, libc::SIG_IGN);
                }
            };
            set(&[libc::SIGUSR1, libc::SIGTERM]);
            let mut slots = Slots::reserve().unwrap();
            let before = own_state();
            assert_ne!(before["SigBlk"], "0000000000000000");
            assert_ne!(before["SigIgn"], "0000000000000000");
            let held = Held::start(&mut slots, &cat(), None);
            assert_eq!(own_state(), before);
            assert_eq!(before["Umask"], "0077");
            // What this process's own mask takes away, a child's does too.
            assert_eq!(held.status("Umask"), "0077");
            rustix::process::umask(rustix::fs::Mode::empty());
            let open = Held::start(&mut slots, &cat(), None);
            assert_eq!(open.status("Umask"), "0022");
            rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o750));
            let mixed = Held::start(&mut slots, &cat(), None);
            assert_eq!(mixed.status("Umask"), "0772");
            assert_eq!(own_state()["Umask"], "0750");
            for field in ["SigBlk", "SigIgn", "SigCgt"] {
                assert_eq!(held.status(field), "0000000000000000", "{field}");
            }
        },
    );
}

#[test]
fn a_child_gets_the_limit_of_descriptors_this_program_was_started_with() {
    alone(
        "state::a_child_gets_the_limit_of_descriptors_this_program_was_started_with",
        || {
            use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
            let hard = getrlimit(Resource::Nofile).maximum;
            let started = Rlimit {
                current: Some(123),
                maximum: hard,
            };
            setrlimit(Resource::Nofile, started).unwrap();
            let mut slots = Slots::reserve().unwrap();
            slots.raise_open_files().unwrap();
            assert_eq!(getrlimit(Resource::Nofile).current, hard);
            let hard = hard.map_or("unlimited".to_owned(), |hard| hard.to_string());
            let expected = ("123".to_owned(), hard);
            let held = Held::start(&mut slots, &cat(), None);
            assert_eq!(held.limit("Max open files"), expected);
            // A second service of the same program must not take the raised limit for the first one.
            let mut second = Slots::reserve().unwrap();
            let held = Held::start(&mut second, &cat(), None);
            assert_eq!(held.limit("Max open files"), expected);
        },
    );
}

#[test]
fn limits_are_in_force_and_there_is_no_core_dump() {
    let mut slots = Slots::reserve().unwrap();
    let held = Held::start(&mut slots, &cat(), None);
    let both = |value: &str| (value.to_owned(), value.to_owned());
    assert_eq!(held.limit("Max core file size"), both("0"));
    let mut spec = Spec::new(["cat"], "/");
    spec.limits = Limits {
        cpu_time: Some(Duration::from_millis(6_500)),
        address_space: Some(1 << 30),
        file_size: Some(4_096),
        open_files: Some(16),
        ..Limits::default()
    };
    let held = Held::start(&mut slots, &plan(&spec), None);
    assert_eq!(held.limit("Max cpu time"), both("7"));
    assert_eq!(held.limit("Max address space"), both("1073741824"));
    assert_eq!(held.limit("Max file size"), both("4096"));
    assert_eq!(held.limit("Max open files"), both("16"));
}

#[test]
fn a_limit_below_the_three_streams_does_not_keep_them_from_the_child() {
    let mut slots = Slots::reserve().unwrap();
    let mut spec = sh("exit 0");
    spec.limits.open_files = Some(1);
    let (ends, _ours) = open_ends(spec.io, spec.delivery).unwrap();
    // It starts; that it can open nothing is what was asked for.
    let launched = launch(&mut slots, &plan(&spec), &ends, None, None).unwrap();
    wait(launched.pidfd.as_fd());
}

#[test]
fn a_file_that_grows_too_large_ends_its_writer() {
    let directory = tempfile::tempdir().unwrap();
    let mut spec = sh("exec head -c 100000 /dev/zero > file");
    spec.cwd = directory.path().into();
    spec.limits.file_size = Some(4_096);
    assert_eq!(run(&spec).unwrap().signal, Some(libc::SIGXFSZ));
    let written = directory.path().join("file").metadata().unwrap().len();
    assert_eq!(written, 4_096);
}

#[test]
fn a_child_ends_with_the_thread_that_started_it() {
    let starter = std::thread::spawn(|| {
        let mut slots = Slots::reserve().unwrap();
        let spec = Spec::new(["cat"], "/");
        let io = Io::Pipe { stdin: Stdin::Open };
        let (ends, ours) = open_ends(io, spec.delivery).unwrap();
        let launched = launch(&mut slots, &plan(&spec), &ends, None, None).unwrap();
        (launched, ours)
    });
    let (launched, _ours) = starter.join().unwrap();
    let status = wait(launched.pidfd.as_fd());
    assert_eq!(status.terminating_signal(), Some(libc::SIGKILL));
}

#[test]
fn launches_on_several_threads_do_not_meet() {
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            std::thread::spawn(move || {
                for round in 0..25 {
                    let text = format!("{thread} {round}");
                    let ran = run(&Spec::new(["echo", text.as_str()], "/")).unwrap();
                    assert_eq!(ran.stdout, format!("{text}\n"));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn no_launch_leaves_a_descriptor_or_a_zombie() {
    alone("state::no_launch_leaves_a_descriptor_or_a_zombie", || {
        let mut slots = Slots::reserve().unwrap();
        let good = plan(&sh("exit 0"));
        let no_program = plan(&Spec::new(["/no/such/program"], "/"));
        let no_cwd = plan(&Spec::new(["true"], "/no/such/directory"));
        let terminal = Io::Pty(crate::TerminalSize::default());
        let before = open_descriptors();
        for _ in 0..20 {
            for plan in [&good, &no_program, &no_cwd] {
                let io = Io::Pipe { stdin: Stdin::Open };
                let (ends, _ours) = open_ends(io, crate::Delivery::Stream).unwrap();
                if let Ok(launched) = launch(&mut slots, plan, &ends, None, None) {
                    wait(launched.pidfd.as_fd());
                }
                let (ends, _ours) = open_ends(terminal, crate::Delivery::Stream).unwrap();
                let plan = Plan {
                    terminal: Terminal::Controlling,
                    ..plan.clone()
                };
                if let Ok(launched) = launch(&mut slots, &plan, &ends, None, None) {
                    wait(launched.pidfd.as_fd());
                }
            }
            // The clone itself fails.
            let null = ends::null().unwrap();
            let (ends, _ours) = open_ends(terminal, crate::Delivery::Stream).unwrap();
            let failed = launch(&mut slots, &good, &ends, None, Some(null.as_fd()));
            assert_eq!(failed.unwrap_err().stage, Stage::Clone);
        }
        assert_eq!(open_descriptors(), before);
        let left = rustix::process::wait(rustix::process::WaitOptions::NOHANG);
        assert_eq!(left.unwrap_err(), rustix::io::Errno::CHILD);
    });
}

//! A process outside of the sandbox with one object of each kind, watched before and after.
//!
//! It prints one line of JSON that says where its objects are, and one line for each line it reads:
//! `state` is answered with all that an attack could have changed, `tree PATH` with names, modes,
//! owners, times, sizes and contents below a directory. Equal lines mean that nothing changed.
//!
//! Objects that outlive a process (queues, semaphores, keys) are removed by a janitor, a child that
//! waits for the end of the bystander, so that a killed test leaves nothing on the machine.

mod objects;
mod tree;

use std::io::BufRead;
use std::path::Path;

use crate::json;
use crate::sys::{at, into, sys};
use objects::Objects;

/// The contents of everything that can hold a text.
pub(crate) const MARK: &str = "turnlane-bystander-mark";

/// Stands until standard input ends. `directory` gets the files and sockets.
pub(crate) fn stand(directory: &str) -> Result<(), String> {
    block_signals();
    let objects = Objects::make(directory)?;
    println!("{}", json::object(&objects.places()));
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let answer = match line.split_once(' ') {
            Some(("tree", path)) => tree::of(Path::new(path)),
            _ => {
                let mut state = process_state();
                state.extend(objects.state());
                state.push(("tree".to_owned(), tree::of(Path::new(directory)).join("\n")));
                state
                    .iter()
                    .map(|(key, value)| format!("{key}: {value}"))
                    .collect()
            }
        };
        println!("{}", json::quoted(&answer.join("\n")));
    }
    Ok(())
}

/// Signals stay pending, where the report finds them.
fn block_signals() {
    let all = u64::MAX;
    let _ = sys(
        libc::SYS_rt_sigprocmask,
        &[libc::SIG_SETMASK as usize, at(&all), 0, 8],
    );
}

/// Limits, scheduling and signals of this process.
fn process_state() -> Vec<(String, String)> {
    let mut state = Vec::new();
    for resource in 0..16 {
        let mut limit = [0_u64; 2];
        let _ = sys(libc::SYS_prlimit64, &[0, resource, 0, into(&mut limit)]);
        state.push((format!("limit {resource}"), format!("{limit:?}")));
    }
    let mut affinity = [0_u64; 16];
    let _ = sys(libc::SYS_sched_getaffinity, &[0, 128, into(&mut affinity)]);
    let mut pending = 0_u64;
    let _ = sys(libc::SYS_rt_sigpending, &[into(&mut pending), 8]);
    let answers = [
        ("affinity", format!("{affinity:?}")),
        (
            "priority",
            format!("{:?}", sys(libc::SYS_getpriority, &[0, 0])),
        ),
        (
            "ioprio",
            format!("{:?}", sys(libc::SYS_ioprio_get, &[1, 0])),
        ),
        (
            "policy",
            format!("{:?}", sys(libc::SYS_sched_getscheduler, &[0])),
        ),
        ("pending signals", format!("{pending:#x}")),
    ];
    state.extend(answers.map(|(key, value)| (key.to_owned(), value)));
    for name in [
        "oom_score_adj",
        "comm",
        "timerslack_ns",
        "coredump_filter",
        "cgroup",
    ] {
        let text = std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        state.push((name.to_owned(), text.trim().to_owned()));
    }
    state
}

//! What a launch costs next to the cheapest way the C library has.
//!
//! Among the other tests only a few rounds are made, to see that it works. For figures, on a quiet
//! machine: `TURNLANE_MEASURE=2000 cargo test --release -p turnlane-process beside_posix_spawn`.

use std::time::{Duration, Instant};

use super::*;
use crate::spec::Delivery;

#[test]
fn launches_are_measured_beside_posix_spawn() {
    let rounds = std::env::var("TURNLANE_MEASURE").ok();
    let rounds: Option<usize> = rounds.map(|rounds| rounds.parse().unwrap());
    let descriptors = if rounds.is_some() { 15_000 } else { 0 };
    let lines = measure(rounds.unwrap_or(2), descriptors);
    assert_eq!(lines.len(), 5);
    for line in lines.iter().filter(|_| rounds.is_some()) {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// A line for each way, without and with so many descriptors open.
fn measure(rounds: usize, descriptors: usize) -> Vec<String> {
    let mut slots = Slots::reserve().unwrap();
    let plan = plan(&Spec::new(["/bin/true"], "/"));
    let restricted = Plan {
        restrictions: Some(Restrictions::default()),
        ..plan.clone()
    };
    let (ends, _ours) = open_ends(sh("").io, Delivery::Discard).unwrap();
    let (mut bare, mut ours, mut under) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        bare.push(timed(posix_spawn));
        ours.push(timed(|| launch_and_wait(&mut slots, &plan, &ends)));
        under.push(timed(|| launch_and_wait(&mut slots, &restricted, &ends)));
    }
    if descriptors > 0 {
        slots.raise_open_files().unwrap();
    }
    let many: Vec<_> = (0..descriptors).map_while(|_| ends::null().ok()).collect();
    let (mut bare_many, mut ours_many) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        bare_many.push(timed(posix_spawn));
        ours_many.push(timed(|| launch_and_wait(&mut slots, &plan, &ends)));
    }
    let (open_bare, open_ours) = (
        format!("posix_spawn, {} descriptors", many.len()),
        format!("launch, {} descriptors", many.len()),
    );
    let limit = percentile(&mut bare, 50);
    let all = [
        ("posix_spawn", bare),
        ("launch", ours),
        ("restricted", under),
        (&open_bare, bare_many),
        (&open_ours, ours_many),
    ];
    all.into_iter()
        .map(|(name, mut times)| {
            let (half, tail) = (percentile(&mut times, 50), percentile(&mut times, 99));
            let ratio = half.as_secs_f64() / limit.as_secs_f64();
            format!("{name}: p50 {half:?} ({ratio:.3}x), p99 {tail:?}")
        })
        .collect()
}

fn launch_and_wait(slots: &mut Slots, plan: &Plan, ends: &ChildEnds) {
    let launched = launch(slots, plan, ends, None, None).unwrap();
    wait(launched.pidfd.as_fd());
}

fn posix_spawn() {
    let mut pid = 0;
    let argv = [c"/bin/true".as_ptr().cast_mut(), ptr::null_mut()];
    let envp = [ptr::null_mut()];
    // SAFETY: the path ends with NUL and both lists with a null pointer; all live until it returns.
    let failed = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            argv[0],
            ptr::null(),
            ptr::null(),
            argv.as_ptr(),
            envp.as_ptr(),
        )
    };
    assert_eq!(failed, 0);
    rustix::process::waitpid(
        rustix::process::Pid::from_raw(pid),
        rustix::process::WaitOptions::empty(),
    )
    .unwrap();
}

#[expect(clippy::disallowed_methods, reason = "a stopwatch")]
fn timed(what: impl FnOnce()) -> Duration {
    let start = Instant::now();
    what();
    start.elapsed()
}

fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[times.len() * percent / 100]
}

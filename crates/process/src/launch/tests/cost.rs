//! What a launch costs next to the cheapest way the C library has. Run by hand, on a quiet machine:
//! `cargo test --release -p turnlane-process -- --ignored what_a_launch_costs`.

use std::time::{Duration, Instant};

use super::*;
use crate::spec::Delivery;

const ROUNDS: usize = 2_000;

#[test]
#[ignore = "a measurement, not a proof"]
fn what_a_launch_costs() {
    let mut slots = Slots::reserve().unwrap();
    let plan = plan(&Spec::new(["/bin/true"], "/"));
    let restricted = Plan {
        restrictions: Some(Restrictions::default()),
        ..plan.clone()
    };
    let (ends, _ours) = open_ends(sh("").io, Delivery::Discard).unwrap();
    let (mut bare, mut ours, mut under) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(timed(posix_spawn));
        ours.push(timed(|| launch_and_wait(&mut slots, &plan, &ends)));
        under.push(timed(|| launch_and_wait(&mut slots, &restricted, &ends)));
    }
    slots.raise_open_files().unwrap();
    let many: Vec<_> = (0..15_000).map_while(|_| ends::null().ok()).collect();
    let (mut bare_many, mut ours_many) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
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
    for (name, mut times) in all {
        let (half, tail) = (percentile(&mut times, 50), percentile(&mut times, 99));
        let ratio = half.as_secs_f64() / limit.as_secs_f64();
        let line = format!("{name}: p50 {half:?} ({ratio:.3}x), p99 {tail:?}");
        let _ = writeln!(std::io::stderr(), "{line}");
        assert!(half > Duration::ZERO);
    }
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

//! What a loaded lane costs that does nothing: little, since a worker may have ten thousand.

use std::sync::Arc;

use turnlane_runtime::Subscriber;
use turnlane_testkit::wait::DEADLINE;
use turnlane_testkit::{ProcessSpec, TestProcess};

use crate::support::{Ear, Home};

/// Set in the child, which measures itself: other tests would be counted too.
const CHILD: &str = "TURNLANE_IDLE_CHILD";
/// How much memory one idle lane may take.
const BYTES_MAX: u64 = 20 * 1024;
/// What is made once is made with the first ones.
const FIRST: u64 = 100;
const LANES: u64 = 1_000;

/// The memory of this process, in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4_096
}

#[tokio::test]
async fn the_child_loads_lanes_and_measures() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let home = Home::new();
    let world = home.start("version: 1\nfallback: {say: hello}").await;
    let load = async |count: u64| {
        for _ in 0..count {
            let thread = world.thread().await;
            let ear: Arc<dyn Subscriber> = Arc::new(Ear::default());
            world.handle.subscribe(thread, ear, None).await.unwrap();
        }
    };
    load(FIRST).await;
    let before = resident();
    load(LANES).await;
    let each = resident().saturating_sub(before) / LANES;
    assert_eq!(world.handle.loaded() as u64, FIRST + LANES);
    #[expect(
        clippy::print_stdout,
        reason = "the figure is what the test is run for"
    )]
    {
        println!("{each} bytes for each idle lane");
    }
    assert!(each <= BYTES_MAX, "{each} bytes for each idle lane");
}

#[tokio::test]
async fn an_idle_lane_takes_little_memory() {
    let spec = ProcessSpec::new(std::env::current_exe().unwrap())
        .args(["idle::the_child_loads_lanes_and_measures", "--exact"])
        .args(["--nocapture"])
        .env(CHILD, "1");
    let output = TestProcess::run(spec, DEADLINE).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", output.stderr_tail);
    assert!(said.contains("for each idle lane"), "{said}");
}

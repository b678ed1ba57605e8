//! Long random paths through the same world, under the same rules.
//!
//! The invariant here: the seed is fixed, so a run that fails fails again. What a short path cannot
//! reach (a third wait, a stop after many turns) is reached here.
//!
//! The rules are in `watch`; more cases by `TURNLANE_PROPTEST_CASES`.

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use super::enumerate::whole_paths;
use super::moves::{Bounds, Family};
use super::world::{Node, RowIs};

const EVENTS: usize = 200;

#[test]
fn long_random_paths_keep_the_rules() {
    use Family::*;
    let cases = std::env::var("TURNLANE_PROPTEST_CASES").ok();
    let config = Config {
        cases: cases.and_then(|text| text.parse().ok()).unwrap_or(256),
        failure_persistence: None,
        ..Config::default()
    };
    // The worker rarely stops and the lane is rarely lost: a path ends there.
    let all = Bounds {
        families: &[
            Starts,
            Steers,
            Interrupts,
            Queue,
            Holds,
            Clock,
            Listeners,
            Stop,
            Faults,
            Hooks,
            DeadWorkers,
        ],
        asked_max: 8,
    };
    let living = Bounds {
        families: &[
            Starts,
            Steers,
            Interrupts,
            Queue,
            Holds,
            Clock,
            Listeners,
            Hooks,
            DeadWorkers,
        ],
        asked_max: 8,
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let result = runner.run(&vec(any::<u16>(), EVENTS), |choices| {
        let mut node = Node::new(&[RowIs::Due]);
        let mut path = Vec::new();
        for choice in choices {
            let bounds = if choice % 16 == 0 { &all } else { &living };
            let moves = node.moves(bounds);
            if moves.is_empty() {
                break;
            }
            let step = moves[usize::from(choice / 16) % moves.len()];
            path.push(step);
            let broken = |rule| TestCaseError::fail(format!("{rule} after {path:?}"));
            node.step(step).map_err(broken)?;
            whole_paths(&node).map_err(broken)?;
            node.load_again();
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

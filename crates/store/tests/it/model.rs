//! The queue against a model of itself: random steps of three workers on one database.
//!
//! The invariant here: a run is reproducible. The seed is fixed unless `TURNLANE_PROPTEST_SEED`
//! says otherwise, a failure names it and the shortest list of steps, and how many lists are tried
//! is `TURNLANE_PROPTEST_CASES` (256; 2,000 by hand before a change of the store).
//!
//! `lane` and `world` are the reference, `step` what may happen, `op` how it is asked, `run`
//! compares, `invariants` holds what must be true whatever the reference says.

mod invariants;
mod lane;
mod op;
mod picture;
mod run;
mod step;
mod world;

use std::cell::RefCell;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::backend::SqliteFile;
use crate::build::Db;
use run::Bench;

const CASES: u32 = 256;

/// How often a list that failed is made smaller at most.
const SHRINKS: u32 = 4_096;

/// Any number would do, as long as it is always the same.
const SEED: u64 = 20_260_101;

fn number<T: std::str::FromStr>(variable: &str, default: T) -> T {
    let set = std::env::var(variable).ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Tries cases of a strategy, always the same unless a variable says otherwise.
pub(crate) fn try_cases<S: Strategy>(
    cases: u32,
    strategy: &S,
    test: impl Fn(S::Value) -> Result<(), String>,
) {
    let seed = number("TURNLANE_PROPTEST_SEED", SEED);
    let config = Config {
        cases: number("TURNLANE_PROPTEST_CASES", cases),
        failure_persistence: None,
        max_shrink_iters: number("TURNLANE_PROPTEST_SHRINKS", SHRINKS),
        ..Config::default()
    };
    let mut bytes = [1; 16];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::XorShift, &bytes);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let result = runner.run(strategy, |case| test(case).map_err(TestCaseError::fail));
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, steps)) => {
            panic!("seed {seed}: {why}\nwith the steps\n{steps:#?}");
        }
        Err(TestError::Abort(why)) => panic!("seed {seed}: given up: {why}"),
    }
}

/// Tries lists of steps on new databases.
fn conforms_to_the_model(new: impl Fn() -> Db) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let spare = RefCell::new(None);
    try_cases(CASES, &step::steps(), |steps| {
        runtime.block_on(async {
            let bench = match spare.take() {
                Some(bench) => bench,
                None => Bench::new(new()).await,
            };
            bench.run(&steps).await?;
            spare.replace(Some(bench));
            Ok(())
        })
    });
}

#[test]
fn sqlite_does_what_the_model_does() {
    conforms_to_the_model(|| Db::on(SqliteFile::small()));
}

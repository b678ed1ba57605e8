//! Only builds for tests have points.

use turnlane_testkit::wait::DEADLINE;
use turnlane_testkit::{ProcessSpec, TestProcess};

/// The features of the store as `cargo build` or `cargo test` has them.
async fn features_of_the_store(edges: &str) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["tree", "--offline", "--package", "turnlane-cli"];
    let spec = ProcessSpec::new(cargo)
        .args(arguments)
        .args(["--edges", edges, "--prefix", "none", "--format", "{p}: {f}"])
        .envs(std::env::vars_os())
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = TestProcess::run(spec, DEADLINE).await.unwrap();
    assert!(output.status.success(), "{}", output.stderr_tail);
    let told = String::from_utf8(output.stdout).unwrap();
    let store = told
        .lines()
        .find(|line| line.starts_with("turnlane-store v"));
    let (_, features) = store.unwrap().rsplit_once(':').unwrap();
    features.trim().to_owned()
}

#[tokio::test]
async fn a_binary_that_is_handed_out_has_no_points() {
    assert_eq!(features_of_the_store("normal,build").await, "");
    assert_eq!(features_of_the_store("all").await, "crash-points");
}

//! The wall: an attacker in the sandbox, through every route, under every policy, as every user.
//!
//! The attacker is a program of its own (`tests/attacker`), built here on first use. `matrix` tries
//! every attack in every cell, `swap` and `session` what takes two commands, `random` random system calls, and
//! `ordinary` that programs people use still work. A cell that the machine cannot have is skipped
//! aloud; a cell in which anything outside was reached fails its test.

mod control;
mod home_in_root;
mod matrix;
mod ordinary;
mod random;
mod routes;
mod session;
mod swap;
mod table;
pub(crate) mod world;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use tokio::sync::OnceCell;
use turnlane_testkit::wait::DEADLINE;
use turnlane_testkit::{ProcessSpec, TestProcess};

/// The attacker, built by cargo unless it is up to date.
///
/// Cargo runs tests behind its own build, so that a build of another package in the same directory
/// finds its lock free. `TURNLANE_TEST_ATTACKER` names a program that was built elsewhere.
async fn attacker() -> &'static Path {
    static BUILT: OnceCell<PathBuf> = OnceCell::const_new();
    BUILT.get_or_init(build).await
}

async fn build() -> PathBuf {
    if let Some(given) = std::env::var_os("TURNLANE_TEST_ATTACKER") {
        return given.into();
    }
    let exe = std::env::current_exe().unwrap();
    // target/debug/deps/it-HASH
    let target = exe.ancestors().nth(3).unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let kept = [
        "PATH",
        "HOME",
        "CARGO_HOME",
        "RUSTUP_HOME",
        "RUSTUP_TOOLCHAIN",
    ];
    let kept = kept.map(|name| (name, std::env::var_os(name)));
    let kept = kept
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    let spec = ProcessSpec::new(cargo)
        .args([
            "build",
            "--offline",
            "--locked",
            "--package",
            "turnlane-attacker",
        ])
        .args([OsStr::new("--target-dir"), target.as_os_str()])
        .envs(kept)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = TestProcess::run(spec, DEADLINE).await.unwrap();
    assert!(output.status.success(), "{}", output.stderr_tail);
    target.join("debug/attacker")
}

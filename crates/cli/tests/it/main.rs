//! The `turnlane` binary as a person meets it.

#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails is a failed test, and says where"
)]

mod app_server;
mod approvals_cli;
mod basics;
mod codex;
mod crash_points;
mod crash_proof;
mod demo;
mod disk;
mod engines;
mod exec;
mod exec_server;
mod fanout;
mod fanout_cli;
mod flows;
mod home_trust;
mod interop;
mod night;
mod people;
mod queue;
mod queue_cli;
mod run_cli;
mod schema;
mod serve;
mod shim;
mod status_cli;
mod store_cli;
mod thread_cli;
mod wall;

use turnlane_testkit::{Output, ProcessSpec, TestProcess, wait};

/// The binary with these arguments, in an empty environment.
fn turnlane(arguments: &[&str]) -> ProcessSpec {
    ProcessSpec::new(env!("CARGO_BIN_EXE_turnlane")).args(arguments.iter().copied())
}

async fn run(spec: ProcessSpec) -> Output {
    TestProcess::run(spec, wait::DEADLINE).await.unwrap()
}

/// Exit code, standard output and standard error as one text.
async fn shown(spec: ProcessSpec) -> String {
    let Output {
        status,
        stdout,
        stderr_tail,
    } = run(spec).await;
    let code = status
        .code()
        .map_or("signal".to_owned(), |code| code.to_string());
    let stdout = String::from_utf8(stdout).unwrap();
    format!("exit {code}\n-- stdout\n{stdout}-- stderr\n{stderr_tail}")
}

//! Exit codes of failures that a test has to bring about: failed exports, a lost server, Ctrl-C.

use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use turnlane_testkit::mock_model::{At, Gate, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually, within};
use turnlane_testkit::{ProcessSpec, TestProcess, skipped};

use super::{RUN, World, ends_with, report};
use crate::run;

const ROWS: usize = 3;

/// Workers report at once.
async fn world() -> World {
    let world = World::new(|request| Reply::of([report(request)])).await;
    world.write_rows("in.csv", ROWS);
    world
}

/// Workers wait at a gate.
async fn gated() -> (World, Gate) {
    let gate = Gate::new();
    let world = {
        let gate = gate.clone();
        World::new(move |request| Reply::of([report(request)]).gated_by(At::Request, &gate)).await
    };
    world.write_rows("in.csv", ROWS);
    (world, gate)
}

/// The files of a directory that an export has left.
fn left_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.starts_with("out") || name.contains("export"))
        .collect()
}

/// The preloaded library; none without a C compiler.
async fn library(directory: &Path) -> Option<PathBuf> {
    let library = directory.join("faults.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/export.c");
    let compiler = ProcessSpec::new("/usr/bin/env")
        .args(["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
        .args([library.as_os_str(), source.as_os_str(), "-ldl".as_ref()])
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let compiled = TestProcess::run(compiler, DEADLINE).await.unwrap();
    match compiled.status.code() {
        Some(0) => Some(library),
        Some(127) => None,
        _ => panic!("the library does not compile:\n{}", compiled.stderr_tail),
    }
}

#[tokio::test]
async fn a_disk_that_fails_under_an_export_is_exit_code_1_and_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let Some(library) = library(directory.path()).await else {
        return skipped("failing exports: no gcc");
    };
    for (call, errno, told) in [
        ("write", Errno::IO, "Input/output error"),
        ("write", Errno::NOSPC, "No space left on device"),
        ("fsync", Errno::IO, "Input/output error"),
    ] {
        let world = world().await;
        // The loader splits the variable at spaces and colons, which the directory may have in its name.
        let preload = world.path("faults.so");
        std::fs::copy(&library, &preload).unwrap();
        let fault = format!("{call} {}", errno.raw_os_error());
        let spec = world.spec(&[&["fanout"][..], &RUN].concat());
        let spec = spec
            .env("LD_PRELOAD", "./faults.so")
            .env("TURNLANE_TEST_FAULT", &fault);
        let ran = run(spec).await;
        ends_with(&ran, 1);
        assert!(
            ran.stderr_tail.contains(told),
            "{fault}: {}",
            ran.stderr_tail
        );
        assert_eq!(left_in(&world.path("")), Vec::<String>::new(), "{fault}");
        let job = world.job().await;
        assert_eq!(job["state"], "succeeded", "{fault}: {job}");
        assert_eq!(job["counts"]["succeeded"], ROWS, "{fault}: {job}");
        let error = job["exportError"].as_str().unwrap();
        assert!(error.contains(told), "{fault}: {job}");
        // Nothing is lost: the export is repeated without the fault.
        let exported = world.fanout(&["export", "in", "-o", "out.csv"]).await;
        ends_with(&exported, 0);
        assert_eq!(world.read("out.csv").lines().count(), ROWS + 1);
        assert_eq!(world.mock.requests().len(), ROWS);
    }
}

#[tokio::test]
async fn an_output_directory_that_is_gone_is_exit_code_1() {
    let (world, gate) = gated().await;
    std::fs::create_dir(world.path("results")).unwrap();
    let arguments = [
        "fanout",
        "run",
        "in.csv",
        "--instruction",
        "do {name}",
        "-o",
    ];
    let spec = world.spec(&arguments).args(["results/out.csv"]);
    let mut process = TestProcess::start(spec).unwrap();
    within("the workers", DEADLINE, gate.reached_by(ROWS))
        .await
        .unwrap();
    std::fs::remove_dir(world.path("results")).unwrap();
    gate.release();
    let status = process.wait(DEADLINE).await.unwrap();
    let told = process.stderr_tail();
    assert_eq!(status.code(), Some(1), "{told}");
    assert!(told.contains("out.csv"), "{told}");
    let job = world.job().await;
    assert_eq!(job["state"], "succeeded", "{job}");
    assert!(job["exportError"].is_string(), "{job}");
}

#[tokio::test]
async fn a_server_that_is_lost_is_exit_code_1() {
    let (world, gate) = gated().await;
    let mut serve = world.serve().await;
    let mut process = world.start(&[]);
    within("the workers", DEADLINE, gate.reached_by(ROWS))
        .await
        .unwrap();
    serve.kill9().await.unwrap();
    let status = process.wait(DEADLINE).await.unwrap();
    assert_eq!(status.code(), Some(1), "{}", process.stderr_tail());
    // The job is detached: the next daemon ends it.
    gate.release();
    let mut serve = world.serve().await;
    let ended = async || world.job().await["state"] == "succeeded";
    eventually("the end of the job", DEADLINE, ended)
        .await
        .unwrap();
    serve.terminate().unwrap();
    serve.wait(DEADLINE).await.unwrap();
}

#[tokio::test]
async fn an_interrupted_run_is_exit_code_130_and_its_items_wait() {
    let (world, gate) = gated().await;
    let mut process = world.start(&[]);
    within("the workers", DEADLINE, gate.reached_by(ROWS))
        .await
        .unwrap();
    let pid = Pid::from_raw(process.pid()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let paused = async || world.job().await["state"] == "paused";
    eventually("the pause", DEADLINE, paused).await.unwrap();
    // The second one does not wait for the grace of the items.
    kill_process(pid, Signal::INT).unwrap();
    let status = process.wait(DEADLINE).await.unwrap();
    assert_eq!(status.code(), Some(130), "{}", process.stderr_tail());
    let job = world.job().await;
    assert_eq!(job["state"], "paused", "{job}");
    assert_eq!(job["counts"]["pending"], ROWS, "{job}");
    gate.release();
    ends_with(&world.run(&[]).await, 0);
    assert_eq!(world.read("out.csv").lines().count(), ROWS + 1);
}

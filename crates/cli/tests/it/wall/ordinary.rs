//! Programs that people use work in the sandbox.
//!
//! Each program is a script in `programs`, run in an empty directory of the workspace. One that fails is
//! tried again without a sandbox: if it is missing or does not work there either, it is skipped aloud. A
//! program that works outside and not inside fails the test.

use std::fs;
use std::path::Path;

use turnlane_testkit::wait::DEADLINE;
use turnlane_testkit::{TestProcess, skipped};

use super::matrix::offers;
use super::routes::{Gate, Outcome, Policy};
use super::table::{Cell, Table};
use super::world::{HomePlace, User, World, can_be};

/// What a script prints when everything in it worked.
const DONE: &str = "all-of-it-worked";

/// A program of an ordinary day.
struct Program {
    name: &'static str,
    policy: Policy,
    script: &'static str,
    io: Io,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Io {
    Pipes,
    Terminal,
}

const fn program(name: &'static str, policy: Policy, script: &'static str) -> Program {
    Program {
        name,
        policy,
        script,
        io: Io::Pipes,
    }
}

const WRITE: Policy = Policy::WorkspaceWrite;
const NETWORK: Policy = Policy::WorkspaceWriteNetwork;

const PROGRAMS: &[Program] = &[
    program(
        "cargo build and test",
        WRITE,
        include_str!("programs/cargo.sh"),
    ),
    program(
        "cargo with network",
        NETWORK,
        include_str!("programs/cargo.sh"),
    ),
    program(
        "gcc, make -j, threads",
        WRITE,
        include_str!("programs/gcc.sh"),
    ),
    program(
        "node workers and child IPC",
        WRITE,
        include_str!("programs/node.sh"),
    ),
    program(
        "node IPC with network",
        NETWORK,
        include_str!("programs/node.sh"),
    ),
    program("npm run", WRITE, include_str!("programs/npm.sh")),
    program(
        "npm run with network",
        NETWORK,
        include_str!("programs/npm.sh"),
    ),
    program("pip --version", WRITE, "python3 -m pip --version"),
    program(
        "python -m venv",
        WRITE,
        "python3 -m venv v && v/bin/python -c 'print(1)'",
    ),
    program(
        "bash -c reads no .bashrc",
        WRITE,
        // Without a level it is the outermost shell, which looks whether it was started over a network.
        "! env -u SHLVL bash -c 'echo ran' 2>&1 | grep bashrc-was-read",
    ),
    program(
        "python multiprocessing",
        WRITE,
        include_str!("programs/python_pool.sh"),
    ),
    program(
        "python asyncio, sqlite",
        WRITE,
        include_str!("programs/python.sh"),
    ),
    program(
        "python with network",
        NETWORK,
        include_str!("programs/python.sh"),
    ),
    program(
        "git status, diff, log",
        WRITE,
        include_str!("programs/git.sh"),
    ),
    program(
        "git commit below the root",
        WRITE,
        include_str!("programs/git_below.sh"),
    ),
    program(
        "shell tools",
        WRITE,
        include_str!("programs/shell_tools.sh"),
    ),
    program(
        "own priority, own limits",
        WRITE,
        include_str!("programs/own_priority.sh"),
    ),
    program(
        "own tcp server and client",
        NETWORK,
        include_str!("programs/tcp.sh"),
    ),
    program(
        "node http server",
        NETWORK,
        include_str!("programs/node_http.sh"),
    ),
    Program {
        name: "bash jobs on a terminal",
        policy: WRITE,
        script: include_str!("programs/jobs.sh"),
        io: Io::Terminal,
    },
];

/// Puts the script into a directory of its own; the command that runs it and says if nothing failed.
fn framed(world: &World, program: &Program, directory: &Path) -> String {
    fs::create_dir(directory).unwrap();
    fs::write(directory.join("program.sh"), program.script).unwrap();
    world.hand_over(directory);
    // Rustup finds its toolchains by the home of the user that runs the tests.
    let home = std::env::var("HOME").unwrap_or_default();
    let rustup = std::env::var("RUSTUP_HOME").unwrap_or_else(|_| format!("{home}/.rustup"));
    format!(
        "export RUSTUP_HOME='{rustup}' CARGO_HOME='{0}/.cargo' CARGO_TARGET_DIR='{0}/target' \
         HOME='{1}' npm_config_cache='{0}/.npm' npm_config_update_notifier=false\n\
         cd '{0}' && bash program.sh && echo {DONE}",
        directory.display(),
        world.path("user").display(),
    )
}

async fn alone(world: &World, script: &str) -> Outcome {
    let spec = world.program(&["bash", "-c", script]);
    let output = TestProcess::run(spec, DEADLINE).await;
    let output = output.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(said + &output.stderr_tail)
}

async fn confined(gate: &mut Gate, world: &World, program: &Program, script: &str) -> Outcome {
    let root = world.root();
    if program.io == Io::Terminal {
        let intent = program.policy.intent(&root);
        let argv = ["bash", "-c", script];
        return gate.on_terminal(&root, &intent, &argv).await;
    }
    let policy = program.policy.sandbox_policy(&[]);
    gate.command_exec(&root, &policy, script).await
}

/// The end of what a program said.
fn tail(outcome: &Outcome) -> String {
    let text = outcome.as_ref().unwrap_or_else(|why| why);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(6)..].join(" / ")
}

fn works(outcome: &Outcome) -> bool {
    matches!(outcome, Ok(text) if text.contains(DONE))
}

/// Makes the repository that `git.sh` looks at.
async fn make_repository(world: &World) {
    let repository = world.root().join("repository");
    fs::create_dir(&repository).unwrap();
    world.hand_over(&repository);
    let script = "git init -q && echo a > file && git add file && \
        git -c user.name=a -c user.email=a@b commit -qm first";
    let script = format!("cd \"{}\" && {script}", repository.display());
    // Without git the script that needs it is skipped.
    let _ = alone(world, &script).await;
}

async fn every_program(user: User) {
    if !can_be(user).await {
        return;
    }
    let world = World::new(user, HomePlace::Outside).await;
    let Some(report) = offers(&world).await else {
        return;
    };
    if !report["mountsAbsent"].is_null() {
        return skipped("ordinary programs: this machine has no mounts");
    }
    let mut gate = Gate::open(&world).await;
    make_repository(&world).await;
    let mut column = Vec::new();
    for (index, program) in PROGRAMS.iter().enumerate() {
        let directory = |how: &str| world.root().join(format!("{how}-{index}"));
        let script = framed(&world, program, &directory("confined"));
        gate.reconnect().await;
        let inside = confined(&mut gate, &world, program, &script).await;
        let cell = if works(&inside) {
            Cell::Held
        } else if program.io == Io::Terminal {
            // Without a terminal there is nothing to compare with.
            Cell::Broken(tail(&inside))
        } else {
            let script = framed(&world, program, &directory("alone"));
            let without = alone(&world, &script).await;
            if works(&without) {
                Cell::Broken(tail(&inside))
            } else {
                let why = format!("fails without a sandbox too: {}", tail(&without));
                skipped(format_args!("{}: {why}", program.name));
                Cell::Skipped(why)
            }
        };
        column.push((program.name.to_owned(), cell));
    }
    let mut table = Table::default();
    table.add("works".to_owned(), column);
    table.judge(&format!("ordinary programs as {}", user.name()));
}

#[tokio::test]
async fn ordinary_programs_work_for_the_user_of_the_tests() {
    every_program(User::Me).await;
}

#[tokio::test]
async fn ordinary_programs_work_for_an_ordinary_user() {
    every_program(User::Nobody).await;
}

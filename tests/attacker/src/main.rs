//! A program that tries to leave the sandbox it runs in.
//!
//! The tests of `turnlane` (`crates/cli/tests/it/wall`) start it under every policy and through every
//! route. It owns the attempts themselves, the bystander that they aim at, and the generator of random
//! system calls. It decides nothing about the product: a test reads its lines and fails.
//!
//! - `attacker list` prints the names of all attacks.
//! - `attacker run SCENE [NAME...]` tries the named attacks, or all, and prints one line of JSON for
//!   each: `{"attack":"...","held":true,"detail":"..."}`. `held` is `null` where the machine lacks what
//!   the attack needs. SCENE is a file of `KEY=VALUE` lines that says where the targets are.
//! - `attacker bystander DIRECTORY` stands outside of any sandbox with one object of each kind.
//! - `attacker random SCENE SEED SECONDS` makes random system calls.
//!
//! The invariant: an attempt that succeeds does no harm beyond the test's own files and its bystander.
//! Limits are set to harmless values, signals are those that are ignored by default, and calls that
//! could hurt the machine get arguments with which they fail behind their permission check.

mod attacks;
mod bystander;
mod json;
mod random;
mod scene;
mod sys;
mod tries;

use std::process::ExitCode;

use scene::Scene;
use tries::Verdict;

/// Seconds that one attack may take before it is killed.
const ATTACK_SECONDS_MAX: i32 = 20;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["list"] => {
            for (name, _) in attacks::ALL {
                println!("{name}");
            }
            Ok(())
        }
        ["run", scene, names @ ..] => run(scene, names),
        ["bystander", directory] => bystander::stand(directory),
        ["random", scene, seed, seconds] => random::run(scene, seed, seconds),
        _ => Err(
            "usage: attacker list | run SCENE [NAME...] | bystander DIRECTORY | \
                  random SCENE SEED SECONDS"
                .to_owned(),
        ),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("attacker: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(scene: &str, names: &[&str]) -> Result<(), String> {
    let scene = Scene::read(scene)?;
    for name in names {
        if !attacks::ALL.iter().any(|(known, _)| known == name) {
            return Err(format!("no attack is called {name}"));
        }
    }
    for (name, attack) in attacks::ALL {
        if names.is_empty() || names.contains(name) {
            let verdict = isolated(&scene, *attack);
            println!("{}", json::line(name, &verdict));
        }
    }
    // A reader can tell a complete list from one that was cut off.
    println!("{{\"done\":true}}");
    Ok(())
}

/// Tries one attack in a child, so that a child that is killed costs one line and not the rest.
fn isolated(scene: &Scene, attack: attacks::Attack) -> Verdict {
    let in_child = || attack(scene).encode();
    match sys::in_child(ATTACK_SECONDS_MAX, in_child) {
        Ok(sys::ChildEnd::Said(text)) => Verdict::decode(&text),
        Ok(sys::ChildEnd::Killed(libc::SIGSYS)) => {
            Verdict::Held("the filter killed the attacker".to_owned())
        }
        Ok(sys::ChildEnd::Killed(libc::SIGALRM)) => {
            Verdict::Broken(format!("unknown: it hung for {ATTACK_SECONDS_MAX} s"))
        }
        Ok(sys::ChildEnd::Killed(signal)) => {
            Verdict::Broken(format!("unknown: signal {signal} ended it"))
        }
        Err(errno) => Verdict::Broken(format!("unknown: no child, {}", sys::errno_name(errno))),
    }
}

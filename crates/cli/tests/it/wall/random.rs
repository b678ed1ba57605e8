//! Random system calls in every sandbox: whatever they do inside, nothing changes outside.
//!
//! `TURNLANE_TEST_SEED` sets the seed, `TURNLANE_TEST_FULL=1` gives each policy a minute.

use serde_json::{Value, json};
use turnlane_testkit::skipped;

use super::matrix::{offers, reached, scene};
use super::routes::{Gate, POLICIES, Route};
use super::table::{Cell, Table};
use super::world::{Bystander, HomePlace, User, World, can_be};
use crate::exec::kills::is_full;

const SEED: u64 = 14;

fn seconds() -> u64 {
    if is_full() { 60 } else { 2 }
}

fn seed() -> u64 {
    let given = std::env::var("TURNLANE_TEST_SEED").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(SEED)
}

async fn every_policy(user: User) {
    if !can_be(user).await {
        return;
    }
    let world = World::new(user, HomePlace::Outside).await;
    let Some(report) = offers(&world).await else {
        return;
    };
    let mut gate = Gate::open(&world).await;
    let mut bystander = Bystander::start(&world).await;
    let mut table = Table::default();
    let mut before = bystander.state(&world).await;
    for policy in POLICIES {
        if policy.writes() && !report["mountsAbsent"].is_null() {
            skipped(format_args!(
                "random calls under {}: no mounts",
                policy.name()
            ));
            continue;
        }
        let scene = scene(
            &world,
            &gate,
            &bystander,
            &report,
            (Route::CommandExec, policy),
        );
        let (attacker, scene) = (world.attacker.display(), scene.display());
        let script = format!("{attacker} random {scene} {} {}", seed(), seconds());
        // The directories for temporary files are everybody's: random calls get only their own.
        let mut sandbox = policy.sandbox_policy(&[]);
        if policy.writes() {
            sandbox["excludeTmpdirEnvVar"] = json!(true);
            sandbox["excludeSlashTmp"] = json!(true);
        }
        let output = gate.command_exec(&world.root(), &sandbox, &script).await;
        let output = output.unwrap();
        let line = output.lines().find(|line| line.starts_with('{'));
        let line = line.unwrap_or_else(|| panic!("{}: {output}", policy.name()));
        let summary: Value = serde_json::from_str(line).unwrap();
        let calls: u64 = summary["calls"].as_str().unwrap().parse().unwrap();
        assert!(calls > 1_000, "{}: {summary}", policy.name());
        let left_out = summary["left-out"].as_str().unwrap();
        if !left_out.is_empty() {
            skipped(format_args!(
                "random calls as {} under {}: not refused, so not made: numbers {left_out}",
                user.name(),
                policy.name()
            ));
        }
        let after = bystander.state(&world).await;
        let cell = reached(&before, &after, policy);
        gate.check().await;
        world.renew_root();
        before = after;
        let kept = match cell {
            Cell::Broken(changes) => Cell::Broken(format!("seed {}: {changes}", seed())),
            cell => cell,
        };
        table.add(
            policy.name().to_owned(),
            vec![("random-calls".to_owned(), kept)],
        );
    }
    table.judge(&format!("random calls as {}", user.name()));
}

#[tokio::test]
async fn random_calls_change_nothing_outside_as_the_user_of_the_tests() {
    every_policy(User::Me).await;
}

#[tokio::test]
async fn random_calls_change_nothing_outside_as_an_ordinary_user() {
    every_policy(User::Nobody).await;
}

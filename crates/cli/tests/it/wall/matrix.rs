//! Every attack under every policy through every route, as root and as an ordinary user.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};
use turnlane_testkit::skipped;
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::routes::{Gate, POLICIES, Policy, ROUTES, Route};
use super::table::{Cell, Column, Table, read};
use super::world::{Bystander, HomePlace, PASSWORD, PROTECTED, User, World, can_be, changes};

/// What this user's machine offers; `None`, said aloud, where it cannot confine at all.
pub(crate) async fn offers(world: &World) -> Option<Value> {
    let report = world.doctor().await;
    let able = report["landlockAbi"].as_u64().is_some_and(|abi| abi >= 3);
    if !able || !report["seccompAbsent"].is_null() {
        skipped(format_args!(
            "the wall as {}: this machine cannot confine: {report}",
            world.user.name()
        ));
        return None;
    }
    Some(report)
}

/// Writes down the targets for one cell; the path of the scene.
pub(crate) fn scene(
    world: &World,
    gate: &Gate,
    bystander: &Bystander,
    report: &Value,
    cell: (Route, Policy),
) -> PathBuf {
    let (route, policy) = cell;
    let yes = |is: bool| if is { "yes" } else { "no" };
    let files = [
        "config.toml",
        "keys.env",
        "token",
        "turnlane.db",
        "turnlane.db-shm",
    ];
    let there = files.iter().filter(|name| world.home().join(name).exists());
    let there: Vec<&str> = there.copied().collect();
    // Codex names what it protects.
    let protected = match route {
        Route::ExecServer => &PROTECTED[..3],
        Route::Turn | Route::CommandExec => &PROTECTED[..],
    };
    let server = match route {
        Route::ExecServer => gate.exec_server.process.pid(),
        Route::Turn | Route::CommandExec => gate.daemon.process.pid(),
    };
    let mut places = json!({
        "root": world.root(),
        "home": world.home(),
        "codex": world.path("codex"),
        "user": world.path("user"),
        "server": server.to_string(),
        "server-socket": gate.daemon.socket,
        "server-port": gate.daemon.port(),
        "server-token": gate.daemon.token,
        "exec-server-port": gate.exec_server.port(),
        "exec-server-token": gate.exec_server.token,
        "files-of-home": there.join(","),
        "files-of-codex": "auth.json",
        "protected": protected.join(","),
        "secrets": PASSWORD,
        "umask": "077",
        "network": yes(policy.has_network()),
        "mounts": yes(report["mountsAbsent"].is_null()),
        "confined": "yes",
    });
    for (key, value) in &bystander.places {
        places[key] = value.clone();
    }
    let mut text = String::new();
    for (key, value) in places.as_object().unwrap() {
        let _ = writeln!(text, "{key}={}", value.as_str().unwrap_or_default());
    }
    let path = world.path(&format!(
        "scenes/{}-{}",
        route.name().replace('/', "-"),
        policy.name()
    ));
    fs::write(&path, text).unwrap();
    // The attacker may be another user.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    path
}

/// What stays in the workspace that the user's own programs would obey. A process is closed when its
/// streams are; its mount points go when its last member has been reaped, which may be a moment later.
async fn left_behind(world: &World) -> Cell {
    let left = || {
        let there = |name: &&str| fs::symlink_metadata(world.root().join(name)).is_ok();
        PROTECTED.iter().copied().filter(there).collect::<Vec<_>>()
    };
    let removed = eventually("the mount points are removed", DEADLINE, async || {
        left().is_empty()
    })
    .await;
    match removed {
        Ok(()) => Cell::Held,
        Err(_) => Cell::Broken(left().join(", ")),
    }
}

/// Changes outside, but for the connections that the policy allows.
pub(crate) fn reached(before: &[String], after: &[String], policy: Policy) -> Cell {
    let mut changes = changes(before, after);
    if policy.has_network() {
        changes.retain(|line| !line.contains("tcp connections"));
    }
    if changes.is_empty() {
        Cell::Held
    } else {
        Cell::Broken(changes.join("\n"))
    }
}

/// A machine that cannot enforce a policy refuses it; any other refusal is not a cell that held.
fn refused(why: &str, report: &Value, policy: Policy) -> Column {
    let cell = if policy.writes() && !report["mountsAbsent"].is_null() {
        Cell::Skipped(format!("this machine has no mounts: {why}"))
    } else {
        Cell::Broken(format!("unknown, the command was refused: {why}"))
    };
    vec![("start".to_owned(), cell)]
}

async fn every_cell(user: User) {
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
    for route in ROUTES {
        for policy in POLICIES {
            let scene = scene(&world, &gate, &bystander, &report, (route, policy));
            let script = format!("{} run {}", world.attacker.display(), scene.display());
            let mut column = match gate.run(&world, route, policy, &script).await {
                Ok(output) => read(&output),
                Err(why) => refused(&why, &report, policy),
            };
            let after = bystander.state(&world).await;
            column.push((
                "bystander-unchanged".to_owned(),
                reached(&before, &after, policy),
            ));
            column.push(("nothing-left-behind".to_owned(), left_behind(&world).await));
            gate.check().await;
            world.renew_root();
            before = after;
            table.add(format!("{} {}", route.name(), policy.name()), column);
        }
    }
    let spawned = match gate.spawn(&world.root()).await {
        Err(_) => Cell::Held,
        Ok(how) => Cell::Broken(how),
    };
    table.add(
        "process/spawn".to_owned(),
        vec![("start".to_owned(), spawned)],
    );
    table.judge(&format!("as {}", user.name()));
}

#[tokio::test]
async fn no_attack_gets_out_as_the_user_of_the_tests() {
    every_cell(User::Me).await;
}

#[tokio::test]
async fn no_attack_gets_out_as_an_ordinary_user() {
    every_cell(User::Nobody).await;
}

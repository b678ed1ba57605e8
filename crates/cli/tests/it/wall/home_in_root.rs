//! A home that lies inside the workspace is as hidden as any other.

use super::matrix::{offers, scene};
use super::routes::{Gate, POLICIES, ROUTES};
use super::table::{Cell, Table, read};
use super::world::{Bystander, HomePlace, User, World, can_be, changes};

const ATTACKS: &str = "read-home list-home write-home lock-home";

async fn every_cell(user: User) {
    if !can_be(user).await {
        return;
    }
    let world = World::new(user, HomePlace::InWorkspace).await;
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
            let (attacker, scene) = (world.attacker.display(), scene.display());
            let script = format!("{attacker} run {scene} {ATTACKS}");
            let mut column = match gate.run(&world, route, policy, &script).await {
                Ok(output) => read(&output),
                // A policy that cannot hide the home is refused, which is as good.
                Err(why) if why.contains("sandbox") => vec![("start".to_owned(), Cell::Held)],
                Err(why) => vec![("start".to_owned(), Cell::Broken(why))],
            };
            let after = bystander.state(&world).await;
            let cell = match changes(&before, &after) {
                changes if changes.is_empty() => Cell::Held,
                changes => Cell::Broken(changes.join("\n")),
            };
            column.push(("home-unchanged".to_owned(), cell));
            gate.check().await;
            world.renew_root();
            before = after;
            table.add(format!("{} {}", route.name(), policy.name()), column);
        }
    }
    table.judge(&format!("home in the workspace, as {}", user.name()));
}

#[tokio::test]
async fn a_home_in_the_workspace_is_hidden_from_the_user_of_the_tests() {
    every_cell(User::Me).await;
}

#[tokio::test]
async fn a_home_in_the_workspace_is_hidden_from_an_ordinary_user() {
    every_cell(User::Nobody).await;
}

//! A root that a command replaced by a link stays where it was, for the next command and for patches.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;

use super::matrix::offers;
use super::routes::{Gate, Policy, ROUTES, Route};
use super::table::{Cell, Table};
use super::world::{HomePlace, User, World, can_be};
use crate::app_server::thread;

/// Which root is replaced.
#[derive(Clone, Copy, Debug)]
enum Target {
    /// The workspace itself, which lies in `/tmp`.
    Workspace,
    /// A further root inside the workspace.
    FurtherRoot,
    /// The workspace, with a directory of the attacker's in its place instead of a link.
    WorkspaceByDirectory,
}

const TARGETS: [Target; 3] = [
    Target::Workspace,
    Target::FurtherRoot,
    Target::WorkspaceByDirectory,
];

/// A checkout without `.git` in `/tmp`.
struct Checkout {
    dir: TempDir,
    victim: PathBuf,
}

impl Checkout {
    fn new(world: &World, name: &str) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("turnlane-swap-")
            .tempdir_in("/tmp")
            .unwrap();
        let checkout = Self {
            victim: world.path(&format!("victims/{name}")),
            dir,
        };
        fs::create_dir_all(checkout.project().join("out")).unwrap();
        fs::create_dir_all(checkout.victim.join("out")).unwrap();
        world.hand_over(checkout.dir.path());
        world.hand_over(&world.path("victims"));
        checkout
    }

    fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    /// The command that replaces a root.
    fn swap(&self, target: Target) -> String {
        let victim = self.victim.display();
        let dir = self.dir.path().display();
        match target {
            Target::Workspace => {
                format!("cd {dir} && mv project old && ln -s {victim} project; true")
            }
            Target::FurtherRoot => {
                format!("cd {dir}/project && mv out old && ln -s {victim}/out out; true")
            }
            // A second step of a race: the directory is real, what is in it leads away.
            Target::WorkspaceByDirectory => format!(
                "cd {dir} && mv project old && mkdir project && ln -s {victim}/out project/out; true"
            ),
        }
    }

    /// The next command, which believes that it writes in a root.
    fn plant(&self) -> String {
        let project = self.project();
        let project = project.display();
        format!("echo x > {project}/planted; echo x > {project}/out/planted; true")
    }

    /// Files that were written outside.
    fn planted(&self) -> Vec<PathBuf> {
        let places = [self.victim.join("planted"), self.victim.join("out/planted")];
        places.into_iter().filter(|path| path.exists()).collect()
    }

    fn cell(&self) -> Cell {
        match self.planted() {
            planted if planted.is_empty() => Cell::Held,
            planted => Cell::Broken(format!("{planted:?}")),
        }
    }
}

/// Two commands of one client; refusals are answers too.
async fn attack(gate: &mut Gate, route: Route, target: Target, checkout: &Checkout) {
    let project = checkout.project();
    let out = project.join("out");
    let policy = Policy::WorkspaceWrite;
    let sandbox = policy.sandbox_policy(&[&out]);
    let scripts = [checkout.swap(target), checkout.plant()];
    match route {
        Route::Turn => {
            let more = json!({"approvalPolicy": "never", "sandboxPolicy": sandbox});
            let thread = thread(&mut gate.client, &project, more).await;
            for script in &scripts {
                let _ = gate.turn(&thread, script).await;
            }
            for file in ["planted", "out/planted"] {
                let patch = format!("*** Begin Patch\n*** Add File: {file}\n+x\n*** End Patch\n");
                let call = json!([["apply_patch", {"input": patch}]]).to_string();
                let _ = gate.turn(&thread, &call).await;
            }
        }
        Route::CommandExec => {
            for script in &scripts {
                let _ = gate.command_exec(&project, &sandbox, script).await;
            }
        }
        Route::ExecServer => {
            let mut intent = policy.intent(&project);
            let entries = &mut intent["permissions"]["file_system"]["entries"];
            let uri = format!("file://{}", out.display());
            let more = json!({"path": {"type": "path", "path": uri}, "access": "write"});
            entries.as_array_mut().unwrap().push(more);
            for script in &scripts {
                let _ = gate.exec_server(&project, &intent, script).await;
            }
        }
    }
}

async fn every_swap(user: User) {
    if !can_be(user).await {
        return;
    }
    let world = World::new(user, HomePlace::Outside).await;
    let Some(report) = offers(&world).await else {
        return;
    };
    if !report["mountsAbsent"].is_null() {
        return turnlane_testkit::skipped("swapped roots: this machine has no mounts");
    }
    let mut gate = Gate::open(&world).await;
    let mut table = Table::default();
    for route in ROUTES {
        let mut column = Vec::new();
        for target in TARGETS {
            let checkout = Checkout::new(&world, &format!("{}-{target:?}", route.name()));
            attack(&mut gate, route, target, &checkout).await;
            column.push((format!("{target:?}"), checkout.cell()));
        }
        gate.check().await;
        table.add(route.name().to_owned(), column);
    }
    table.judge(&format!("swapped roots as {}", user.name()));
}

#[tokio::test]
async fn a_swapped_root_leads_nowhere_as_the_user_of_the_tests() {
    every_swap(User::Me).await;
}

#[tokio::test]
async fn a_swapped_root_leads_nowhere_as_an_ordinary_user() {
    every_swap(User::Nobody).await;
}

/// The scenario works: without a wall the second command writes outside.
#[tokio::test]
async fn a_swapped_root_leads_out_without_a_sandbox() {
    let world = World::new(User::Me, HomePlace::Outside).await;
    for target in TARGETS {
        let checkout = Checkout::new(&world, &format!("{target:?}"));
        for script in [checkout.swap(target), checkout.plant()] {
            let spec = world
                .program(&["sh", "-c", &script])
                .current_dir(Path::new("/"));
            let limit = turnlane_testkit::wait::DEADLINE;
            turnlane_testkit::TestProcess::run(spec, limit)
                .await
                .unwrap();
        }
        assert!(!checkout.planted().is_empty(), "{target:?}");
    }
}

//! Who may depend on whom: the table of crates in the design, as data.

use serde_json::Value;

use crate::tree::{Tree, host_program, root};
use turnlane_testkit::TestProcess;
use turnlane_testkit::wait::DEADLINE;

/// Each package and the packages of the workspace that it may build upon.
const ALLOWED: &[(&str, &[&str])] = &[
    ("turnlane-protocol", &[]),
    ("turnlane-rpc", &["turnlane-protocol"]),
    ("turnlane-process", &[]),
    (
        "turnlane-exec-server",
        &["turnlane-protocol", "turnlane-rpc", "turnlane-process"],
    ),
    ("turnlane-store", &[]),
    (
        "turnlane-engine",
        &[
            "turnlane-protocol",
            "turnlane-rpc",
            "turnlane-process",
            "turnlane-exec-server",
        ],
    ),
    (
        "turnlane-runtime",
        &[
            "turnlane-protocol",
            "turnlane-store",
            "turnlane-engine",
            "turnlane-process",
        ],
    ),
    (
        "turnlane-server",
        &[
            "turnlane-protocol",
            "turnlane-rpc",
            "turnlane-process",
            "turnlane-exec-server",
            "turnlane-runtime",
        ],
    ),
    (
        "turnlane",
        &["turnlane-protocol", "turnlane-rpc", "turnlane-process"],
    ),
    (
        "turnlane-shim",
        &[
            "turnlane",
            "turnlane-protocol",
            "turnlane-rpc",
            "turnlane-process",
        ],
    ),
    ("turnlane-cli", ALL),
    ("turnlane-benchkit", &["turnlane-rpc", "turnlane-testkit"]),
    ("turnlane-attacker", &[]),
    ("turnlane-testkit", &["turnlane-protocol", "turnlane-rpc"]),
];

/// The binary puts everything together, the demo's test kit included.
const ALL: &[&str] = &[
    "turnlane",
    "turnlane-protocol",
    "turnlane-rpc",
    "turnlane-process",
    "turnlane-exec-server",
    "turnlane-store",
    "turnlane-engine",
    "turnlane-runtime",
    "turnlane-server",
    "turnlane-shim",
    "turnlane-testkit",
];

/// Benchmarks measure whatever they like; nothing but a test builds upon them.
const BENCHMARK_PREFIX: &str = "turnlane-bench-";

/// Crates that must not come into the tree by somebody's default feature: one TLS provider, ring,
/// is enough.
const BANNED: &[&str] = &["openssl-sys", "aws-lc-sys"];

/// Further edges of tests. Any crate's tests may use the test kit.
const ALLOWED_IN_TESTS: &[(&str, &str)] = &[
    ("turnlane-server", "turnlane-engine"),
    ("turnlane", "turnlane-engine"),
    ("turnlane", "turnlane-runtime"),
    ("turnlane", "turnlane-server"),
    ("turnlane", "turnlane-store"),
    // The crash proof is one program, at its size for every change and at its full one.
    ("turnlane-cli", "turnlane-bench-crash"),
];

/// A dependency of one package of the workspace on another.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    from: String,
    to: String,
    only_in_tests: bool,
}

/// The packages of the workspace and the edges between them.
pub(crate) struct Workspace {
    packages: Vec<String>,
    edges: Vec<Edge>,
}

/// Asks cargo, without network.
pub(crate) async fn workspace() -> Workspace {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = [
        "metadata",
        "--no-deps",
        "--format-version",
        "1",
        "--offline",
    ];
    let spec = host_program(cargo).args(arguments).current_dir(root());
    let output = TestProcess::run(spec, DEADLINE).await.unwrap();
    assert!(
        output.status.success(),
        "cargo metadata: {}",
        output.stderr_tail
    );
    read(&serde_json::from_slice(&output.stdout).unwrap())
}

fn read(metadata: &Value) -> Workspace {
    let packages = metadata["packages"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let mut edges = Vec::new();
    for package in packages {
        let dependencies = package["dependencies"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        // Only a dependency inside the repository has a path.
        for dependency in dependencies
            .iter()
            .filter(|dependency| dependency["path"].is_string())
        {
            edges.push(Edge {
                from: name(package),
                to: name(dependency),
                only_in_tests: dependency["kind"] == "dev",
            });
        }
    }
    Workspace {
        packages: packages.iter().map(name).collect(),
        edges,
    }
}

pub(crate) fn wrong_edges(workspace: &Workspace) -> Vec<String> {
    let is_benchmark = |package: &str| package.starts_with(BENCHMARK_PREFIX);
    let unknown = |package: &&String| {
        !is_benchmark(package) && !ALLOWED.iter().any(|(known, _)| known == package)
    };
    let unknown = workspace.packages.iter().filter(unknown);
    let unknown = unknown.map(|package| format!("{package} is not in the table of crates"));
    let allowed = |edge: &Edge| {
        if is_benchmark(&edge.from) {
            return !is_benchmark(&edge.to);
        }
        let below = ALLOWED.iter().find(|(from, _)| *from == edge.from);
        below.is_some_and(|(_, to)| to.contains(&edge.to.as_str()))
    };
    let allowed_in_tests = |edge: &Edge| {
        let listed = ALLOWED_IN_TESTS.contains(&(edge.from.as_str(), edge.to.as_str()));
        edge.only_in_tests && (edge.to == "turnlane-testkit" || listed)
    };
    let wrong = workspace
        .edges
        .iter()
        .filter(|edge| !allowed(edge) && !allowed_in_tests(edge));
    let wrong = wrong.map(|edge| {
        let where_ = if edge.only_in_tests {
            " in its tests"
        } else {
            ""
        };
        format!("{} may not depend on {}{where_}", edge.from, edge.to)
    });
    unknown.chain(wrong).collect()
}

pub(crate) fn without_lints(tree: &Tree) -> Vec<String> {
    let is_member = |path: &str| {
        (path.starts_with("crates/") || path.starts_with("bench/")) && path.ends_with("/Cargo.toml")
    };
    let takes_lints = |text: &str| {
        text.contains("[lints]\nworkspace = true") || text.contains("lints.workspace = true")
    };
    let members = tree.files.iter().filter(|file| is_member(&file.path));
    let without = members.filter(|file| !takes_lints(&file.text));
    without
        .map(|file| format!("{} lacks `lints.workspace = true`", file.path))
        .collect()
}

/// Banned crates in the lock file.
pub(crate) fn banned(tree: &Tree) -> Vec<String> {
    let lock = tree.text("Cargo.lock").unwrap_or_default();
    let is_locked = |name: &&&str| lock.contains(&format!("\nname = \"{name}\"\n"));
    let banned = BANNED.iter().filter(is_locked);
    banned
        .map(|name| format!("{name} is banned from the tree; see deny.toml"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn complaints(package: &str, dependency: &Value) -> Vec<String> {
        let package = json!({"name": package, "dependencies": [dependency]});
        wrong_edges(&read(&json!({"packages": [package]})))
    }

    #[test]
    fn a_banned_crate_is_reported() {
        let lock = "[[package]]\nname = \"aws-lc-sys\"\nversion = \"1.0.0\"\n";
        assert_eq!(banned(&Tree::of([("Cargo.lock", lock)])).len(), 1);
        assert!(banned(&Tree::of([("Cargo.lock", "name = \"ring\"\n")])).is_empty());
    }

    #[test]
    fn a_benchmark_may_use_anything_and_nothing_may_use_it() {
        let rpc = json!({"name": "turnlane-rpc", "path": "/x", "kind": null});
        assert!(complaints("turnlane-bench-rpc", &rpc).is_empty());
        let bench = json!({"name": "turnlane-bench-rpc", "path": "/x", "kind": null});
        assert_eq!(complaints("turnlane-cli", &bench).len(), 1);
    }

    #[test]
    fn an_edge_that_is_not_in_the_table_is_reported() {
        let up = json!({"name": "turnlane-rpc", "path": "/x", "kind": null});
        assert_eq!(
            complaints("turnlane-protocol", &up),
            ["turnlane-protocol may not depend on turnlane-rpc"]
        );
        assert!(complaints("turnlane-server", &up).is_empty());
        let build = json!({"name": "turnlane-store", "path": "/x", "kind": "build"});
        assert_eq!(complaints("turnlane-rpc", &build).len(), 1);
    }

    #[test]
    fn tests_may_use_the_test_kit_and_nothing_else() {
        let kit = |kind: &str| json!({"name": "turnlane-testkit", "path": "/x", "kind": kind});
        assert!(complaints("turnlane-protocol", &kit("dev")).is_empty());
        assert_eq!(complaints("turnlane-server", &kit("")).len(), 1);
        let store = json!({"name": "turnlane-store", "path": "/x", "kind": "dev"});
        assert_eq!(
            complaints("turnlane-server", &store),
            ["turnlane-server may not depend on turnlane-store in its tests"]
        );
    }

    #[test]
    fn crates_from_elsewhere_are_nobodys_business_and_new_packages_are() {
        let serde = json!({"name": "serde", "path": null, "kind": null});
        assert!(complaints("turnlane-rpc", &serde).is_empty());
        assert_eq!(
            complaints("turnlane-utils", &serde),
            ["turnlane-utils is not in the table of crates"]
        );
    }

    #[test]
    fn a_manifest_without_the_lints_is_reported() {
        let tree = Tree::of([
            (
                "crates/a/Cargo.toml",
                "[package]\n[lints]\nworkspace = true\n",
            ),
            ("crates/b/Cargo.toml", "[package]\nlints.workspace = true\n"),
            ("crates/c/Cargo.toml", "[package]\n"),
            ("Cargo.toml", "[workspace]\n"),
        ]);
        assert_eq!(
            without_lints(&tree),
            ["crates/c/Cargo.toml lacks `lints.workspace = true`"]
        );
    }
}

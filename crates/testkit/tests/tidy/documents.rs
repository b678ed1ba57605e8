//! Texts that would be wrong for everybody but their author: paths that are gone, paths of one
//! machine, packages from elsewhere than the public index, commands that nobody tries.

use std::path::PathBuf;

use crate::tree::{File, Tree, root};

const README: &str = "README.md";
/// Documents whose paths must exist.
const MAPS: [&str; 2] = ["ARCHITECTURE.md", README];
/// What runs before a change lands.
const GATE: &str = ".ci/run";

/// What a path of this repository starts with.
const TOP_FOLDERS: &[&str] = &["crates/", "bench/", "docs/", "fuzz/", ".ci/", "tests/"];

/// Files by which tools fetch packages.
const FETCHING_FILES: &[&str] = &[
    "Cargo.lock",
    "Cargo.toml",
    "config.toml",
    "package-lock.json",
    "package.json",
    ".npmrc",
    "pip.conf",
    "requirements.txt",
];

/// The host in the name of cargo's public index, which every lock file repeats.
const INDEX_HOST: &str = "github.com";

/// Paths in backticks in the documents that do not exist.
pub(crate) fn dead_paths(tree: &Tree) -> Vec<String> {
    let of_one = |document: &str| match tree.text(document) {
        None => vec![format!("{document} is missing")],
        Some(text) => spans(text)
            .into_iter()
            .filter(|span| is_path(span) && !tree.contains(span))
            .map(|path| format!("{document} names {path}, which does not exist"))
            .collect(),
    };
    MAPS.into_iter().flat_map(of_one).collect()
}

/// Commands of the README's first block that the gate does not run.
pub(crate) fn untried_commands(tree: &Tree) -> Vec<String> {
    let (readme, gate) = (tree.text(README), tree.text(GATE));
    let block = readme.and_then(|text| text.split("```sh\n").nth(1)?.split("```").next());
    let Some(block) = block else {
        return vec![format!("{README} has no block of commands")];
    };
    let tried: Vec<_> = gate
        .unwrap_or_default()
        .lines()
        .map(|line| {
            line.trim_start_matches("in_empty_home ")
                .replace(" --locked", "")
        })
        .collect();
    let commands = block
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    commands
        .filter(|command| !command.is_empty() && !tried.iter().any(|line| line == command))
        .map(|command| format!("{README} says `{command}`, and {GATE} does not try it"))
        .collect()
}

/// The texts in single backticks, outside of fenced blocks.
fn spans(text: &str) -> Vec<&str> {
    let mut fenced = false;
    let mut spans = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            spans.extend(line.split('`').skip(1).step_by(2));
        }
    }
    spans
}

/// Whether a span is a path of the repository and not a pattern or a command.
fn is_path(span: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    span.chars().all(plain) && TOP_FOLDERS.iter().any(|folder| span.starts_with(folder))
}

/// Folders that only this machine has: our home and where this repository lies.
pub(crate) fn machine_folders() -> Vec<String> {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
    // The gate tests in an empty home; the one it has taken away is beside cargo's.
    let cargo = named("CARGO_HOME").and_then(|home| Some(home.parent()?.to_owned()));
    let here = [Some(root()), named("HOME"), cargo];
    let here = here.into_iter().flatten();
    here.filter(|folder| folder.components().count() > 1)
        .map(|folder| format!("{}/", folder.display()))
        .collect()
}

pub(crate) fn machine_paths(tree: &Tree, folders: &[String]) -> Vec<String> {
    let complaint = |file: &File| {
        let found = folders
            .iter()
            .find(|folder| names_folder(&file.text, folder))?;
        Some(format!(
            "{} names {found}, a folder of one machine",
            file.path
        ))
    };
    tree.files.iter().filter_map(complaint).collect()
}

/// Whether a text holds this absolute path, and not a longer one that ends the same.
fn names_folder(text: &str, folder: &str) -> bool {
    let inside_path = |c: char| c.is_alphanumeric() || "._-~/}".contains(c);
    text.match_indices(folder)
        .any(|(at, _)| !text[..at].ends_with(inside_path))
}

/// Files that would fetch packages from a host of their own.
pub(crate) fn package_hosts(tree: &Tree) -> Vec<String> {
    let complaint = |file: &File| {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        let mut hosts = hosts(&file.text).into_iter();
        let foreign = hosts.find(|host| *host != INDEX_HOST)?;
        FETCHING_FILES.contains(&name).then(|| {
            format!(
                "{} names {foreign}; packages come by name from the public index",
                file.path
            )
        })
    };
    tree.files.iter().filter_map(complaint).collect()
}

/// The hosts of all URLs in a text.
fn hosts(text: &str) -> Vec<&str> {
    let after = text
        .match_indices("://")
        .map(|(at, mark)| &text[at + mark.len()..]);
    let end = |c: char| !(c.is_ascii_alphanumeric() || ".-".contains(c));
    after
        .map(|rest| rest.split(end).next().unwrap_or_default())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_path_and_a_missing_document_are_reported() {
        let text = "See `crates/a/src/lib.rs`, `crates/a/`, `crates/b.rs` and `thread/read`.\n\
                    ```\n`crates/in/a/fence.rs`\n```\n`crates/*/src`, `docs/x.md`\n";
        let tree = Tree::of([("ARCHITECTURE.md", text), ("crates/a/src/lib.rs", "")]);
        assert_eq!(
            dead_paths(&tree),
            [
                "ARCHITECTURE.md names crates/b.rs, which does not exist",
                "ARCHITECTURE.md names docs/x.md, which does not exist",
                "README.md is missing",
            ]
        );
    }

    #[test]
    fn a_command_that_nobody_tries_is_reported() {
        let readme = "Two:\n```sh\ncargo run -- demo   # shows\ncargo test --workspace\n```\n";
        let gate = "step x\nin_empty_home cargo test --workspace --locked\n";
        let tree = Tree::of([("README.md", readme), (".ci/run", gate)]);
        assert_eq!(
            untried_commands(&tree),
            ["README.md says `cargo run -- demo`, and .ci/run does not try it"]
        );
        let none = ["README.md has no block of commands"];
        assert_eq!(untried_commands(&Tree::of([("README.md", "")])), none);
    }

    #[test]
    fn a_path_of_a_machine_is_reported() {
        let tree = Tree::of([
            ("a.md", "see /srv/build/turnlane/x"),
            ("b.rs", "let x = \"/home/ada/.cargo\";"),
            ("c.md", "crates/home/x, $HOME/home/x, ~/home/x, ${A}/home/x"),
        ]);
        let folders = ["/srv/build/turnlane/", "/home/"].map(str::to_owned);
        assert_eq!(
            machine_paths(&tree, &folders),
            [
                "a.md names /srv/build/turnlane/, a folder of one machine",
                "b.rs names /home/, a folder of one machine",
            ]
        );
        assert!(!machine_folders().is_empty());
    }

    #[test]
    fn a_host_of_packages_is_reported() {
        let index = "registry+https://github.com/rust-lang/crates.io-index";
        let tree = Tree::of([
            ("Cargo.lock", index),
            (
                "bench/package-lock.json",
                "\"resolved\": \"https://npm.example.internal/x\"",
            ),
            ("docs/a.md", "https://example.com"),
        ]);
        assert_eq!(
            package_hosts(&tree),
            ["bench/package-lock.json names npm.example.internal; \
                 packages come by name from the public index"]
        );
    }
}

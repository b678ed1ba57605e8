//! Repositories made of files, as git writes them.

use std::fs;

use tempfile::TempDir;

use super::*;

const SHA: &str = "0123456789abcdef0123456789abcdef01234567";
const OTHER: &str = "89abcdef0123456789abcdef0123456789abcdef";

fn put(root: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), files);
    folder
}

fn info(branch: Option<&str>, origin_url: Option<&str>, sha: Option<&str>) -> GitInfo {
    let text = |text: Option<&str>| text.map(str::to_owned);
    GitInfo {
        branch: text(branch),
        origin_url: text(origin_url),
        sha: text(sha),
    }
}

fn seen(directory: &Path) -> GitInfo {
    look(directory).unwrap()
}

#[test]
fn a_branch_is_found_from_a_directory_below_its_root() {
    let folder = folder(&[
        (".git/HEAD", "ref: refs/heads/topic/one\n"),
        (".git/refs/heads/topic/one", &format!("{SHA}\n")),
        (
            ".git/config",
            "[core]\n\turl = no\n[remote \"fork\"]\n\turl = no\n[remote \"origin\"]\n\
             \tURL = git@example.org:a/b.git\n\turl = second\n[branch \"x\"]\n\turl = no\n",
        ),
        ("src/deep/file", ""),
    ]);
    let expected = info(
        Some("topic/one"),
        Some("git@example.org:a/b.git"),
        Some(SHA),
    );
    assert_eq!(seen(folder.path()), expected);
    assert_eq!(seen(&folder.path().join("src/deep")), expected);
}

#[test]
fn a_packed_reference_is_found_and_a_loose_one_wins() {
    let packed = format!("# pack-refs with: peeled\n{OTHER} refs/heads/main\n^{SHA}\n");
    let folder = folder(&[
        (".git/HEAD", "ref: refs/heads/main"),
        (".git/packed-refs", &packed),
    ]);
    assert_eq!(seen(folder.path()), info(Some("main"), None, Some(OTHER)));
    put(folder.path(), &[(".git/refs/heads/main", SHA)]);
    assert_eq!(seen(folder.path()), info(Some("main"), None, Some(SHA)));
}

#[test]
fn a_commit_without_a_branch_and_a_branch_without_a_commit_are_shown() {
    let folder = folder(&[(".git/HEAD", SHA)]);
    assert_eq!(seen(folder.path()), info(None, None, Some(SHA)));
    put(folder.path(), &[(".git/HEAD", "ref: refs/heads/new\n")]);
    assert_eq!(seen(folder.path()), info(Some("new"), None, None));
}

#[test]
fn another_working_tree_has_its_own_head_and_the_common_rest() {
    let folder = folder(&[
        ("main/.git/HEAD", "ref: refs/heads/main"),
        ("main/.git/config", "[remote \"origin\"]\nurl = /srv/a.git"),
        ("main/.git/refs/heads/side", SHA),
        ("main/.git/worktrees/side/HEAD", "ref: refs/heads/side"),
        ("main/.git/worktrees/side/commondir", "../..\n"),
        ("side/.git", "gitdir: ../main/.git/worktrees/side\n"),
    ]);
    let found = seen(&folder.path().join("side"));
    assert_eq!(found, info(Some("side"), Some("/srv/a.git"), Some(SHA)));
}

#[test]
fn passwords_in_an_address_are_left_out() {
    let config = "[remote \"origin\"]\nurl = https://me:secret@example.org:8443/a@b.git";
    let folder = folder(&[(".git/HEAD", SHA), (".git/config", config)]);
    let found = seen(folder.path());
    assert_eq!(
        found.origin_url.unwrap(),
        "https://example.org:8443/a@b.git"
    );
}

#[test]
fn references_that_lead_out_or_in_circles_name_no_commit() {
    let folder = folder(&[
        (".git/HEAD", "ref: refs/heads/a"),
        (".git/refs/heads/a", "ref: refs/heads/b"),
        (".git/refs/heads/b", "ref: refs/heads/a"),
        ("secret", SHA),
    ]);
    assert_eq!(seen(folder.path()), info(Some("a"), None, None));
    put(folder.path(), &[(".git/HEAD", "ref: refs/../../secret")]);
    assert_eq!(seen(folder.path()).sha, None);
    put(
        folder.path(),
        &[
            (".git/HEAD", "ref: refs/heads/c"),
            (".git/refs/heads/c", "<html>"),
        ],
    );
    assert_eq!(seen(folder.path()).sha, None);
}

#[test]
fn a_directory_in_no_repository_has_none() {
    let folder = folder(&[("a/.git", "not a pointer"), ("b/.git/config", "")]);
    let within = |path: &Path| path.ancestors().take(2).find_map(Repository::at);
    assert!(within(&folder.path().join("a")).is_none());
    assert!(within(&folder.path().join("b")).is_none());
}

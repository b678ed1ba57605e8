//! Policies on directories made for the purpose.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::sandbox::PathRule;

fn workspace(roots: Vec<PathBuf>) -> Sandbox {
    Sandbox::WorkspaceWrite {
        roots,
        network: false,
        exclude_tmpdir: false,
        exclude_slash_tmp: true,
    }
}

fn access(policy: &PathPolicy, path: impl AsRef<Path>) -> Access {
    policy.access(path.as_ref())
}

#[test]
fn a_workspace_is_writable_but_for_its_protected_names() {
    let dir = tempfile::tempdir().unwrap();
    let (root, tmp) = (dir.path().join("root"), dir.path().join("tmp"));
    fs::create_dir_all(root.join(".git")).unwrap();
    fs::create_dir_all(root.join("deep/.git")).unwrap();
    fs::write(root.join(".codex"), "").unwrap();
    fs::create_dir(&tmp).unwrap();
    let policy = PathPolicy::new(&workspace(vec![root.clone()]), Some(&tmp), &[]).unwrap();
    for (path, expected) in [
        (root.clone(), Access::Write),
        (root.join("new/file"), Access::Write),
        (root.join("deep/.git"), Access::Write),
        (root.join(".git"), Access::Read),
        (root.join(".git/config"), Access::Read),
        (root.join(".codex"), Access::Read),
        (root.join(".github"), Access::Write),
        // It does not exist, and may not come to exist.
        (root.join(".agents"), Access::Read),
        (tmp.join("x"), Access::Write),
        (dir.path().to_owned(), Access::Read),
        (PathBuf::from("/etc/passwd"), Access::Read),
        (PathBuf::from("/dev/null"), Access::Write),
        (PathBuf::from("/dev/sda"), Access::Read),
    ] {
        assert_eq!(access(&policy, &path), expected, "{}", path.display());
    }
    assert_eq!(policy.least_below(&root), Access::Read);
    assert_eq!(policy.least_below(&root.join("deep")), Access::Write);
    assert_eq!(policy.least_below(&tmp), Access::Write);
}

#[test]
fn a_root_that_is_missing_a_file_or_everything_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let everything = dir.path().join("everything");
    symlink("/", &everything).unwrap();
    let missing = dir.path().join("missing");
    for root in [
        PathBuf::from("/"),
        everything,
        missing,
        file,
        "relative".into(),
    ] {
        let error = PathPolicy::new(&workspace(vec![root.clone()]), None, &[]).unwrap_err();
        assert_eq!(error.kind, SpawnErrorKind::SandboxRefused);
        assert_eq!(error.path, Some(root));
    }
    // So is a temporary directory that is everything; one that is missing is only not writable.
    assert!(PathPolicy::new(&workspace(vec![]), Some(Path::new("/")), &[]).is_err());
    for tmpdir in ["/nonexistent", "relative"] {
        let policy = PathPolicy::new(&workspace(vec![]), Some(Path::new(tmpdir)), &[]).unwrap();
        assert_eq!(access(&policy, "/nonexistent"), Access::Read);
    }
}

#[test]
fn links_are_resolved_and_remembered_on_the_way_to_what_is_protected() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    let root = base.join("root");
    fs::create_dir_all(base.join("real/git")).unwrap();
    fs::create_dir(&root).unwrap();
    symlink("real", base.join("by")).unwrap();
    symlink("../by/./git", root.join(".git")).unwrap();
    let rules = Rules::of(&workspace(vec![root.clone()]), None, &[]).unwrap();
    let rules = rules.unwrap();
    let links: Vec<&Path> = rules.links().collect();
    assert_eq!(links, [base.join("by"), root.join(".git")]);
    assert_eq!(rules.access(&base.join("real/git/config")), Access::Read);
    symlink("round", base.join("round")).unwrap();
    assert!(links_on(&base.join("round")).is_err());
}

#[test]
fn the_most_specific_rule_decides_and_of_equal_ones_the_strictest() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    fs::create_dir(base.join("in")).unwrap();
    let rule = |path: &Path, access| PathRule {
        path: path.to_owned(),
        access,
        missing: MissingPath::Refuse,
    };
    let policy = Sandbox::Custom {
        rules: vec![
            rule(&base, Access::Write),
            rule(&base.join("in/../in"), Access::Read),
            rule(&base.join("in"), Access::Deny),
            rule(&base.join("in"), Access::Write),
        ],
        network: false,
    };
    let policy = PathPolicy::new(&policy, None, &[]).unwrap();
    assert_eq!(access(&policy, base.join("in/x")), Access::Deny);
    assert_eq!(access(&policy, base.join("inside")), Access::Write);
    assert_eq!(access(&policy, "/"), Access::Deny);
    assert_eq!(policy.least_below(&base), Access::Deny);
    assert!(!policy.is_unrestricted());
}

#[test]
fn no_policy_about_files_allows_everything() {
    for policy in [
        Sandbox::DangerFullAccess,
        Sandbox::ExternalSandbox { network: false },
    ] {
        let policy = PathPolicy::new(&policy, None, &[]).unwrap();
        assert!(policy.is_unrestricted());
        assert_eq!(access(&policy, "/etc"), Access::Write);
        assert_eq!(policy.least_below(Path::new("/")), Access::Write);
    }
}

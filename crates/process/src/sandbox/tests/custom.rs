//! Rules of one's own: the most specific path decides.

use super::*;

fn rule(path: impl Into<PathBuf>, access: Access) -> PathRule {
    PathRule {
        path: path.into(),
        access,
        missing: MissingPath::Refuse,
    }
}

fn custom(rules: Vec<PathRule>) -> Sandbox {
    Sandbox::Custom {
        rules,
        network: false,
    }
}

#[test]
fn what_no_rule_covers_is_denied() {
    if !has(Need::Confinement) {
        return;
    }
    let place = Place::new();
    let mut rules: Vec<PathRule> = ["/usr", "/bin", "/lib", "/lib64", "/etc"]
        .map(|path| PathRule {
            missing: MissingPath::Skip,
            ..rule(path, Access::Read)
        })
        .into();
    rules.push(rule(place.root(), Access::Write));
    let command = format!(
        "echo x > made && cat made && ls /usr > /dev/null && cat {0}/file; ls {0}; ls /; cat file",
        place.outside().display()
    );
    let outcome = shell(&custom(rules), &command, &place.root());
    assert_eq!(
        outcome.said.matches("Permission denied").count(),
        3,
        "{}",
        outcome.said
    );
    assert!(outcome.said.starts_with("x\n") && outcome.said.ends_with("contents"));
}

#[test]
fn a_denied_directory_and_a_denied_file_have_nothing_to_show() {
    if !has(Need::Mounts) {
        return;
    }
    let place = Place::new();
    let (root, secrets) = (place.root(), place.root().join("secrets"));
    fs::create_dir(&secrets).unwrap();
    fs::write(secrets.join("key"), "hidden").unwrap();
    fs::write(root.join(".env"), "hidden").unwrap();
    for around in [Access::Read, Access::Write] {
        let rules = vec![
            everything(Access::Read),
            rule(&root, around),
            rule(&secrets, Access::Deny),
            rule(root.join(".env"), Access::Deny),
        ];
        let command = "cat secrets/key; cat .env; ls secrets; echo x > secrets/new; \
            echo x > .env; mv secrets s2; mv .env e2; rm -f .env; cat file";
        let outcome = shell(&custom(rules), command, &root);
        assert!(!outcome.said.contains("hidden"), "{}", outcome.said);
        assert!(outcome.said.ends_with("contents"), "{}", outcome.said);
        assert_eq!(fs::read(root.join(".env")).unwrap(), b"hidden");
        assert_eq!(fs::read(secrets.join("key")).unwrap(), b"hidden");
        assert_eq!(fs::read_dir(&secrets).unwrap().count(), 1);
    }
}

#[test]
fn the_usual_rules_of_a_workspace_are_enforced() {
    if !has(Need::Mounts) {
        return;
    }
    let place = Place::new();
    let skip = |path: PathBuf| PathRule {
        missing: MissingPath::Skip,
        ..rule(path, Access::Read)
    };
    let root = place.root();
    let policy = custom(vec![
        everything(Access::Read),
        rule(&root, Access::Write),
        rule("/tmp", Access::Write),
        skip(root.join(".git")),
        skip(root.join(".agents")),
        skip(root.join(".aws")),
    ]);
    let outcome = attempt(&place, "git", &policy);
    outcome.allows(&["read_config", "still_writable"]);
    outcome.expect(
        &["write", "create", "rename_away"],
        &[libc::EROFS, libc::EBUSY],
    );
    outcome.expect(&["rename_root", "rename_above_root"], &[libc::EBUSY]);
    assert!(place.is_untouched());
}

#[test]
fn everything_may_be_writable_but_one_directory() {
    if !has(Need::Mounts) {
        return;
    }
    let place = Place::new();
    let policy = custom(vec![
        everything(Access::Write),
        rule(place.root(), Access::Read),
    ]);
    let outcome = attempt(&place, "files", &policy);
    outcome.allows(&["create_outside", "write_outside"]);
    outcome.expect(&["create_in_root", "write_in_root"], &[libc::EROFS]);
    outcome.expect(&["char_device_in_root"], &[libc::EACCES, libc::EROFS]);
    let outcome = attempt(&place, "git", &policy);
    outcome.expect(&["rename_root", "rename_above_root"], &[libc::EBUSY]);
}

#[test]
fn a_writable_directory_in_a_protected_one_in_a_writable_one_is_writable() {
    if !has(Need::Mounts) {
        return;
    }
    let place = Place::new();
    let root = place.root();
    for around in [Access::Read, Access::Write] {
        let rules = vec![
            everything(around),
            rule(&root, Access::Write),
            rule(root.join(".git"), Access::Read),
            rule(root.join(".git/hooks"), Access::Write),
        ];
        let command = "echo x > .git/hooks/new; echo x > .git/new; echo x > new; rm .git/config; \
            mv .git/hooks .git/h; mv .git g; ls -A .git .git/hooks; rm .git/hooks/new";
        let outcome = shell(&custom(rules), command, &root);
        let listed = ".git:\nconfig\nhooks\n\n.git/hooks:\nnew\n";
        assert!(outcome.said.ends_with(listed), "{}", outcome.said);
        assert_eq!(outcome.code, Some(0));
        assert!(place.is_untouched() && root.join("new").exists());
    }
}

#[test]
fn what_cannot_be_expressed_is_refused_with_its_path() {
    if !has(Need::Mounts) {
        return;
    }
    let place = Place::new();
    let root = place.root();
    let seen = root.join(".git/hooks");
    let hidden = custom(vec![
        everything(Access::Read),
        rule(&root, Access::Deny),
        rule(&seen, Access::Read),
    ]);
    let devices = custom(vec![everything(Access::Read), rule("/dev", Access::Deny)]);
    for (policy, path) in [(hidden, seen.as_path()), (devices, Path::new("/dev"))] {
        let error = machine().confine(&policy, nowhere()).unwrap_err();
        assert_eq!(error.kind, SpawnErrorKind::SandboxRefused);
        assert_eq!(error.path.as_deref(), Some(path));
    }
}

#[test]
fn a_missing_path_is_skipped_or_refuses_the_policy() {
    let missing = rule("/nonexistent/path", Access::Read);
    let skipped = PathRule {
        missing: MissingPath::Skip,
        ..missing.clone()
    };
    let error = PathPolicy::new(&custom(vec![missing]), None, &[]).unwrap_err();
    assert_eq!(error.kind, SpawnErrorKind::SandboxRefused);
    assert_eq!(error.path.as_deref(), Some(Path::new("/nonexistent/path")));
    let policy = PathPolicy::new(&custom(vec![skipped]), None, &[]).unwrap();
    assert_eq!(policy.access(Path::new("/nonexistent/path")), Access::Deny);
}

//! Everything once more as an ordinary user.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// Set in the tests that run as an ordinary user already.
const MARK: &str = "TRY_AS_ORDINARY_USER";
/// `nobody` nearly everywhere; any user without files would do.
const USER: &str = "65534";

#[test]
fn all_of_this_holds_for_an_ordinary_user() {
    if std::env::var_os(MARK).is_some() {
        return;
    }
    if !is_root() {
        return skipped("the tests run as an ordinary user already");
    }
    // The program may lie where only root can read.
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let exe = dir.path().join("tests");
    fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
    // Built under a strict umask it is its builder's alone.
    fs::set_permissions(&exe, fs::Permissions::from_mode(0o755)).unwrap();
    let ids = [format!("--reuid={USER}"), format!("--regid={USER}")];
    let mut argv: Vec<OsString> = vec!["setpriv".into()];
    argv.extend(ids.map(OsString::from));
    argv.push("--clear-groups".into());
    argv.push(exe.into());
    argv.extend(["sandbox::tests::", "--nocapture"].map(OsString::from));
    let found = shell(
        &Sandbox::DangerFullAccess,
        "setpriv --version",
        Path::new("/"),
    );
    if found.code != Some(0) {
        return skipped("setpriv is not installed");
    }
    let env = [(MARK, "1".into()), ("HOME", "/nonexistent".into())];
    let outcome = run(&Sandbox::DangerFullAccess, argv, &env, Path::new("/"));
    for line in outcome.said.lines() {
        if let Some(why) = line.strip_prefix("SKIPPED: ") {
            skipped(&format!("as an ordinary user: {why}"));
        }
    }
    assert_eq!(outcome.code, Some(0), "{}", outcome.said);
    assert!(outcome.said.contains("test result: ok"), "{}", outcome.said);
}

//! Every row of Codex's `sandbox` object, and everything in it that must be refused.

use std::fs;

use serde_json::{Value, json};

use super::*;

/// As Codex 0.166 sent it in workspace-write.
fn workspace_write(root: &str) -> Value {
    let special = |value: Value, access: &str| json!({"path": {"type": "special", "value": value}, "access": access});
    let protected = |name: &str| {
        json!({"path": {"type": "special", "value": {"kind": "project_roots", "subpath": name}},
            "access": "read", "missing_path_behavior": "skip"})
    };
    json!({
        "permissions": {
            "type": "managed",
            "file_system": {"type": "restricted", "entries": [
                special(json!({"kind": "root"}), "read"),
                special(json!({"kind": "project_roots"}), "write"),
                special(json!({"kind": "slash_tmp"}), "write"),
                special(json!({"kind": "tmpdir"}), "write"),
                protected(".git"), protected(".agents"), protected(".codex"), protected(".aws"),
            ]},
            "network": "restricted",
        },
        "cwd": root,
        "policyContext": {"cwd": root, "workspaceRoots": [root]},
        "workspaceRoots": [root],
        "userHomeDir": "file:///root",
        "windowsSandboxLevel": "disabled",
        "windowsSandboxProxySettingsMode": "reconcile",
        "useLegacyLandlock": false,
    })
}

fn read(intent: Value) -> Result<Sandbox, IntentError> {
    let intent: SandboxIntent = serde_json::from_value(intent).unwrap();
    to_sandbox(
        Some(&intent),
        Path::new("/start"),
        Some(Path::new("/var/tmp")),
    )
}

fn entries(entries: &Value) -> Value {
    json!({"permissions": {
        "type": "managed",
        "file_system": {"type": "restricted", "entries": entries},
        "network": "enabled",
    }})
}

/// The rules of one entry.
fn rules(entry: &Value) -> Result<Vec<PathRule>, String> {
    match read(entries(&json!([entry]))) {
        Ok(Sandbox::Custom { rules, network }) => {
            assert!(network);
            Ok(rules)
        }
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.0),
    }
}

fn special(value: &Value) -> Result<Vec<PathRule>, String> {
    rules(&json!({"path": {"type": "special", "value": value}, "access": "read"}))
}

fn rule(path: &str, access: Access, missing: MissingPath) -> PathRule {
    PathRule {
        path: path.into(),
        access,
        missing,
    }
}

#[test]
fn the_usual_workspace_write_object_becomes_rules() {
    let root = "/w/my project";
    let skipped = |name: &str| rule(&format!("{root}/{name}"), Access::Read, MissingPath::Skip);
    assert_eq!(
        read(workspace_write("file:///w/my%20project")),
        Ok(Sandbox::Custom {
            rules: vec![
                rule("/", Access::Read, MissingPath::Refuse),
                rule(root, Access::Write, MissingPath::Refuse),
                rule("/tmp", Access::Write, MissingPath::Skip),
                rule("/var/tmp", Access::Write, MissingPath::Skip),
                skipped(".git"),
                skipped(".agents"),
                skipped(".codex"),
                skipped(".aws"),
            ],
            network: false,
        })
    );
}

#[test]
fn without_permissions_nothing_is_applied() {
    assert_eq!(
        to_sandbox(None, Path::new("/"), None),
        Ok(Sandbox::DangerFullAccess)
    );
    for intent in [
        json!({}),
        json!({"permissions": null, "useLegacyLandlock": true}),
        json!({"permissions": {"type": "disabled"}}),
        json!({"permissions": {"type": "managed", "file_system": {"type": "unrestricted"},
            "network": "enabled"}}),
    ] {
        assert_eq!(read(intent), Ok(Sandbox::DangerFullAccess));
    }
}

#[test]
fn the_network_alone_can_be_taken_away() {
    for (word, network) in [("restricted", false), ("enabled", true)] {
        assert_eq!(
            read(json!({"permissions": {"type": "external", "network": word}})),
            Ok(Sandbox::ExternalSandbox { network })
        );
    }
    assert_eq!(
        read(
            json!({"permissions": {"type": "managed", "file_system": {"type": "unrestricted"},
            "network": "restricted"}})
        ),
        Ok(Sandbox::ExternalSandbox { network: false })
    );
}

#[test]
fn every_access_has_its_word() {
    for (word, access) in [
        ("read", Access::Read),
        ("write", Access::Write),
        ("deny", Access::Deny),
        ("none", Access::Deny),
    ] {
        let entry = json!({"path": {"type": "path", "path": "file:///a%20b"}, "access": word});
        assert_eq!(
            rules(&entry),
            Ok(vec![rule("/a b", access, MissingPath::Refuse)])
        );
    }
}

#[test]
fn project_roots_are_the_roots_or_the_directory_of_the_policy_or_of_the_start() {
    let entry = json!([{"path": {"type": "special", "value": {"kind": "project_roots",
        "subpath": "x/y"}}, "access": "read", "missing_path_behavior": "skip"}]);
    let mut intent = entries(&entry);
    let paths = |intent: &Value| match read(intent.clone()) {
        Ok(Sandbox::Custom { rules, .. }) => rules
            .into_iter()
            .map(|rule| rule.path.to_str().unwrap().to_owned())
            .collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(paths(&intent), ["/start/x/y"]);
    intent["cwd"] = json!("file:///policy");
    assert_eq!(paths(&intent), ["/policy/x/y"]);
    intent["workspaceRoots"] = json!([]);
    assert_eq!(paths(&intent), ["/policy/x/y"]);
    intent["workspaceRoots"] = json!(["file:///a", "file:///b"]);
    assert_eq!(paths(&intent), ["/a/x/y", "/b/x/y"]);
    assert_eq!(
        special(&json!({"kind": "current_working_directory", "subpath": null})),
        Ok(vec![rule("/start", Access::Read, MissingPath::Refuse)])
    );
}

#[test]
fn minimal_is_what_programs_need_to_run() {
    let minimal = special(&json!({"kind": "minimal"})).unwrap();
    let paths: Vec<_> = minimal
        .iter()
        .map(|rule| rule.path.to_str().unwrap())
        .collect();
    assert_eq!(
        paths,
        [
            "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/dev", "/proc"
        ]
    );
    assert!(minimal.iter().all(|rule| rule.missing == MissingPath::Skip));
    let writable =
        json!({"path": {"type": "special", "value": {"kind": "minimal"}}, "access": "write"});
    assert_eq!(rules(&writable), Err("minimal cannot be writable".into()));
}

#[test]
fn a_process_without_tmpdir_gets_no_rule_for_it() {
    let intent = entries(
        &json!([{"path": {"type": "special", "value": {"kind": "tmpdir"}},
        "access": "write"}]),
    );
    let intent: SandboxIntent = serde_json::from_value(intent).unwrap();
    for tmpdir in [None, Some(Path::new("relative"))] {
        assert_eq!(
            to_sandbox(Some(&intent), Path::new("/"), tmpdir),
            Ok(Sandbox::Custom {
                rules: vec![],
                network: true
            })
        );
    }
}

#[test]
fn globs_deny_what_they_match_now() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join("a/b")).unwrap();
    for file in ["x.env", "a/y.env", "a/b/z.env"] {
        fs::write(home.path().join(file), "").unwrap();
    }
    let root = home.path().to_str().unwrap();
    let glob =
        |pattern: String, depth: Option<u64>| {
            let mut intent = entries(
                &json!([{"path": {"type": "glob_pattern", "pattern": pattern},
            "access": "none"}]),
            );
            intent["permissions"]["file_system"]["glob_scan_max_depth"] = json!(depth);
            intent["workspaceRoots"] = json!([format!("file://{root}")]);
            match read(intent).unwrap() {
                Sandbox::Custom { mut rules, .. } => {
                    assert!(rules.iter().all(
                        |rule| rule.access == Access::Deny && rule.missing == MissingPath::Skip
                    ));
                    rules.sort_by(|a, b| a.path.cmp(&b.path));
                    rules
                        .iter()
                        .map(|rule| {
                            rule.path
                                .strip_prefix(root)
                                .unwrap()
                                .to_str()
                                .unwrap()
                                .to_owned()
                        })
                        .collect::<Vec<_>>()
                }
                other => panic!("{other:?}"),
            }
        };
    let all = ["a/b/z.env", "a/y.env", "x.env"];
    assert_eq!(glob(format!("{root}/**/*.env"), None), all);
    assert_eq!(glob("**/*.env".into(), None), all);
    assert_eq!(glob("**/*.env".into(), Some(2)), ["a/y.env", "x.env"]);
}

#[test]
fn whatever_is_not_understood_is_refused() {
    let path = json!({"type": "path", "path": "file:///a"});
    for (entry, why) in [
        (
            json!({"path": path, "access": "append"}),
            "unknown variant `append`",
        ),
        (json!({"path": path}), "missing field `access`"),
        (
            json!({"path": path, "access": "read", "until": 1}),
            "unknown field `until`",
        ),
        (
            json!({"path": path, "access": "read", "missing_path_behavior": "create"}),
            "unknown variant `create`",
        ),
        (
            json!({"path": {"type": "path", "path": "file:///a", "case": 1}, "access": "read"}),
            "unknown field `case`",
        ),
        (
            json!({"path": {"type": "regex", "pattern": "a"}, "access": "deny"}),
            "unknown variant `regex`",
        ),
        (
            json!({"path": {"type": "special", "value": {"kind": "home"}}, "access": "read"}),
            "unknown variant `home`",
        ),
        (
            json!({"path": {"type": "special", "value": {"kind": "root", "subpath": "a"}}, "access": "read"}),
            "unknown field `subpath`",
        ),
        (
            json!({"path": {"type": "special", "value": {"kind": "project_roots", "subpath": "a/../../b"}}, "access": "write"}),
            "without `..`",
        ),
        (
            json!({"path": {"type": "special", "value": {"kind": "project_roots", "subpath": "/etc"}}, "access": "write"}),
            "must be relative",
        ),
        (
            json!({"path": {"type": "path", "path": "file:///a/../b"}, "access": "read"}),
            "`..`",
        ),
        (
            json!({"path": {"type": "path", "path": "http://a/b"}, "access": "read"}),
            "unsupported path URI scheme `http`",
        ),
        (
            json!({"path": {"type": "path", "path": "a/b"}, "access": "read"}),
            "relative URL without a base",
        ),
        (
            json!({"path": {"type": "glob_pattern", "pattern": "**/*.rs"}, "access": "read"}),
            "may only deny",
        ),
    ] {
        let refusal = rules(&entry).unwrap_err();
        assert!(refusal.contains(why), "{entry}: {refusal}");
    }
    for (permissions, why) in [
        (json!({"type": "managed"}), "missing field"),
        (
            json!({"type": "disabled", "network": "enabled"}),
            "unknown field `network`",
        ),
        (json!({"type": "external"}), "missing field `network`"),
        (
            json!({"type": "external", "network": "some"}),
            "unknown variant `some`",
        ),
        (json!({"type": "trusted"}), "unknown variant `trusted`"),
        (json!("disabled"), "expected"),
        (
            json!({"type": "managed", "network": "enabled", "extra": 1,
                "file_system": {"type": "unrestricted"}}),
            "unknown field `extra`",
        ),
        (
            json!({"type": "managed", "network": "enabled",
                "file_system": {"type": "unrestricted", "entries": []}}),
            "unknown field `entries`",
        ),
        (
            json!({"type": "managed", "network": "enabled",
                "file_system": {"type": "restricted", "entries": [], "audit": true}}),
            "unknown field `audit`",
        ),
    ] {
        let refusal = read(json!({"permissions": permissions})).unwrap_err().0;
        assert!(refusal.contains(why), "{permissions}: {refusal}");
    }
}

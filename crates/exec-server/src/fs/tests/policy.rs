//! What a policy allows, through every method.

use std::os::unix::fs::symlink;

use super::*;

const DENIED: &str = "Permission denied (os error 13)";

/// A `sandbox` object with these paths.
pub(super) fn policy(entries: &[(&Path, &str)]) -> Value {
    let entries: Vec<_> = entries
        .iter()
        .map(
            |(path, access)| json!({"path": {"type": "path", "path": uri(path)}, "access": access}),
        )
        .collect();
    json!({"permissions": {"type": "managed", "network": "restricted",
        "file_system": {"type": "restricted", "entries": entries}}})
}

/// A writable project with a read-only and a denied part, in a world that may be read but for one
/// part.
struct Project {
    desk: Desk,
    sandbox: Value,
}

impl Project {
    fn new() -> Self {
        let desk = Desk::new();
        for (name, content) in [
            ("w/a", "a"),
            ("w/sub/b", "b"),
            ("w/.git/config", "git"),
            ("w/sub/secret/key", "key"),
            ("w/other/kept/file", "kept"),
            ("open/file", "open"),
            ("closed/file", "closed"),
            ("shared/room/file", "ours"),
            ("shared/paper", "ours"),
        ] {
            desk.write(name, content);
        }
        let sandbox = policy(&[
            (Path::new("/"), "read"),
            (&desk.path("w"), "write"),
            (&desk.path("w/.git"), "read"),
            (&desk.path("w/other/kept"), "read"),
            (&desk.path("w/sub/secret"), "deny"),
            (&desk.path("closed"), "none"),
            (&desk.path("shared/room"), "write"),
            (&desk.path("shared/paper"), "write"),
        ]);
        Self { desk, sandbox }
    }

    async fn call(
        &self,
        method: &str,
        mut params: Value,
    ) -> std::result::Result<Value, (i64, String)> {
        params["sandbox"] = self.sandbox.clone();
        self.desk.call(method, params).await
    }

    async fn at(&self, method: &str, name: &str) -> std::result::Result<Value, (i64, String)> {
        self.call(
            method,
            json!({"path": self.desk.uri(name), "dataBase64": "bmV3"}),
        )
        .await
    }

    async fn copy(&self, from: &str, to: &str) -> std::result::Result<Value, (i64, String)> {
        let params = json!({"sourcePath": self.desk.uri(from), "destinationPath": self.desk.uri(to),
            "recursive": true});
        self.call("fs/copy", params).await
    }
}

fn denied() -> std::result::Result<Value, (i64, String)> {
    failed(-32600, DENIED)
}

#[tokio::test]
async fn what_the_policy_allows_is_done() {
    let project = Project::new();
    for (method, name) in [
        ("fs/readFile", "w/a"),
        ("fs/readFile", "w/.git/config"),
        ("fs/readFile", "open/file"),
        ("fs/getMetadata", "open"),
        ("fs/canonicalize", "w/sub/../a"),
        ("fs/writeFile", "w/a"),
        ("fs/writeFile", "w/new"),
        ("fs/createDirectory", "w/x/y/z"),
        ("fs/createDirectory", "open"),
        ("fs/remove", "w/x"),
        ("fs/remove", "w/new"),
        ("fs/readDirectory", "w"),
    ] {
        let done = project.at(method, name).await;
        assert!(done.is_ok(), "{method} {name}: {done:?}");
    }
    assert_eq!(project.desk.text("w/a"), "new");
    assert!(!project.desk.path("w/x").exists());
    project.copy("open", "w/copy").await.unwrap();
    assert_eq!(project.desk.text("w/copy/file"), "open");
    project.copy("open/file", "w/.gitignore").await.unwrap();
}

#[tokio::test]
async fn what_the_policy_forbids_is_denied_and_leaves_no_trace() {
    let project = Project::new();
    for (method, name) in [
        ("fs/writeFile", "open/file"),
        ("fs/writeFile", "open/new"),
        ("fs/writeFile", "w/.git/config"),
        ("fs/writeFile", "w/.git/new"),
        ("fs/createDirectory", "open/new/er"),
        ("fs/createDirectory", "w/.git/new"),
        ("fs/remove", "open/file"),
        ("fs/remove", "w/.git"),
        ("fs/remove", "w"),
        ("fs/readFile", "closed/file"),
        ("fs/getMetadata", "closed/file"),
        ("fs/getMetadata", "closed"),
        ("fs/canonicalize", "closed/file"),
        ("fs/readDirectory", "w/sub/secret"),
        ("fs/readFile", "w/sub/secret/key"),
        ("fs/writeFile", "w/sub/secret/key"),
        ("fs/remove", "w/sub/secret/key"),
    ] {
        assert_eq!(project.at(method, name).await, denied(), "{method} {name}");
    }
    let open = json!({"handleId": "h", "path": project.desk.uri("closed/file")});
    assert_eq!(project.call("fs/open", open).await, denied());
    assert_eq!(project.copy("closed/file", "w/stolen").await, denied());
    assert_eq!(project.copy("w/a", "open/given").await, denied());
    for name in ["open/new", "open/given", "w/stolen", "w/.git/new"] {
        assert!(!project.desk.path(name).exists(), "{name}");
    }
    assert_eq!(project.desk.text("w/.git/config"), "git");
    assert_eq!(project.desk.text("w/sub/secret/key"), "key");
}

#[tokio::test]
async fn a_forbidden_part_below_refuses_the_whole_tree_before_anything_changes() {
    let project = Project::new();
    // A read-only part, and a denied one.
    assert_eq!(project.at("fs/remove", "w/other").await, denied());
    assert_eq!(project.at("fs/remove", "w/sub").await, denied());
    assert_eq!(project.desk.text("w/other/kept/file"), "kept");
    assert_eq!(project.desk.text("w/sub/b"), "b");
    assert_eq!(project.copy("w/sub", "w/copy").await, denied());
    assert!(!project.desk.path("w/copy").exists());
    project.desk.write("w/from/kept/file", "over");
    assert_eq!(project.copy("w/from", "w/other").await, denied());
    assert_eq!(project.desk.text("w/other/kept/file"), "kept");
    // Read-only is good enough to copy from.
    project.copy("w/other", "w/copy").await.unwrap();
    assert_eq!(project.desk.text("w/copy/kept/file"), "kept");
}

#[tokio::test]
async fn a_name_is_only_made_or_removed_where_its_directory_may_be_written() {
    let project = Project::new();
    project.at("fs/writeFile", "shared/paper").await.unwrap();
    assert_eq!(project.desk.text("shared/paper"), "new");
    for name in ["shared/paper", "shared/room"] {
        assert_eq!(project.at("fs/remove", name).await, denied(), "{name}");
    }
    project.at("fs/remove", "shared/room/file").await.unwrap();
    project.desk.write("shared/paper", "again");
    assert_eq!(project.copy("shared/room", "shared/room2").await, denied());
}

#[tokio::test]
async fn links_are_judged_by_where_they_lead() {
    let project = Project::new();
    let desk = &project.desk;
    symlink("../open", desk.path("w/open")).unwrap();
    symlink("../closed/file", desk.path("w/closed")).unwrap();
    symlink("../open/made", desk.path("w/dangling-out")).unwrap();
    symlink("made", desk.path("w/dangling-in")).unwrap();
    symlink("../w/a", desk.path("open/to-a")).unwrap();
    symlink("../w/a", desk.path("closed/to-a")).unwrap();
    assert!(project.at("fs/readFile", "w/open/file").await.is_ok());
    for (method, name) in [
        ("fs/writeFile", "w/open/file"),
        ("fs/writeFile", "w/dangling-out"),
        ("fs/createDirectory", "w/open/x"),
        ("fs/remove", "w/open/file"),
        ("fs/readFile", "w/closed"),
        ("fs/getMetadata", "w/closed"),
        // The target is allowed, but not to know of it.
        ("fs/readFile", "closed/to-a"),
    ] {
        assert_eq!(project.at(method, name).await, denied(), "{method} {name}");
    }
    assert!(!desk.path("open/made").exists());
    project.at("fs/writeFile", "open/to-a").await.unwrap();
    assert_eq!(desk.text("w/a"), "new");
    project.at("fs/writeFile", "w/dangling-in").await.unwrap();
    assert_eq!(desk.text("w/made"), "new");
    let link = project.at("fs/getMetadata", "w/open").await.unwrap();
    assert_eq!(
        (&link["isSymlink"], &link["isDirectory"]),
        (&json!(true), &json!(true))
    );
    project.at("fs/remove", "w/open").await.unwrap();
    assert_eq!(desk.text("open/file"), "open");
}

#[tokio::test]
async fn nothing_is_told_about_what_exists_where_nothing_may_be_read() {
    let project = Project::new();
    for name in [
        "closed/none",
        "closed/none/deeper",
        "closed/file/x",
        "closed",
    ] {
        assert_eq!(project.at("fs/getMetadata", name).await, denied(), "{name}");
    }
    for name in ["open/none", "open/none/deeper"] {
        let missing = failed(-32004, NOT_FOUND_TEXT);
        assert_eq!(project.at("fs/getMetadata", name).await, missing, "{name}");
    }
}

#[tokio::test]
async fn a_listing_and_a_walk_stop_at_what_may_not_be_read() {
    let project = Project::new();
    symlink("../closed", project.desk.path("w/link")).unwrap();
    let listed = project.at("fs/readDirectory", "w").await.unwrap();
    let link = json!({"fileName": "link", "isDirectory": false, "isFile": false});
    assert!(listed["entries"].as_array().unwrap().contains(&link));
    let params = json!({"path": project.desk.uri("w/sub"), "options": {"maxDepth": 64,
        "maxDirectories": 10_000, "maxEntries": 50_000, "followDirectorySymlinks": true}});
    let walked = project.call("fs/walk", params).await.unwrap();
    assert_eq!(
        walked,
        json!({
            "entries": [{"path": project.desk.uri("w/sub/b"), "kind": "file"}],
            "errors": [{"path": project.desk.uri("w/sub/secret"), "message": DENIED}],
            "truncated": false,
        })
    );
}

#[tokio::test]
async fn what_no_rule_covers_is_denied() {
    let desk = Desk::new();
    desk.write("w/a", "a");
    desk.write("b", "b");
    let sandbox = policy(&[(&desk.path("w"), "read")]);
    let read = |name: &str| {
        desk.call(
            "fs/readFile",
            json!({"path": desk.uri(name), "sandbox": sandbox}),
        )
    };
    assert!(read("w/a").await.is_ok());
    assert_eq!(read("b").await, denied());
    assert_eq!(read("w/../b").await, denied());
}

#[tokio::test]
async fn the_servers_own_secrets_in_proc_are_not_told() {
    let project = Project::new();
    for path in [
        "self/environ",
        "thread-self/status",
        "self/root/etc/hosts",
        "self/fd/0",
        "1/status",
    ] {
        let read = json!({"path": format!("file:///proc/{path}")});
        assert_eq!(project.call("fs/readFile", read).await, denied(), "{path}");
    }
    let read = json!({"path": "file:///proc/meminfo"});
    assert!(project.call("fs/readFile", read).await.is_ok());
}

#[tokio::test]
async fn a_policy_that_is_not_understood_refuses_the_call() {
    let desk = Desk::new();
    desk.write("a", "a");
    let mut sandbox = policy(&[(Path::new("/"), "write")]);
    sandbox["permissions"]["audit"] = json!(true);
    let read = |sandbox: Value| {
        desk.call(
            "fs/readFile",
            json!({"path": desk.uri("a"), "sandbox": sandbox}),
        )
    };
    let (code, text) = read(sandbox).await.unwrap_err();
    assert_eq!(code, -32602);
    assert!(
        text.starts_with(
            "sandbox intent cannot be enforced on this executor: unknown field `audit`"
        ),
        "{text}"
    );
    let (code, text) = read(policy(&[(&desk.path("none"), "write")]))
        .await
        .unwrap_err();
    assert_eq!(code, -32602);
    assert!(text.contains(desk.path("none").to_str().unwrap()), "{text}");
    for permissions in [
        json!(null),
        json!({"type": "disabled"}),
        json!({"type": "external", "network": "restricted"}),
    ] {
        assert!(read(json!({"permissions": permissions})).await.is_ok());
    }
}

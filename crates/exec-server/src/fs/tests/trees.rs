//! Directories: made, listed, walked, copied and removed.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

#[tokio::test]
async fn directories_are_made_with_parents_or_alone() {
    let desk = Desk::new();
    let make = |name: &str, recursive: Value| {
        desk.call(
            "fs/createDirectory",
            json!({"path": desk.uri(name), "recursive": recursive}),
        )
    };
    let exists = failed(-32603, "File exists (os error 17)");
    assert_eq!(
        make("a/b/c", json!(false)).await,
        failed(-32004, NOT_FOUND_TEXT)
    );
    make("a/b/c", Value::Null).await.unwrap();
    make("a/b/c", json!(true)).await.unwrap();
    assert_eq!(make("a/b/c", json!(false)).await, exists);
    make("a/b/d", json!(false)).await.unwrap();
    desk.write("file", "");
    assert_eq!(make("file", json!(true)).await, exists);
    assert_eq!(
        make("file/x", json!(true)).await,
        failed(-32603, "Not a directory (os error 20)")
    );
    symlink("a", desk.path("link")).unwrap();
    make("link/b/e", json!(true)).await.unwrap();
    assert!(desk.path("a/b/e").is_dir());
    assert_eq!(make("link", json!(false)).await, exists);
    make("link", json!(true)).await.unwrap();
    let strict = json!({"path": desk.uri("link"), "followSymlinks": false});
    assert_eq!(desk.call("fs/createDirectory", strict).await, exists);
}

#[tokio::test]
async fn removal_is_recursive_and_forgiving_unless_told_otherwise() {
    let desk = Desk::new();
    let remove = |name: &str, options: Value| {
        let mut params = json!({"path": desk.uri(name)});
        for (key, value) in options.as_object().unwrap() {
            params[key] = value.clone();
        }
        desk.call("fs/remove", params)
    };
    desk.write("t/a/b/c", "");
    desk.write("t/a/d", "");
    desk.write("outside/kept", "kept");
    symlink("../../outside", desk.path("t/a/link")).unwrap();
    assert_eq!(
        remove("t", json!({"recursive": false})).await,
        failed(-32603, "Directory not empty (os error 39)")
    );
    remove("t", json!({})).await.unwrap();
    assert!(!desk.path("t").exists());
    assert_eq!(desk.text("outside/kept"), "kept");
    remove("t", json!({})).await.unwrap();
    remove("t/deeper", json!({})).await.unwrap();
    assert_eq!(
        remove("t", json!({"force": false})).await,
        failed(-32004, NOT_FOUND_TEXT)
    );
    remove("outside/kept", json!({"recursive": false, "force": false}))
        .await
        .unwrap();
    remove("outside", json!({"recursive": false}))
        .await
        .unwrap();
    let root = desk.call("fs/remove", json!({"path": "file:///"})).await;
    assert_eq!(root, failed(-32600, "Invalid argument (os error 22)"));
}

#[tokio::test]
async fn a_wide_and_a_deep_tree_are_removed_and_one_too_deep_is_refused() {
    let desk = Desk::new();
    for name in 0..3000 {
        desk.write(&format!("wide/{name}"), "");
    }
    fs::create_dir_all(desk.path(&format!("wide/{}", "d/".repeat(200)))).unwrap();
    desk.call("fs/remove", json!({"path": desk.uri("wide")}))
        .await
        .unwrap();
    assert!(!desk.path("wide").exists());
    fs::create_dir_all(desk.path(&format!("deep/{}", "d/".repeat(300)))).unwrap();
    let deep = failed(-32603, "directory tree is deeper than 256 levels");
    assert_eq!(
        desk.call("fs/remove", json!({"path": desk.uri("deep")}))
            .await,
        deep
    );
    let copy = json!({"sourcePath": desk.uri("deep"), "destinationPath": desk.uri("copy"),
        "recursive": true});
    assert_eq!(desk.call("fs/copy", copy).await, deep);
}

#[tokio::test]
async fn a_tree_is_copied_with_its_links_and_modes_and_never_into_itself() {
    let desk = Desk::new();
    desk.write("from/a", "a");
    desk.write("from/sub/b", "b");
    desk.write("to/old", "old");
    fs::set_permissions(desk.path("from/a"), fs::Permissions::from_mode(0o4755)).unwrap();
    symlink("a", desk.path("from/link")).unwrap();
    let copy = |from: &str, to: &str, recursive: bool| {
        desk.call(
            "fs/copy",
            json!({"sourcePath": desk.uri(from), "destinationPath": desk.uri(to),
            "recursive": recursive}),
        )
    };
    assert_eq!(
        copy("from", "to", false).await,
        failed(
            -32600,
            "fs/copy requires recursive: true when sourcePath is a directory"
        )
    );
    copy("from", "to", true).await.unwrap();
    assert_eq!(
        (desk.text("to/a"), desk.text("to/sub/b")),
        ("a".into(), "b".into())
    );
    assert_eq!(desk.text("to/old"), "old");
    assert_eq!(fs::read_link(desk.path("to/link")).unwrap(), Path::new("a"));
    let mode = fs::metadata(desk.path("to/a"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o755);
    let itself = failed(
        -32600,
        "fs/copy cannot copy a directory to itself or one of its descendants",
    );
    symlink("from", desk.path("alias")).unwrap();
    for target in ["from", "from/sub/deeper", "alias/sub/new"] {
        assert_eq!(copy("from", target, true).await, itself, "{target}");
    }
    assert!(!desk.path("from/sub/deeper").exists());
    assert_eq!(
        copy("from/a", "from/link", false).await,
        failed(-32600, "fs/copy cannot copy a file to itself")
    );
    assert_eq!(desk.text("from/a"), "a");
    copy("from/link", "linked", false).await.unwrap();
    assert_eq!(fs::read_link(desk.path("linked")).unwrap(), Path::new("a"));
    assert_eq!(
        copy("from/link", "linked", false).await,
        failed(-32603, "File exists (os error 17)")
    );
    assert_eq!(
        copy("none", "x", true).await,
        failed(-32004, NOT_FOUND_TEXT)
    );
    // A link below the destination is not written through.
    desk.write("outside", "outside");
    desk.write("more/f", "new");
    fs::create_dir(desk.path("trap")).unwrap();
    symlink("../outside", desk.path("trap/f")).unwrap();
    assert!(copy("more", "trap", true).await.is_err());
    assert_eq!(desk.text("outside"), "outside");
}

#[tokio::test]
async fn names_are_listed_with_what_links_lead_to() {
    let desk = Desk::new();
    desk.write("d/file", "");
    fs::create_dir(desk.path("d/dir")).unwrap();
    symlink("dir", desk.path("d/to-dir")).unwrap();
    symlink("file", desk.path("d/to-file")).unwrap();
    symlink("none", desk.path("d/to-none")).unwrap();
    let answer = desk
        .call("fs/readDirectory", json!({"path": desk.uri("d")}))
        .await
        .unwrap();
    let mut kinds: Vec<_> = answer["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let is = |key: &str| entry[key].as_bool().unwrap();
            (
                entry["fileName"].as_str().unwrap(),
                is("isDirectory"),
                is("isFile"),
            )
        })
        .collect();
    kinds.sort_unstable();
    assert_eq!(
        kinds,
        [
            ("dir", true, false),
            ("file", false, true),
            ("to-dir", true, false),
            ("to-file", false, true),
            ("to-none", false, false),
        ]
    );
    assert_eq!(
        desk.call("fs/readDirectory", json!({"path": desk.uri("d/file")}))
            .await,
        failed(-32603, "Not a directory (os error 20)")
    );
}

#[test]
fn a_directory_above_the_limit_is_refused() {
    let desk = Desk::new();
    for name in ["a", "b", "c"] {
        desk.write(&format!("d/{name}"), "");
    }
    let listed = |entries_max| {
        let guard = guard::Guard::unrestricted();
        directory::listing(&guard, &desk.path("d"), entries_max).map_err(ErrorObject::from)
    };
    assert_eq!(listed(3).unwrap().entries.len(), 3);
    let refused = listed(2).unwrap_err();
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (-32603, "directory has more than 2 entries")
    );
}

fn walk_options() -> Value {
    json!({"maxDepth": 64, "maxDirectories": 10_000, "maxEntries": 50_000,
        "followDirectorySymlinks": false})
}

impl Desk {
    /// Paths below the root, directories with a slash, and whether the walk was cut.
    async fn walk(&self, change: Value) -> (Vec<String>, bool) {
        let mut options = walk_options();
        for (key, value) in change.as_object().unwrap() {
            options[key] = value.clone();
        }
        let params = json!({"path": self.uri("w"), "options": options});
        let answer = self.call("fs/walk", params).await.unwrap();
        assert_eq!(answer["errors"], json!([]));
        let root = format!("{}/", self.uri("w"));
        let paths = answer["entries"].as_array().unwrap().iter().map(|entry| {
            let path = entry["path"].as_str().unwrap().strip_prefix(&root).unwrap();
            match entry["kind"].as_str().unwrap() {
                "directory" => format!("{path}/"),
                _ => path.to_owned(),
            }
        });
        (paths.collect(), answer["truncated"].as_bool().unwrap())
    }
}

#[tokio::test]
async fn a_walk_goes_level_by_level_within_its_limits() {
    let desk = Desk::new();
    desk.write("w/b.txt", "");
    desk.write("w/a/c.txt", "");
    desk.write("w/a/deep/d.txt", "");
    desk.write("w/.git/config", "");
    symlink("..", desk.path("w/a/up")).unwrap();
    symlink("b.txt", desk.path("w/link")).unwrap();
    let all = [
        ".git/",
        "a/",
        "b.txt",
        ".git/config",
        "a/c.txt",
        "a/deep/",
        "a/deep/d.txt",
    ];
    let walked = |paths: &[&str], cut| {
        (
            paths.iter().map(ToString::to_string).collect::<Vec<_>>(),
            cut,
        )
    };
    assert_eq!(desk.walk(json!({})).await, walked(&all, false));
    assert_eq!(
        desk.walk(json!({"maxDepth": 0})).await,
        walked(&all[..3], false)
    );
    assert_eq!(
        desk.walk(json!({"maxDepth": 1})).await,
        walked(&all[..6], false)
    );
    assert_eq!(
        desk.walk(json!({"maxEntries": 2})).await,
        walked(&all[..2], true)
    );
    assert_eq!(
        desk.walk(json!({"maxDirectories": 1})).await,
        walked(&all[..3], true)
    );
    let pruned = [".git/", "a/", "b.txt", "a/c.txt", "a/deep/", "a/deep/d.txt"];
    assert_eq!(
        desk.walk(json!({"pruneHiddenDirectories": true})).await,
        walked(&pruned, false)
    );
    let followed = [
        ".git/",
        "a/",
        "b.txt",
        ".git/config",
        "a/c.txt",
        "a/deep/",
        "a/up/",
        "a/deep/d.txt",
    ];
    assert_eq!(
        desk.walk(json!({"followDirectorySymlinks": true})).await,
        walked(&followed, false)
    );
}

#[tokio::test]
async fn a_walk_from_no_directory_finds_nothing_and_bad_limits_are_refused() {
    let desk = Desk::new();
    desk.write("file", "");
    symlink(".", desk.path("link")).unwrap();
    let nothing = Ok(json!({"entries": [], "errors": [], "truncated": false}));
    for name in ["file", "link"] {
        let params = json!({"path": desk.uri(name), "options": walk_options()});
        assert_eq!(desk.call("fs/walk", params).await, nothing);
    }
    let missing = json!({"path": desk.uri("none"), "options": walk_options()});
    assert_eq!(
        desk.call("fs/walk", missing).await,
        failed(-32004, NOT_FOUND_TEXT)
    );
    for (key, value) in [
        ("maxDepth", 65),
        ("maxDirectories", 0),
        ("maxDirectories", 10_001),
        ("maxEntries", 0),
        ("maxEntries", 50_001),
    ] {
        let mut options = walk_options();
        options[key] = json!(value);
        let params = json!({"path": desk.uri(""), "options": options});
        assert_eq!(
            desk.call("fs/walk", params).await.unwrap_err().0,
            -32600,
            "{key}"
        );
    }
}

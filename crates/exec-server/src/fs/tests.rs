//! Every method through its one entry, with the codes and texts of the wire.

mod policy;
mod race;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

const NOT_FOUND_TEXT: &str = "No such file or directory (os error 2)";

/// A connection and a directory of its own.
struct Desk {
    files: Files,
    home: TempDir,
    /// Without links.
    root: PathBuf,
}

impl Desk {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        Self {
            files: Files::default(),
            home,
            root,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn uri(&self, name: &str) -> String {
        uri(&self.path(name))
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    async fn call(&self, method: &str, params: Value) -> std::result::Result<Value, (i64, String)> {
        let raw = serde_json::value::to_raw_value(&params).unwrap();
        match self.files.call(method, Some(raw)).await {
            Ok(answer) => Ok(serde_json::from_str(answer.get()).unwrap()),
            Err(error) => {
                assert_eq!(error.data, None, "{error}");
                Err((error.code, error.message))
            }
        }
    }

    async fn read(&self, name: &str) -> std::result::Result<String, (i64, String)> {
        let answer = self
            .call("fs/readFile", json!({"path": self.uri(name)}))
            .await?;
        let bytes = STANDARD
            .decode(answer["dataBase64"].as_str().unwrap())
            .unwrap();
        Ok(String::from_utf8(bytes).unwrap())
    }
}

fn uri(path: &Path) -> String {
    file_uri::from_path(path)
}

fn failed(code: i64, message: &str) -> std::result::Result<Value, (i64, String)> {
    Err((code, message.to_owned()))
}

#[tokio::test]
async fn a_session_of_codex_is_answered_as_codex_answers() {
    let desk = Desk::new();
    let at = |name| desk.uri(name);
    let empty = Ok(json!({}));
    let write = json!({"path": at("a.txt"), "dataBase64": "YWJj", "sandbox": null});
    assert_eq!(desk.call("fs/writeFile", write).await, empty);
    let read = json!({"path": at("a.txt"), "sandbox": null});
    assert_eq!(
        desk.call("fs/readFile", read.clone()).await,
        Ok(json!({"dataBase64": "YWJj"}))
    );
    let missing = json!({"path": at("missing"), "sandbox": null});
    assert_eq!(
        desk.call("fs/readFile", missing.clone()).await,
        failed(-32004, NOT_FOUND_TEXT)
    );
    assert_eq!(
        desk.call("fs/getMetadata", missing).await,
        failed(-32004, NOT_FOUND_TEXT)
    );
    let plain = json!({"path": desk.path("a.txt"), "sandbox": null});
    assert_eq!(
        desk.call("fs/readFile", plain).await,
        failed(-32602, "invalid URI: relative URL without a base")
    );
    let make = json!({"path": at("d/e"), "recursive": true, "sandbox": null});
    assert_eq!(desk.call("fs/createDirectory", make).await, empty);
    let mut metadata = desk.call("fs/getMetadata", read).await.unwrap();
    assert!(metadata["createdAtMs"].take().is_i64());
    assert!(metadata["modifiedAtMs"].take().as_i64().unwrap() > 1_600_000_000_000);
    assert_eq!(
        metadata,
        json!({"isDirectory": false, "isFile": true, "isSymlink": false, "size": 3,
            "createdAtMs": null, "modifiedAtMs": null})
    );
    let around = json!({"path": at("d/../a.txt"), "sandbox": null});
    assert_eq!(
        desk.call("fs/canonicalize", around).await,
        Ok(json!({"path": at("a.txt")}))
    );
    let copy = json!({"sourcePath": at("a.txt"), "destinationPath": at("b.txt"), "recursive": false,
        "sandbox": null});
    assert_eq!(desk.call("fs/copy", copy).await, empty);
    let mut listed = desk
        .call("fs/readDirectory", json!({"path": at(""), "sandbox": null}))
        .await
        .unwrap();
    let entries = listed["entries"].as_array_mut().unwrap();
    entries.sort_by_key(|entry| entry["fileName"].to_string());
    assert_eq!(
        listed,
        json!({"entries": [
            {"fileName": "a.txt", "isDirectory": false, "isFile": true},
            {"fileName": "b.txt", "isDirectory": false, "isFile": true},
            {"fileName": "d", "isDirectory": true, "isFile": false}]})
    );
    let walk = json!({"path": at(""), "options": {}, "sandbox": null});
    assert_eq!(
        desk.call("fs/walk", walk).await,
        failed(-32602, "missing field `maxDepth`")
    );
    let open = json!({"handleId": "h1", "path": at("a.txt"), "sandbox": null});
    assert_eq!(
        desk.call("fs/open", open).await,
        Ok(json!({"handleId": "h1"}))
    );
    let block = json!({"handleId": "h1", "offset": 1, "len": 10});
    assert_eq!(
        desk.call("fs/readBlock", block).await,
        Ok(json!({"chunk": "YmM=", "eof": true}))
    );
    assert_eq!(
        desk.call("fs/close", json!({"handleId": "h1"})).await,
        empty
    );
    let remove = json!({"path": at("d"), "recursive": true, "force": true, "sandbox": null});
    assert_eq!(desk.call("fs/remove", remove).await, empty);
    assert!(!desk.path("d").exists());
}

#[tokio::test]
async fn only_its_own_methods_are_answered() {
    for method in METHODS.map(|(name, _)| name) {
        assert!(Files::knows(method));
    }
    assert!(!Files::knows("fs/watchMissing"));
    assert!(!Files::knows("process/start"));
    let desk = Desk::new();
    assert!(desk.files.call("fs/none", None).await.is_err());
    let error = desk.files.call("fs/readFile", None).await.unwrap_err();
    assert_eq!(error.code, -32602, "{error}");
}

#[tokio::test]
async fn paths_that_are_no_local_uris_are_refused() {
    let desk = Desk::new();
    for (uri, text) in [
        ("http://h/a", "unsupported path URI scheme `http`"),
        (
            "file://host/a",
            "invalid URI: the host must be empty or localhost",
        ),
        (
            "file:///a?b",
            "invalid URI: query and fragment are not allowed",
        ),
    ] {
        let refused = desk.call("fs/readFile", json!({"path": uri})).await;
        assert_eq!(refused, failed(-32602, text));
    }
}

#[tokio::test]
async fn a_write_keeps_the_mode_and_bad_base64_the_content() {
    let desk = Desk::new();
    desk.write("a", "a long text");
    fs::set_permissions(desk.path("a"), fs::Permissions::from_mode(0o751)).unwrap();
    let write = |data: &str| json!({"path": desk.uri("a"), "dataBase64": data});
    let (code, text) = desk.call("fs/writeFile", write("a")).await.unwrap_err();
    assert_eq!(code, -32600);
    assert!(
        text.starts_with("fs/writeFile requires valid base64 dataBase64: "),
        "{text}"
    );
    assert_eq!(desk.text("a"), "a long text");
    desk.call("fs/writeFile", write("aGk=")).await.unwrap();
    assert_eq!(desk.text("a"), "hi");
    let mode = fs::metadata(desk.path("a")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o751);
    let nowhere = json!({"path": desk.uri("no/such/a"), "dataBase64": ""});
    assert_eq!(
        desk.call("fs/writeFile", nowhere).await,
        failed(-32004, NOT_FOUND_TEXT)
    );
    let directory = json!({"path": desk.uri(""), "dataBase64": ""});
    assert_eq!(
        desk.call("fs/writeFile", directory).await,
        failed(-32603, "Is a directory (os error 21)")
    );
}

#[tokio::test]
async fn special_files_are_described_and_never_opened() {
    let desk = Desk::new();
    let fifo = desk.path("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    let socket = desk.path("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for (path, what) in [
        (fifo.as_path(), "a fifo is never opened"),
        (&socket, "a socket is never opened"),
        (Path::new("/dev/null"), "a device is never opened"),
    ] {
        let refused = failed(-32600, what);
        let read = json!({"path": uri(path)});
        assert_eq!(desk.call("fs/readFile", read.clone()).await, refused);
        let open = json!({"handleId": "h", "path": uri(path)});
        assert_eq!(desk.call("fs/open", open).await, refused);
        let write = json!({"path": uri(path), "dataBase64": "aGk="});
        assert_eq!(desk.call("fs/writeFile", write).await, refused);
        let copy = json!({"sourcePath": uri(path), "destinationPath": desk.uri("c"),
            "recursive": false});
        assert_eq!(desk.call("fs/copy", copy).await, refused);
        let metadata = desk.call("fs/getMetadata", read).await.unwrap();
        assert_eq!(
            (&metadata["isFile"], &metadata["isDirectory"]),
            (&json!(false), &json!(false))
        );
    }
}

#[tokio::test]
async fn a_link_is_followed_unless_the_caller_forbids_it() {
    let desk = Desk::new();
    desk.write("real/file", "content");
    symlink("real", desk.path("dir")).unwrap();
    symlink("real/file", desk.path("last")).unwrap();
    symlink("real/new", desk.path("dangling")).unwrap();
    let asked = |name: &str, follow: bool| {
        json!({"path": desk.uri(name), "followSymlinks": follow,
        "dataBase64": "bmV3"})
    };
    let kind = |answer: Value| {
        ["isDirectory", "isFile", "isSymlink"].map(|key| answer[key].as_bool().unwrap())
    };
    let loops = failed(-32603, "Too many levels of symbolic links (os error 40)");
    let metadata = |name, follow| desk.call("fs/getMetadata", asked(name, follow));
    assert_eq!(
        kind(metadata("last", true).await.unwrap()),
        [false, true, true]
    );
    assert_eq!(
        kind(metadata("dir", true).await.unwrap()),
        [true, false, true]
    );
    assert_eq!(
        kind(metadata("last", false).await.unwrap()),
        [false, false, true]
    );
    assert_eq!(metadata("dir/file", false).await, loops);
    assert_eq!(
        metadata("dangling", true).await,
        failed(-32004, NOT_FOUND_TEXT)
    );
    for name in ["last", "dir/file"] {
        assert_eq!(desk.call("fs/readFile", asked(name, false)).await, loops);
        assert_eq!(desk.call("fs/writeFile", asked(name, false)).await, loops);
        assert_eq!(desk.read(name).await.unwrap(), "content");
    }
    assert_eq!(
        desk.call("fs/createDirectory", asked("dir/x", false)).await,
        loops
    );
    assert_eq!(
        desk.call("fs/remove", asked("dir/file", false)).await,
        loops
    );
    desk.call("fs/writeFile", asked("dangling", true))
        .await
        .unwrap();
    assert_eq!(desk.text("real/new"), "new");
    desk.call("fs/remove", asked("last", false)).await.unwrap();
    desk.call("fs/remove", asked("dir", true)).await.unwrap();
    assert!(desk.path("dir").symlink_metadata().is_err());
    assert_eq!(desk.text("real/file"), "content");
}

#[tokio::test]
async fn a_file_above_the_limit_is_refused_and_one_at_it_is_read() {
    let desk = Desk::new();
    let big = fs::File::create(desk.path("big")).unwrap();
    big.set_len(32 * 1024 * 1024).unwrap();
    let asked = json!({"path": desk.uri("big")});
    let raw = serde_json::value::to_raw_value(&asked).unwrap();
    let answer = desk.files.call("fs/readFile", Some(raw)).await.unwrap();
    let frame = r#"{"dataBase64":""}"#.len();
    assert_eq!(
        answer.get().len(),
        frame + (32 * 1024 * 1024_usize).div_ceil(3) * 4
    );
    big.set_len(32 * 1024 * 1024 + 1).unwrap();
    assert_eq!(
        desk.call("fs/readFile", asked).await,
        failed(-32600, "file too large for fs/readFile")
    );
}

#[tokio::test]
async fn content_of_every_length_comes_back() {
    let desk = Desk::new();
    let edge = 3 * 64 * 1024;
    for len in [0, 1, 2, 3, edge - 1, edge, edge + 1, 2 * edge] {
        let content: String = ('a'..='z').cycle().take(len).collect();
        desk.write("f", &content);
        assert_eq!(desk.read("f").await.unwrap(), content);
    }
    // Its size is told as 0.
    let uptime = desk
        .call("fs/readFile", json!({"path": "file:///proc/uptime"}))
        .await;
    assert_ne!(uptime.unwrap()["dataBase64"], "");
}

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

#[tokio::test]
async fn a_directory_above_the_limit_is_refused() {
    let desk = Desk::new();
    fs::create_dir(desk.path("d")).unwrap();
    for number in 0..=directory::ENTRIES_MAX {
        // Links are the cheapest names.
        symlink("x", desk.path(&format!("d/{number}"))).unwrap();
    }
    assert_eq!(
        desk.call("fs/readDirectory", json!({"path": desk.uri("d")}))
            .await,
        failed(-32603, "directory has more than 50000 entries")
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

#[tokio::test]
async fn handles_are_bounded_named_once_and_closed_with_the_connection() {
    let desk = Desk::new();
    desk.write("f", "0123456789");
    let open = |id: String| desk.call("fs/open", json!({"handleId": id, "path": desk.uri("f")}));
    let block = |id: &str, offset: u64, len: u64| {
        desk.call(
            "fs/readBlock",
            json!({"handleId": id, "offset": offset, "len": len}),
        )
    };
    let long = "i".repeat(33);
    let too_long = failed(-32600, "file read handle ID must not exceed 32 bytes");
    assert_eq!(open(long.clone()).await, too_long);
    assert_eq!(block(&long, 0, 1).await, too_long);
    assert_eq!(
        desk.call("fs/close", json!({"handleId": long})).await,
        too_long
    );
    for number in 0..128 {
        open(format!("h{number}")).await.unwrap();
    }
    assert_eq!(
        open("one more".into()).await,
        failed(-32600, "at most 128 file reads may be open per connection")
    );
    assert_eq!(
        open("h0".into()).await,
        failed(-32600, "file read handle `h0` is already open")
    );
    // The handle is the file, whatever becomes of its name.
    fs::remove_file(desk.path("f")).unwrap();
    let chunk = |text: &str, eof: bool| Ok(json!({"chunk": STANDARD.encode(text), "eof": eof}));
    assert_eq!(block("h0", 0, 4).await, chunk("0123", false));
    assert_eq!(block("h0", 8, 4).await, chunk("89", true));
    assert_eq!(block("h0", 10, 4).await, chunk("", true));
    assert_eq!(block("h0", 0, 10).await, chunk("0123456789", false));
    assert!(
        block("h0", u64::MAX, 4)
            .await
            .is_err_and(|(code, _)| code == -32600)
    );
    let lengths = failed(
        -32600,
        "file read block length must be between 1 and 1048576",
    );
    assert_eq!(block("h0", 0, 0).await, lengths);
    assert_eq!(block("h0", 0, 1_048_577).await, lengths);
    assert_eq!(
        block("none", 0, 1).await,
        failed(-32004, "unknown file read handle `none`")
    );
    for _ in 0..2 {
        desk.call("fs/close", json!({"handleId": "h0"}))
            .await
            .unwrap();
    }
    let handles = Arc::downgrade(&desk.files.handles);
    drop(desk.files);
    assert!(handles.upgrade().is_none());
    drop(desk.home);
}

#[tokio::test]
async fn thousands_of_calls_at_once_are_all_answered() {
    let desk = Desk::new();
    desk.write("f", "x");
    let calls = (0..4096).map(|_| desk.read("f"));
    let answers = futures_of(calls).await;
    assert_eq!(answers.len(), 4096);
    assert!(answers.iter().all(|answer| answer.as_deref() == Ok("x")));
}

/// Runs all of them at once.
async fn futures_of<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut all = true;
        for (future, output) in &mut waiting {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(ready) => *output = Some(ready),
                    std::task::Poll::Pending => all = false,
                }
            }
        }
        if all {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    waiting
        .into_iter()
        .filter_map(|(_, output)| output)
        .collect()
}

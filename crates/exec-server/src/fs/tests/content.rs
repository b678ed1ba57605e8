//! Files: what is read, written and held open.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

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

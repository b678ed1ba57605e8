//! Every method through its one entry, with the codes and texts of the wire.

mod content;
mod policy;
mod race;
mod trees;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

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
            files: Files::new(&[]),
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

#[test]
fn thousands_of_calls_at_once_are_answered_by_a_few_threads() {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .on_thread_start(|| {
            STARTED.fetch_add(1, Ordering::Relaxed);
        })
        .build()
        .unwrap();
    let desk = Desk::new();
    desk.write("f", "x");
    let answers = runtime.block_on(futures_of((0..4096).map(|_| desk.read("f"))));
    assert_eq!(answers.len(), 4096);
    assert!(answers.iter().all(|answer| answer.as_deref() == Ok("x")));
    // A thread that has answered may not be back when the next call asks for one; without a bound
    // there would be 512.
    let started = STARTED.load(Ordering::Relaxed);
    assert!(started <= 8 * CALLS_MAX, "{started} threads");
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

//! `turnlane app-server generate-json-schema`.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use serde_json::Value;

use super::{run, shown, turnlane};

fn read(folder: &Path) -> Vec<(String, String)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn the_same_files_are_written_each_time() {
    let home = tempfile::tempdir().unwrap();
    let folders = ["a", "b/c"].map(|name| home.path().join(name));
    for folder in &folders {
        let spec = turnlane(&[
            "app-server",
            "generate-json-schema",
            "--experimental",
            "--out",
        ]);
        let output = run(spec.args([folder])).await;
        assert!(output.status.success(), "{}", output.stderr_tail);
        let said = String::from_utf8(output.stdout).unwrap();
        let count = fs::read_dir(folder).unwrap().count();
        assert_eq!(
            said,
            format!("wrote {count} files to {}\n", folder.display())
        );
    }
    let [first, second] = folders.map(|folder| read(&folder));
    assert_eq!(first, second);
    let bundle = first
        .iter()
        .find(|(name, _)| name == "turnlane_app_server_protocol.schemas.json");
    let bundle: Value = serde_json::from_str(&bundle.expect("the bundle").1).unwrap();
    for name in ["Thread", "Turn", "ThreadItem", "TurnStartParams"] {
        assert!(bundle["definitions"][name].is_object(), "{name}");
    }
    for (name, text) in &first {
        let document: Value = serde_json::from_str(text).unwrap();
        assert!(document.is_object() && text.ends_with("}\n"), "{name}");
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_named() {
    let spec = turnlane(&[
        "app-server",
        "generate-json-schema",
        "--out",
        "/dev/null/no",
    ]);
    assert_snapshot!(shown(spec).await, @"
    exit 1
    -- stdout
    -- stderr
    error: cannot make the folder /dev/null/no: Not a directory (os error 20)
    ");
}

#[tokio::test]
async fn logs_go_to_standard_error_as_json_if_asked() {
    let home = tempfile::tempdir().unwrap();
    let spec = turnlane(&["app-server", "generate-json-schema", "--out"]).args([home.path()]);
    let output = run(spec.env("RUST_LOG", "debug").env("LOG_FORMAT", "json")).await;
    let first = output.stderr_tail.lines().next().expect("a log line");
    let line: Value = serde_json::from_str(first).unwrap();
    assert_eq!(
        (&line["level"], &line["message"]),
        (&"DEBUG".into(), &"wrote a schema".into())
    );
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .starts_with("wrote ")
    );
}

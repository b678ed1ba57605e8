//! The documents of a project and of its owner reach the model, and only they.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;
use turnlane_testkit::mock_model::Reply;

use super::{Served, came, thread, turn};

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// What the model was told to be in its last request.
fn instructions(served: &Served) -> String {
    let requests = served.mock.requests();
    let body = &requests.last().unwrap().body;
    body["instructions"].as_str().unwrap().to_owned()
}

/// The texts stand in this order, each once.
fn assert_order(text: &str, parts: &[&str]) {
    let places: Vec<_> = parts.iter().map(|part| text.find(part)).collect();
    assert!(places.iter().all(Option::is_some), "{parts:?}: {text}");
    assert!(places.is_sorted(), "{parts:?}: {text}");
    for part in parts {
        assert_eq!(text.matches(part).count(), 1, "{part}: {text}");
    }
}

#[tokio::test]
async fn the_documents_of_home_root_and_folder_come_in_this_order() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let work = served.work();
    write(&served.home.codex().join("AGENTS.md"), "of the other home");
    write(&work.join(".git/HEAD"), "");
    write(&work.join("AGENTS.md"), "of the root");
    write(&work.join("a/AGENTS.md"), "of the folder, hidden");
    write(&work.join("a/AGENTS.override.md"), "of the folder");
    write(&work.join("a/b/README.md"), "of nobody");
    write(&work.join("c/AGENTS.md"), "of a sister");
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let id = thread(client, &work.join("a/b"), json!({})).await;
    turn(client, &id, "hello").await;
    let told = instructions(&served);
    assert_order(
        &told,
        &["of the other home", "of the root", "of the folder"],
    );
    assert!(!told.contains("hidden") && !told.contains("of nobody"));
    assert!(!told.contains("of a sister"));
    let headed = work.join("a/AGENTS.override.md");
    assert!(told.contains(headed.to_str().unwrap()), "{told}");

    // Ours wins over the other home's, from the next turn on.
    write(&served.home.turnlane().join("AGENTS.md"), "of our home");
    write(&work.join("AGENTS.md"), "of the root, changed");
    turn(client, &id, "again").await;
    let told = instructions(&served);
    let parts = ["of our home", "of the root, changed", "of the folder"];
    assert_order(&told, &parts);
    assert!(!told.contains("of the other home"));
}

#[tokio::test]
async fn a_document_that_leads_out_of_the_project_is_not_read() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let work = served.work();
    let outside = tempfile::tempdir().unwrap();
    write(&outside.path().join("secret"), "of somebody else");
    std::fs::create_dir(work.join(".git")).unwrap();
    symlink(outside.path().join("secret"), work.join("AGENTS.md")).unwrap();
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let id = thread(client, &work, json!({})).await;
    let end = turn(client, &id, "hello").await;
    assert_eq!(end["status"], "completed", "{end}");
    assert!(!instructions(&served).contains("of somebody else"));
}

#[tokio::test]
async fn an_untrusted_project_has_no_say() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let work = served.work();
    write(&served.home.turnlane().join("AGENTS.md"), "of our home");
    write(&work.join("AGENTS.md"), "of the project");
    let config = served.home.turnlane().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let untrusted = format!(
        "{text}\n[projects.\"{}\"]\ntrust_level = \"untrusted\"\n",
        work.display()
    );
    std::fs::write(&config, untrusted).unwrap();
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let id = thread(client, &work, json!({})).await;
    turn(client, &id, "hello").await;
    let told = instructions(&served);
    assert!(told.contains("of our home"), "{told}");
    assert!(!told.contains("of the project"), "{told}");
}

#[tokio::test]
async fn a_long_document_is_cut_and_that_is_told() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let work = served.work();
    write(&work.join("AGENTS.md"), &"0123456789".repeat(100));
    let mut server = served.stdio_with(&["-c", "project_doc_max_bytes=50"]).await;
    let client = &mut server.client;
    let id = thread(client, &work, json!({})).await;
    turn(client, &id, "hello").await;
    assert_eq!(instructions(&served).matches("0123456789").count(), 5);
    let warnings = came(client, "warning");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let message = warnings[0]["params"]["message"].as_str().unwrap();
    assert!(message.contains("AGENTS.md"), "{message}");
}

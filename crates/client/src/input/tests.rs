//! What an input becomes before it is sent.

use serde_json::json;

use super::*;

fn resolved(
    input: impl Into<Input>,
    attachments: &[Attachment],
) -> (serde_json::Value, Vec<PathBuf>) {
    let (items, paths) = resolve(input.into(), attachments, Path::new("/srv")).unwrap();
    (serde_json::to_value(items).unwrap(), paths)
}

#[test]
fn an_input_that_says_nothing_is_refused() {
    let blank = Input(vec![InputItem::text(" \n"), InputItem::text("")]);
    for input in [Input::default(), Input::from(""), Input::from("  "), blank] {
        let refused = check(&input, &[]).unwrap_err();
        let Refused::Argument(CallError::InvalidArgument { what, reason }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(
            (what, reason.as_str()),
            ("input", "turn input must not be empty")
        );
    }
}

#[test]
fn an_attachment_or_another_item_says_something() {
    let url = Attachment::ImageUrl("data:,".to_owned());
    assert!(check(&Input::from(""), &[url]).is_ok());
    let skill = InputItem::Skill {
        name: "s".to_owned(),
        path: "/s".to_owned(),
    };
    assert!(check(&Input::from(skill), &[]).is_ok());
}

#[test]
fn a_file_in_the_text_is_an_element_from_end_to_end() {
    let (items, paths) = resolved(
        "look",
        &[Attachment::AtPath {
            path: PathBuf::from("src/ä.rs"),
            placeholder: Some("[ä]".to_owned()),
        }],
    );
    assert_eq!(
        items,
        json!([
            {"type": "text", "text": "look", "text_elements": []},
            {"type": "text", "text": "@src/ä.rs", "text_elements":
                [{"byteRange": {"start": 0, "end": 10}, "placeholder": "[ä]"}]},
        ])
    );
    assert_eq!(paths, [PathBuf::from("/srv/src/ä.rs")]);
}

#[test]
fn files_are_taken_from_the_threads_directory() {
    let input = Input(vec![
        InputItem::LocalImage {
            path: "a.png".to_owned(),
            detail: None,
        },
        InputItem::LocalAudio {
            path: "/abs/b.wav".to_owned(),
        },
    ]);
    let (items, paths) = resolved(input, &[Attachment::LocalImage(PathBuf::from("c.png"))]);
    assert_eq!(
        items,
        json!([
            {"type": "localImage", "path": "/srv/a.png"},
            {"type": "localAudio", "path": "/abs/b.wav"},
            {"type": "localImage", "path": "/srv/c.png"},
        ])
    );
    let expected = ["/srv/a.png", "/abs/b.wav", "/srv/c.png"].map(PathBuf::from);
    assert_eq!(paths, expected);
}

#[test]
fn urls_and_names_are_passed_on() {
    let mention = InputItem::Mention {
        name: "m".to_owned(),
        path: "app://m".to_owned(),
    };
    let url = Attachment::ImageUrl("https://example.org/x.png".to_owned());
    let (items, paths) = resolved(mention, &[url]);
    assert_eq!(
        items,
        json!([
            {"type": "mention", "name": "m", "path": "app://m"},
            {"type": "image", "url": "https://example.org/x.png"},
        ])
    );
    assert!(paths.is_empty());
}

#[test]
fn a_server_on_this_machine_shares_our_files() {
    for endpoint in [
        "io",
        "spawn codex",
        "unix /run/x.sock",
        "ws://127.0.0.1:80/",
        "ws://localhost:1",
        "ws://[::1]:80/x",
        "ws://127.9.9.9",
    ] {
        assert!(is_local_endpoint(endpoint), "{endpoint}");
    }
    for endpoint in [
        "ws://10.0.0.1:80/",
        "wss://example.org",
        "ws://localhost.example.org",
        "ws://localhost@example.org/",
        "ws://[fe80::1]:80",
    ] {
        assert!(!is_local_endpoint(endpoint), "{endpoint}");
    }
}

#[tokio::test]
async fn a_file_that_is_not_there_is_found() {
    let home = tempfile::tempdir().unwrap();
    let there = home.path().join("there");
    std::fs::write(&there, "x").unwrap();
    assert!(must_exist(vec![there.clone()]).await.is_ok());
    let missing = home.path().join("missing");
    let refused = must_exist(vec![there, missing.clone()]).await.unwrap_err();
    assert!(matches!(refused, Refused::NotFound(path) if path == missing));
}

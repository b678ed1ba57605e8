//! What `view_image` shows and refuses.
//!
//! The invariant here: there is an item for a picture that was read or asked about, and for no other.

use turnlane_protocol::input::ImageDetail;

use super::*;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

impl Stage {
    async fn view(&mut self, arguments: Value) -> Result<Output, Stop> {
        self.call("view_image", arguments, Permission::Usual).await
    }
}

fn stage() -> Stage {
    let stage = Stage::new();
    std::fs::write(stage.cwd.join("a.png"), PNG).unwrap();
    stage
}

#[tokio::test]
async fn a_picture_is_shown_and_attached() {
    let mut stage = stage();
    let done = stage
        .view(json!({"path": "a.png", "unknown": 1}))
        .await
        .unwrap();
    assert_eq!((done.text.as_str(), done.success), ("image attached", true));
    assert_eq!(done.pictures, [Image::new(PNG, None).unwrap()]);
    assert_eq!(stage.course(), ["started:item", "completed:item"]);
    let (_, item) = stage.said[1].split_once(' ').unwrap();
    let expected = json!({"type": "imageView", "id": "item_1", "path": stage.cwd.join("a.png"),
        "startedAtMs": NOW_MS, "completedAtMs": NOW_MS});
    assert_eq!(serde_json::from_str::<Value>(item).unwrap(), expected);
    let path = stage.cwd.join("a.png").display().to_string();
    for (detail, passed) in [
        (json!("high"), Some(ImageDetail::High)),
        (json!("original"), Some(ImageDetail::Original)),
        (json!("huge"), None),
        (json!(3), None),
        (Value::Null, None),
    ] {
        let done = stage
            .view(json!({"path": path, "detail": detail}))
            .await
            .unwrap();
        assert_eq!(done.pictures, [Image::new(PNG, passed).unwrap()]);
    }
}

#[tokio::test]
async fn what_is_no_picture_makes_no_item() {
    let mut stage = stage();
    stage.write("text.png", "words");
    std::fs::write(
        stage.cwd.join("big.png"),
        [PNG, &vec![0; 5 * 1024 * 1024]].concat(),
    )
    .unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        stage.cwd.join("pipe.png"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    for (path, text) in [
        (
            "text.png",
            "text.png: the image is not a png, jpeg, gif or webp",
        ),
        ("big.png", "big.png: the image is larger than 5 MiB"),
        (
            "pipe.png",
            "pipe.png: the image file cannot be read: not a regular file",
        ),
        (".", ".: the image file cannot be read: not a regular file"),
        (
            "none.png",
            "none.png: the image file cannot be read: No such file or directory (os error 2)",
        ),
    ] {
        assert_eq!(stage.view(json!({"path": path})).await, failed(text));
        assert!(stage.said.is_empty());
    }
    let done = stage.view(json!({})).await;
    assert_eq!(
        done,
        failed("failed to parse function arguments: missing field `path`")
    );
}

#[tokio::test]
async fn a_model_without_eyes_is_told_so() {
    let mut stage = stage();
    Arc::get_mut(&mut stage.turn).unwrap().tools.pictures = Pictures::Refused;
    let text = "view_image is not available: this model takes no images";
    assert_eq!(stage.view(json!({"path": "a.png"})).await, failed(text));
}

#[tokio::test]
async fn a_hook_blocks_or_asks() {
    let mut stage = stage();
    let arguments = json!({"path": "a.png"});
    let blocked = Permission::Blocked("no looking".to_owned());
    let done = stage.call("view_image", arguments.clone(), blocked).await;
    assert_eq!(done, failed("no looking"));
    assert!(stage.said.is_empty());
    for (decision, expected) in [
        (Decision::Decline, failed("view_image rejected by user")),
        (Decision::Cancel, Err(Stop::Interrupted)),
    ] {
        stage.answer(decision);
        let done = stage
            .call("view_image", arguments.clone(), Permission::Asked)
            .await;
        assert_eq!(done, expected);
        assert_eq!(stage.course(), ["started:item", "asked", "completed:item"]);
    }
    stage.answer(Decision::Accept);
    let done = stage
        .call("view_image", arguments.clone(), Permission::Asked)
        .await
        .unwrap();
    assert_eq!(done.pictures.len(), 1);
    stage.answer(Answer::Stop);
    let done = stage.call("view_image", arguments, Permission::Asked).await;
    assert!(matches!(done, Err(Stop::Cancelled(_))));
}

//! Every kind of input, and the limits.

use serde_json::{Value, json};
use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::input::{INPUT_CHARS_MAX, InvalidInput, UserInput, check, text_chars};

use crate::example::{reads_as, refusal, whole};

#[test]
fn every_kind_comes_back_whole() {
    for input in [
        json!({"type": "text", "text": "run the tests", "text_elements": []}),
        json!({"type": "text", "text": "see @a", "text_elements":
            [{"byteRange": {"start": 4, "end": 6}, "placeholder": "a.rs"},
             {"byteRange": {"start": 0, "end": 3}, "placeholder": null}]}),
        json!({"type": "image", "url": "data:image/png;base64,AA=="}),
        json!({"type": "image", "fileId": "file_1", "detail": "original"}),
        json!({"type": "localImage", "path": "/a.png"}),
        json!({"type": "localImage", "path": "/a.png", "detail": "low"}),
        json!({"type": "audio", "url": "data:audio/wav;base64,AA=="}),
        json!({"type": "localAudio", "path": "/a.wav"}),
        json!({"type": "skill", "name": "review", "path": "/skills/review"}),
        json!({"type": "mention", "name": "a.rs", "path": "/src/a.rs"}),
    ] {
        whole::<UserInput>(input);
    }
    for detail in ["auto", "low", "high", "original"] {
        whole::<UserInput>(json!({"type": "localImage", "path": "/a.png", "detail": detail}));
    }
}

#[test]
fn what_may_be_left_out_is_filled_in() {
    let words = json!({"type": "text", "text": "hi", "text_elements": []});
    let read = reads_as::<UserInput>(json!({"type": "text", "text": "hi", "later": 1}), &words);
    assert_eq!(read, UserInput::text("hi"));
    reads_as::<UserInput>(
        json!({"type": "localImage", "path": "/a", "detail": null}),
        &json!({"type": "localImage", "path": "/a"}),
    );
    reads_as::<UserInput>(
        json!({"type": "image", "url": "", "fileId": "f"}),
        &json!({"type": "image", "fileId": "f"}),
    );
}

#[test]
fn other_kinds_are_refused_with_the_list() {
    assert_eq!(
        refusal::<UserInput>(json!({"type": "video", "url": "u"})),
        "Invalid request: unknown variant `video`, expected one of `text`, `image`, `localImage`, \
         `audio`, `localAudio`, `skill`, `mention`"
    );
    assert_eq!(
        refusal::<UserInput>(json!({"type": "localImage", "path": "/a", "detail": "tiny"})),
        "Invalid request: unknown variant `tiny`, expected one of `auto`, `low`, `high`, `original`"
    );
    assert_eq!(
        refusal::<UserInput>(json!({"type": "image", "detail": "low"})),
        "Invalid request: missing field `url`"
    );
    assert_eq!(
        refusal::<UserInput>(json!({"text": "a"})),
        "Invalid request: missing field `type`"
    );
}

#[test]
fn characters_are_counted_over_all_texts() {
    let half = "é".repeat(INPUT_CHARS_MAX / 2);
    let fits = [UserInput::text(half.clone()), UserInput::text(half)];
    assert_eq!(text_chars(&fits), INPUT_CHARS_MAX);
    assert_eq!(check(&fits), Ok(()));
    let mut exceeds = fits.to_vec();
    exceeds.push(UserInput::text("x"));
    let error = ErrorObject::from(check(&exceeds).unwrap_err());
    assert_eq!(
        serde_json::to_value(error).unwrap(),
        json!({"code": -32602, "message": "Input exceeds the maximum length of 1048576 characters.",
            "data": {"reason": "inputTooLarge", "input_error_code": "input_too_large",
                "max_chars": 1_048_576, "actual_chars": 1_048_577}})
    );
}

#[test]
fn only_inline_pictures_and_sounds_are_taken() {
    let checked = |json: Value| check(&[serde_json::from_value(json).unwrap()]);
    assert_eq!(
        checked(json!({"type": "image", "url": "data:image/png;base64,AA=="})),
        Ok(())
    );
    assert_eq!(
        checked(json!({"type": "image", "url": "DATA:image/png;base64,AA=="})),
        Ok(())
    );
    assert_eq!(checked(json!({"type": "image", "fileId": "f"})), Ok(()));
    for url in [
        "https://example.org/a.png",
        "file:///a.png",
        "",
        "data",
        "é",
    ] {
        assert_eq!(
            checked(json!({"type": "image", "url": url})),
            Err(InvalidInput::RemoteUrl)
        );
        assert_eq!(
            checked(json!({"type": "audio", "url": url})),
            Err(InvalidInput::RemoteUrl)
        );
    }
    assert_eq!(
        serde_json::to_value(ErrorObject::from(InvalidInput::RemoteUrl)).unwrap(),
        json!({"code": -32600, "data": {"reason": "invalidInput"},
            "message": "remote image URLs are not supported; use an inline data URL instead"})
    );
}

//! From what somebody said to what the model is sent.
//!
//! The invariant here: an input is taken as a whole or refused as a whole, before the first model
//! call, and a refusal says which part was at fault.
//!
//! Lengths of texts were checked when the input was taken in.

use std::path::Path;

use serde_json::Value;
use turnlane_protocol::input::{ImageInput, ImageSource, UserInput};
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind};

use super::image::{IMAGES_MAX, Image, ImageRefused, read_image};
use super::words;
use crate::outcome::EngineError;

/// Why an input cannot be sent to a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputRefused {
    /// It has too many pictures.
    #[error("the input has {count} images; at most {IMAGES_MAX} are taken")]
    TooManyImages {
        /// How many it has.
        count: usize,
    },
    /// One of its pictures cannot be sent.
    #[error("image {nth} of the input: {problem}")]
    Image {
        /// Which, from 1.
        nth: usize,
        /// What is wrong with it.
        problem: ImageRefused,
    },
    /// It has sound.
    #[error("this engine takes no audio")]
    Audio,
}

impl InputRefused {
    /// The error that the turn fails with.
    pub fn to_error(&self) -> EngineError {
        let (info, kind) = (CodexErrorInfo::BadRequest, ErrorKind::BadRequest);
        EngineError::new(self.to_string(), info, kind)
    }
}

/// The content of the message that an input becomes; never empty.
pub(super) fn content(input: &[UserInput]) -> Result<Vec<Value>, InputRefused> {
    let count = input.iter().filter(|part| is_picture(part)).count();
    if count > IMAGES_MAX {
        return Err(InputRefused::TooManyImages { count });
    }
    let mut pictures = 0;
    let mut content = Vec::with_capacity(input.len());
    for part in input {
        pictures += usize::from(is_picture(part));
        content.push(match part {
            UserInput::Text { text, .. } => words(text),
            UserInput::Image(image) => picture(pictures, inline(image))?,
            UserInput::LocalImage { path, detail } => {
                picture(pictures, read_image(Path::new(path), *detail))?
            }
            UserInput::Audio { .. } | UserInput::LocalAudio { .. } => {
                return Err(InputRefused::Audio);
            }
            UserInput::Skill { name, path } => words(&format!("Use the skill {name}: {path}")),
            UserInput::Mention { name, path } => words(&format!("@{name}: {path}")),
        });
    }
    if content.is_empty() {
        // Strict servers refuse a message without content.
        content.push(words(""));
    }
    Ok(content)
}

fn is_picture(part: &UserInput) -> bool {
    matches!(part, UserInput::Image(_) | UserInput::LocalImage { .. })
}

fn inline(image: &ImageInput) -> Result<Image, ImageRefused> {
    match &image.source {
        ImageSource::Url(url) => Image::from_url(url, image.detail),
        ImageSource::FileId(_) => Err(ImageRefused::Url),
    }
}

fn picture(nth: usize, image: Result<Image, ImageRefused>) -> Result<Value, InputRefused> {
    let refused = |problem| InputRefused::Image { nth, problem };
    image.map(|image| image.part()).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn gif() -> UserInput {
        UserInput::Image(ImageInput {
            source: ImageSource::Url("data:image/gif;base64,R0lGODlh".to_owned()),
            detail: None,
        })
    }

    #[test]
    fn parts_keep_their_order() {
        let input = [UserInput::text("look"), gif(), UserInput::text("there")];
        let url = "data:image/gif;base64,R0lGODlh";
        let expected = json!([
            {"type": "input_text", "text": "look"},
            {"type": "input_image", "image_url": url, "detail": "auto"},
            {"type": "input_text", "text": "there"},
        ]);
        assert_eq!(Value::Array(content(&input).unwrap()), expected);
    }

    #[test]
    fn the_twenty_first_picture_refuses_the_input() {
        assert!(content(&vec![gif(); 20]).is_ok());
        let refused = content(&vec![gif(); 21]).unwrap_err();
        assert_eq!(refused, InputRefused::TooManyImages { count: 21 });
        let error = refused.to_error();
        assert_eq!(error.codex_error_info, Some(CodexErrorInfo::BadRequest));
    }

    #[test]
    fn a_refusal_names_the_picture() {
        let remote = UserInput::Image(ImageInput {
            source: ImageSource::Url("https://example.com/x.png".to_owned()),
            detail: None,
        });
        let kept = UserInput::Image(ImageInput {
            source: ImageSource::FileId("file-1".to_owned()),
            detail: None,
        });
        for bad in [remote, kept] {
            let refused = content(&[gif(), UserInput::text("x"), bad]).unwrap_err();
            let problem = ImageRefused::Url;
            assert_eq!(refused, InputRefused::Image { nth: 2, problem });
        }
    }

    #[test]
    fn sound_is_refused_and_nothing_is_an_empty_text() {
        let sound = UserInput::Audio {
            url: "data:audio/wav;base64,".to_owned(),
        };
        assert_eq!(content(&[sound]), Err(InputRefused::Audio));
        assert_eq!(content(&[]).unwrap().len(), 1);
    }
}

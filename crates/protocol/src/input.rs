//! What a person or program says to an agent: the `input` of turns.
//!
//! The invariant here: [`check`] is the one place that knows the limits of input, so a turn, a
//! steer and a queued turn are refused for the same reasons with the same words.
//!
//! Files named by an input are not opened here.

use serde::{Deserialize, Serialize};

use crate::error::{ErrorObject, INVALID_PARAMS, INVALID_REQUEST, Reason};

/// How many characters the texts of one input may have together.
pub const INPUT_CHARS_MAX: usize = 1_048_576;

/// One part of an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum UserInput {
    /// Words.
    Text {
        /// The words.
        text: String,
        /// Parts of the text that a user interface shows in its own way.
        #[serde(default, rename = "text_elements")]
        text_elements: Vec<TextElement>,
    },
    /// A picture, inline or kept by the model provider.
    Image(ImageInput),
    /// A picture in a file of the server's machine.
    LocalImage {
        /// Where the file is.
        path: String,
        /// How closely the model should look.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<ImageDetail>,
    },
    /// Sound.
    Audio {
        /// A `data:` URL.
        url: String,
    },
    /// Sound in a file of the server's machine.
    LocalAudio {
        /// Where the file is.
        path: String,
    },
    /// A skill the user chose by name.
    Skill {
        /// Its name.
        name: String,
        /// Its file.
        path: String,
    },
    /// A file or other thing the user pointed at.
    Mention {
        /// What it is called.
        name: String,
        /// Where it is.
        path: String,
    },
}

impl UserInput {
    /// Plain words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text {
            text: text.into(),
            text_elements: Vec::new(),
        }
    }
}

/// A picture: exactly one of its two sources is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "ImageFields", into = "ImageFields")]
pub struct ImageInput {
    /// Where the picture is.
    pub source: ImageSource,
    /// How closely the model should look.
    pub detail: Option<ImageDetail>,
}

/// Where a picture is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    /// A URL; only `data:` URLs pass [`check`].
    Url(String),
    /// A file the model provider keeps.
    FileId(String),
}

/// [`ImageInput`] as it stands on the wire.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "schema",
    schemars(extend("anyOf" = [{"required": ["url"]}, {"required": ["fileId"]}]))
)]
#[serde(rename_all = "camelCase")]
struct ImageFields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<ImageDetail>,
}

impl TryFrom<ImageFields> for ImageInput {
    type Error = &'static str;

    fn try_from(fields: ImageFields) -> Result<Self, &'static str> {
        // Codex writes both while it moves pictures to files; the file is then the real one.
        let source = match (fields.file_id, fields.url) {
            (Some(file_id), _) => ImageSource::FileId(file_id),
            (None, Some(url)) => ImageSource::Url(url),
            (None, None) => return Err("missing field `url`"),
        };
        Ok(Self {
            source,
            detail: fields.detail,
        })
    }
}

impl From<ImageInput> for ImageFields {
    fn from(image: ImageInput) -> Self {
        let (url, file_id) = match image.source {
            ImageSource::Url(url) => (Some(url), None),
            ImageSource::FileId(file_id) => (None, Some(file_id)),
        };
        Self {
            url,
            file_id,
            detail: image.detail,
        }
    }
}

/// How closely the model should look at a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ImageDetail {
    /// The model chooses.
    Auto,
    /// Coarsely.
    Low,
    /// Finely.
    High,
    /// In the picture's own resolution.
    Original,
}

/// A part of a text that a user interface shows in its own way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TextElement {
    /// Which bytes of the text.
    pub byte_range: ByteRange,
    /// What is shown in their place.
    pub placeholder: Option<String>,
}

/// Bytes of a UTF-8 text, the end excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ByteRange {
    /// The first byte.
    pub start: usize,
    /// The byte after the last one.
    pub end: usize,
}

/// Why an input is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInput {
    /// The texts are too long together.
    #[error("Input exceeds the maximum length of {INPUT_CHARS_MAX} characters.")]
    TooLong {
        /// How many characters they have.
        chars: usize,
    },
    /// A picture or sound that we would have to fetch.
    #[error("remote image URLs are not supported; use an inline data URL instead")]
    RemoteUrl,
}

impl From<InvalidInput> for ErrorObject {
    fn from(invalid: InvalidInput) -> Self {
        let message = invalid.to_string();
        match invalid {
            InvalidInput::TooLong { chars } => {
                Self::new(INVALID_PARAMS, Reason::InputTooLarge, message)
                    .with("input_error_code", "input_too_large")
                    .with("max_chars", INPUT_CHARS_MAX)
                    .with("actual_chars", chars)
            }
            InvalidInput::RemoteUrl => Self::new(INVALID_REQUEST, Reason::InvalidInput, message),
        }
    }
}

/// Checks what can be said about an input without opening files.
pub fn check(input: &[UserInput]) -> Result<(), InvalidInput> {
    let chars = text_chars(input);
    if chars > INPUT_CHARS_MAX {
        return Err(InvalidInput::TooLong { chars });
    }
    let is_remote = |part: &UserInput| match part {
        UserInput::Image(ImageInput {
            source: ImageSource::Url(url),
            ..
        })
        | UserInput::Audio { url } => !is_data_url(url),
        _ => false,
    };
    if input.iter().any(is_remote) {
        Err(InvalidInput::RemoteUrl)
    } else {
        Ok(())
    }
}

/// The characters of all texts together.
pub fn text_chars(input: &[UserInput]) -> usize {
    let chars = |part: &UserInput| match part {
        UserInput::Text { text, .. } => text.chars().count(),
        _ => 0,
    };
    input.iter().map(chars).sum()
}

/// URL schemes have no case.
fn is_data_url(url: &str) -> bool {
    url.as_bytes()
        .get(..5)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"data:"))
}

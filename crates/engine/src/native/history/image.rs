//! Pictures: what they are by their content, and how they are sent.
//!
//! The invariant here: an [`Image`] is a picture of a known kind within the size limit, whatever its
//! name or its URL claims, and it is sent as a data URL and nothing else.
//!
//! Nothing is scaled, and no URL is ever fetched.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};
use turnlane_protocol::input::ImageDetail;

/// How many pictures one input may have.
pub const IMAGES_MAX: usize = 20;
/// How many bytes one picture may have.
pub const IMAGE_BYTES_MAX: usize = 5 * 1024 * 1024;

/// A picture that may be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    url: String,
    detail: ImageDetail,
}

/// Why a picture is not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageRefused {
    /// It is too large.
    #[error("the image is larger than {} MiB", IMAGE_BYTES_MAX / 1024 / 1024)]
    TooLarge,
    /// Its content is of no kind that models take.
    #[error("the image is not a png, jpeg, gif or webp")]
    Kind,
    /// Its URL is not one that holds the picture.
    #[error("the image is not a base64 data URL")]
    Url,
    /// Its file cannot be read.
    #[error("the image file cannot be read: {problem}")]
    File {
        /// What the system said.
        problem: String,
    },
}

impl Image {
    /// A picture from its bytes; the kind is told from the content.
    pub fn new(bytes: &[u8], detail: Option<ImageDetail>) -> Result<Self, ImageRefused> {
        if bytes.len() > IMAGE_BYTES_MAX {
            return Err(ImageRefused::TooLarge);
        }
        let kind = kind_of(bytes).ok_or(ImageRefused::Kind)?;
        let mut url = format!("data:{kind};base64,");
        STANDARD.encode_string(bytes, &mut url);
        Ok(Self {
            url,
            detail: detail.unwrap_or(ImageDetail::Auto),
        })
    }

    /// A picture from a data URL; the kind it names is replaced by what the content is.
    pub fn from_url(url: &str, detail: Option<ImageDetail>) -> Result<Self, ImageRefused> {
        let inside = url.strip_prefix("data:").ok_or(ImageRefused::Url)?;
        let (head, encoded) = inside.split_once(',').ok_or(ImageRefused::Url)?;
        if !head.ends_with(";base64") {
            return Err(ImageRefused::Url);
        }
        // Checked before decoding, so that a huge text costs no second buffer.
        if encoded.len() / 4 > IMAGE_BYTES_MAX / 3 + 1 {
            return Err(ImageRefused::TooLarge);
        }
        let bytes = STANDARD.decode(encoded).map_err(|_| ImageRefused::Url)?;
        Self::new(&bytes, detail)
    }

    /// The part of a message's content that shows it.
    pub(super) fn part(&self) -> Value {
        json!({"type": "input_image", "image_url": self.url, "detail": self.detail})
    }
}

/// Reads a picture from a regular file; anything else is refused without being opened.
pub fn read_image(path: &Path, detail: Option<ImageDetail>) -> Result<Image, ImageRefused> {
    let failed = |problem: &str| ImageRefused::File {
        problem: problem.to_owned(),
    };
    let io = |error: std::io::Error| failed(&error.to_string());
    // Looked at before it is opened: opening a pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Err(failed("not a regular file"));
    }
    // And looked at again: a pipe that came in between is not waited for.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(opened.map_err(|error| io(error.into()))?);
    if !file.metadata().map_err(io)?.is_file() {
        return Err(failed("not a regular file"));
    }
    let mut bytes = Vec::new();
    let most = IMAGE_BYTES_MAX as u64 + 1;
    file.take(most).read_to_end(&mut bytes).map_err(io)?;
    Image::new(&bytes, detail)
}

fn kind_of(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_what_its_content_is() {
        for (bytes, kind) in [
            (&b"\x89PNG\r\n\x1a\nrest"[..], "image/png"),
            (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
            (b"GIF89arest", "image/gif"),
            (b"GIF87arest", "image/gif"),
            (b"RIFF\x01\x02\x03\x04WEBPrest", "image/webp"),
        ] {
            let part = Image::new(bytes, None).unwrap().part();
            let url = format!("data:{kind};base64,{}", STANDARD.encode(bytes));
            let expected = json!({"type": "input_image", "image_url": url, "detail": "auto"});
            assert_eq!(part, expected);
            let lied = url.replacen(kind, "text/html", 1);
            assert_eq!(Image::from_url(&lied, None).unwrap().part(), expected);
        }
        for bytes in [&b""[..], b"<svg/>", b"RIFF\x01\x02\x03\x04WAVE", b"GIF88a"] {
            assert_eq!(Image::new(bytes, None), Err(ImageRefused::Kind));
        }
    }

    #[test]
    fn five_mib_pass_and_one_byte_more_does_not() {
        let mut bytes = vec![0; IMAGE_BYTES_MAX];
        bytes[..3].copy_from_slice(b"\xff\xd8\xff");
        let url = Image::new(&bytes, None).unwrap().url;
        assert!(Image::from_url(&url, None).is_ok());
        bytes.push(0);
        assert_eq!(Image::new(&bytes, None), Err(ImageRefused::TooLarge));
        let url = format!("data:image/jpeg;base64,{}", STANDARD.encode(&bytes));
        assert_eq!(Image::from_url(&url, None), Err(ImageRefused::TooLarge));
    }

    #[test]
    fn only_urls_that_hold_the_picture_are_taken() {
        for url in [
            "https://example.com/x.png",
            "file:///x.png",
            "data:image/png",
            "data:image/png,abc",
            "data:image/png;base64,***",
        ] {
            assert_eq!(Image::from_url(url, None), Err(ImageRefused::Url), "{url}");
        }
    }

    #[test]
    fn a_folder_and_a_missing_file_are_no_pictures() {
        let home = tempfile::tempdir().unwrap();
        for path in [home.path().to_owned(), home.path().join("none.png")] {
            let refused = read_image(&path, None);
            assert!(matches!(refused, Err(ImageRefused::File { .. })));
        }
        let path = home.path().join("x.png");
        std::fs::write(&path, b"GIF89a").unwrap();
        let part = read_image(&path, Some(ImageDetail::High)).unwrap().part();
        assert_eq!(part["detail"], "high");
    }
}

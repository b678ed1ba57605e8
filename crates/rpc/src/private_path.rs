//! Files and folders that only we may use: what token files and socket files have in common.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

/// The folder a file lies in; a bare name lies here.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes a folder only we may enter, parents included; one that exists stays as it is.
pub(crate) fn create_private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// A hidden name nobody else has taken: short, because a socket's path may be.
pub(crate) fn random_name() -> io::Result<String> {
    Ok(format!(".{}", random_text::<6>()?))
}

/// Random bytes as text that can stand in a header, a URL or a path.
pub(crate) fn random_text<const BYTES: usize>() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

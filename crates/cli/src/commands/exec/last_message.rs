//! `-o FILE`: the answer of a completed turn in a file.
//!
//! The invariant here: the file is either as it was before or holds the whole answer: it is written
//! beside itself and renamed. What is no regular file (a pipe, a device) is written to as it is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the answer goes.
#[derive(Debug)]
pub(super) struct LastMessage(PathBuf);

impl LastMessage {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Why it could not be written now; nothing is left behind.
    pub(super) fn complaint(&self) -> Option<String> {
        let tried = match self.place() {
            Place::AsItIs => Ok(()),
            Place::Renamed { beside, .. } => {
                fs::write(&beside, "").and_then(|()| fs::remove_file(&beside))
            }
        };
        let path = &self.0;
        let why = tried.err()?;
        Some(format!(
            "Warning: the last message file \"{}\" is not writable: {why}",
            path.display()
        ))
    }

    /// Writes the answer; the texts are for people.
    pub(super) fn write(&self, message: Option<&str>) -> Result<Option<String>, String> {
        let path = &self.0;
        let text = message.unwrap_or_default();
        let written = match self.place() {
            Place::AsItIs => fs::write(path, text),
            Place::Renamed { beside, target } => write_beside(&beside, &target, text),
        };
        let path = path.display();
        written.map_err(|why| format!("Failed to write last message file \"{path}\": {why}"))?;
        Ok(message
            .is_none()
            .then(|| format!("Warning: no last agent message; wrote empty content to {path}")))
    }

    fn place(&self) -> Place {
        // Behind a link, so that the link stays one.
        let target = fs::canonicalize(&self.0).unwrap_or_else(|_| self.0.clone());
        let special = fs::metadata(&target).is_ok_and(|metadata| !metadata.is_file());
        let name = target.file_name().map(|name| name.to_string_lossy());
        match name {
            Some(name) if !special => {
                let name = format!(".{name}.{}.tmp", std::process::id());
                let beside = target.with_file_name(name);
                Place::Renamed { beside, target }
            }
            _ => Place::AsItIs,
        }
    }
}

enum Place {
    AsItIs,
    Renamed { beside: PathBuf, target: PathBuf },
}

fn write_beside(beside: &Path, target: &Path, text: &str) -> io::Result<()> {
    let written = fs::write(beside, text);
    // Whoever restricted the file keeps it restricted.
    if let Ok(before) = fs::metadata(target) {
        let _ = fs::set_permissions(beside, before.permissions());
    }
    let written = written.and_then(|()| fs::rename(beside, target));
    if written.is_err() {
        let _ = fs::remove_file(beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_replaces_what_was_there_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let file = LastMessage::new(path.clone());
        assert_eq!(file.complaint(), None);
        assert!(!path.exists(), "nothing is left by the question");
        assert_eq!(file.write(Some("one")), Ok(None));
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        let warned = file.write(None).unwrap().unwrap();
        assert!(warned.starts_with("Warning: no last agent message; wrote empty content to "));
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_file_is_another_one_and_whoever_reads_the_old_one_has_it_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (path, kept) = (folder.path().join("a.txt"), folder.path().join("kept"));
        fs::write(&path, "old and long").unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&path, private).unwrap();
        fs::hard_link(&path, &kept).unwrap();
        LastMessage::new(path.clone()).write(Some("new")).unwrap();
        assert_eq!(fs::read_to_string(&kept).unwrap(), "old and long");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600, "it stays as private as it was");
    }

    #[test]
    fn a_link_stays_a_link_and_a_device_a_device() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        LastMessage::new(link.clone()).write(Some("new")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        let null = LastMessage::new("/dev/null".into());
        assert_eq!(null.write(Some("x")), Ok(None));
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none/a.txt");
        let file = LastMessage::new(path.clone());
        assert!(file.complaint().unwrap().contains("is not writable"));
        let error = file.write(Some("x")).unwrap_err();
        let expected = format!(
            "Failed to write last message file {path:?}: No such file or directory (os error 2)"
        );
        assert_eq!(error, expected);
    }
}

//! Files that a child is given by path: its output schema, its instructions, its pictures.
//!
//! The invariant: they stand in a directory of mode 0700 as files of mode 0600, and they are removed
//! with the value, which lives as long as the child. The functions here block.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Files of one turn. The directory is made with the first of them.
#[derive(Debug)]
pub(super) struct TurnFiles {
    parent: PathBuf,
    directory: Option<PathBuf>,
}

impl TurnFiles {
    /// No file yet; `parent` is where the directory will stand.
    pub(super) fn new(parent: PathBuf) -> Self {
        Self {
            parent,
            directory: None,
        }
    }

    /// Writes a file and returns its path.
    pub(super) fn write(&mut self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        let path = self.directory()?.join(name);
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(&path)?;
        // The umask may have taken away what the child needs.
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(content)?;
        Ok(path)
    }

    /// Makes a link to a file under a name of ours and returns its path.
    pub(super) fn link(&mut self, name: &str, target: &Path) -> io::Result<PathBuf> {
        let path = self.directory()?.join(name);
        std::os::unix::fs::symlink(target, &path)?;
        Ok(path)
    }

    fn directory(&mut self) -> io::Result<&Path> {
        let directory = match self.directory.take() {
            Some(directory) => directory,
            None => self.make_directory()?,
        };
        Ok(self.directory.insert(directory))
    }

    fn make_directory(&self) -> io::Result<PathBuf> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let name = format!("turnlane-codex-{:032x}", u128::from_ne_bytes(random));
        let directory = self.parent.join(name);
        // Fails if it exists, so another user's directory is never used.
        fs::DirBuilder::new().mode(0o700).create(&directory)?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700))?;
        Ok(directory)
    }
}

impl Drop for TurnFiles {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory
            && let Err(error) = fs::remove_dir_all(directory)
        {
            tracing::warn!(%error, "cannot remove the files of a turn");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_private_and_vanish() {
        let home = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let mut files = TurnFiles::new(home.path().to_owned());
        let schema = files.write("schema.json", b"{}").unwrap();
        let link = files.link("1.png", &schema).unwrap();
        assert_eq!(fs::read(link).unwrap(), b"{}");
        assert_eq!(mode(&schema), 0o600);
        assert_eq!(mode(schema.parent().unwrap()), 0o700);
        drop(files);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
        let unused = TurnFiles::new(home.path().join("absent"));
        drop(unused);
    }
}

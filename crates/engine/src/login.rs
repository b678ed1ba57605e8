//! The file that holds an engine's login, and a stamp by which a change of it is noticed.
//!
//! The invariant here: a stamp is compared and never read. Two equal stamps of one file mean that the
//! file did not change, as far as its inode, size and time of modification tell.
//!
//! Which lanes wait for a login is the runtime's business.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Stamps a login file as it is now; a file that is missing has a stamp of its own. Touches the disk.
pub fn stamp(file: &Path) -> String {
    match std::fs::metadata(file) {
        Ok(found) => format!(
            "{}.{:09}-{}-{}",
            found.mtime(),
            found.mtime_nsec(),
            found.size(),
            found.ino()
        ),
        Err(_) => "absent".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::stamp;

    #[test]
    fn a_login_that_appears_or_changes_has_another_stamp() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("auth.json");
        let absent = stamp(&file);
        std::fs::write(&file, "{}").unwrap();
        let first = stamp(&file);
        assert_ne!(first, absent);
        assert_eq!(stamp(&file), first);
        std::fs::write(&file, "{\"key\":1}").unwrap();
        assert_ne!(stamp(&file), first);
    }
}

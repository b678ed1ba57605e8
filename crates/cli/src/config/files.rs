//! The configuration of a program that goes on running: read again when a file changed.
//!
//! The invariant here: what is given out is a configuration that was read completely; a file that
//! became unreadable or wrong is an error for whoever asks, and asked again it is read again.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::{Config, Layers};

/// The layers with what was read of them last.
#[derive(Debug)]
pub(crate) struct ConfigFiles {
    layers: Layers,
    last: Mutex<Option<(Stamps, Arc<Config>)>>,
}

/// By which a changed file is known.
type Stamps = [Option<(u64, Option<SystemTime>)>; 3];

impl ConfigFiles {
    pub(crate) fn new(layers: Layers) -> Self {
        Self {
            layers,
            last: Mutex::default(),
        }
    }

    /// No files at all: what stands where the real ones were handed on.
    pub(crate) fn none() -> Self {
        let mut layers = Layers::new(Path::new("/"), None, &[]);
        layers.own = None;
        Self::new(layers)
    }

    /// The configuration as the files say it now.
    pub(crate) fn current(&self) -> anyhow::Result<Arc<Config>> {
        let stamps = [
            self.layers.codex.as_deref().and_then(stamp),
            self.layers.own.as_deref().and_then(stamp),
            self.layers.profile.as_deref().and_then(stamp),
        ];
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, config)) = last.as_ref()
            && *known == stamps
        {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(self.layers.load()?);
        *last = Some((stamps, Arc::clone(&config)));
        Ok(config)
    }
}

fn stamp(path: &Path) -> Option<(u64, Option<SystemTime>)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.len(), metadata.modified().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_counts_and_a_wrong_one_is_told_until_it_is_right() {
        let home = tempfile::tempdir().unwrap();
        let files = ConfigFiles::new(Layers::new(home.path(), None, &[]));
        let path = home.path().join("config.toml");
        assert!(files.current().unwrap().shared.is_empty());
        std::fs::write(&path, "model = \"a\"").unwrap();
        let first = files.current().unwrap();
        assert_eq!(first.shared["model"], "a");
        assert!(Arc::ptr_eq(&first, &files.current().unwrap()));
        std::fs::write(&path, "model = 17").unwrap();
        assert!(files.current().is_err());
        assert!(files.current().is_err());
        std::fs::write(&path, "model = \"longer\"").unwrap();
        assert_eq!(files.current().unwrap().shared["model"], "longer");
    }
}

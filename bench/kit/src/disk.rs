//! The physical limit: bytes written and synced, 4 KiB where nothing else is said, one write after the
//! other, by one thread.
//!
//! The invariant here: the file has its size before the first measured write, as a log that begins
//! again at its beginning has, so that a sync is data and nothing else.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use crate::now;
use crate::sample::Sample;

const PAGE: usize = 4_096;
const PAGES: u64 = 1_024;

/// A file that is written to in a circle.
#[derive(Debug)]
pub struct Disk {
    file: File,
    /// Where the next write begins.
    at: u64,
    sample: Sample,
}

impl Disk {
    /// A file of its full size in this folder, which says which disk is measured.
    pub fn in_folder(folder: &Path) -> anyhow::Result<Self> {
        let file = File::create(folder.join("limit"))?;
        for page in 0..PAGES {
            file.write_all_at(&[1; PAGE], page * PAGE as u64)?;
        }
        file.sync_all()?;
        Ok(Self {
            file,
            at: 0,
            sample: Sample::default(),
        })
    }

    /// Writes and syncs for so long.
    pub fn round(&mut self, length: Duration) -> anyhow::Result<()> {
        let mut times = Vec::new();
        let start = now();
        while start.elapsed() < length {
            times.push(self.once()?);
        }
        self.sample.add(times, start.elapsed());
        Ok(())
    }

    /// Writes and syncs once; how long it took. Belongs to no round.
    pub fn once(&mut self) -> anyhow::Result<Duration> {
        self.once_with(&[2; PAGE])
    }

    /// The same with these bytes instead of 4 KiB.
    pub fn once_with(&mut self, bytes: &[u8]) -> anyhow::Result<Duration> {
        let length = bytes.len() as u64;
        if self.at + length > PAGES * PAGE as u64 {
            self.at = 0;
        }
        let sent = now();
        self.file.write_all_at(bytes, self.at)?;
        self.file.sync_data()?;
        self.at += length;
        Ok(sent.elapsed())
    }

    /// All rounds so far.
    pub fn sample(&self) -> &Sample {
        &self.sample
    }
}

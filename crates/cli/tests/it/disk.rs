//! The real binary on a disk that is really full, or that cannot be written at all.
//!
//! The invariant here: what was answered is there, what was refused is not, and what ran is recorded;
//! whoever reads a message learns what happened and what to do. Writes and syncs that fail one by one
//! are the subject of `turnlane-store`.

mod full;
mod people;

use turnlane_testkit::SmallDisk;
use turnlane_testkit::small_disk::Wanted;

/// A disk that leaves room for the reserve of the store, and then some: work goes on when 8 MiB are
/// free.
async fn disk(module: &'static str, test: &'static str) -> Option<SmallDisk> {
    let wanted = Wanted {
        module,
        test,
        mebibytes: 160,
    };
    SmallDisk::of(wanted).await.unwrap()
}

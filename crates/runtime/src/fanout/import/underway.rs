//! The imports that this worker has under way: one per job.
//!
//! The invariant here: an import is used by one call at a time. A call that is dropped in the middle
//! drops the import with it, and the next call continues from the store.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use turnlane_store::fanout::JobNo;

use super::ImportError;
use super::records::RecordImport;

/// The most streams that are held between two chunks, each with at most one record in memory. The one
/// that waited longest gives way; its client continues from the committed offset.
const HELD_MAX: usize = 64;

/// The imports under way.
#[derive(Default)]
pub(super) struct Underway {
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    of_job: HashMap<JobNo, ImportSlot>,
    uses: u64,
}

enum ImportSlot {
    InUse,
    Held {
        import: Box<RecordImport>,
        used: u64,
    },
}

impl Underway {
    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the place of a job's import, which is held until the returned value is dropped.
    pub(super) fn begin(&self, job: JobNo) -> Result<SlotUse<'_>, ImportError> {
        let mut slots = self.lock();
        let import = match slots.of_job.insert(job, ImportSlot::InUse) {
            None => None,
            Some(ImportSlot::Held { import, .. }) => Some(*import),
            Some(ImportSlot::InUse) => return Err(ImportError::UnderWay),
        };
        Ok(SlotUse {
            underway: self,
            job,
            import,
        })
    }
}

/// The use of a job's import by one call.
pub(super) struct SlotUse<'a> {
    underway: &'a Underway,
    job: JobNo,
    import: Option<RecordImport>,
}

impl SlotUse<'_> {
    /// The import that an earlier call left.
    pub(super) fn take(&mut self) -> Option<RecordImport> {
        self.import.take()
    }

    /// Leaves the import for the next call.
    pub(super) fn keep(&mut self, import: RecordImport) {
        self.import = Some(import);
    }
}

impl Drop for SlotUse<'_> {
    fn drop(&mut self) {
        let mut slots = self.underway.lock();
        slots.of_job.remove(&self.job);
        let Some(import) = self.import.take() else {
            return;
        };
        slots.uses += 1;
        let used = slots.uses;
        let import = Box::new(import);
        slots
            .of_job
            .insert(self.job, ImportSlot::Held { import, used });
        if slots.of_job.len() > HELD_MAX {
            let held = slots.of_job.iter().filter_map(|(job, slot)| match slot {
                ImportSlot::Held { used, .. } => Some((*used, *job)),
                ImportSlot::InUse => None,
            });
            if let Some((_, oldest)) = held.min_by_key(|(used, _)| *used) {
                slots.of_job.remove(&oldest);
            }
        }
    }
}

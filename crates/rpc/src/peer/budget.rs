//! The bound on unanswered requests of a whole process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many requests may be unanswered in a process before further ones are refused.
pub const UNANSWERED_IN_PROCESS_MAX: usize = 16_384;

/// Counts the unanswered requests of all connections that share it.
#[derive(Clone, Debug)]
pub struct Budget {
    unanswered: Arc<AtomicUsize>,
    max: usize,
}

impl Budget {
    /// A budget of `max` unanswered requests.
    pub fn new(max: usize) -> Self {
        Self {
            unanswered: Arc::default(),
            max,
        }
    }

    /// How many are unanswered now.
    pub fn unanswered(&self) -> usize {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// A place for one request, or `None` when it must be refused.
    pub(super) fn take(&self) -> Option<BudgetPermit> {
        let permit = BudgetPermit(Arc::clone(&self.unanswered));
        // Above the bound the permit is dropped, which takes the count back.
        (self.unanswered.fetch_add(1, Ordering::Relaxed) < self.max).then_some(permit)
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(UNANSWERED_IN_PROCESS_MAX)
    }
}

/// One unanswered request.
#[derive(Debug)]
pub(super) struct BudgetPermit(Arc<AtomicUsize>);

impl Drop for BudgetPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

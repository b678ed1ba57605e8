//! What stands for a child where the feature `spawn` is off: nothing can be one.
//!
//! The invariant here is the type's: it has no values, so nothing below is ever called.

use std::convert::Infallible;
use std::process::ExitStatus;
use std::time::Duration;

use super::ExitReport;

/// No child.
#[derive(Debug)]
pub(super) struct Child(Infallible);

impl Child {
    pub(super) fn stderr_tail(&self) -> String {
        match self.0 {}
    }

    pub(super) async fn exited_within(&self, _: Duration) -> Option<ExitStatus> {
        match self.0 {}
    }

    pub(super) fn begin_end(&self, _: Duration) -> Ending {
        match self.0 {}
    }
}

/// No end.
#[derive(Debug)]
pub(super) struct Ending(Infallible);

impl Ending {
    pub(super) async fn finished(self) -> std::io::Result<ExitReport> {
        match self.0 {}
    }
}

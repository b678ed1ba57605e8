//! What every store promises, shown on each backend, and the queue against a model of itself.
//!
//! `backend` says where a suite runs, `build` what its tests are made of; `conformance` has one
//! file per subject, `model` the property test, `fanout_model` that of fan-out jobs. Tests of one backend
//! alone stand beside them.

#![expect(
    clippy::unwrap_used,
    reason = "a failed step is a failed test, and says where"
)]

mod backend;
mod build;
mod conformance;
mod fanout_model;
mod fanout_size;
mod model;

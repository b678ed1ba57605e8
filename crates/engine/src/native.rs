//! The parts of the native engine: the one that talks to a model itself.
//!
//! The invariant here: a part is complete by itself and knows no other part's wire; what a model
//! sent is input to be judged, never trusted.
//!
//! Turns are not run here; the engine that joins the parts does that.

pub mod patch;

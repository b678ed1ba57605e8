//! Commands of a turn against real processes: what clients see, what the model is told, and that
//! nothing is left.

mod approvals;
mod background;
mod interrupts;
mod ordinary;
mod outputs;
mod ruled;
mod sandboxed;
mod support;

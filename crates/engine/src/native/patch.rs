//! `apply_patch`: from the text a model wrote to files on disk, or to a text that says why not.
//!
//! The invariant here: everything is computed before anything is written, and what is written is
//! written wholly or not at all. [`Patch::parse`] reads the text, [`Plan::make`] computes every
//! change from what the files hold, [`Plan::place`] lets the caller judge the resolved paths, and
//! [`Plan::apply`] writes. The plan is what a user is shown, and `apply` refuses files that are no
//! longer what the plan was made from.
//!
//! Asking for approval, items and the turn's diff are the engine's business; so is running this
//! off the async threads, since all of it blocks.

mod apply;
mod diff;
mod disk;
mod error;
mod find;
mod parse;
mod plan;
mod resolve;
mod script;
mod text;

#[cfg(test)]
mod tests;

pub use diff::unified;
pub use disk::DiskFiles;
pub use error::{PatchError, Undone};
pub use parse::{Chunk, Line, Operation, Patch};
pub use plan::{Content, Files, Located, Plan};
pub use resolve::{Place, Roots, resolve};
pub use script::{BARE_PATCH, Script, recognise};
pub use text::updated;

/// The longest patch that is read, in bytes.
pub const PATCH_BYTES_MAX: usize = 1024 * 1024;

/// The longest file that a patch may touch or make, in bytes.
pub const FILE_BYTES_MAX: usize = 16 * 1024 * 1024;

//! The native engine as a lane sees it, against a mock of the Responses API over HTTP.

mod calls;
mod compaction;
mod endings;
mod history;
mod hooked;
mod instructions;
mod interrupts;
mod moods;
mod rules;
mod sessions;
mod steers;
mod stops;
mod support;
mod text;
mod trees;

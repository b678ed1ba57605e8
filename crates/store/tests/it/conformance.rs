//! What every store promises, one subject per file, each test a sentence.
//!
//! The invariant here: a test names no backend. `on_one_worker!` and `on_many_workers!` list the
//! tests of a file and run each of them on every backend; a test that is in no list is dead code,
//! and the compiler says so.
//!
//! Sequences that nobody thought of are the property test's.

mod approvals;
mod bindings;
mod claims;
mod clocks;
mod direct;
mod ends;
mod fanout_claims;
mod fanout_import;
mod fanout_reads;
mod fanout_reports;
mod fanout_retries;
mod fanout_states;
mod fences;
mod foreign;
mod forks;
mod history;
mod keys;
mod order;
mod owners;
mod pages;
mod pauses;
mod queue;
mod recovery;
mod refusals;
mod reorder;
mod starts;
mod thread_lists;
mod threads;
mod turns;
mod upkeep;

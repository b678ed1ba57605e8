//! Proofs about the rules of a lane, and examples of them.
//!
//! The invariant here: nothing in these tests knows how the rules are written.
//!
//! What the answers look like on the wire is the server's business.

mod rules;

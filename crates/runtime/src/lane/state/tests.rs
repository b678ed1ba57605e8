//! Proofs about the rules of a lane, and examples of them.
//!
//! The invariant here: nothing in these tests knows how the rules are written, except where a whole
//! state has to be compared or told apart. What must hold is written down once, in `watch` and
//! `settled`, and looked at from two sides: every short interleaving, and long random ones.
//!
//! `world` is what surrounds a lane (store, engine, slots, hooks, clients, clocks), `moves` is what
//! it may do, `step` does it, `tables` holds the contract's tables cell by cell.

mod enumerate;
mod given;
mod moves;
mod random;
mod rules;
mod settled;
mod step;
mod tables;
mod watch;
mod world;

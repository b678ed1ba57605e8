//! The form that a turn's last message has to have: `outputSchema`.
//!
//! Two questions, each answered in one place: whether a value can be a schema at all
//! ([`check_schema`], asked before a turn is recorded), and whether a text has its form
//! ([`check_answer`], asked when a turn ends). The invariant here: both are pure and end soon,
//! whatever a client or a model wrote; what they do not know, they let pass.
//!
//! They know what structured answers are made of. A validator of all of JSON Schema would be heavier
//! than the rest of what uses it, for a refusal and a warning.

mod answer;
mod schema;

pub use answer::check_answer;
pub use schema::check_schema;

/// How deep schemas may be nested, and how deep they are followed.
const DEPTH_MAX: usize = 128;

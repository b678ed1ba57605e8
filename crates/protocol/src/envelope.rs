//! The envelope: what makes a frame a request, an answer or a notification.
//!
//! It is JSON-RPC 2.0 without the `jsonrpc` member, which is accepted and ignored when sent and
//! never written. The invariant here: the id of a request is kept as the very bytes the caller
//! wrote and comes back as those bytes. [`decode`] borrows from the frame and leaves params and
//! results as raw JSON, so a message is parsed once, by whoever knows its type.
//!
//! Nothing here knows a method, waits, or decides what to do with a bad frame beyond naming the
//! answer it deserves: [`Refusal`]. Framing and matching of answers are `turnlane-rpc`'s.

mod decode;
mod encode;
mod request_id;

pub use decode::{Message, ReceivedStamp, Refusal, decode};
pub use encode::{
    Delta, Stamp, encode_delta, encode_error, encode_notification, encode_request, encode_result,
};
pub use request_id::{BadRequestId, RequestId};

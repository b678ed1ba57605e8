//! Calls by name and by type: what is checked before and after them.
//!
//! The invariant here: a request that breaks the contract is never sent, and an answer that lacks
//! what every caller needs is an error here, not somewhere later. Methods outside the table pass.
//!
//! What an error answer means is decided in [`crate::error::map`]; which methods the server does not
//! serve is remembered by the link.

pub mod methods;
mod validate;

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use crate::core::Core;
use crate::error::{CallError, DecodeError, Side, map};
use crate::link::{Call, Repeat};

/// A method of the protocol with the types of its params and result.
///
/// Implement it for a type of your own to call a method that [`methods`] does not name.
pub trait Method: Send + Sync + 'static {
    /// The name on the wire.
    const NAME: &'static str;
    /// Whether it only reads, so that sending it twice does no harm.
    const READS: bool = false;
    /// What is sent.
    type Params: Serialize + Send + Sync;
    /// What is answered.
    type Output: DeserializeOwned + Send;
}

/// How much of a call is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Validation {
    /// Nothing.
    Off,
    /// Requests and the least of answers, for the methods of the thread API and `command/exec`.
    #[default]
    Known,
}

/// How one call is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// In place of the client's.
    pub validation: Option<Validation>,
    /// In place of [`Limits::rpc_timeout`](crate::Limits::rpc_timeout).
    pub timeout: Option<Duration>,
}

/// One call: checked, sent, checked, decoded.
pub(crate) async fn send<R: DeserializeOwned>(
    core: &Core,
    method: &str,
    params: &impl Serialize,
    repeat: Repeat,
    options: CallOptions,
) -> Result<R, CallError> {
    let validation = options.validation.unwrap_or(core.validation);
    let params = checked_params(method, params, validation)?;
    let call = Call {
        method: method.to_owned(),
        params,
        timeout: options.timeout,
        repeat,
    };
    let answer = core.link()?.call(call).await;
    let result = answer.map_err(|error| match error {
        CallError::Rpc(error) => map::call(method, error),
        error => error,
    })?;
    if validation == Validation::Known {
        validate::response(method, result.get())
            .map_err(|reason| contract(method, Side::Response, reason))?;
    }
    serde_json::from_str(result.get()).map_err(|source| {
        CallError::Decode(DecodeError {
            what: format!("the answer to {method}"),
            source,
        })
    })
}

/// One notification.
pub(crate) async fn notify(
    core: &Core,
    method: &str,
    params: &impl Serialize,
) -> Result<(), CallError> {
    let params = checked_params(method, params, core.validation)?;
    core.link()?.notify(method, &params).await
}

fn checked_params(
    method: &str,
    params: &impl Serialize,
    validation: Validation,
) -> Result<Box<RawValue>, CallError> {
    let refused = |reason: String| contract(method, Side::Request, reason);
    if method.is_empty() {
        return Err(refused("json-rpc method must not be empty".to_owned()));
    }
    let params =
        to_raw_value(params).map_err(|error| refused(format!("params are not JSON: {error}")))?;
    if validation == Validation::Known {
        validate::request(method, params.get()).map_err(refused)?;
    }
    Ok(params)
}

fn contract(method: &str, side: Side, reason: String) -> CallError {
    CallError::Contract {
        method: method.to_owned(),
        side,
        reason,
    }
}

/// The contract error of an answer that names no thread or turn, for callers that need one also
/// when nothing is validated.
pub(crate) fn missing(method: &str, what: &str) -> CallError {
    contract(method, Side::Response, format!("result is missing {what}"))
}

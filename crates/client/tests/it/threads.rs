//! Threads: the calls with the protocol's own names, the gate, handles, histories and reconnects.
//!
//! The exact JSON of every call is compared, and what is refused is shown to be refused before a byte
//! is written: the next thing that the server sees is a probe.

mod embedded;
mod gate;
mod handles;
mod history;
mod opening;
mod reconnect;
mod turn_calls;
mod unsupported;
mod validation;

use serde_json::{Value, json};
use turnlane::{CallOptions, Client};
use turnlane_testkit::wait::{DEADLINE, within};

use crate::double::{Double, thread_answer};

/// One call of the client and the answer that the test gives: what was sent, and what came of it.
async fn answered<R>(
    double: &mut Double,
    method: &str,
    answer: Value,
    call: impl Future<Output = R>,
) -> (Value, R) {
    let play = async {
        let asked = double.expect(method).await;
        let params = asked.params.clone();
        asked.answer(answer);
        params
    };
    let (params, result) = tokio::join!(play, within("an answer", DEADLINE, call));
    (params, result.unwrap())
}

/// One call of the client that the test refuses.
async fn refused<R>(
    double: &mut Double,
    method: &str,
    error: (i64, &str, Value),
    call: impl Future<Output = R>,
) -> R {
    let play = async {
        let asked = double.expect(method).await;
        asked.refuse(error.0, error.1, &error.2);
    };
    let ((), result) = tokio::join!(play, within("an answer", DEADLINE, call));
    result.unwrap()
}

/// Shows that nothing was sent: the next request is this one.
async fn nothing_was_sent(double: &mut Double, client: &Client) {
    let probe = client.call_raw("probe/now", json!({}), CallOptions::default());
    let (_, result) = answered(double, "probe/now", json!({}), probe).await;
    result.unwrap();
}

/// The answer of an opening call with other policies.
fn granting(id: &str, approval: &Value, sandbox: &Value) -> Value {
    let mut answer = thread_answer(id);
    answer["approvalPolicy"] = approval.clone();
    answer["sandbox"] = sandbox.clone();
    answer
}

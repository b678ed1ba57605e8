//! A child that takes no more requests and keeps its output open.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use turnlane_rpc::Duplex;
use turnlane_testkit::wait::{DEADLINE, within};

use super::double::NOW_MS;
use crate::codex::connection::{CallFailure, Connection};
use crate::codex::launch::{ChildProcess, StartedChild};
use crate::engine::BoxFuture;

#[derive(Default)]
struct Killed(AtomicUsize);

impl ChildProcess for Killed {
    fn kill(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn end(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// The supervisor would give a connection that seems to live to the next attempt of the turn, and five
/// attempts that fail at once end a turn.
#[tokio::test]
async fn a_call_that_cannot_be_written_makes_its_child_dead() {
    let (near_input, far_output) = tokio::io::duplex(64 * 1024);
    let (far_input, near_output) = tokio::io::duplex(64 * 1024);
    let process = Arc::new(Killed::default());
    let child = StartedChild {
        duplex: Duplex::lines(near_input, near_output),
        process: Arc::<Killed>::clone(&process),
    };
    let greeting = async {
        let mut far_output = far_output;
        let mut lines = BufReader::new(far_input).lines();
        let hello = lines.next_line().await.unwrap().unwrap();
        let hello: Value = serde_json::from_str(&hello).unwrap();
        let result = json!({"userAgent": "turnlane/0.166.0 (x)"});
        let answer = json!({"id": hello["id"], "result": result});
        let answer = format!("{answer}\n");
        far_output.write_all(answer.as_bytes()).await.unwrap();
        // Its input ends with `lines`; its output stays open.
        lines.next_line().await.unwrap();
        far_output
    };
    let opening = Connection::open(child, Arc::new(|| NOW_MS));
    let (connection, _output) = tokio::join!(opening, greeting);
    let connection = connection.unwrap();
    let params = json!({});
    let failure = connection.ask("thread/read", &params);
    let failure = within("the failure", DEADLINE, failure).await.unwrap();
    assert_eq!(failure, Err(CallFailure::Died));
    assert!(connection.is_dead());
    within("the death", DEADLINE, connection.died())
        .await
        .unwrap();
    assert!(process.0.load(Ordering::SeqCst) > 0);
}

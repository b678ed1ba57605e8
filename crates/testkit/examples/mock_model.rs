//! A mock model to try a client against by hand.
//!
//! ```text
//! cargo run -p turnlane-testkit --example mock_model
//! ```
//!
//! It makes a temporary home, prints the variables that point a client at it, and answers until
//! its input ends. A word in the prompt chooses the answer: `@reason`, `@exec`, `@patch`, `@both`,
//! `@slow`, `@429`, `@cut`, `@quota`, `@limit`, `@context`, `@failed`, `@incomplete`, `@noise`,
//! `@500`; anything else is repeated. Every request is shown on stderr as it arrives.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what it prints is its purpose"
)]

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncReadExt;
use turnlane_testkit::mock_model::{ApiError, At, Chunks, Cut, Item, Noise, RecordedRequest};
use turnlane_testkit::{Error, MockModel, Reply, TempHome};

const PATCH: &str = "*** Begin Patch\n*** Add File: hello.txt\n+hello\n*** End Patch\n";

/// 2100-01-01, so that it is always ahead.
const RESETS_AT_S: u64 = 4_102_444_800;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let model = MockModel::start().await?;
    let failed = Mutex::default();
    model.choose_with(move |request| {
        let reply = choose(request, &failed);
        let tools = request.tool_names().join(" ");
        eprintln!("{} | tools: {tools}", request.last_user_text());
        Some(reply)
    });
    let home = TempHome::new()?;
    home.use_model(&model.base_url())?;
    for (name, value) in home.env() {
        println!("export {name}='{value}'");
    }
    println!("cd '{}'", home.workspace().display());
    println!("# {}", model.base_url());
    let mut input = Vec::new();
    let _ = tokio::io::stdin().read_to_end(&mut input).await;
    for other in model.other_requests() {
        eprintln!("{} {}?{}", other.method, other.path, other.query);
    }
    Ok(())
}

/// `failed` holds the prompts that failed once and now get an answer.
fn choose(request: &RecordedRequest, failed: &Mutex<BTreeSet<String>>) -> Reply {
    let asked = request.last_user_text();
    let is = |word: &str| asked.contains(word);
    if let Some(output) = request.tool_output("call_example") {
        return Reply::text(format!("the tool said: {output}"));
    }
    let first = || {
        failed
            .lock()
            .is_ok_and(|mut failed| failed.insert(asked.clone()))
    };
    let exec = || Item::function_call("exec_command", json!({"cmd": "echo from the mock"}));
    if is("@reason") {
        Reply::reasoning("Thinking first.").and(Item::text("thought"))
    } else if is("@exec") {
        Reply::of([exec().call_id("call_example")])
    } else if is("@both") {
        Reply::text("two at once")
            .and(exec())
            .and(exec().call_id("call_example"))
    } else if is("@patch") {
        Reply::of([Item::custom_tool_call("apply_patch", PATCH).call_id("call_example")])
    } else if is("@slow") {
        Reply::streamed(["s", "l", "o", "w"]).slow(Duration::from_millis(100))
    } else if is("@429") && first() {
        Reply::http_error(ApiError::rate_limited().retry_after_s(1))
    } else if is("@cut") && first() {
        Reply::streamed(["never ", "ends"]).cut(Cut::AfterEvents(5))
    } else if is("@quota") {
        Reply::http_error(ApiError::insufficient_quota())
    } else if is("@limit") {
        Reply::http_error(ApiError::usage_limit_reached(RESETS_AT_S))
    } else if is("@context") {
        Reply::failed(ApiError::context_length_exceeded())
    } else if is("@failed") {
        Reply::failed(ApiError::insufficient_quota())
    } else if is("@incomplete") {
        Reply::text("half").incomplete("max_output_tokens")
    } else if is("@500") {
        Reply::http_error(ApiError::server_error())
    } else if is("@noise") {
        let reply = Reply::streamed(["still ", "here"]).chunks(Chunks::OfBytes(7));
        let noises = [Noise::Comment, Noise::BadJson, Noise::UnknownType];
        noises.into_iter().fold(reply, |reply, noise| {
            reply.insert(At::AfterEvents(4), noise)
        })
    } else {
        Reply::text(format!("you said: {asked}"))
    }
}

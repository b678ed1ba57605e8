//! Commands that outlive their turn: fed in later turns, listed, ended, and gone with their thread.

use serde_json::{Value, json};
use turnlane_testkit::TestClient;

use super::ends::{is_alive, pid_in};
use super::{
    Served, begin, call_what_is_said, came, completed_in, ended, ok, stored_in, thread, told, turn,
};

async fn full_access(client: &mut TestClient, served: &Served) -> String {
    let more = json!({"sandbox": "danger-full-access"});
    thread(client, &served.work(), more).await
}

/// One call of a tool as a user's text.
fn calling(tool: &str, arguments: &Value) -> String {
    json!([[tool, arguments]]).to_string()
}

/// The session number in what the model was told.
fn session(served: &Served) -> u64 {
    let told = told(&served.mock);
    let line = told.lines().find(|line| line.contains("session ID"));
    let number = line.and_then(|line| line.rsplit(' ').next());
    number.unwrap_or_else(|| panic!("{told}")).parse().unwrap()
}

async fn listed(client: &mut TestClient, thread: &str) -> Vec<Value> {
    let params = json!({"threadId": thread});
    let listed = ok(client, "thread/backgroundTerminals/list", params).await;
    assert_eq!(listed["nextCursor"], Value::Null);
    listed["data"].as_array().unwrap().clone()
}

/// Starts a command that goes on behind its turn, with a daemon; the pids of both.
async fn start_daemon(
    client: &mut TestClient,
    served: &Served,
    thread: &str,
    name: &str,
) -> [i32; 2] {
    let (own, daemon) = (
        served.work().join(format!("{name}.own")),
        served.work().join(format!("{name}.daemon")),
    );
    let cmd = format!(
        "setsid sh -c 'echo $$ > \"{}\"; exec sleep 1000' & echo $$ > \"{}\"; wait",
        daemon.display(),
        own.display()
    );
    let said = calling("exec_command", &json!({"cmd": cmd, "yield_time_ms": 250}));
    assert_eq!(turn(client, thread, &said).await["status"], "completed");
    let pids = [pid_in(&own).await, pid_in(&daemon).await];
    assert!(pids.into_iter().all(is_alive), "{name}: {pids:?}");
    pids
}

#[tokio::test]
async fn a_session_is_fed_in_later_turns_and_ends_when_it_ends() {
    let served = Served::new(call_what_is_said).await;
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let thread = full_access(client, &served).await;
    let start = json!({"cmd": "stty -echo; cat", "tty": true, "yield_time_ms": 500});
    let first = begin(client, &thread, &calling("exec_command", &start)).await;
    assert_eq!(ended(client, &first).await["status"], "completed");
    let number = session(&served);
    let items = completed_in(client, &first);
    let started = &items[1];
    assert_eq!(started["source"], "unifiedExecStartup", "{started}");
    assert_eq!(started["status"], "completed", "{started}");
    assert_eq!(started["exitCode"], Value::Null, "{started}");
    assert_eq!(started["processId"], number.to_string(), "{started}");
    assert_eq!(stored_in(client, &thread, &first).await, items);
    let terminals = listed(client, &thread).await;
    assert_eq!(terminals.len(), 1, "{terminals:?}");
    assert_eq!(terminals[0]["processId"], number.to_string());
    assert_eq!(terminals[0]["itemId"], started["id"]);
    assert_eq!(terminals[0]["command"], started["command"]);
    assert_eq!(terminals[0]["cwd"], json!(served.work()));

    let feed = json!({"session_id": number, "chars": "hello\n", "yield_time_ms": 2_000});
    let second = begin(client, &thread, &calling("write_stdin", &feed)).await;
    assert_eq!(ended(client, &second).await["status"], "completed");
    let said = told(&served.mock);
    assert!(said.contains("hello"), "{said}");
    assert_eq!(session(&served), number);
    let items = completed_in(client, &second);
    assert_eq!(items[1]["source"], "unifiedExecInteraction", "{items:?}");
    assert_eq!(items[1]["processId"], number.to_string());
    assert_eq!(stored_in(client, &thread, &second).await, items);
    let fed = came(client, "item/commandExecution/terminalInteraction");
    assert_eq!(fed.len(), 1);
    let params = &fed[0]["params"];
    assert_eq!(params["stdin"], "hello\n");
    assert_eq!(params["itemId"], items[1]["id"]);
    assert_eq!(params["processId"], number.to_string());

    let end = json!({"session_id": number, "chars": "\u{4}", "yield_time_ms": 10_000});
    turn(client, &thread, &calling("write_stdin", &end)).await;
    let said = told(&served.mock);
    assert!(said.contains("Process exited with code 0"), "{said}");
    assert!(listed(client, &thread).await.is_empty());
    turn(client, &thread, &calling("write_stdin", &end)).await;
    let unknown = format!("write_stdin failed: Unknown process id {number}");
    assert_eq!(told(&served.mock), unknown);
}

#[tokio::test]
async fn a_session_of_one_thread_is_unknown_to_another() {
    let served = Served::new(call_what_is_said).await;
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let mine = full_access(client, &served).await;
    let other = full_access(client, &served).await;
    let start = json!({"cmd": "cat", "tty": true, "yield_time_ms": 250});
    turn(client, &mine, &calling("exec_command", &start)).await;
    let number = session(&served);
    let feed = json!({"session_id": number, "chars": "x\n"});
    turn(client, &other, &calling("write_stdin", &feed)).await;
    let unknown = format!("write_stdin failed: Unknown process id {number}");
    assert_eq!(told(&served.mock), unknown);
    let params = json!({"threadId": other, "processId": number.to_string()});
    let ended = ok(client, "thread/backgroundTerminals/terminate", params).await;
    assert_eq!(ended["terminated"], false);
    assert_eq!(listed(client, &mine).await.len(), 1);
}

#[tokio::test]
async fn one_is_terminated_and_the_rest_cleaned_with_what_they_started() {
    let served = Served::new(call_what_is_said).await;
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let thread = full_access(client, &served).await;
    let first = start_daemon(client, &served, &thread, "first").await;
    let number = session(&served).to_string();
    let second = start_daemon(client, &served, &thread, "second").await;
    let third = start_daemon(client, &served, &thread, "third").await;
    assert_eq!(listed(client, &thread).await.len(), 3);

    let params = json!({"threadId": thread, "processId": number});
    let method = "thread/backgroundTerminals/terminate";
    let ended = ok(client, method, params.clone()).await;
    assert_eq!(ended["terminated"], true);
    assert!(!first.into_iter().any(is_alive), "{first:?}");
    assert!(second.into_iter().chain(third).all(is_alive));
    assert_eq!(ok(client, method, params).await["terminated"], false);
    let left = listed(client, &thread).await;
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.iter().all(|it| it["processId"] != number.as_str()));

    let params = json!({"threadId": thread});
    let cleaned = ok(client, "thread/backgroundTerminals/clean", params).await;
    assert_eq!(cleaned, json!({}));
    assert!(!second.into_iter().chain(third).any(is_alive));
    assert!(listed(client, &thread).await.is_empty());
}

#[tokio::test]
async fn they_end_with_the_archiving_and_the_deletion_of_their_thread() {
    let served = Served::new(call_what_is_said).await;
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let bystander = full_access(client, &served).await;
    let stays = start_daemon(client, &served, &bystander, "stays").await;
    for method in ["thread/archive", "thread/delete"] {
        let thread = full_access(client, &served).await;
        let name = method.replace('/', ".");
        let pids = start_daemon(client, &served, &thread, &name).await;
        ok(client, method, json!({"threadId": thread})).await;
        assert!(!pids.into_iter().any(is_alive), "{method}: {pids:?}");
    }
    assert!(stays.into_iter().all(is_alive));
}

#[tokio::test]
async fn an_interrupt_ends_what_its_own_turn_started_and_nothing_older() {
    let served = Served::new(call_what_is_said).await;
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let thread = full_access(client, &served).await;
    let older = start_daemon(client, &served, &thread, "older").await;
    let mark = served.work().join("own");
    let cmd = format!("echo $$ > \"{}\"; sleep 1000", mark.display());
    let arguments = json!({"cmd": cmd, "yield_time_ms": 30_000});
    let id = begin(client, &thread, &calling("exec_command", &arguments)).await;
    let own = pid_in(&mark).await;
    let params = json!({"threadId": thread, "turnId": id});
    ok(client, "turn/interrupt", params).await;
    assert!(!is_alive(own));
    assert!(older.into_iter().all(is_alive));
    assert_eq!(listed(client, &thread).await.len(), 1);
}

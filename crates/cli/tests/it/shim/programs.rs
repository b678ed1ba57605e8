//! Members whose agent is a program: the engine `codex-exec` with a fake Codex that misbehaves.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use turnlane_testkit::wait::{DEADLINE, eventually};
use turnlane_testkit::{ProcessSpec, TestProcess};

use super::rig::{Member, Rig, id_of, names, of};
use crate::exec::kills::is_full;

const DAY_SECS: u64 = 86_400;
/// What the memory of a shim may grow by, whatever its program prints.
const GROWN_BYTES_MAX: u64 = 64 * 1_048_576;
/// The time of a kill, of its preserving, and as much again for a machine that does other things besides.
const KILLED_WITHIN: Duration = Duration::from_secs(20);

/// The fake: what it does follows from the text of the message, or from files beside it.
const FAKE: &str = r#"#!/bin/sh
case "$1" in
  --version) echo 'codex-cli 0.166.0'; exit 0;;
  exec) ;;
  *) exit 1;;
esac
printf '%s\n' "$@" > args
begin() {
  echo '{"type":"thread.started","thread_id":"01a1e099-a4bd-7e00-8ac9-0161f278d518"}'
  echo '{"type":"turn.started"}'
}
done_with() {
  echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"'"$1"'"}}'
  echo '{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":0,"cache_write_input_tokens":0,"output_tokens":1,"reasoning_output_tokens":0}}'
}
failed_with() {
  echo '{"type":"error","message":"'"$1"'"}'
  echo '{"type":"turn.failed","error":{"message":"'"$1"'"}}'
  exit 1
}
if [ -e print_first ]; then
  begin
  yes '{"type":"later"}' | head -c 1000000; echo
  done_with "$(wc -c)"
  exit 0
fi
prompt=$(cat)
case "$prompt" in
  *'says nothing'*) exit 0;;
esac
begin
case "$prompt" in
  *'exits with 3'*) exit 3;;
  *'is killed'*) kill -9 $$;;
  *'bad request'*) failed_with 'unexpected status 400 Bad Request: no such thing';;
  *'billing'*) failed_with 'Quota exceeded. Check your plan and billing details.';;
  *'dated'*) failed_with "You've hit your usage limit. Try again at Jan 2nd, 2030 9:05 PM.";;
  *'same day'*) failed_with "You've hit your usage limit. Try again at 9:05 PM.";;
  *'signed out'*) failed_with 'unexpected status 401 Unauthorized: token expired';;
  *'exhausts'*) failed_with "Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying.";;
  *'busy'*) while [ ! -e go ]; do sleep 0.02; done; done_with 'busy no more';;
  *'stubborn'*)
    trap '' INT TERM
    setsid sh -c 'trap "" INT TERM; echo $$ > daemon; while :; do sleep 0.05; done' &
    echo $$ > leader
    while :; do sleep 0.05; done;;
  *'one line'*) head -c 100000000 /dev/zero | tr '\0' x; echo; done_with 'after the line';;
  *'flood'*) yes 'Error: only noise' | head -c 30000000 >&2; done_with 'after the flood';;
  *'closes'*) exec >&-; sleep 0.3; exit 0;;
  *) done_with "ok";;
esac
"#;

/// Writes the fake by a process of its own: a descriptor of ours that another test's child inherits would
/// make its start fail with "text file busy".
pub(super) async fn fake(rig: &Rig) -> String {
    let path = rig.home.path().join("codex-fake");
    let script = "printf '%s' \"$2\" > \"$1.new\" && chmod 755 \"$1.new\" && mv \"$1.new\" \"$1\"";
    let spec = ProcessSpec::new("/bin/sh")
        .args(["-c", script, "sh", path.to_str().unwrap(), FAKE])
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let output = TestProcess::run(spec, DEADLINE).await.unwrap();
    assert!(output.status.success(), "{}", output.stderr_tail);
    path.to_str().unwrap().to_owned()
}

pub(super) fn member(rig: &Rig, program: &str, arguments: &[&str]) -> Member {
    let fake = [
        "--agent-type",
        "codex-exec",
        "--cmd",
        program,
        "-s",
        "danger-full-access",
    ];
    rig.member_of(&[&fake, arguments].concat())
}

/// Sends a message and returns its receipts, up to the terminal one.
pub(super) async fn outcome(member: &mut Member, id: &str, body: &str) -> Vec<Value> {
    member.message(id, body).await;
    let mut events = Vec::new();
    loop {
        let event = member.next().await.unwrap();
        let ends = ["Completion", "DeliveryFailed"].contains(&event["event"].as_str().unwrap());
        let is_it = id_of(&event) == Some(id);
        events.push(event);
        if ends && is_it {
            return events;
        }
    }
}

/// The processes below one, and how many of them are dead and not waited for.
pub(super) fn descendants(root: i32) -> (usize, usize) {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        let Some((pid, rest)) = stat.split_once(' ') else {
            continue;
        };
        let fields: Vec<&str> = rest.rsplit(") ").next().unwrap().split(' ').collect();
        let pid: i32 = pid.parse().unwrap();
        let parent: i32 = fields[1].parse().unwrap();
        parents.push((pid, parent, fields[0] == "Z"));
    }
    let mut known = vec![root];
    let (mut all, mut zombies) = (0, 0);
    let mut next = 0;
    while next < known.len() {
        for (pid, parent, is_zombie) in &parents {
            if *parent == known[next] {
                known.push(*pid);
                all += 1;
                zombies += usize::from(*is_zombie);
            }
        }
        next += 1;
    }
    (all, zombies)
}

pub(super) fn descriptors(pid: i32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .count()
}

/// Nothing but what stands when the shim is idle: waits for the reaping of the last child.
pub(super) async fn settled(pid: i32, before: (usize, usize)) {
    eventually("an idle shim as it was", DEADLINE, async || {
        let (all, zombies) = descendants(pid);
        zombies == 0 && all <= before.0 && descriptors(pid) <= before.1
    })
    .await
    .unwrap_or_else(|error| {
        let now = (descendants(pid), descriptors(pid));
        panic!("{error}: {now:?}, before {before:?}")
    });
}

#[tokio::test]
async fn a_shell_in_the_command_of_the_orchestrator_is_not_the_program_of_the_engine() {
    let rig = Rig::new();
    let program = fake(&rig).await;
    let setting = format!("engine.codex.program={}", json!(program));
    for shell in ["bash", "/bin/sh", "/usr/bin/env"] {
        let command = format!("{shell} '/no/such/launch script.sh'");
        let arguments = [
            "--agent-type",
            "codex-exec",
            "--cmd",
            &command,
            "-c",
            &setting,
        ];
        let mut member = rig.member_of(&arguments);
        let ready = member.event("Ready").await;
        assert_eq!(ready["engine_ok"], true, "{ready}");
        let events = outcome(&mut member, &format!("{shell}-1"), "anything").await;
        assert_eq!(events.last().unwrap()["response"], "ok", "{events:?}");
        member.shutdown().await;
    }
}

#[tokio::test]
async fn every_outcome_of_a_program_leaves_no_zombie_and_no_descriptor() {
    let rounds = if is_full() { 143 } else { 5 };
    let rig = Rig::new();
    let program = fake(&rig).await;
    let mut member = member(&rig, &program, &["--on-block", "fail"]);
    member.event("Ready").await;
    let bodies = [
        ("fine", "Completion", Value::Null),
        ("says nothing", "DeliveryFailed", json!("protocol")),
        ("exits with 3", "DeliveryFailed", json!("engine_crashed")),
        ("is killed", "DeliveryFailed", json!("engine_crashed")),
        ("bad request", "DeliveryFailed", json!("other")),
        ("billing", "DeliveryFailed", json!("quota")),
        ("signed out", "DeliveryFailed", json!("auth")),
    ];
    let pid = member.process.pid();
    let mut before = None;
    for round in 0..rounds {
        for (body, end, kind) in &bodies {
            let id = format!("{round}-{}", body.replace(' ', "-"));
            let events = outcome(&mut member, &id, body).await;
            let last = events.last().unwrap();
            assert_eq!(last["event"], *end, "{body}: {events:?}");
            assert_eq!(last["kind"], *kind, "{body}: {last}");
            let begun = of(&events, "MessageDelivered").len();
            assert_eq!(begun, 1, "{body}: {events:?}");
        }
        // The first round opens what stays open.
        match before {
            None => before = Some((descendants(pid).0, descriptors(pid), rss(&member))),
            Some((processes, open, _)) => settled(pid, (processes, open + 2)).await,
        }
    }
    let grown = rss(&member).saturating_sub(before.unwrap().2);
    assert!(grown < 64 * 1_048_576, "{grown} bytes");
    let events = outcome(&mut member, "last", "fine").await;
    assert_eq!(events.last().unwrap()["response"], "ok");
    member.shutdown().await;
}

fn rss(member: &Member) -> u64 {
    member.process.rss_bytes().unwrap()
}

#[tokio::test]
async fn messages_behind_a_failed_start_of_the_program_are_served() {
    let rig = Rig::new();
    let program = fake(&rig).await;
    let mut member = member(&rig, &program, &[]);
    member.event("Ready").await;
    member.message("m", "busy").await;
    member.event("MessageDelivered").await;
    for id in ["a", "b"] {
        member.message(id, "fine").await;
        member.event("Warning").await;
    }
    // The message is told as delivered before its program is started.
    let args = rig.home.workspace().join("args");
    let runs = async || args.exists();
    eventually("a program that runs", DEADLINE, runs)
        .await
        .unwrap();
    let away = rig.home.path().join("away");
    std::fs::rename(&program, &away).unwrap();
    rig.go();
    assert_eq!(member.event("Completion").await["message_id"], "m");
    // The program is gone: what was accepted stays, what is new is refused.
    eventually("a blocked lane", DEADLINE, async || {
        member.send(json!({"cmd": "GetState"})).await;
        let state = member.event("State").await;
        state["detail"].as_str().unwrap().starts_with("blocked")
    })
    .await
    .unwrap();
    member.message("c", "fine").await;
    let refused = member.event("DeliveryFailed").await;
    assert_eq!(
        (&refused["id"], &refused["code"], &refused["retryable"]),
        (&json!("c"), &json!("engine_unavailable"), &json!(true))
    );
    std::fs::rename(&away, &program).unwrap();
    // A message makes the shim look again; what waited comes first.
    member.message("c", "fine").await;
    for id in ["a", "b", "c"] {
        assert_eq!(member.event("Completion").await["message_id"], id);
    }
    member.shutdown().await;
}

#[tokio::test]
async fn a_long_prompt_does_not_wait_for_a_program_that_prints_first() {
    let rig = Rig::new();
    let program = fake(&rig).await;
    std::fs::write(rig.home.workspace().join("print_first"), "").unwrap();
    let mut member = member(&rig, &program, &["--reply-command", ""]);
    member.event("Ready").await;
    // Five megabytes are more than a frame may hold: refused, and the channel goes on.
    let long = json!({"cmd": "SendMessage", "from": "a", "body": "x".repeat(5_000_000), "message_id": "l"});
    let length = long.to_string().len();
    member.send(long).await;
    let error = member.event("Error").await;
    assert_eq!(error["command"], "frame");
    assert_eq!(
        error["reason"],
        format!("frame of {length} bytes exceeds 1048576")
    );
    let events = outcome(&mut member, "m", &"x".repeat(900_000)).await;
    let response = events.last().unwrap()["response"].as_str().unwrap().trim();
    assert_eq!(response, "900000");
    member.shutdown().await;
}

#[tokio::test]
async fn a_program_that_misbehaves_has_the_right_outcome() {
    let rig = Rig::new();
    let program = fake(&rig).await;
    let mut member = member(&rig, &program, &[]);
    member.event("Ready").await;
    outcome(&mut member, "first", "fine").await;
    let before = rss(&member);
    for (body, response) in [("one line", "after the line"), ("flood", "after the flood")] {
        let events = outcome(&mut member, body, body).await;
        assert_eq!(events.last().unwrap()["response"], response, "{events:?}");
    }
    let peak = member.process.rss_peak_bytes().unwrap();
    let grown = peak.saturating_sub(before);
    assert!(grown < GROWN_BYTES_MAX, "{grown} bytes");
    let events = outcome(&mut member, "c", "closes").await;
    let failed = events.last().unwrap();
    assert_eq!(
        (&failed["event"], &failed["kind"]),
        (&json!("DeliveryFailed"), &json!("engine_crashed"))
    );
    // One that ignores every signal and has a daemon of its own is gone after the kill, the daemon too.
    member.message("s", "stubborn").await;
    member.event("MessageDelivered").await;
    let workspace = rig.home.workspace();
    let pid = |name: &str| std::fs::read_to_string(workspace.join(name)).unwrap_or_default();
    eventually("the daemon", DEADLINE, async || {
        !pid("daemon").trim().is_empty() && !pid("leader").trim().is_empty()
    })
    .await
    .unwrap();
    #[expect(clippy::disallowed_methods, reason = "a time limit is what is tested")]
    let began = Instant::now();
    member.send(json!({"cmd": "Kill"})).await;
    let events = member.rest().await;
    assert_eq!(of(&events, "DeliveryFailed")[0]["kind"], "interrupted");
    assert_eq!(names(&events).last(), Some(&"Died"));
    assert_eq!(member.exit().await.code(), Some(0));
    assert!(began.elapsed() < KILLED_WITHIN, "{:?}", began.elapsed());
    for name in ["daemon", "leader"] {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid(name).trim()));
        assert!(stat.is_err(), "{name} lives: {stat:?}");
    }
}

#[tokio::test]
async fn the_errors_of_codex_are_told_by_their_kinds() {
    let rig = Rig::new();
    let program = fake(&rig).await;
    let mut member = member(&rig, &program, &["--on-block", "fail"]);
    member.event("Ready").await;
    // Top-level messages of `error` lines, as Codex prints them.
    let events = outcome(&mut member, "q", "billing").await;
    let blocked = of(&events, "QuotaBlocked")[0];
    assert!(blocked.get("retry_at_epoch_secs").is_none(), "{blocked}");
    assert!(blocked["message"].as_str().unwrap().contains("billing"));
    let events = outcome(&mut member, "d", "dated").await;
    let blocked = of(&events, "QuotaBlocked")[0];
    // The zone of the tests is UTC; the text has whole minutes, and the named one must have passed.
    assert_eq!(blocked["retry_at_epoch_secs"], 1_893_618_360, "{blocked}");
    let events = outcome(&mut member, "t", "same day").await;
    let blocked = of(&events, "QuotaBlocked")[0];
    let epoch = blocked["retry_at_epoch_secs"].as_u64().unwrap();
    assert_eq!(epoch % DAY_SECS, 21 * 3_600 + 6 * 60, "{blocked}");
    #[expect(clippy::disallowed_methods, reason = "the text names a time of today")]
    let now = std::time::SystemTime::now();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!((now..=now + DAY_SECS + 60).contains(&epoch), "{blocked}");
    let events = outcome(&mut member, "a", "signed out").await;
    assert_eq!(of(&events, "AuthRequired").len(), 1, "{events:?}");
    let events = outcome(&mut member, "x", "exhausts").await;
    assert_eq!(of(&events, "ContextExhausted").len(), 1, "{events:?}");
    assert!(of(&events, "Completion").is_empty());
    member.shutdown().await;
}

#[tokio::test]
async fn model_effort_and_sandbox_come_from_the_configuration() {
    let rig = Rig::new();
    let program = fake(&rig).await;
    let config = rig.home.turnlane().join("config.toml");
    let text = "model = \"configured-model\"\nmodel_reasoning_effort = \"low\"\n\
                sandbox_mode = \"workspace-write\"\n";
    std::fs::write(&config, text).unwrap();
    let agent = ["--agent-type", "codex-exec", "--cmd", &program];
    let mut member = rig.member_of(&agent);
    member.event("Ready").await;
    outcome(&mut member, "m", "fine").await;
    let args = std::fs::read_to_string(rig.home.workspace().join("args")).unwrap();
    for word in ["configured-model", "low", "workspace-write"] {
        assert!(args.contains(word), "no {word}: {args}");
    }
    for word in ["bypass", "danger", "full-auto", "yolo"] {
        assert!(!args.contains(word), "{word}: {args}");
    }
    member.shutdown().await;
}

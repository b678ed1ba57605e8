//! The start after a death, row by row, with each engine that has a model: `native`, `codex` and
//! `codex-exec`.
//!
//! Codex is the real one, with a mock model; `TURNLANE_TEST_CODEX` names its program. Without it these
//! tests say that they were skipped.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use turnlane_testkit::mock_model::{ApiError, At, Gate, MockModel, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually};
use turnlane_testkit::{MOCK_KEY, MOCK_KEY_VARIABLE, ProcessSpec, Provider, TestProcess, skipped};

use super::rig::{Member, Rig, id_of, names, of};
use crate::serve::Daemon;

/// The children of our engines get no variable of ours, so the key needs another name.
const KEY_VARIABLE: &str = "MOCK_PROVIDER_KEY";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agent {
    Native,
    Codex,
    CodexExec,
}

impl Agent {
    const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Codex => "codex",
            Self::CodexExec => "codex-exec",
        }
    }
}

/// A home with a model whose answers to `hold` wait.
pub(super) struct World {
    agent: Agent,
    pub(super) rig: Rig,
    pub(super) model: MockModel,
    pub(super) gate: Gate,
}

impl World {
    /// None, and said so, where there is no Codex.
    pub(super) async fn new(agent: Agent, held: fn() -> Reply) -> Option<Self> {
        let rig = Rig::new();
        let model = MockModel::start().await.unwrap();
        let provider = Provider {
            request_max_retries: Some(0),
            stream_max_retries: Some(0),
            ..Provider::default()
        };
        rig.home.use_provider(&model.base_url(), &provider).unwrap();
        if agent != Agent::Native {
            let Ok(program) = std::env::var("TURNLANE_TEST_CODEX") else {
                skipped("recovery of a shim: TURNLANE_TEST_CODEX does not name the Codex CLI");
                return None;
            };
            prepare_codex(&rig, &program).await;
        }
        let gate = Gate::new();
        let waits = gate.clone();
        model.choose_with(move |request| {
            let is_held = request.last_user_text().contains("hold");
            Some(if is_held {
                held().gated_by(At::Request, &waits)
            } else {
                Reply::text("done")
            })
        });
        Some(Self {
            agent,
            rig,
            model,
            gate,
        })
    }

    fn variables(&self) -> Vec<(String, String)> {
        let mut variables = self.rig.home.env();
        variables.push((KEY_VARIABLE.to_owned(), MOCK_KEY.to_owned()));
        variables
    }

    pub(super) fn member(&self, arguments: &[&str]) -> Member {
        let agent = ["--agent-type", self.agent.name()];
        let arguments = [&agent, arguments].concat();
        self.rig.member_with(self.variables(), &arguments)
    }

    pub(super) async fn daemon(&self) -> Daemon {
        let spec = crate::serve::spec(&self.rig.home, &[]).env(KEY_VARIABLE, MOCK_KEY);
        Daemon::of(&self.rig.home, TestProcess::start(spec).unwrap()).await
    }

    /// Sends `hold` and waits until the model was asked.
    pub(super) async fn hold(&self, member: &mut Member) {
        let asked = self.gate.arrivals();
        member.message("m", "hold").await;
        member.event("MessageDelivered").await;
        member.message("n", "next").await;
        member.event("Warning").await;
        eventually("the model", DEADLINE, async || self.gate.arrivals() > asked)
            .await
            .unwrap();
    }

    /// A thread with a turn behind it, so that Codex knows it.
    pub(super) async fn begin(&self, member: &mut Member) {
        let ready = member.event("Ready").await;
        assert_eq!(ready["engine_ok"], true, "{ready}");
        member.message("first", "hello").await;
        let events = member.until("Completion").await;
        assert_eq!(events.last().unwrap()["response"], "done");
    }
}

/// Codex behind a script that waits as long as the file `late` is there.
async fn prepare_codex(rig: &Rig, program: &str) {
    let config = rig.home.codex().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace(MOCK_KEY_VARIABLE, KEY_VARIABLE)).unwrap();
    let path = rig.home.path().join("codex-late");
    let path = path.to_str().unwrap();
    let late = rig.home.workspace().join("late");
    // Written by a process of its own: see `programs::fake`.
    let script = "printf '#!/bin/sh\nwhile [ -e \"%s\" ]; do touch \"%s.seen\"; sleep 0.02; done\nexec \"%s\" \"$@\"\n' \
                  \"$2\" \"$2\" \"$3\" > \"$1\" && chmod 755 \"$1\"";
    let spec = ProcessSpec::new("/bin/sh")
        .args(["-c", script, "sh", path, late.to_str().unwrap(), program])
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let output = TestProcess::run(spec, DEADLINE).await.unwrap();
    assert!(output.status.success(), "{}", output.stderr_tail);
    let ours = rig.home.turnlane().join("config.toml");
    let text = std::fs::read_to_string(&ours).unwrap();
    let text = format!("{text}\n[engine.codex]\nprogram = {}\n", json!(path));
    std::fs::write(&ours, text).unwrap();
}

/// How many turns Codex would read back as completed.
///
/// Codex takes the end of a turn from its thread file into this database a moment later. Of a turn whose end
/// is only in the file it reads back an unknown outcome, which is another row of the table.
#[expect(clippy::disallowed_methods, reason = "the database is Codex's")]
fn completed_by_codex(rig: &Rig) -> i64 {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let path = rig.home.codex().join("thread_history_1.sqlite");
    let counted = rusqlite::Connection::open_with_flags(path, flags).and_then(|database| {
        let sql = "SELECT count(*) FROM thread_turns WHERE status = 'completed'";
        database.query_row(sql, [], |row| row.get(0))
    });
    counted.unwrap_or(0)
}

fn answers() -> Reply {
    Reply::text("held")
}

fn fails() -> Reply {
    Reply::http_error(ApiError::bad_request("input", "no such thing"))
}

/// What a started shim reports of `m`, up to the completion of `n`, which waited behind it.
async fn reported(member: &mut Member) -> Vec<Value> {
    let events = member.until("Ready").await;
    assert_eq!(names(&events), ["Ready"], "{events:?}");
    let mut events = Vec::new();
    loop {
        events.extend(member.until("Completion").await);
        if events.last().unwrap()["message_id"] == "n" {
            return events;
        }
    }
}

/// The receipts of one message, without those that are told again.
fn receipts(events: &[Value], id: &str) -> Vec<String> {
    let is_new = |event: &&Value| id_of(event) == Some(id) && event["duplicate"] != true;
    let about = events.iter().filter(is_new);
    let names = about.map(|event| event["event"].as_str().unwrap());
    let receipts = ["MessageDelivered", "Completion", "DeliveryFailed"];
    let names = names.filter(|name| receipts.contains(name));
    names.map(ToOwned::to_owned).collect()
}

/// A daemon ended the turn while no shim was there.
async fn ended_by_the_daemon(agent: Agent) {
    for (held, is_failed) in [(answers as fn() -> Reply, false), (fails, true)] {
        let Some(world) = World::new(agent, held).await else {
            return;
        };
        let _daemon = world.daemon().await;
        let mut member = world.member(&["--daemon", "require"]);
        world.begin(&mut member).await;
        world.hold(&mut member).await;
        member.process.kill9().await.unwrap();
        world.gate.release();
        world.model.wait_for_requests(3, DEADLINE).await.unwrap();
        let mut member = world.member(&["--daemon", "require"]);
        let events = reported(&mut member).await;
        check_end(agent, &events, is_failed);
        member.shutdown().await;
    }
}

fn check_end(agent: Agent, events: &[Value], is_failed: bool) {
    assert!(of(events, "Error").is_empty(), "{agent:?}: {events:?}");
    if is_failed {
        assert_eq!(receipts(events, "m").last().unwrap(), "DeliveryFailed");
        let failed = of(events, "DeliveryFailed")[0];
        assert_eq!(failed["kind"], "bad_request", "{agent:?}: {failed}");
    } else {
        // The delivery may be told again as a duplicate, the end is told once.
        let delivered = of(events, "MessageDelivered");
        assert_eq!(delivered[0]["id"], "m", "{agent:?}: {events:?}");
        let mut told = receipts(events, "m");
        told.retain(|name| name != "MessageDelivered");
        assert_eq!(told, ["Completion"], "{agent:?}: {events:?}");
        let completion = of(events, "Completion")[0];
        assert_eq!(completion["response"], "held", "{agent:?}");
    }
}

/// Codex ended the turn while its worker stood still, and then the worker died.
async fn ended_by_codex_alone(agent: Agent) {
    let Some(world) = World::new(agent, answers).await else {
        return;
    };
    let mut member = world.member(&[]);
    world.begin(&mut member).await;
    let rig = &world.rig;
    eventually("the first end", DEADLINE, async || {
        completed_by_codex(rig) == 1
    })
    .await
    .unwrap();
    world.hold(&mut member).await;
    member.process.stop().unwrap();
    world.gate.release();
    eventually(
        "the end of the turn in Codex's history",
        DEADLINE,
        async || completed_by_codex(rig) == 2,
    )
    .await
    .unwrap();
    member.process.kill9().await.unwrap();
    let mut member = world.member(&[]);
    let events = reported(&mut member).await;
    // The lane asks Codex after `Ready`, so the shim tells this end as one that it saw itself: the
    // completion has no `recovered`.
    check_end(agent, &events, false);
    member.shutdown().await;
    let held = world.model.requests();
    let held = held
        .iter()
        .filter(|request| request.last_user_text().contains("hold"));
    assert_eq!(held.count(), 1, "the model was asked once");
}

/// The shim died and the turn goes on in the daemon.
async fn still_running(agent: Agent) {
    let Some(world) = World::new(agent, answers).await else {
        return;
    };
    let _daemon = world.daemon().await;
    let mut member = world.member(&["--daemon", "require"]);
    world.begin(&mut member).await;
    world.hold(&mut member).await;
    member.process.kill9().await.unwrap();
    let mut member = world.member(&["--daemon", "require"]);
    let events = member.until("MessageDelivered").await;
    assert_eq!(
        names(&events),
        ["Ready", "StateChanged", "MessageDelivered"]
    );
    assert_eq!(
        (&events[1]["to"], &events[2]["id"], &events[2]["duplicate"]),
        (&json!("working"), &json!("m"), &json!(true))
    );
    world.gate.release();
    assert_eq!(member.event("Completion").await["response"], "held");
    assert_eq!(member.event("Completion").await["message_id"], "n");
    member.shutdown().await;
}

/// The worker died with the turn in the middle of it.
async fn interrupted(agent: Agent) {
    for policy in ["skip", "block", "retry"] {
        let Some(world) = World::new(agent, answers).await else {
            return;
        };
        let arguments = ["--on-unknown", policy];
        let mut member = world.member(&arguments);
        world.begin(&mut member).await;
        world.hold(&mut member).await;
        member.process.kill9().await.unwrap();
        world.gate.release();
        let mut member = world.member(&arguments);
        let ready = member.until("Ready").await;
        assert_eq!(names(&ready), ["Ready"]);
        if policy == "retry" {
            let events = member.until("Completion").await;
            let completion = events.last().unwrap();
            assert_eq!(completion["message_id"], "m", "{agent:?}");
            let delivered = of(&events, "MessageDelivered");
            let delivered = delivered.last().unwrap();
            assert_eq!(delivered["attempt"], 2, "{agent:?}: {events:?}");
        } else {
            let failed = member.event("DeliveryFailed").await;
            assert_eq!(failed["id"], "m", "{agent:?}");
            // Where Codex tells the end only after `Ready`, the shim has the word of a live turn.
            let is_late = agent != Agent::Native && failed["code"] == "interrupted";
            assert!(
                is_late || failed["code"] == "outcome_unknown",
                "{agent:?}: {failed}"
            );
        }
        if policy == "block" {
            member.send(json!({"cmd": "GetState"})).await;
            let state = member.event("State").await;
            assert_eq!(state["detail"], "blocked(failed_head)", "{agent:?}");
            member.message("m", "hold").await;
            let completion = member.event("Completion").await;
            assert_eq!(completion["message_id"], "m");
        }
        assert_eq!(member.event("Completion").await["message_id"], "n");
        member.shutdown().await;
    }
}

/// The worker died before Codex had taken the turn: it runs from the head, and nothing is reported.
async fn never_taken(agent: Agent) {
    let Some(world) = World::new(agent, answers).await else {
        return;
    };
    world.gate.release();
    let mut member = world.member(&[]);
    world.begin(&mut member).await;
    let workspace = world.rig.home.workspace();
    let late = workspace.join("late");
    std::fs::write(&late, "").unwrap();
    let app_servers = app_servers(&world.rig);
    if agent == Agent::Codex {
        assert!(!app_servers.is_empty());
    }
    for pid in app_servers {
        kill_process(pid, Signal::STOP).unwrap();
    }
    member.message("m", "hold").await;
    member.event("MessageDelivered").await;
    member.message("n", "next").await;
    member.event("Warning").await;
    if agent == Agent::CodexExec {
        let seen = workspace.join("late.seen");
        eventually("the child", DEADLINE, async || seen.exists())
            .await
            .unwrap();
    }
    member.process.kill9().await.unwrap();
    std::fs::remove_file(&late).unwrap();
    let mut member = world.member(&[]);
    let events = reported(&mut member).await;
    assert!(
        of(&events, "DeliveryFailed").is_empty(),
        "{agent:?}: {events:?}"
    );
    let mut told = receipts(&events, "m");
    // Where Codex says only after `Ready` that it never had the turn, the delivery of the first attempt
    // is told again before that of the second.
    let delivered = of(&events, "MessageDelivered");
    let attempts = delivered.iter().filter(|event| event["id"] == "m");
    let attempts: Vec<_> = attempts.map(|event| event["attempt"].clone()).collect();
    if agent == Agent::Codex && attempts == [json!(1), json!(2)] {
        told.remove(0);
    }
    assert_eq!(
        told,
        ["MessageDelivered", "Completion"],
        "{agent:?}: {events:?}"
    );
    member.shutdown().await;
}

/// The worker died when the row was about to be claimed: its turn had not begun.
#[tokio::test]
async fn a_turn_that_was_never_taken_runs_from_the_head_with_native() {
    let world = World::new(Agent::Native, answers).await.unwrap();
    world.gate.release();
    let mut member = world.member(&[]);
    world.begin(&mut member).await;
    member.shutdown().await;
    let mut variables = world.variables();
    variables.push((
        "TURNLANE_CRASH_AT".to_owned(),
        "claim:before-submit".to_owned(),
    ));
    let mut dying = world
        .rig
        .member_with(variables, &["--agent-type", "native"]);
    dying.event("Ready").await;
    dying.message("m", "hold").await;
    dying.message("n", "next").await;
    dying.rest().await;
    let status = dying.exit().await;
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    assert_eq!(signal, Some(9));
    let mut member = world.member(&[]);
    let ready = member.until("Ready").await;
    assert_eq!(names(&ready), ["Ready"], "{ready:?}");
    // The kill may have come before the second message was accepted; the sender repeats it.
    member.message("n", "next").await;
    let mut events = Vec::new();
    while receipts(&events, "n")
        .last()
        .is_none_or(|name| name != "Completion")
    {
        events.push(member.next().await.unwrap());
    }
    assert!(of(&events, "DeliveryFailed").is_empty(), "{events:?}");
    assert_eq!(receipts(&events, "m"), ["MessageDelivered", "Completion"]);
    member.shutdown().await;
    let requests = world.model.requests();
    let held = requests
        .iter()
        .filter(|request| request.last_user_text().contains("hold"));
    assert_eq!(held.count(), 1, "the model was asked once");
}

/// The app-servers of Codex that use this home.
fn app_servers(rig: &Rig) -> Vec<Pid> {
    with_word(rig, b"app-server")
}

/// The processes of Codex that use this home.
pub(super) fn codex_processes(rig: &Rig) -> Vec<Pid> {
    [with_word(rig, b"app-server"), with_word(rig, b"exec")].concat()
}

/// The processes with this home and this word on their command line.
fn with_word(rig: &Rig, wanted: &[u8]) -> Vec<Pid> {
    let home = format!("CODEX_HOME={}", rig.home.codex().display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let words = read("cmdline");
        let mut words = words.split(|byte| *byte == 0);
        let environment = read("environ");
        let mut environment = environment.split(|byte| *byte == 0);
        let is_server = words.any(|word| word == wanted);
        if is_server && environment.any(|pair| pair == home.as_bytes()) {
            let pid = entry.file_name().to_str().unwrap().parse().unwrap();
            found.extend(Pid::from_raw(pid));
        }
    }
    found
}

#[tokio::test]
async fn a_turn_that_the_daemon_ended_is_reported_with_native() {
    ended_by_the_daemon(Agent::Native).await;
}

#[tokio::test]
async fn a_turn_that_the_daemon_ended_is_reported_with_codex() {
    ended_by_the_daemon(Agent::Codex).await;
}

#[tokio::test]
async fn a_turn_that_the_daemon_ended_is_reported_with_codex_exec() {
    ended_by_the_daemon(Agent::CodexExec).await;
}

#[tokio::test]
async fn a_turn_that_ended_without_its_worker_is_read_back_with_codex() {
    ended_by_codex_alone(Agent::Codex).await;
}

#[tokio::test]
async fn a_turn_that_ended_without_its_worker_is_read_back_with_codex_exec() {
    ended_by_codex_alone(Agent::CodexExec).await;
}

#[tokio::test]
async fn a_turn_that_runs_in_the_daemon_goes_on_with_native() {
    still_running(Agent::Native).await;
}

#[tokio::test]
async fn a_turn_that_runs_in_the_daemon_goes_on_with_codex() {
    still_running(Agent::Codex).await;
}

#[tokio::test]
async fn a_turn_that_runs_in_the_daemon_goes_on_with_codex_exec() {
    still_running(Agent::CodexExec).await;
}

#[tokio::test]
async fn an_interrupted_turn_is_skipped_blocked_or_retried_with_native() {
    interrupted(Agent::Native).await;
}

#[tokio::test]
async fn an_interrupted_turn_is_skipped_blocked_or_retried_with_codex() {
    interrupted(Agent::Codex).await;
}

#[tokio::test]
async fn an_interrupted_turn_is_skipped_blocked_or_retried_with_codex_exec() {
    interrupted(Agent::CodexExec).await;
}

#[tokio::test]
async fn a_turn_that_was_never_taken_runs_from_the_head_with_codex() {
    never_taken(Agent::Codex).await;
}

#[tokio::test]
async fn a_turn_that_was_never_taken_runs_from_the_head_with_codex_exec() {
    never_taken(Agent::CodexExec).await;
}

#[tokio::test]
async fn a_message_whose_worker_died_three_times_does_not_hold_the_lane_where_it_is_skipped() {
    let Some(world) = World::new(Agent::Codex, answers).await else {
        return;
    };
    world.gate.release();
    let mut member = world.member(&[]);
    world.begin(&mut member).await;
    member.shutdown().await;
    for round in 0..3 {
        let mut variables = world.variables();
        let point = "engine:before-run".to_owned();
        variables.push(("TURNLANE_CRASH_AT".to_owned(), point));
        let mut dying = world.rig.member_with(variables, &["--agent-type", "codex"]);
        // Later it dies before it is ready: the row is claimed when the lane is taken.
        if round == 0 {
            dying.event("Ready").await;
            dying.message("m", "hold").await;
        }
        dying.rest().await;
        let status = dying.exit().await;
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        assert_eq!(signal, Some(9));
    }
    let mut member = world.member(&[]);
    member.event("Ready").await;
    member.message("n", "next").await;
    // `m` runs from the head or is reported; whichever it is, `n` runs.
    let completed = async {
        loop {
            if member.event("Completion").await["message_id"] == "n" {
                return;
            }
        }
    };
    let limit = std::time::Duration::from_secs(30);
    if tokio::time::timeout(limit, completed).await.is_err() {
        member.send(json!({"cmd": "GetState"})).await;
        panic!("the lane stands still: {}", member.event("State").await);
    }
    member.shutdown().await;
}

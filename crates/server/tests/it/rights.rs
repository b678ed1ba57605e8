//! The gate in front of commands without a sandbox: every door, every kind of client, every way to ask.

use serde_json::{Value, json};
use turnlane_server::{DOORS, PeerKind, ProcessSpawn};
use turnlane_testkit::wait::{DEADLINE, within};

use crate::support::{Client, World, turn};

/// `ask` asks about a command; `hold` lasts until the gate `go` is open.
const SCRIPT: &str = "version: 1
turns:
  - match: ask
    steps:
      - approve: {cmd: touch x, accepted: [{say: did it}], declined: [{say: left it}]}
  - match: hold
    steps:
      - await: {gate: go}
      - say: done
fallback: {say: hello}
";

const PEERS: [PeerKind; 4] = [
    PeerKind::Stdio,
    PeerKind::Unix,
    PeerKind::WebSocket,
    PeerKind::OpenWebSocket,
];

/// A way to say under which policy something is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Words {
    /// A member with the policy as an object.
    Object(&'static str),
    /// A member with a mode word.
    Mode(&'static str),
    /// The name of a permission profile.
    Profile(&'static str),
    /// A key of the configuration.
    Config(&'static str),
    /// Nothing: what the thread or the configuration says counts.
    Nothing,
}

/// Every way to ask for no sandbox, and for one.
const WORDS: [Words; 9] = [
    Words::Object("dangerFullAccess"),
    Words::Object("externalSandbox"),
    Words::Object("readOnly"),
    Words::Mode("danger-full-access"),
    Words::Mode("read-only"),
    Words::Profile(":danger-full-access"),
    Words::Profile(":read-only"),
    Words::Config("danger-full-access"),
    Words::Nothing,
];

impl Words {
    fn is_confined(self) -> bool {
        match self {
            Self::Object(word) => word == "readOnly",
            Self::Mode(word) | Self::Config(word) => word == "read-only",
            Self::Profile(word) => word == ":read-only",
            // Threads and configuration of these tests have no sandbox.
            Self::Nothing => false,
        }
    }

    /// The members to say it with, at this door; none where the door has no such words.
    fn members(self, door: &str) -> Option<Value> {
        let is_turn = !["thread/start", "thread/resume", "thread/fork"].contains(&door);
        if door == "fanout/create" {
            return match self {
                Self::Object(word) => Some(json!({"settings": {"sandbox": {"type": word}}})),
                Self::Mode(word) => Some(json!({"settings": {"sandbox": word}})),
                Self::Profile(_) | Self::Config(_) => None,
                Self::Nothing => Some(json!({})),
            };
        }
        match self {
            Self::Object(word) => Some(json!({"sandboxPolicy": {"type": word}})),
            Self::Mode(word) => Some(json!({"sandbox": word})),
            Self::Profile(word) if door == "command/exec" => {
                Some(json!({"permissionProfile": word}))
            }
            Self::Profile(word) => Some(json!({"permissions": word})),
            Self::Config(_) if is_turn => None,
            Self::Config(word) => Some(json!({"config": {"sandbox_mode": word}})),
            Self::Nothing => Some(json!({})),
        }
    }
}

fn joined(mut one: Value, other: Value) -> Value {
    let Value::Object(members) = other else {
        panic!("members");
    };
    one.as_object_mut().unwrap().extend(members);
    one
}

/// The owner of the threads: a client that may do everything.
struct Owner {
    client: Client,
    /// The number of turns that were started and stand at the gate.
    held: usize,
}

impl Owner {
    async fn new(world: &World) -> Self {
        Self {
            client: world.knowing_client().await,
            held: 0,
        }
    }

    /// A turn that runs until the gate is open; its id.
    async fn hold(&mut self, world: &World, thread: &str) -> String {
        let turn = self.client.turn(thread, "hold").await;
        self.held += 1;
        let reached = world.gates.reached_by("go", self.held);
        within("the turn at the gate", DEADLINE, reached)
            .await
            .unwrap();
        turn
    }

    /// A thread with this mode.
    async fn thread(&mut self, mode: &str) -> String {
        let answer = self
            .client
            .ok("thread/start", json!({"sandbox": mode}))
            .await;
        answer["thread"]["id"].as_str().unwrap().to_owned()
    }

    /// The thread for a case. A case that says nothing finds a thread without a sandbox; every other
    /// one finds a confined thread, so that its own words alone decide.
    async fn thread_for(&mut self, words: Words) -> String {
        let mode = match words {
            Words::Nothing => "danger-full-access",
            _ => "read-only",
        };
        self.thread(mode).await
    }

    /// The params of a call through this door that asks for this; none where there is no such call.
    async fn params(&mut self, world: &World, door: &str, words: Words) -> Option<Value> {
        let members = words.members(door)?;
        Some(match door {
            "command/exec" => joined(json!({"command": ["true"]}), members),
            "process/spawn" if words == Words::Nothing => {
                json!({"processHandle": "h", "command": ["true"], "cwd": "/"})
            }
            "thread/start" => members,
            // Without a word about the next turns a resume only follows.
            "thread/resume" | "thread/settings/update" => {
                let thread = self.thread_for(words).await;
                joined(json!({"threadId": thread, "model": "other"}), members)
            }
            "thread/fork" => joined(json!({"threadId": self.thread_for(words).await}), members),
            "turn/start" => joined(turn(&self.thread_for(words).await, "hello"), members),
            "thread/queue/add" => {
                let thread = self.thread_for(words).await;
                let start = joined(turn(&thread, "hello"), members);
                json!({"threadId": thread, "turnStartParams": start})
            }
            "thread/queue/update" => {
                let thread = self.thread_for(words).await;
                let named = json!({"threadId": thread});
                self.client.ok("thread/queue/pause", named.clone()).await;
                let add = joined(named, json!({"turnStartParams": turn(&thread, "hello")}));
                let added = self.client.ok("thread/queue/add", add).await;
                let start = joined(turn(&thread, "other words"), members);
                json!({"threadId": thread, "queuedTurnId": added["queuedTurn"]["id"],
                    "turnStartParams": start})
            }
            "turn/steer" if words == Words::Nothing => {
                let thread = self.thread("danger-full-access").await;
                let running = self.hold(world, &thread).await;
                json!({"threadId": thread, "expectedTurnId": running,
                    "input": [{"type": "text", "text": "more"}]})
            }
            "approval/respond" if words == Words::Nothing => {
                let thread = self.thread("danger-full-access").await;
                self.client.turn(&thread, "ask").await;
                let wanted = json!({"change": "requested", "approval": {"threadId": thread}});
                let asked = self.client.told("approval/changed", wanted).await;
                let id = &asked["params"]["approval"]["approvalId"];
                json!({"approvalId": id, "decision": "accept"})
            }
            "fanout/create" => joined(json!({"instruction": "hello"}), members),
            // Whatever its state: the rights are looked at first.
            "fanout/start" | "fanout/resume" | "fanout/retry" if words == Words::Nothing => {
                let create = json!({"instruction": "hello",
                    "settings": {"sandbox": "danger-full-access"}});
                let created = self.client.ok("fanout/create", create).await;
                json!({"jobId": created["job"]["id"]})
            }
            "process/spawn" | "turn/steer" | "approval/respond" | "fanout/start"
            | "fanout/resume" | "fanout/retry" => return None,
            other => panic!("{other} is a door without a case in this test"),
        })
    }
}

#[tokio::test]
async fn nothing_runs_unconfined_for_a_client_that_may_not() {
    let world = World::start(SCRIPT).await;
    let mut owner = Owner::new(&world).await;
    for spawn in [ProcessSpawn::Allow, ProcessSpawn::Deny] {
        let server = world.server_with(spawn);
        for peer in PEERS {
            let is_trusted = spawn == ProcessSpawn::Allow && peer != PeerKind::OpenWebSocket;
            let mut client = Client::of_kind(&server, peer).await;
            for door in DOORS {
                let mut cases = 0;
                for words in WORDS {
                    let Some(params) = owner.params(&world, door, words).await else {
                        continue;
                    };
                    cases += 1;
                    let what = format!("{door} {words:?} for {peer:?} with {spawn:?}: {params}");
                    let answer = client.0.call(door, params).await.unwrap();
                    let reason = answer["error"]["data"]["reason"].as_str();
                    let refused = match *door {
                        "process/spawn" => reason == Some("disabled"),
                        _ => reason == Some("unconfinedDenied"),
                    };
                    let expected = !is_trusted && !words.is_confined();
                    assert_eq!(refused, expected, "{what}: {answer}");
                }
                assert!(cases > 0, "{door} has no case");
            }
        }
    }
}

async fn open_client(world: &World) -> Client {
    Client::of_kind(&world.server, PeerKind::OpenWebSocket).await
}

#[tokio::test]
async fn a_waiting_row_does_not_gain_the_rights_that_its_thread_gains_later() {
    let world = World::start(SCRIPT).await;
    let mut owner = Owner::new(&world).await;
    let thread = owner.thread("read-only").await;
    let named = json!({"threadId": thread});
    owner.client.ok("thread/queue/pause", named.clone()).await;
    let mut client = open_client(&world).await;
    let add = json!({"threadId": thread, "turnStartParams": turn(&thread, "hello"),
        "onCannotStart": "block"});
    let added = client.ok("thread/queue/add", add).await;
    let wider = joined(
        named.clone(),
        json!({"sandboxPolicy": "danger-full-access"}),
    );
    owner.client.ok("thread/settings/update", wider).await;
    let start = owner.client.err("thread/queue/start", named.clone()).await;
    let text = "the turn requires a sandbox, and the thread has none";
    assert!(start["message"].as_str().unwrap().contains(text), "{start}");
    let listed = owner.client.ok("thread/queue/list", named.clone()).await;
    let row = &listed["data"][0];
    assert_eq!(row["id"], added["queuedTurn"]["id"], "it still waits");
    // Confined again, it runs.
    let narrower = joined(named.clone(), json!({"sandboxPolicy": "read-only"}));
    owner.client.ok("thread/settings/update", narrower).await;
    let retry = joined(named, json!({"queuedTurnId": row["id"]}));
    let retried = owner.client.ok("thread/queue/retry", retry).await;
    let turn = retried["queuedTurn"]["turnId"].as_str().unwrap().to_owned();
    assert_eq!(owner.client.ended(&turn).await["status"], "completed");
}

#[tokio::test]
async fn new_words_in_the_row_of_another_client_run_with_the_rights_of_their_author() {
    let world = World::start(SCRIPT).await;
    let mut owner = Owner::new(&world).await;
    let thread = owner.thread("read-only").await;
    let named = json!({"threadId": thread});
    owner.client.ok("thread/queue/pause", named.clone()).await;
    let start = joined(
        turn(&thread, "hello"),
        json!({"sandboxPolicy": "danger-full-access"}),
    );
    let add = joined(named.clone(), json!({"turnStartParams": start}));
    let added = owner.client.ok("thread/queue/add", add).await;
    let mut client = open_client(&world).await;
    let update = joined(
        named.clone(),
        json!({"queuedTurnId": added["queuedTurn"]["id"],
        "input": [{"type": "text", "text": "other words"}]}),
    );
    let updated = client.ok("thread/queue/update", update).await;
    let params = &updated["queuedTurn"]["turnStartParams"];
    assert_eq!(params["requireSandbox"], true, "{updated}");
    let refused = owner.client.err("thread/queue/start", named).await;
    let text = "the turn requires a sandbox, and the thread has none";
    assert!(
        refused["message"].as_str().unwrap().contains(text),
        "{refused}"
    );
}

#[tokio::test]
async fn a_start_that_would_become_a_steer_of_an_unconfined_turn_is_refused() {
    let world = World::start(SCRIPT).await;
    let mut owner = Owner::new(&world).await;
    let thread = owner.thread("danger-full-access").await;
    let running = owner.hold(&world, &thread).await;
    // The thread is confined by now, the running turn is not.
    let narrower = json!({"threadId": thread, "sandboxPolicy": "read-only"});
    owner.client.ok("thread/settings/update", narrower).await;
    let mut client = open_client(&world).await;
    let steer = json!({"threadId": thread, "expectedTurnId": running,
        "input": [{"type": "text", "text": "more"}]});
    for (method, params) in [("turn/start", turn(&thread, "more")), ("turn/steer", steer)] {
        let error = client.err(method, params).await;
        assert_eq!(
            error["data"]["reason"], "unconfinedDenied",
            "{method}: {error}"
        );
    }
    world.gates.open("go");
    assert_eq!(owner.client.ended(&running).await["status"], "completed");
}

#[tokio::test]
async fn an_accept_that_leaves_the_sandbox_counts_only_from_a_client_that_may() {
    const METHOD: &str = "item/commandExecution/requestApproval";
    let world = World::start(SCRIPT).await;
    let mut owner = Owner::new(&world).await;
    let thread = owner.thread("danger-full-access").await;
    let mut client = open_client(&world).await;
    client
        .ok("thread/resume", json!({"threadId": thread}))
        .await;
    let running = owner.client.turn(&thread, "ask").await;
    let asked = client.0.message(METHOD).await.unwrap();
    let accept = json!({"id": asked["id"], "result": {"decision": "accept"}});
    client.0.send(&accept).await.unwrap();
    let warned = client.told("warning", json!({"threadId": thread})).await;
    let text = warned["params"]["message"].as_str().unwrap();
    assert!(text.contains("stays open"), "{text}");
    let id = &asked["params"]["approvalId"];
    let respond = |decision: &str| json!({"approvalId": id, "decision": decision});
    let error = client
        .err("approval/respond", respond("acceptForSession"))
        .await;
    assert_eq!(error["data"]["reason"], "unconfinedDenied", "{error}");
    let open = owner.client.ok("approval/list", json!({})).await;
    assert_eq!(&open["data"][0]["approvalId"], id, "the question is open");
    // It may still say no, and the owner may say yes.
    owner.client.ok("approval/respond", respond("accept")).await;
    let ended = owner.client.ended(&running).await;
    assert_eq!(ended["items"][0]["text"], "did it");
    let again = owner.client.turn(&thread, "ask").await;
    let asked = client
        .told(
            "approval/changed",
            json!({"change": "requested", "approval": {"turnId": again}}),
        )
        .await;
    let id = &asked["params"]["approval"]["approvalId"];
    let decline = json!({"approvalId": id, "decision": "decline"});
    client.ok("approval/respond", decline).await;
    let ended = owner.client.ended(&again).await;
    assert_eq!(ended["items"][0]["text"], "left it");
}

#[tokio::test]
async fn only_the_listed_decisions_of_a_question_are_taken() {
    let world = World::start(SCRIPT).await;
    let mut owner = Owner::new(&world).await;
    let thread = owner.thread("read-only").await;
    let running = owner.client.turn(&thread, "ask").await;
    let wanted = json!({"change": "requested"});
    let asked = owner.client.told("approval/changed", wanted).await;
    let id = asked["params"]["approval"]["approvalId"].clone();
    let rule = json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["touch"]}});
    for decision in [
        rule,
        json!("Accept"),
        json!("accept "),
        json!("approved"),
        json!("yes"),
        json!(true),
        json!(["accept"]),
        json!({"accept": null}),
        json!({"accept": {}}),
        json!({"acceptForSession": null}),
        json!({"acceptWithExecpolicyAmendment": [["touch"]]}),
        json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["touch"]}, "x": 1}),
        json!(null),
    ] {
        let params = json!({"approvalId": id, "decision": decision});
        let error = owner.client.err("approval/respond", params).await;
        assert_eq!(
            error["data"]["reason"], "invalidParams",
            "{decision}: {error}"
        );
    }
    let open = owner.client.ok("approval/list", json!({})).await;
    assert_eq!(open["data"][0]["approvalId"], id, "the question is open");
    let decline = json!({"approvalId": id, "decision": "decline"});
    owner.client.ok("approval/respond", decline).await;
    let ended = owner.client.ended(&running).await;
    assert_eq!(ended["items"][0]["text"], "left it");
}

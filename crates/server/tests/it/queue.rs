//! The queue over the wire: rows wait in order, are shown, changed and run, in both dialects.

use serde_json::{Value, json};

use crate::support::{Client, ECHO, World, turn};

/// A turn that says `hold` lasts until the gate `go` is open, and `last` until `end` is.
pub(crate) const HOLD: &str = "version: 1
turns:
  - match: hold
    steps:
      - await: {gate: go}
      - say: done
  - match: last
    steps:
      - await: {gate: end}
fallback: {say: \"You said: {input}\"}
";

pub(crate) fn input(text: &str) -> Value {
    json!([{"type": "text", "text": text, "text_elements": []}])
}

/// Params of an add in the words of the reference design.
pub(crate) fn whole(thread: &str, text: &str) -> Value {
    json!({"threadId": thread, "turnStartParams": {"threadId": thread, "input": input(text)}})
}

/// Params of an add in Codex's words.
pub(crate) fn submission(thread: &str, text: &str, id: &str) -> Value {
    json!({"threadId": thread, "input": input(text), "clientUserMessageId": id})
}

impl Client {
    /// Adds a row; the row.
    pub(crate) async fn add(&mut self, thread: &str, text: &str) -> Value {
        let answer = self.ok("thread/queue/add", whole(thread, text)).await;
        answer["queuedTurn"].clone()
    }

    /// A thread whose turn lasts until the gate is open; thread and turn.
    pub(crate) async fn busy(&mut self) -> (String, String) {
        let thread = self.thread().await;
        let turn = self.turn(&thread, "hold").await;
        (thread, turn)
    }

    /// The answer to a list of everything.
    pub(crate) async fn queue(&mut self, thread: &str) -> Value {
        let params = json!({"threadId": thread, "limit": 100});
        self.ok("thread/queue/list", params).await
    }

    /// What the rows say, in their order.
    pub(crate) async fn waiting(&mut self, thread: &str) -> Vec<String> {
        said(&self.queue(thread).await["data"])
    }

    /// The texts of the turns that a thread has had, oldest first.
    pub(crate) async fn history(&mut self, thread: &str) -> Vec<String> {
        let params = json!({"threadId": thread, "includeTurns": true});
        let read = self.ok("thread/read", params).await;
        let turns = read["thread"]["turns"].as_array().unwrap().iter();
        let text = |turn: &Value| turn["items"][0]["content"][0]["text"].clone();
        turns
            .map(|turn| text(turn).as_str().unwrap().to_owned())
            .collect()
    }
}

/// What rows say.
pub(crate) fn said(rows: &Value) -> Vec<String> {
    let text = |row: &Value| row["input"][0]["text"].as_str().unwrap().to_owned();
    rows.as_array().unwrap().iter().map(text).collect()
}

#[tokio::test]
async fn a_row_on_an_idle_lane_is_answered_shown_taken_and_run() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    client.settle().await;
    let from = client.0.received().len();
    let row = client.add(&thread, "hello").await;
    assert_eq!(row["status"], json!({"type": "pending"}));
    let turn = row["turnId"].as_str().unwrap().to_owned();
    let ended = client.ended(&turn).await;
    assert_eq!(ended["status"], "completed");
    assert_eq!(ended["queuedTurnId"], row["id"]);
    assert_eq!(ended["source"], "queue");
    client.settle().await;

    let told = &client.0.received()[from..];
    let words: Vec<_> = client.words(from);
    let changed: Vec<_> = told
        .iter()
        .filter(|message| message["method"] == "thread/queue/changed")
        .map(|message| said(&message["params"]["queuedTurns"]))
        .collect();
    assert_eq!(changed, [vec!["hello".to_owned()], vec![]]);
    let beginning = [
        "answer",
        "thread/queue/changed",
        "thread/queue/changed",
        "thread/status/changed",
        "turn/started",
        "item/started",
    ];
    assert_eq!(words[..beginning.len()], beginning);
    let message = told.iter().find(|told| told["method"] == "item/started");
    let item = &message.unwrap()["params"]["item"];
    assert_eq!(item["clientId"], row["id"], "no client has named it");
    let listed = client.queue(&thread).await;
    assert_eq!(listed["data"], json!([]));
    assert_eq!(listed["nextCursor"], Value::Null);
    assert_eq!(listed["depth"], 0);
    assert_eq!(listed["running"], Value::Null);
}

#[tokio::test]
async fn a_row_says_everything_in_both_dialects() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, running) = client.busy().await;
    let mut params = whole(&thread, "one");
    params["turnStartParams"]["model"] = json!("other");
    params["turnStartParams"]["clientUserMessageId"] = json!("c-1");
    let answer = client.ok("thread/queue/add", params.clone()).await;
    assert_eq!(answer["queuedTurn"], answer["queuedSubmission"]);
    assert_eq!(answer["deduplicated"], false);
    assert!(answer.get("turnId").is_none() && answer.get("state").is_none());
    let mut row = answer["queuedTurn"].clone();
    for member in ["id", "turnId", "createdAtMs", "updatedAtMs"] {
        assert!(!row[member].take().is_null(), "{member}");
    }
    let expected = json!({"id": null, "status": {"type": "pending"},
        "turnStartParams": params["turnStartParams"], "input": input("one"),
        "clientUserMessageId": "c-1", "turnId": null, "lastTurnId": null, "position": 0,
        "attempts": 0, "notBeforeMs": null, "source": "queue", "createdAtMs": null,
        "updatedAtMs": null});
    assert_eq!(row, expected);

    let mut params = submission(&thread, "two", "c-2");
    params["source"] = json!("shim");
    let answer = client.ok("thread/queue/add", params).await;
    let row = &answer["queuedSubmission"];
    assert_eq!(row["position"], 1);
    assert_eq!(row["source"], "shim");
    let stored = json!({"threadId": thread, "input": input("two"), "clientUserMessageId": "c-2"});
    assert_eq!(row["turnStartParams"], stored);
    let listed = client.queue(&thread).await;
    assert_eq!(listed["data"][1], *row);
    assert_eq!(listed["depth"], 2);
    assert_eq!(listed["running"]["turnId"], running.as_str());
    for member in ["paused", "waiting", "blocked"] {
        assert_eq!(listed[member], Value::Null, "{member}");
    }
    let told = client
        .told("thread/queue/changed", json!({"depth": 2}))
        .await;
    let told = &told["params"];
    assert_eq!(told["queuedTurns"], listed["data"]);
    assert_eq!(told["truncated"], false);
    assert_eq!(told["revision"], listed["revision"]);
    assert_eq!(told["running"], listed["running"]);
}

#[tokio::test]
async fn rows_are_listed_in_pages_reordered_deleted_and_run_one_by_one() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, running) = client.busy().await;
    let mut rows = Vec::new();
    for text in ["a", "b", "c", "d"] {
        rows.push(client.add(&thread, text).await);
    }
    let mut cursor = Value::Null;
    for (index, row) in rows.iter().enumerate() {
        let params = json!({"threadId": thread, "limit": 1, "cursor": cursor});
        let page = client.ok("thread/queue/list", params).await;
        assert_eq!(page["data"], json!([row]), "page {index}");
        assert_eq!(page["depth"], 4);
        cursor = page["nextCursor"].clone();
    }
    assert_eq!(cursor, Value::Null);

    let mut order: Vec<_> = rows.iter().map(|row| row["id"].clone()).collect();
    order.reverse();
    let params = json!({"threadId": thread, "queuedTurnIds": order});
    let answer = client.ok("thread/queue/reorder", params).await;
    assert_eq!(said(&answer["queuedTurns"]), ["d", "c", "b", "a"]);
    let positions = [0, 1, 2, 3].map(Value::from);
    let shown = answer["queuedTurns"].as_array().unwrap();
    assert!(shown.iter().map(|row| &row["position"]).eq(&positions));
    order.swap(0, 1);
    let params = json!({"threadId": thread, "queuedSubmissionIds": order});
    client.ok("thread/queue/reorder", params).await;
    assert_eq!(client.waiting(&thread).await, ["c", "d", "b", "a"]);

    let deleted = json!({"threadId": thread, "queuedTurnId": rows[3]["id"]});
    let answer = client.ok("thread/queue/delete", deleted).await;
    assert_eq!(answer, json!({"deleted": true}));
    let deleted = json!({"threadId": thread, "queuedSubmissionId": rows[1]["id"]});
    client.ok("thread/queue/delete", deleted).await;
    assert_eq!(client.waiting(&thread).await, ["c", "a"]);

    world.gates.open("go");
    client.ended(&running).await;
    client.ended(rows[0]["turnId"].as_str().unwrap()).await;
    assert_eq!(client.history(&thread).await, ["hold", "c", "a"]);
}

#[tokio::test]
async fn a_cursor_is_a_place_or_an_offset_and_beyond_the_end_is_nothing() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, _) = client.busy().await;
    for number in 0..5 {
        client.add(&thread, &number.to_string()).await;
    }
    let mut page = async |cursor: &str, limit: u32| {
        let params = json!({"threadId": thread, "cursor": cursor, "limit": limit});
        client.ok("thread/queue/list", params).await
    };
    let first = page("0", 2).await;
    assert_eq!(said(&first["data"]), ["0", "1"]);
    let next = first["nextCursor"].as_str().unwrap();
    assert!(next.starts_with('p'), "{next}");
    let second = page(next, 2).await;
    assert_eq!(said(&second["data"]), ["2", "3"]);
    assert_eq!(second["data"][0]["position"], 2, "counted from the head");
    assert_eq!(said(&page("3", 100).await["data"]), ["3", "4"]);
    assert_eq!(page("3", 100).await["data"][0]["position"], 3);
    assert_eq!(said(&page("0", 0).await["data"]), ["0"], "0 is 1");
    for beyond in ["5", "999", "99999999999999999999", "p9000000000000000000"] {
        let empty = page(beyond, 2).await;
        assert_eq!(empty["data"], json!([]), "{beyond}");
        assert_eq!(empty["nextCursor"], Value::Null, "{beyond}");
    }
}

#[tokio::test]
async fn paging_while_the_lane_drains_skips_no_row_that_stays() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, _) = client.busy().await;
    for text in ["runs", "last", "0", "1", "2", "3"] {
        client.add(&thread, text).await;
    }
    let params = json!({"threadId": thread, "limit": 3});
    let page = client.ok("thread/queue/list", params).await;
    assert_eq!(said(&page["data"]), ["runs", "last", "0"]);
    // Two rows leave while the reader looks at its page.
    let last = page["data"][1]["turnId"].clone();
    world.gates.open("go");
    client
        .told("turn/started", json!({"turn": {"id": last}}))
        .await;
    assert_eq!(client.waiting(&thread).await, ["0", "1", "2", "3"]);
    let params = json!({"threadId": thread, "limit": 10, "cursor": page["nextCursor"]});
    let rest = client.ok("thread/queue/list", params).await;
    assert_eq!(said(&rest["data"]), ["1", "2", "3"]);
    assert_eq!(rest["data"][0]["position"], 1);
}

#[tokio::test]
async fn an_update_changes_what_is_said_or_everything_and_nothing_else() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, running) = client.busy().await;
    client.add(&thread, "first").await;
    let mut params = whole(&thread, "before");
    params["turnStartParams"]["model"] = json!("kept");
    params["turnStartParams"]["clientUserMessageId"] = json!("mine");
    let row = client.ok("thread/queue/add", params).await["queuedTurn"].clone();

    let params = json!({"threadId": thread, "queuedSubmissionId": row["id"],
        "input": input("after")});
    let answer = client.ok("thread/queue/update", params).await;
    assert_eq!(answer["queuedSubmission"], answer["queuedTurn"]);
    let mut expected = row.clone();
    expected["input"] = input("after");
    expected["turnStartParams"]["input"] = input("after");
    expected["updatedAtMs"] = answer["queuedTurn"]["updatedAtMs"].clone();
    assert_eq!(answer["queuedTurn"], expected, "place, ids and model stay");

    let new = json!({"threadId": thread, "input": input("anew"), "effort": "low",
        "clientUserMessageId": "other"});
    let params = json!({"threadId": thread, "queuedTurnId": row["id"], "turnStartParams": new});
    let answer = client.ok("thread/queue/update", params).await;
    let shown = &answer["queuedTurn"];
    assert_eq!(shown["clientUserMessageId"], "mine");
    assert_eq!(shown["position"], 1);
    let stored = json!({"threadId": thread, "input": input("anew"), "effort": "low",
        "clientUserMessageId": "mine"});
    assert_eq!(shown["turnStartParams"], stored);

    world.gates.open("go");
    client.ended(&running).await;
    client.ended(row["turnId"].as_str().unwrap()).await;
    assert_eq!(client.history(&thread).await, ["hold", "first", "anew"]);
}

#[tokio::test]
async fn a_row_moves_before_behind_and_to_a_place() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, _) = client.busy().await;
    let mut id = Vec::new();
    for text in ["a", "b", "c"] {
        id.push(client.add(&thread, text).await["id"].clone());
    }
    let steps = [
        (2, json!({"beforeId": id[0]}), 0, ["c", "a", "b"]),
        (0, json!({"afterId": id[1]}), 2, ["c", "b", "a"]),
        (0, json!({"position": 1}), 1, ["c", "a", "b"]),
        (2, json!({"position": 99}), 2, ["a", "b", "c"]),
        (2, json!({"position": 99}), 2, ["a", "b", "c"]),
        (1, json!({"position": 0}), 0, ["b", "a", "c"]),
    ];
    for (row, mut params, position, order) in steps {
        params["threadId"] = json!(thread);
        params["queuedTurnId"] = id[row].clone();
        let answer = client.ok("thread/queue/move", params.clone()).await;
        assert_eq!(answer["queuedTurn"]["id"], id[row], "{params}");
        assert_eq!(answer["queuedTurn"]["position"], position, "{params}");
        assert_eq!(client.waiting(&thread).await, order, "{params}");
    }
}

#[tokio::test]
async fn a_row_that_runs_is_hidden_and_cannot_be_touched() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let row = client.add(&thread, "hold").await;
    let turn = row["turnId"].as_str().unwrap().to_owned();
    client
        .told("turn/started", json!({"turn": {"id": turn}}))
        .await;
    let later = client.add(&thread, "later").await;
    assert_eq!(client.waiting(&thread).await, ["later"]);
    let running = client.queue(&thread).await["running"].clone();
    assert_eq!(running, json!({"queuedTurnId": row["id"], "turnId": turn}));

    let named = json!({"threadId": thread, "queuedTurnId": row["id"]});
    let answer = client.ok("thread/queue/delete", named.clone()).await;
    assert_eq!(answer, json!({"deleted": false}));
    let mut changes = vec![("thread/queue/retry", named.clone())];
    let mut update = named.clone();
    update["input"] = input("x");
    changes.push(("thread/queue/update", update));
    let mut to = named;
    to["position"] = json!(0);
    changes.push(("thread/queue/move", to));
    for (method, params) in changes {
        let error = client.err(method, params).await;
        let text = format!(
            "queued submission not found: {}",
            row["id"].as_str().unwrap()
        );
        assert_eq!(error["message"], text, "{method}");
        assert_eq!(error["data"]["reason"], "queuedTurnNotFound");
    }
    let both = json!([row["id"], later["id"]]);
    let params = json!({"threadId": thread, "queuedTurnIds": both});
    let error = client.err("thread/queue/reorder", params).await;
    assert_eq!(error["data"]["reason"], "staleOrder");
    let params = json!({"threadId": thread, "queuedTurnIds": [later["id"]]});
    client.ok("thread/queue/reorder", params).await;
}

#[tokio::test]
async fn adds_sent_at_once_are_answered_and_run_in_the_order_they_were_sent() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, running) = client.busy().await;
    let mut requests = Vec::new();
    for number in 0..32 {
        let params = whole(&thread, &number.to_string());
        requests.push(client.0.request("thread/queue/add", params).await.unwrap());
    }
    let mut last = Value::Null;
    for (number, id) in requests.iter().enumerate() {
        let answer = client.0.answer(*id).await.unwrap();
        last = answer["result"]["queuedTurn"].clone();
        assert_eq!(last["position"], number);
    }
    let expected: Vec<_> = (0..32).map(|number| number.to_string()).collect();
    assert_eq!(client.waiting(&thread).await, expected);
    world.gates.open("go");
    client.ended(&running).await;
    client.ended(last["turnId"].as_str().unwrap()).await;
    assert_eq!(client.history(&thread).await[1..], expected);
}

#[tokio::test]
async fn a_row_added_right_after_a_direct_turn_waits_for_it() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let direct = client
        .0
        .request("turn/start", turn(&thread, "direct"))
        .await;
    let row = client.add(&thread, "row").await;
    client.0.answer(direct.unwrap()).await.unwrap();
    client.ended(row["turnId"].as_str().unwrap()).await;
    assert_eq!(client.history(&thread).await, ["direct", "row"]);
}

#[tokio::test]
async fn whoever_adds_a_row_does_not_follow_the_thread() {
    let world = World::start(HOLD).await;
    let (mut owner, mut guest) = (world.client().await, world.client().await);
    let (thread, running) = owner.busy().await;
    let from = guest.0.received().len();
    let row = guest.add(&thread, "from a guest").await;
    world.gates.open("go");
    owner.ended(&running).await;
    owner.ended(row["turnId"].as_str().unwrap()).await;
    guest.settle().await;
    let told = guest.words(from);
    let not_for_guests = |word: &String| word.starts_with("turn/") || word.contains("queue");
    assert!(!told.iter().any(not_for_guests), "{told:?}");
    // A snapshot comes with the subscription.
    let resume = json!({"threadId": thread});
    guest.ok("thread/resume", resume).await;
    let empty = json!({"threadId": thread, "depth": 0, "queuedTurns": []});
    guest.told("thread/queue/changed", empty).await;
}

#[tokio::test]
async fn a_row_is_run_with_its_settings_and_the_rest_is_the_threads_own() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    let (thread, running) = client.busy().await;
    let mut params = whole(&thread, "with another model");
    params["turnStartParams"]["model"] = json!("of the row");
    let row = client.ok("thread/queue/add", params).await["queuedTurn"].clone();
    // What the thread is set to meanwhile counts where the row is silent.
    let effort = json!({"threadId": thread, "effort": "high"});
    client.ok("thread/settings/update", effort).await;
    world.gates.open("go");
    client.ended(&running).await;
    client.ended(row["turnId"].as_str().unwrap()).await;
    let settings = json!({"threadSettings": {"model": "of the row", "effort": "high"}});
    client.told("thread/settings/updated", settings).await;
}

#[tokio::test]
async fn a_thread_with_nothing_but_a_row_is_listed_and_its_queue_is_shown() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let paused = client
        .ok("thread/queue/pause", json!({"threadId": thread}))
        .await;
    assert_eq!(paused["depth"], 0);
    client.add(&thread, "waits").await;
    let listed = client.ok("thread/list", json!({})).await;
    assert_eq!(listed["data"][0]["id"], thread.as_str());
    let queue = &listed["data"][0]["queue"];
    assert_eq!(queue["depth"], 1);
    assert_eq!(queue["paused"]["reason"], "user");
    assert_eq!(queue["paused"]["by"], "test");
}

#[tokio::test]
async fn clients_without_the_capability_have_no_queue() {
    let world = World::start(ECHO).await;
    let mut plain = world.client_with(json!({})).await;
    let thread = plain.thread().await;
    for name in [
        "add", "list", "update", "delete", "reorder", "start", "retry", "move", "pause", "resume",
    ] {
        let method = format!("thread/queue/{name}");
        let error = plain.err(&method, json!({"threadId": thread})).await;
        let text = format!("{method} requires experimentalApi capability");
        assert_eq!(error["message"], text);
        assert_eq!(error["data"]["reason"], "experimental");
    }
    let mut client = world.client().await;
    let from = plain.0.received().len();
    let row = client.add(&thread, "x").await;
    plain.ended(row["turnId"].as_str().unwrap()).await;
    assert!(!plain.words(from).iter().any(|word| word.contains("queue")));
}

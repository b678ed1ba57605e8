//! `fanout/*`: jobs over the wire, their refusals, lists and notifications.

mod feed;

use std::collections::HashSet;

use serde_json::{Value, json};
use turnlane_runtime::store::Json;
use turnlane_runtime::store::fanout::{ImportBatch, ImportProgress, JobKey, NewItemRow, SealJob};
use turnlane_server::{FanoutOptions, Options, PeerKind, Server};

use crate::support::{Client, World};

/// Every item says something; `gated` waits for the gate `go` first.
const SCRIPT: &str = "version: 1
turns:
  - match: gated
    steps:
      - await: {gate: go}
      - say: held
fallback: {say: hello}
";

/// A job whose workers deliver their final message; its id.
async fn created(client: &mut Client, members: Value) -> String {
    let mut params = json!({"instruction": "say {name}", "resultChannel": "text"});
    let Value::Object(members) = members else {
        panic!("members");
    };
    params.as_object_mut().unwrap().extend(members);
    let answer = client.ok("fanout/create", params).await;
    answer["job"]["id"].as_str().unwrap().to_owned()
}

/// Gives a job rows with these names, and seals it.
async fn filled(world: &World, job: &str, names: &[String]) {
    let store = world.handle().store().clone();
    let row = store.job(JobKey::Id(job.to_owned())).await.unwrap();
    let no = row.unwrap().no;
    let rows = names.iter().zip(0..).map(|(name, seq)| NewItemRow {
        seq,
        item_id: None,
        cells: Json::new(json!([name]).to_string()),
        skipped: None,
        dup_of: None,
    });
    let batch = ImportBatch {
        job: no,
        from_offset: 0,
        progress: ImportProgress {
            offset: 1,
            ..ImportProgress::default()
        },
        columns: Json::new("[\"name\"]"),
        rows: rows.collect(),
    };
    store.import_rows(batch).await.unwrap();
    let seal = SealJob {
        job: no,
        fingerprint: [7; 32],
        at_ms: 1,
    };
    store.seal_job(seal).await.unwrap();
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("n{number}")).collect()
}

async fn refused(client: &mut Client, method: &str, params: Value) -> (String, Value) {
    let error = client.err(method, params).await;
    assert_eq!(error["code"], -32600, "{error}");
    let reason = error["data"]["reason"].as_str().unwrap().to_owned();
    (reason, error)
}

#[tokio::test]
async fn a_job_is_created_once_and_shows_everything() {
    let world = World::start(SCRIPT).await;
    let mut client = world.client().await;
    let params = json!({"clientJobId": "ci-1", "name": "review", "idColumn": "name",
        "outputSchema": {"type": "object"},
        "limits": {"concurrency": 3, "maxFailures": "50%"},
        "settings": {"sandbox": "read-only", "cwd": world.folder.path()}});
    let id = created(&mut client, params.clone()).await;
    assert_eq!(created(&mut client, params).await, id);
    let job = client.ok("fanout/read", json!({"jobId": id})).await["job"].clone();
    assert_eq!(job["state"], "importing");
    assert_eq!(job["name"], "review");
    assert_eq!(job["owner"], "detached");
    assert_eq!(job["instruction"], "say {name}");
    assert_eq!(job["outputSchema"], json!({"type": "object"}));
    assert_eq!(job["idColumn"], "name");
    assert_eq!(job["resultChannel"], "text");
    assert_eq!(job["limits"]["concurrency"], 3);
    assert_eq!(job["limits"]["maxFailures"], "50%");
    assert_eq!(job["settings"]["sandbox"]["type"], "readOnly");
    assert_eq!(job["settings"]["approvalPolicy"], "never");
    let keys = [
        "reason",
        "reasonMessage",
        "resumeAtMs",
        "parentThreadId",
        "parentTurnId",
        "hold",
        "exportPath",
        "exportError",
        "startedAtMs",
        "endedAtMs",
    ];
    for key in keys {
        assert_eq!(job.get(key), Some(&Value::Null), "{key}");
    }
}

#[tokio::test]
async fn every_refusal_about_a_job_has_its_reason() {
    let world = World::start(SCRIPT).await;
    let mut client = world.client().await;
    let id = created(&mut client, json!({})).await;
    for (method, params, reason) in [
        ("fanout/read", json!({"jobId": "none"}), "jobNotFound"),
        ("fanout/subscribe", json!({"jobId": "none"}), "jobNotFound"),
        ("fanout/start", json!({"jobId": id}), "wrongState"),
        ("fanout/pause", json!({"jobId": id}), "wrongState"),
        ("fanout/resume", json!({"jobId": id}), "wrongState"),
        ("fanout/retry", json!({"jobId": id}), "wrongState"),
        (
            "fanout/retry",
            json!({"jobId": id, "states": ["running"]}),
            "invalidParams",
        ),
        (
            "fanout/items/read",
            json!({"jobId": id, "itemId": "row-9"}),
            "itemNotFound",
        ),
        ("fanout/list", json!({"cursor": "x"}), "invalidCursor"),
        (
            "fanout/items/list",
            json!({"jobId": id, "cursor": "x"}),
            "invalidCursor",
        ),
    ] {
        let (found, error) = refused(&mut client, method, params.clone()).await;
        assert_eq!(found, reason, "{method} {params}: {error}");
    }
    let (_, error) = refused(&mut client, "fanout/start", json!({"jobId": id})).await;
    assert_eq!(error["message"], "cannot start a job in state importing");
    assert_eq!(error["data"]["state"], "importing");
}

#[tokio::test]
async fn every_job_that_cannot_be_made_is_refused_with_its_reason() {
    let world = World::start(SCRIPT).await;
    let mut client = world.client().await;
    for (params, reason) in [
        (json!({"instruction": " "}), "badTemplate"),
        (
            json!({"instruction": "i", "outputSchema": {"type": "nothing"}}),
            "badSchema",
        ),
        (
            json!({"instruction": "i", "limits": {"concurrency": 0}}),
            "badLimit",
        ),
        (
            json!({"instruction": "i", "limits": {"timeoutMs": 0}}),
            "badLimit",
        ),
        (
            json!({"instruction": "i", "limits": {"startRate": 0.5}}),
            "badLimit",
        ),
        (
            json!({"instruction": "i", "limits": {"maxCostUsd": 1.0}}),
            "noPrice",
        ),
        (
            json!({"instruction": "i", "owner": "turn"}),
            "invalidParams",
        ),
        (
            json!({"instruction": "i", "settings": {"worktree": "item"}}),
            "noWorktree",
        ),
        (
            json!({"instruction": "i", "settings": {"cwdColumn": "dir"}}),
            "invalidParams",
        ),
        (
            json!({"instruction": "i", "settings": {"labels": ["gpu"]}}),
            "invalidParams",
        ),
        (
            json!({"instruction": "i", "settings": {"engine": "none"}}),
            "invalidParams",
        ),
    ] {
        let (found, error) = refused(&mut client, "fanout/create", params.clone()).await;
        assert_eq!(found, reason, "{params}: {error}");
    }
    // This server has no way to run git.
    let trees = json!({"instruction": "i", "settings": {"worktree": "item"}});
    let (_, error) = refused(&mut client, "fanout/create", trees).await;
    let message = "a worktree per item is not possible: this server makes no worktrees";
    assert_eq!(error["message"], message);
}

#[tokio::test]
async fn three_hundred_jobs_of_one_second_are_listed_in_pages() {
    let world = World::start(SCRIPT).await;
    let mut client = world.client().await;
    let mut made = HashSet::new();
    for _ in 0..300 {
        made.insert(created(&mut client, json!({})).await);
    }
    let (mut seen, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = client.ok("fanout/list", json!({"cursor": cursor})).await;
        let data = page["data"].as_array().unwrap();
        assert!(data.len() <= 25);
        seen.extend(
            data.iter()
                .map(|job| job["id"].as_str().unwrap().to_owned()),
        );
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen.len(), 300);
    assert_eq!(seen.into_iter().collect::<HashSet<_>>(), made);
    let none = json!({"states": ["running"], "limit": 100});
    assert_eq!(client.ok("fanout/list", none).await["data"], json!([]));
}

#[tokio::test]
async fn paths_of_the_server_are_for_local_connections() {
    let world = World::start(SCRIPT).await;
    let export = json!({"instruction": "i", "export": {"path": world.folder.path().join("o")}});
    for (kind, is_local) in [
        (PeerKind::Stdio, true),
        (PeerKind::Unix, true),
        (PeerKind::WebSocket, false),
    ] {
        let mut client = Client::of_kind(&world.server, kind).await;
        let answer = client
            .0
            .call("fanout/create", export.clone())
            .await
            .unwrap();
        let reason = answer["error"]["data"]["reason"].as_str();
        assert_eq!(reason, (!is_local).then_some("localOnly"), "{kind:?}");
    }
    let allowed = Server::new(Options {
        fanout: FanoutOptions {
            server_paths: true,
            ..FanoutOptions::default()
        },
        ..world.options()
    });
    let mut client = Client::of_kind(&allowed, PeerKind::WebSocket).await;
    client.ok("fanout/create", export).await;
}

#[tokio::test]
async fn relative_paths_of_a_child_are_made_absolute_and_those_of_others_are_refused() {
    let world = World::start(SCRIPT).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("in.csv"), "name\na\n").unwrap();
    let server = Server::new(Options {
        cwd: folder.path().to_owned(),
        ..world.options()
    });
    let export = json!({"export": {"path": "out.csv"}});
    let import = |id: &str| json!({"jobId": id, "source": {"type": "path", "path": "in.csv"}});
    let mut child = Client::of_kind(&server, PeerKind::Stdio).await;
    let id = created(&mut child, export.clone()).await;
    child.ok("fanout/import", import(&id)).await;
    let store = world.handle().store().clone();
    let row = store.job(JobKey::Id(id.clone())).await.unwrap().unwrap();
    let out = folder.path().join("out.csv").display().to_string();
    assert_eq!(row.made.export_path.as_deref(), Some(out.as_str()));
    let input = folder.path().join("in.csv").display().to_string();
    let notes = row.import.notes.as_str();
    assert!(notes.contains(&input), "{notes}");
    let part = json!({"jobId": id, "path": "part.csv"});
    let written = child.ok("fanout/export", part.clone()).await;
    let path = folder.path().join("part.csv").display().to_string();
    assert_eq!(written["path"], path);

    // The directory of a daemon means nothing to its clients.
    let mut client = Client::of_kind(&server, PeerKind::Unix).await;
    let other = created(&mut client, json!({})).await;
    let mut create = json!({"instruction": "say {name}", "resultChannel": "text"});
    create["export"] = export["export"].clone();
    for (method, params, path) in [
        ("fanout/create", create, "out.csv"),
        ("fanout/import", import(&other), "in.csv"),
        ("fanout/export", part, "part.csv"),
    ] {
        let (reason, error) = refused(&mut client, method, params).await;
        assert_eq!(reason, "invalidParams", "{method}");
        let message = format!("path must be absolute: {path}");
        assert_eq!(error["message"], message, "{method}");
    }
}

#[tokio::test]
async fn the_end_of_a_job_is_told_to_its_subscribers_alone() {
    let world = World::start(SCRIPT).await;
    let mut client = world.knowing_client().await;
    let mut stranger = world.knowing_client().await;
    // Codex's own clients know nothing of jobs.
    let mut codex = world.client().await;
    let id = created(&mut client, json!({})).await;
    filled(&world, &id, &names(3)).await;
    codex.ok("fanout/subscribe", json!({"jobId": id})).await;
    client.ok("fanout/start", json!({"jobId": id})).await;
    let ended = client
        .told("fanout/ended", json!({"job": {"id": id}}))
        .await["params"]["job"]
        .clone();
    assert_eq!(ended["state"], "succeeded");
    assert_eq!(ended["counts"]["succeeded"], 3);
    let read = client.ok("fanout/read", json!({"jobId": id})).await;
    assert_eq!(read["job"], ended);
    stranger.settle().await;
    codex.settle().await;
    for client in [&stranger, &codex] {
        let told = client.words(0);
        assert!(
            !told.iter().any(|word| word.starts_with("fanout/")),
            "{told:?}"
        );
    }
    // Whoever subscribes later is told at once.
    stranger.ok("fanout/subscribe", json!({"jobId": id})).await;
    stranger
        .told(
            "fanout/ended",
            json!({"job": {"id": id, "state": "succeeded"}}),
        )
        .await;
    let items = client.ok("fanout/items/list", json!({"jobId": id})).await;
    let states: Vec<_> = items["data"].as_array().unwrap().iter().collect();
    assert!(states.iter().all(|item| item["state"] == "succeeded"));
    let item = json!({"jobId": id, "itemId": "row-2"});
    let item = client.ok("fanout/items/read", item).await["item"].clone();
    assert_eq!(item["row"], json!({"name": "n1"}));
    assert_eq!(item["result"], json!({"text": "hello"}));
    assert_eq!(item["attempts"][0]["outcome"], "reported");
    client.ok("fanout/delete", json!({"jobId": id})).await;
    let (reason, _) = refused(&mut client, "fanout/read", json!({"jobId": id})).await;
    assert_eq!(reason, "jobNotFound");
}

#[tokio::test]
async fn a_pause_that_has_drained_is_an_end_and_a_resume_goes_on() {
    let world = World::start(SCRIPT).await;
    let mut client = world.knowing_client().await;
    let members = json!({"instruction": "{name}", "limits": {"concurrency": 1}});
    let id = created(&mut client, members).await;
    let rows = ["gated".to_owned(), "other".to_owned()];
    filled(&world, &id, &rows).await;
    client.ok("fanout/start", json!({"jobId": id})).await;
    world.gates.reached_by("go", 1).await;
    let paused = client.ok("fanout/pause", json!({"jobId": id})).await;
    assert_eq!(paused["job"]["state"], "paused");
    // Again is as good.
    client.ok("fanout/pause", json!({"jobId": id})).await;
    world.gates.open("go");
    let wanted = json!({"job": {"id": id, "state": "paused", "counts": {"running": 0}}});
    client.told("fanout/ended", wanted).await;
    client.ok("fanout/resume", json!({"jobId": id})).await;
    let wanted = json!({"job": {"id": id, "state": "succeeded"}});
    client.told("fanout/ended", wanted).await;
}

#[tokio::test]
async fn jobs_and_items_are_counted_by_state() {
    let world = World::start(SCRIPT).await;
    let mut client = world.knowing_client().await;
    created(&mut client, json!({})).await;
    let id = created(&mut client, json!({})).await;
    filled(&world, &id, &names(2)).await;
    client.ok("fanout/start", json!({"jobId": id})).await;
    client
        .told("fanout/ended", json!({"job": {"id": id}}))
        .await;
    let text = world.server.metrics().await;
    for line in [
        "turnlane_fanout_jobs{state=\"importing\"} 1",
        "turnlane_fanout_jobs{state=\"succeeded\"} 1",
        "turnlane_fanout_items{state=\"succeeded\"} 2",
        "turnlane_fanout_items{state=\"pending\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}:\n{text}");
    }
}

/// `text` as base64.
fn base64(text: &str) -> Value {
    json!(turnlane_protocol::exec_server::Blob::from(
        text.as_bytes().to_vec()
    ))
}

#[tokio::test]
async fn bytes_that_come_again_change_nothing_and_a_gap_is_refused() {
    let world = World::start(SCRIPT).await;
    let mut client = world.client().await;
    let id = created(&mut client, json!({})).await;
    let stream = json!({"jobId": id, "source": {"type": "stream"}});
    let begun = client.ok("fanout/import", stream.clone()).await;
    assert_eq!(begun["nextOffset"], 0);
    let first = json!({"jobId": id, "offset": 0, "dataBase64": base64("name\na\n")});
    for _ in 0..3 {
        let taken = client.ok("fanout/import/write", first.clone()).await;
        assert_eq!(taken["nextOffset"], 7);
    }
    let gap = json!({"jobId": id, "offset": 8, "dataBase64": base64("b\n")});
    let (reason, error) = refused(&mut client, "fanout/import/write", gap).await;
    assert_eq!(reason, "offsetMismatch");
    assert_eq!(error["data"]["nextOffset"], 7);
    // A stream that was cut off before its end starts nothing.
    let job = client.ok("fanout/read", json!({"jobId": id})).await;
    assert_eq!(job["job"]["state"], "importing");
    let (reason, _) = refused(&mut client, "fanout/start", json!({"jobId": id})).await;
    assert_eq!(reason, "wrongState");
    let last = json!({"jobId": id, "offset": 7, "dataBase64": base64("b\n"), "end": true});
    client.ok("fanout/import/write", last.clone()).await;
    client.ok("fanout/import/write", last).await;
    let job = client.ok("fanout/read", json!({"jobId": id})).await["job"].clone();
    assert_eq!(job["state"], "ready");
    assert_eq!(job["columns"], json!(["name"]));
    assert_eq!(job["counts"]["total"], 2);
    let shown = client.ok("fanout/preview", json!({"jobId": id})).await;
    assert_eq!(shown["total"], 2);
    let text = shown["prompts"][1]["text"].as_str().unwrap();
    let start = format!(
        "You are processing one item for a generic agent job.\nJob ID: {id}\nItem ID: row-2\n"
    );
    assert!(text.starts_with(&start), "{text}");
    assert!(text.contains("say b"), "{text}");
}

#[tokio::test]
async fn a_bad_input_is_refused_with_its_lines_and_nothing_starts() {
    let world = World::start(SCRIPT).await;
    let mut client = world.client().await;
    let path = world.folder.path().join("in.csv");
    std::fs::write(&path, "name,other\n\"a\nb\",1\nc\n").unwrap();
    let id = created(&mut client, json!({})).await;
    let import = json!({"jobId": id, "source": {"type": "path", "path": path}});
    let (reason, error) = refused(&mut client, "fanout/import", import.clone()).await;
    assert_eq!(reason, "badInput");
    let message = "csv row 3 has 1 fields but header has 2 (line 4)";
    assert_eq!(
        error["data"]["problems"],
        json!([{"line": 4, "message": message}])
    );
    assert_eq!(error["message"], message);
    let job = client.ok("fanout/read", json!({"jobId": id})).await;
    assert_eq!(job["job"]["state"], "failed");
    assert_eq!(job["job"]["reason"], "import");
    let mut far = Client::of_kind(&world.server, PeerKind::WebSocket).await;
    let (reason, _) = refused(&mut far, "fanout/import", import).await;
    assert_eq!(reason, "localOnly");
    let export = json!({"jobId": id, "path": world.folder.path().join("out.csv")});
    let (reason, _) = refused(&mut far, "fanout/export", export).await;
    assert_eq!(reason, "localOnly");
}

#[tokio::test]
async fn a_list_of_items_shows_the_cell_of_the_id_column_as_it_was() {
    let world = World::start(SCRIPT).await;
    let mut client = world.client().await;
    let id = created(&mut client, json!({"idColumn": "name"})).await;
    let rows = json!({"jobId": id, "seq": 0, "rows": [{"name": " a "}, {"name": "b"}]});
    client.ok("fanout/items/add", rows).await;
    client.ok("fanout/seal", json!({"jobId": id})).await;
    let items = client.ok("fanout/items/list", json!({"jobId": id})).await;
    let shown: Vec<_> = items["data"].as_array().unwrap().iter().collect();
    assert_eq!(shown[0]["itemId"], "a");
    assert_eq!(shown[0]["sourceId"], " a ");
    assert_eq!(shown[1]["sourceId"], "b");
}

#[tokio::test]
async fn rows_are_added_by_number_and_results_are_exported() {
    let world = World::start(SCRIPT).await;
    let mut client = world.knowing_client().await;
    let id = created(&mut client, json!({})).await;
    let rows = json!({"jobId": id, "seq": 0, "rows": [{"name": "a"}, {"name": "=b"}]});
    for _ in 0..2 {
        let added = client.ok("fanout/items/add", rows.clone()).await;
        assert_eq!(added["nextSeq"], 2);
    }
    let sealed = client.ok("fanout/seal", json!({"jobId": id})).await;
    assert_eq!(sealed["job"]["state"], "ready");
    client.ok("fanout/start", json!({"jobId": id})).await;
    client
        .told("fanout/ended", json!({"job": {"id": id}}))
        .await;
    let text = client.ok("fanout/export", json!({"jobId": id})).await;
    let lines: Vec<_> = text["data"].as_str().unwrap().lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].starts_with("name,job_id,item_id,row_index,"));
    assert!(lines[2].starts_with("'=b,"), "{lines:?}");
    assert_eq!(text["nextCursor"], Value::Null);
    let path = world.folder.path().join("out.jsonl");
    let to_file = json!({"jobId": id, "path": path, "format": "jsonl"});
    let written = client.ok("fanout/export", to_file.clone()).await;
    assert_eq!(written["rows"], 2);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 2);
    std::fs::write(&path, "of somebody else").unwrap();
    let (reason, _) = refused(&mut client, "fanout/export", to_file).await;
    assert_eq!(reason, "outputExists");
}

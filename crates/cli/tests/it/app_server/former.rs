//! A client of the earlier protocol: its own spellings work and show in the answers.

use serde_json::{Value, json};
use turnlane_testkit::mock_model::Reply;

use super::{Served, begin, ended, ok, refused, run_what_is_said, thread, turn};

#[tokio::test]
async fn start_ask_stream_resume_fork_archive_and_roll_back() {
    let served = Served::new(|_| Reply::streamed(["an ", "answer"])).await;
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let policy = json!({"type": "workspaceWrite", "writableRoots": ["/extra"],
                        "networkAccess": true, "excludeTmpdirEnvVar": false, "excludeSlashTmp": true});
    let params =
        json!({"cwd": served.work(), "sandboxPolicy": policy, "approvalPolicy": "on-failure"});
    let started = ok(client, "thread/start", params).await;
    assert_eq!(started["sandbox"], policy);
    assert_eq!(started["approvalPolicy"], "on-request");
    let id = started["thread"]["id"].as_str().unwrap().to_owned();
    for text in ["one", "two", "three"] {
        assert_eq!(turn(client, &id, text).await["status"], "completed");
    }
    drop(server);

    let mut server = served.stdio().await;
    let client = &mut server.client;
    let overrides = json!({"sandboxPolicy": {"type": "dangerFullAccess"}, "model": "other"});
    let params = json!({"threadId": id, "overrides": overrides});
    let resumed = ok(client, "thread/resume", params).await;
    assert_eq!(resumed["sandbox"], json!({"type": "dangerFullAccess"}));
    assert_eq!(resumed["model"], "other");
    assert_eq!(resumed["thread"]["turns"].as_array().unwrap().len(), 3);

    let forked = ok(client, "thread/fork", json!({"threadId": id})).await;
    let fork = forked["thread"]["id"].as_str().unwrap().to_owned();
    assert_eq!(forked["thread"]["forkedFromId"], id.as_str());
    let rolled = ok(
        client,
        "thread/rollback",
        json!({"threadId": fork, "numTurns": 2}),
    )
    .await;
    assert_eq!(rolled["thread"]["turns"].as_array().unwrap().len(), 1);
    let error = refused(
        client,
        "thread/rollback",
        json!({"threadId": fork, "numTurns": 0}),
    )
    .await;
    assert_eq!(error["message"], "numTurns must be at least 1");
    assert_eq!(turn(client, &fork, "four").await["status"], "completed");
    let requests = served.mock.requests();
    let last = serde_json::to_string(requests.last().unwrap().input()).unwrap();
    assert!(last.contains("one") && !last.contains("two"), "{last}");

    ok(client, "thread/archive", json!({"threadId": fork})).await;
    let error = refused(client, "thread/resume", json!({"threadId": fork})).await;
    assert_eq!(error["data"]["reason"], "archived");
    let listed = ok(client, "thread/list", json!({})).await;
    let ids: Vec<_> = listed["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| &t["id"])
        .collect();
    assert_eq!(ids, [&json!(id)]);
}

#[tokio::test]
async fn an_output_schema_reaches_the_model_for_that_turn_only() {
    let served = Served::new(|_| Reply::text("{\"n\":1}")).await;
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let id = thread(client, &served.work(), json!({})).await;
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}},
                        "required": ["n"], "additionalProperties": false});
    let params = json!({"threadId": id, "input": [{"type": "text", "text": "a"}],
                        "outputSchema": schema});
    let started = ok(client, "turn/start", params).await;
    ended(client, started["turn"]["id"].as_str().unwrap()).await;
    turn(client, &id, "b").await;
    let requests = served.mock.requests();
    assert_eq!(requests[0].body["text"]["format"]["schema"], schema);
    assert_eq!(requests[0].body["text"]["format"]["strict"], true);
    assert!(requests[1].body.get("text").is_none());
}

#[tokio::test]
async fn an_approval_is_asked_and_an_error_answer_never_accepts() {
    let served = Served::new(run_what_is_said).await;
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let more = json!({"approvalPolicy": "untrusted", "sandbox": "workspace-write"});
    let id = thread(client, &served.work(), more).await;
    for (answer, made) in [
        (json!({"result": {"decision": "accept"}}), true),
        (json!({"error": {"code": -32000, "message": "no"}}), false),
        (json!({"result": {"decision": "certainly"}}), false),
        (json!({"result": {}}), false),
    ] {
        let file = served.work().join("made");
        let _ = std::fs::remove_file(&file);
        let turn = begin(client, &id, "touch made").await;
        let of_this = |message: &Value| {
            message["method"] == "item/commandExecution/requestApproval"
                && message["params"]["turnId"] == turn.as_str()
        };
        let asked = client.find("the question", of_this).await.unwrap();
        let mut answer = answer;
        answer["id"] = asked["id"].clone();
        client.send(&answer).await.unwrap();
        assert_eq!(ended(client, &turn).await["status"], "completed");
        assert_eq!(file.exists(), made, "{answer}");
    }
}

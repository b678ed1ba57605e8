//! Fan-out jobs: every call of a job's handle, its streams, and waiting over lost connections.

use std::io::Cursor;

use serde_json::{Value, json};
use turnlane::{
    CallError, FanoutExportParams, ImportFormat, ImportOptions, ItemsOfInterest, Job, JobEvent,
    JobImportError, JobItemState, JobLimits, JobSpec, JobState, MaxFailures, PauseMode,
    RetrySelection, Worktree,
};
use turnlane_testkit::wait::{DEADLINE, within};

use crate::double::{Double, Kind};
use crate::rig::{Site, joined, reason};

const J: &str = "0193f0c2-7d1e-7a40-9c55-3f2b8e6d1a77";

/// A job as a server tells it.
fn job(id: &str, state: &str, version: i64) -> Value {
    json!({"id": id, "name": null, "state": state, "reason": null, "reasonMessage": null,
        "resumeAtMs": null, "owner": "detached", "parentThreadId": null, "parentTurnId": null,
        "version": version, "resultChannel": "tool", "idColumn": null, "columns": ["path"],
        "limits": {}, "currentLimit": 8, "hold": null,
        "import": {"bytes": 0, "rows": 0, "blankRows": 0, "hash": "", "warnings": []},
        "counts": {"total": 2, "pending": 1, "running": 0, "succeeded": 1, "failed": 0,
            "skipped": 0, "cancelled": 0},
        "usage": {"totalTokens": 5, "costUsd": null, "attempts": 1}, "exportPath": null,
        "exportError": null, "createdAtMs": 1, "startedAtMs": null, "endedAtMs": null,
        "instruction": "Review {path}", "outputSchema": null, "settings": {}})
}

fn item(id: &str, state: &str) -> Value {
    json!({"itemId": id, "seq": 0, "sourceId": null, "state": state, "attempt": 1,
        "notBeforeMs": null, "threadId": null, "error": null, "dupOf": null, "branch": null,
        "usage": {"totalTokens": 5, "costUsd": null}, "startedAtMs": 1, "reportedAtMs": 2,
        "endedAtMs": 2})
}

/// A double, and the handle of a job on it.
async fn with_job() -> (Double, turnlane::Client, Job) {
    let (mut double, client) = Double::plain(Kind::Turnlane).await;
    let jobs = client.jobs();
    let creating = tokio::spawn(async move {
        let limits = JobLimits {
            concurrency: Some(16),
            max_failures: Some(MaxFailures::Percent(20)),
            ..JobLimits::default()
        };
        let spec = JobSpec::new("Review {path}")
            .client_job_id("ci-1")
            .worktree(Worktree::Item)
            .limits(limits);
        jobs.create(spec).await
    });
    let asked = double.expect("fanout/create").await;
    assert_eq!(
        asked.params,
        json!({"instruction": "Review {path}", "clientJobId": "ci-1",
            "settings": {"worktree": "item"},
            "limits": {"concurrency": 16, "maxFailures": "20%"}})
    );
    asked.answer(json!({"job": job(J, "importing", 1)}));
    let job = joined(creating).await.unwrap();
    assert_eq!(job.id(), J);
    (double, client, job)
}

#[tokio::test]
async fn every_call_of_a_job_names_it_and_reads_its_answer() {
    let (mut double, _client, handle) = with_job().await;
    let server = tokio::spawn(async move {
        for (method, params) in [
            ("fanout/read", json!({"jobId": J})),
            ("fanout/start", json!({"jobId": J})),
            ("fanout/pause", json!({"jobId": J})),
            (
                "fanout/pause",
                json!({"jobId": J, "now": true, "graceMs": 5000}),
            ),
            ("fanout/resume", json!({"jobId": J})),
            ("fanout/cancel", json!({"jobId": J})),
        ] {
            let asked = double.expect(method).await;
            assert_eq!(asked.params, params, "{method}");
            asked.answer(json!({"job": job(J, "running", 2)}));
        }
        let asked = double.expect("fanout/retry").await;
        assert_eq!(asked.params, json!({"jobId": J, "states": ["failed"]}));
        asked.answer(json!({"job": job(J, "running", 3), "retried": 4}));
        let asked = double.expect("fanout/preview").await;
        assert_eq!(asked.params, json!({"jobId": J, "count": 3}));
        asked.answer(json!({"total": 1, "estimatedTokens": 9,
            "prompts": [{"itemId": "row-1", "text": "t"}]}));
        let asked = double.expect("fanout/items/read").await;
        assert_eq!(asked.params, json!({"jobId": J, "itemId": "row-1"}));
        let mut detail = item("row-1", "succeeded");
        detail["row"] = json!({"path": "a"});
        detail["result"] = json!({"score": 1});
        detail["attempts"] = json!([]);
        asked.answer(json!({"item": detail}));
        let asked = double.expect("fanout/export").await;
        assert_eq!(asked.params, json!({"jobId": J, "path": "o.csv"}));
        asked.answer(json!({"path": "/srv/o.csv", "rows": 2}));
        let asked = double.expect("fanout/export").await;
        assert_eq!(asked.params, json!({"jobId": J}));
        asked.answer(json!({"data": "a\n", "nextCursor": "c"}));
        let asked = double.expect("fanout/delete").await;
        assert_eq!(asked.params, json!({"jobId": J}));
        asked.refuse(
            -32600,
            "cannot delete a job in state running",
            &reason("wrongState"),
        );
        let asked = double.expect("fanout/delete").await;
        assert_eq!(asked.params, json!({"jobId": J, "force": true}));
        asked.answer(json!({}));
    });
    assert_eq!(
        handle.status().await.unwrap().status.state,
        JobState::Running
    );
    handle.start().await.unwrap();
    handle.pause(PauseMode::Drain).await.unwrap();
    let now = PauseMode::Now {
        grace: Some(std::time::Duration::from_secs(5)),
    };
    handle.pause(now).await.unwrap();
    handle.resume().await.unwrap();
    handle.cancel().await.unwrap();
    let failed = RetrySelection::States(vec![JobItemState::Failed]);
    assert_eq!(handle.retry(failed, None).await.unwrap().1, 4);
    assert_eq!(handle.preview(3).await.unwrap().prompts[0].text, "t");
    let result = handle.result("row-1").await.unwrap().unwrap();
    assert_eq!(result.as_str(), r#"{"score":1}"#);
    let no_path = handle.export(FanoutExportParams::default()).await;
    assert!(matches!(no_path, Err(CallError::InvalidArgument { .. })));
    let to_file = FanoutExportParams {
        path: Some("o.csv".to_owned()),
        ..FanoutExportParams::default()
    };
    assert_eq!(handle.export(to_file).await.unwrap().rows, 2);
    let part = handle.export_part(FanoutExportParams::default()).await;
    assert_eq!(part.unwrap(), ("a\n".to_owned(), Some("c".to_owned())));
    let CallError::Rpc(refused) = handle.delete().await.unwrap_err() else {
        panic!("not refused");
    };
    assert_eq!(refused.reason(), Some("wrongState"));
    handle.delete_with_work().await.unwrap();
    joined(server).await;
}

#[tokio::test]
async fn lists_of_jobs_and_items_come_in_pages() {
    let (mut double, client, handle) = with_job().await;
    let listing = tokio::spawn(async move {
        let mut ids = Vec::new();
        let mut list = client.jobs().list();
        while let Some(next) = list.next().await {
            ids.push(next.unwrap().status.id);
        }
        let mut items = handle.items_in(vec![JobItemState::Failed]);
        while let Some(next) = items.next().await {
            ids.push(next.unwrap().item_id);
        }
        ids
    });
    let asked = double.expect("fanout/list").await;
    assert_eq!(asked.params, json!({"limit": 100}));
    asked.answer(json!({"data": [job("a", "ready", 1)], "nextCursor": "c"}));
    let asked = double.expect("fanout/list").await;
    assert_eq!(asked.params, json!({"limit": 100, "cursor": "c"}));
    asked.answer(json!({"data": [job("b", "ready", 1)], "nextCursor": null}));
    let asked = double.expect("fanout/items/list").await;
    assert_eq!(
        asked.params,
        json!({"jobId": J, "limit": 1000, "states": ["failed"]})
    );
    asked.answer(json!({"data": [item("row-1", "failed")], "nextCursor": null}));
    assert_eq!(joined(listing).await, ["a", "b", "row-1"]);
}

#[tokio::test]
async fn a_stream_import_goes_on_where_the_server_is() {
    let (mut double, _client, handle) = with_job().await;
    let importing = tokio::spawn(async move {
        let options = ImportOptions {
            format: Some(ImportFormat::Tsv),
            delimiter: Some('\t'),
            filters: vec![("lang".to_owned(), "rust".to_owned())],
            ..ImportOptions::default()
        };
        let bytes = Cursor::new(b"path\na\nb\n".to_vec());
        handle.import_stream(bytes, options).await
    });
    let asked = double.expect("fanout/import").await;
    assert_eq!(
        asked.params,
        json!({"jobId": J, "source": {"type": "stream"}, "format": "tsv", "delimiter": "\t",
            "where": [["lang", "rust"]]})
    );
    asked.answer(json!({"job": job(J, "importing", 1), "nextOffset": 5}));
    let asked = double.expect("fanout/import/write").await;
    // "a\nb\n": the header is there already.
    assert_eq!(
        asked.params,
        json!({"jobId": J, "offset": 5, "dataBase64": "YQpiCg==", "end": true})
    );
    asked.answer(json!({"nextOffset": 9}));
    let asked = double.expect("fanout/read").await;
    asked.answer(json!({"job": job(J, "ready", 2)}));
    let imported = joined(importing).await.unwrap();
    assert_eq!(imported.status.state, JobState::Ready);
}

#[tokio::test]
async fn an_input_that_cannot_be_read_is_told_apart_from_a_refusal() {
    struct Broken;

    impl tokio::io::AsyncRead for Broken {
        fn poll_read(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            _: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::task::Poll::Ready(Err(std::io::Error::other("gone")))
        }
    }

    let (mut double, _client, handle) = with_job().await;
    let again = handle.clone();
    let importing =
        tokio::spawn(async move { handle.import_stream(Broken, ImportOptions::default()).await });
    let asked = double.expect("fanout/import").await;
    asked.answer(json!({"job": job(J, "importing", 1), "nextOffset": 0}));
    let error = joined(importing).await.unwrap_err();
    assert!(matches!(error, JobImportError::Read(_)), "{error:?}");

    let importing =
        tokio::spawn(async move { again.import_path("in.csv", ImportOptions::default()).await });
    let asked = double.expect("fanout/import").await;
    assert_eq!(
        asked.params,
        json!({"jobId": J, "source": {"type": "path", "path": "in.csv"}})
    );
    let data = json!({"reason": "badInput", "problems": [{"line": 3, "message": "m"}]});
    asked.refuse(-32600, "m", &data);
    let CallError::Rpc(error) = joined(importing).await.unwrap_err() else {
        panic!("not refused");
    };
    assert_eq!(error.reason(), Some("badInput"));
}

#[tokio::test]
async fn events_are_those_of_the_job_and_never_go_back() {
    let (mut double, _client, handle) = with_job().await;
    let subscribing = tokio::spawn(async move { handle.events(ItemsOfInterest::All).await });
    let asked = double.expect("fanout/subscribe").await;
    assert_eq!(asked.params, json!({"jobId": J, "items": true}));
    asked.answer(json!({}));
    let mut events = joined(subscribing).await.unwrap();
    double.tell("fanout/updated", json!({"job": job("other", "running", 9)}));
    double.tell("fanout/updated", json!({"job": job(J, "running", 4)}));
    double.tell("fanout/updated", json!({"job": job(J, "ready", 3)}));
    let told = json!({"jobId": J, "item": item("row-1", "succeeded")});
    double.tell("fanout/item/updated", told);
    double.tell("fanout/item/updated", json!({"jobId": J, "dropped": 7}));
    double.tell("fanout/ended", json!({"job": job(J, "succeeded", 5)}));
    let mut next = async || {
        within("an event", DEADLINE, events.next())
            .await
            .unwrap()
            .unwrap()
    };
    assert!(matches!(next().await, JobEvent::Updated(job) if job.version == 4));
    assert!(matches!(next().await, JobEvent::Item(item) if item.item_id == "row-1"));
    assert_eq!(next().await, JobEvent::ItemsDropped(7));
    assert!(
        matches!(next().await, JobEvent::Ended(job) if job.status.state == JobState::Succeeded)
    );
}

#[tokio::test]
async fn waiting_goes_on_over_a_lost_connection() {
    let mut site = Site::open().await;
    let (mut double, client) = site.connect(Kind::Turnlane).await;
    let jobs = client.jobs();
    let waiting = tokio::spawn(async move { jobs.get(J).await.unwrap().wait().await });
    let asked = double.expect("fanout/read").await;
    asked.answer(json!({"job": job(J, "running", 2)}));
    double.expect("fanout/subscribe").await.answer(json!({}));
    drop(double);
    let mut double = site.accept(Kind::Turnlane).await;
    let asked = double.expect("fanout/subscribe").await;
    assert_eq!(asked.params, json!({"jobId": J}));
    asked.answer(json!({}));
    // An ended job is told at once.
    double.tell("fanout/ended", json!({"job": job(J, "paused", 7)}));
    let ended = joined(waiting).await.unwrap();
    assert_eq!(ended.status.state, JobState::Paused);
}

#[tokio::test]
async fn a_server_without_jobs_is_unsupported() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let asking = tokio::spawn(async move { client.jobs().create(JobSpec::new("i")).await });
    let asked = double.expect("fanout/create").await;
    asked.refuse(
        -32600,
        "Invalid request: unknown variant `fanout/create`",
        &Value::Null,
    );
    let error = joined(asking).await.unwrap_err();
    assert!(matches!(error, CallError::Unsupported { .. }), "{error:?}");
}

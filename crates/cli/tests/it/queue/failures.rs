//! Turns that cannot start, were cut off or cannot be read: in view, with what to do, and never lost.
//!
//! What a crash of another version left is written into the database by hand, while nobody has it open.

use serde_json::json;
use turnlane_testkit::mock_model::{At, Gate, Reply};

use super::{Held, held, list, pairs, said, short};
use crate::app_server::{Served, ok, refused, thread};
use crate::serve::pages::database_of;
use crate::serve::{Daemon, add, drained, turns};

const INTERRUPTED: &str = "queued turn was interrupted because its worker stopped";

/// Changes the database of a home that nobody serves.
fn change(served: &Served, sql: &str, params: impl rusqlite::Params) {
    let changed = database_of(&served.home).execute(sql, params).unwrap();
    assert_eq!(changed, 1, "{sql}");
}

async fn echo() -> Served {
    Served::new(|request| Reply::text(request.last_user_text())).await
}

/// What the model was asked so far.
fn asked(served: &Served) -> Vec<String> {
    let requests = served.mock.requests();
    requests
        .iter()
        .map(|request| request.last_user_text())
        .collect()
}

/// Whether the text for people says why, and what to type.
fn says(held: &Held, why: &str, thread: &str) {
    let row = held.list["blocked"]["queuedTurnId"].as_str().unwrap();
    let (thread, row) = (short(thread), short(row));
    let next = format!(
        "failed   {why}\n         try: turnlane queue retry {thread}, \
         or: turnlane queue rm {thread} {row}\n"
    );
    assert!(held.text.contains(&next), "{next}{}", held.text);
    assert!(held.text.contains("  failed  "), "{}", held.text);
}

#[tokio::test]
async fn a_turn_whose_folder_is_gone_is_shown_and_runs_when_it_is_back() {
    let served = echo().await;
    let mut daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    let gone = served.work().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let id = thread(&mut client, &gone, json!({})).await;
    let lane = json!({"threadId": id});
    ok(&mut client, "thread/queue/pause", lane.clone()).await;
    let first = add(&mut client, &id, "first", json!({})).await;
    add(&mut client, &id, "second", json!({})).await;
    std::fs::remove_dir(&gone).unwrap();
    ok(&mut client, "thread/queue/resume", lane.clone()).await;

    let shown = held(&served, &mut client, &id, "blocked").await;
    assert_eq!(shown.list["blocked"]["queuedTurnId"], first.as_str());
    assert_eq!(said(&shown.changed["queuedTurns"]), ["first", "second"]);
    let why = shown.list["blocked"]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(why.starts_with("queued turn could not start: "), "{why}");
    assert!(why.contains("gone"), "{why}");
    says(&shown, &why, &id);
    assert_eq!(asked(&served), [""; 0]);

    // It is so for whoever comes next, too.
    daemon.process.kill9().await.unwrap();
    let daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.websocket().await;
    ok(&mut client, "thread/resume", lane.clone()).await;
    assert_eq!(list(&mut client, &id).await["blocked"]["message"], why);
    std::fs::create_dir(&gone).unwrap();
    let row = ok(&mut client, "thread/queue/retry", lane).await;
    assert_eq!(row["queuedTurn"]["id"], first.as_str());
    drained(&mut client, &id).await;
    assert_eq!(asked(&served), ["first", "second"]);
    let ran = turns(&mut client, &id).await;
    let ran = &ran[ran.len() - 2..];
    assert_eq!(
        ran,
        pairs(&[("first", "completed"), ("second", "completed")])
    );
}

#[tokio::test]
async fn a_turn_that_a_kill_cut_off_is_shown_and_goes_on_as_a_person_says() {
    let gate = Gate::new();
    let kept = gate.clone();
    let served = Served::new(move |request| {
        let text = request.last_user_text();
        let reply = Reply::text(text.clone());
        if text.starts_with("cut") {
            reply.gated_by(At::Request, &kept)
        } else {
            reply
        }
    })
    .await;
    let mut daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    let mut threads = Vec::new();
    for _ in 0..3 {
        let id = thread(&mut client, &served.work(), json!({})).await;
        let row = add(&mut client, &id, "cut", json!({})).await;
        add(&mut client, &id, "behind", json!({})).await;
        threads.push((id, row));
    }
    gate.reached_by(3).await;
    daemon.process.kill9().await.unwrap();
    gate.release();
    served.mock.take_requests();
    let daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    for (id, row) in &threads {
        ok(&mut client, "thread/resume", json!({"threadId": id})).await;
        let shown = held(&served, &mut client, id, "blocked").await;
        assert_eq!(shown.list["blocked"]["queuedTurnId"], row.as_str());
        assert_eq!(shown.list["blocked"]["message"], INTERRUPTED);
        assert_eq!(said(&shown.list["data"]), ["cut", "behind"]);
        says(&shown, INTERRUPTED, id);
    }
    assert_eq!(
        asked(&served),
        [""; 0],
        "what is undecidable is not run again"
    );

    // Again, never again, or after something else.
    let (id, row) = &threads[0];
    let named = json!({"threadId": id, "queuedTurnId": row});
    ok(&mut client, "thread/queue/retry", named).await;
    drained(&mut client, id).await;
    let again = [
        ("cut", "interrupted"),
        ("cut", "completed"),
        ("behind", "completed"),
    ];
    assert_eq!(turns(&mut client, id).await, pairs(&again));
    let (id, row) = &threads[1];
    let named = json!({"threadId": id, "queuedTurnId": row});
    ok(&mut client, "thread/queue/delete", named).await;
    drained(&mut client, id).await;
    let never = [("cut", "interrupted"), ("behind", "completed")];
    assert_eq!(turns(&mut client, id).await, pairs(&never));
    let (id, row) = &threads[2];
    let to = json!({"threadId": id, "queuedTurnId": row, "position": 1});
    ok(&mut client, "thread/queue/move", to).await;
    held(&served, &mut client, id, "blocked").await;
    let named = json!({"threadId": id, "queuedSubmissionId": row});
    ok(&mut client, "thread/queue/start", named).await;
    drained(&mut client, id).await;
    let after = [
        ("cut", "interrupted"),
        ("behind", "completed"),
        ("cut", "completed"),
    ];
    assert_eq!(turns(&mut client, id).await, pairs(&after));
}

/// A worker that died between claim and acceptance, so many times.
fn claimed_by_the_dead(served: &Served, thread: &str, row: &str, losses: u32) {
    let sql = "UPDATE queued_turn SET state = 'claimed', pos = NULL, attempts = attempts + 1, \
               losses = ?3, fence = (SELECT fence + 1 FROM lane WHERE thread_id = ?1) \
               WHERE thread_id = ?1 AND id = ?2 AND state = 'queued'";
    change(served, sql, (thread, row, losses));
    let dead = "0198c0de-0000-7000-8000-00000000dead";
    let sql = "UPDATE lane SET active = ?2, owner = ?3, fence = fence + 1, depth = depth - 1, \
               revision = revision + 1, paused = NULL, ready_ms = NULL WHERE thread_id = ?1";
    change(served, sql, (thread, row, dead));
}

#[tokio::test]
async fn a_dispatch_that_was_cut_off_is_done_once_and_given_up_the_third_time() {
    let served = echo().await;
    let mut daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    let mut lanes = Vec::new();
    for _ in 0..2 {
        let id = thread(&mut client, &served.work(), json!({})).await;
        ok(&mut client, "thread/queue/pause", json!({"threadId": id})).await;
        let row = add(&mut client, &id, "claimed", json!({})).await;
        add(&mut client, &id, "behind", json!({})).await;
        lanes.push((id, row));
    }
    daemon.process.kill9().await.unwrap();
    for ((id, row), losses) in lanes.iter().zip([0, 2]) {
        claimed_by_the_dead(&served, id, row, losses);
    }
    let daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    let both = [("claimed", "completed"), ("behind", "completed")];
    drained(&mut client, &lanes[0].0).await;
    assert_eq!(turns(&mut client, &lanes[0].0).await, pairs(&both));
    assert_eq!(asked(&served), ["claimed", "behind"]);

    let (id, row) = &lanes[1];
    ok(&mut client, "thread/resume", json!({"threadId": id})).await;
    let shown = held(&served, &mut client, id, "blocked").await;
    let poison = "queued turn was claimed 3 times and its worker died each time";
    assert_eq!(shown.list["blocked"]["message"], poison);
    assert_eq!(shown.list["blocked"]["queuedTurnId"], row.as_str());
    says(&shown, poison, id);
    ok(&mut client, "thread/queue/retry", json!({"threadId": id})).await;
    drained(&mut client, id).await;
    assert_eq!(turns(&mut client, id).await, pairs(&both));
    assert_eq!(asked(&served).len(), 4, "nothing ran twice");
}

#[tokio::test]
async fn a_payload_that_cannot_be_read_is_kept_and_shown_until_it_is_mended_or_deleted() {
    let served = echo().await;
    let mut daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    let id = thread(&mut client, &served.work(), json!({})).await;
    let lane = json!({"threadId": id});
    ok(&mut client, "thread/queue/pause", lane.clone()).await;
    let mut rows = Vec::new();
    for text in ["damaged", "newer", "whole"] {
        rows.push(add(&mut client, &id, text, json!({})).await);
    }
    daemon.process.kill9().await.unwrap();
    let newer = json!({"threadId": id, "input": {"scene": ["of another version"]}}).to_string();
    let damage = "UPDATE queued_turn SET params = CAST(?1 AS BLOB) WHERE id = ?2";
    change(&served, damage, ("{\"input\": [{\"ty", &rows[0]));
    change(&served, damage, (newer.as_str(), &rows[1]));

    let daemon = Daemon::start(&served.home, &[]).await;
    let mut client = daemon.unix().await;
    ok(&mut client, "thread/resume", lane.clone()).await;
    // They can be listed before they are found out.
    let before = list(&mut client, &id).await;
    assert_eq!(
        (before["depth"].clone(), said(&before["data"]).len()),
        (json!(3), 3)
    );
    ok(&mut client, "thread/queue/resume", lane.clone()).await;
    let unreadable = "queued turn payload could not be read: ";
    let shown = held(&served, &mut client, &id, "blocked").await;
    assert_eq!(shown.list["blocked"]["queuedTurnId"], rows[0].as_str());
    let why = shown.list["blocked"]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(why.starts_with(unreadable), "{why}");
    says(&shown, &why, &id);
    // As it is it can only fail again; nothing behind it runs.
    ok(&mut client, "thread/queue/retry", lane.clone()).await;
    let shown = held(&served, &mut client, &id, "blocked").await;
    assert_eq!(shown.list["blocked"]["queuedTurnId"], rows[0].as_str());
    let error = refused(&mut client, "thread/queue/start", lane.clone()).await;
    assert!(
        error["message"].as_str().unwrap().contains(unreadable),
        "{error}"
    );
    assert_eq!(asked(&served), [""; 0]);

    let input = json!([{"type": "text", "text": "mended"}]);
    let update = json!({"threadId": id, "queuedTurnId": rows[0], "input": input});
    ok(&mut client, "thread/queue/update", update).await;
    ok(&mut client, "thread/queue/retry", lane.clone()).await;
    turnlane_testkit::wait::eventually(
        "the next one",
        turnlane_testkit::wait::DEADLINE,
        async || list(&mut client, &id).await["blocked"]["queuedTurnId"] == rows[1].as_str(),
    )
    .await
    .unwrap();
    let named = json!({"threadId": id, "queuedTurnId": rows[1]});
    let deleted = ok(&mut client, "thread/queue/delete", named).await;
    assert_eq!(deleted["deleted"], true);
    drained(&mut client, &id).await;
    assert_eq!(asked(&served), ["mended", "whole"]);
    let ran = [("mended", "completed"), ("whole", "completed")];
    assert_eq!(turns(&mut client, &id).await, pairs(&ran));
}

//! `turnlane thread`: stories with and without a daemon.

use insta::assert_snapshot;
use serde_json::Value;
use turnlane_testkit::wait::DEADLINE;

use crate::people::{Following, Person};

#[tokio::test]
async fn an_empty_home_says_how_to_begin() {
    let mut person = Person::new();
    for arguments in [
        &["thread", "list"][..],
        &["thread", "list", "--archived"],
        &["thread", "list", "--search", "x"],
        &["queue", "list"],
        &["approvals", "list"],
    ] {
        person.types(arguments).await;
        assert_eq!(person.json(arguments).await, Vec::<Value>::new());
    }
    assert_snapshot!(person.story());
}

#[tokio::test]
async fn what_is_not_there_is_refused_with_the_next_step() {
    let mut person = Person::new();
    let id = "0198c0de-0000-7000-8000-000000000000";
    for arguments in [
        &["thread", "show", id][..],
        &["thread", "show", "nowhere"],
        &["thread", "fork", id],
        &["thread", "archive", id],
        &["thread", "unarchive", id],
        &["thread", "rm", "--yes", id],
        &["thread", "rm", id],
        &["thread", "tail", id],
        &["thread", "stop", id],
    ] {
        person.types(arguments).await;
    }
    let _daemon = person.daemon().await;
    person.types(&["thread", "tail", id]).await;
    person.types(&["thread", "stop", id]).await;
    assert_snapshot!(person.story());
}

#[tokio::test]
async fn a_thread_is_listed_shown_and_put_away() {
    let mut person = Person::new();
    let daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "run the test").await;
    person.until_idle(&thread).await;
    for arguments in [
        &["thread", "list"][..],
        &["thread", "show", "docs"],
        &["thread", "show", "docs", "-n", "0"],
        &["thread", "archive", "docs"],
        &["thread", "list"],
        &["thread", "list", "--archived"],
        &["thread", "show", "docs", "-n", "0"],
        &["queue", "add", "--thread", "docs", "more"],
        &["thread", "unarchive", "docs"],
        &["thread", "stop", "docs"],
        &["thread", "rm", "docs"],
        &["thread", "rm", "--yes", "docs"],
        &["thread", "list"],
    ] {
        person.types(arguments).await;
    }
    drop(daemon);
    assert_snapshot!(person.story());
}

#[tokio::test]
async fn a_copy_goes_on_from_the_same_history() {
    let person = Person::new();
    let daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "hello").await;
    person.until_idle(&thread).await;
    let copy = person
        .json(&["thread", "fork", "docs", "--name", "try"])
        .await
        .remove(0);
    assert_eq!(copy["forkedFromId"], thread.as_str());
    assert_eq!(copy["name"], "try");
    let shown = person.json(&["thread", "show", "try"]).await.remove(0);
    assert_eq!(shown["turns"][0]["items"][0]["content"][0]["text"], "hello");
    assert_eq!(shown["queue"]["depth"], 0);
    drop(daemon);
    // Without a daemon too: history is stored.
    let shown = person.json(&["thread", "show", "docs"]).await.remove(0);
    assert_eq!(shown["turns"].as_array().unwrap().len(), 1);
    let listed = person.json(&["thread", "list"]).await;
    assert_eq!(listed.len(), 2);
}

#[tokio::test]
async fn what_could_be_several_threads_is_refused_with_all_of_them() {
    let mut person = Person::new();
    let mut ids = Vec::new();
    for name in ["one", "two", "three"] {
        ids.push(person.queued(name, "x").await.0);
    }
    // Eight characters are about a minute: at least two of three begin the same.
    let prefix = |id: &String| id[..8].to_owned();
    let first = prefix(&ids[1]);
    person.types(&["thread", "show", &first]).await;
    person.types(&["thread", "show", &first[..7]]).await;
    let story = person.story();
    assert!(story.contains(" threads; give more of the id\n"), "{story}");
    assert!(story.contains("is too short for an id"), "{story}");
    // The whole id, and enough of it, are one thread.
    for text in [&ids[0], &ids[0][..18]] {
        let shown = person.json(&["thread", "show", text]).await.remove(0);
        assert_eq!(shown["thread"]["id"], ids[0].as_str());
    }
}

#[tokio::test]
async fn colours_are_for_terminals_and_those_who_ask() {
    let person = Person::new();
    person.queued("docs", "x").await;
    let plain = crate::shown(person.spec(&["thread", "list"])).await;
    assert!(!plain.contains('\u{1b}'), "{plain}");
    let asked = crate::shown(person.spec(&["thread", "list", "--color", "always"])).await;
    assert!(asked.contains("\u{1b}[1mTHREAD\u{1b}[0m"), "{asked}");
    let json = crate::shown(person.spec(&["thread", "list", "--json", "--color", "always"])).await;
    assert!(!json.contains('\u{1b}'), "{json}");
}

#[tokio::test]
async fn tail_ends_with_the_work_where_that_is_asked_for() {
    let mut person = Person::new();
    let _daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "hello").await;
    person.until_idle(&thread).await;
    person
        .types(&["thread", "tail", "docs", "--until-idle"])
        .await;
    assert_snapshot!(person.story());
    let lines = person
        .json(&["thread", "tail", "docs", "--until-idle"])
        .await;
    let types: Vec<_> = lines.iter().map(|line| &line["type"]).collect();
    assert_eq!(types, ["item.completed", "item.completed", "turn.ended"]);
    assert_eq!(lines[2]["status"], "completed");
}

#[tokio::test]
async fn leaving_a_tail_stops_nothing() {
    let person = Person::new();
    let _daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "hang on").await;
    person.until_running(&thread).await;
    let mut tail = Following::new(person.spec(&["thread", "tail", "docs"]));
    // What the turn said before is shown too.
    tail.until("user\nhang on\nagent\nworking on it").await;
    tail.until_followed().await;
    tail.interrupt();
    let (code, _, stderr) = tail.end().await;
    assert_eq!(code, Some(130), "{stderr}");
    let left = "left; the turn goes on. Stop it with `turnlane thread stop docs`";
    assert!(stderr.contains(left), "{stderr}");
    assert!(!person.queue(&thread).await["running"].is_null());

    let stopped = person.json(&["thread", "stop", "docs"]).await.remove(0);
    assert_eq!(stopped["queue"], "continue");
    person.until_idle(&thread).await;
    let shown = person.json(&["thread", "show", "docs"]).await.remove(0);
    assert_eq!(shown["turns"][0]["status"], "interrupted");
    let tail = Following::new(person.spec(&["thread", "tail", "docs"]));
    tail.until_followed().await;
    tail.interrupt();
    let (code, _, stderr) = tail.end().await;
    assert_eq!(code, Some(130));
    assert!(stderr.contains("left; no turn was running"), "{stderr}");
}

#[tokio::test]
async fn tail_tells_turns_as_they_come() {
    let person = Person::new();
    let _daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "hello").await;
    person.until_idle(&thread).await;
    let mut tail = Following::new(person.spec(&["thread", "tail", "docs", "-n", "0"]));
    tail.until_followed().await;
    person.adds("docs", "run the test").await;
    tail.until("completed in ").await;
    person.adds("docs", "clean up").await;
    tail.until("  turnlane approvals decline ").await;
    let approval = person.asked().await;
    let id = approval["approvalId"].as_str().unwrap();
    person.json(&["approvals", "decline", id]).await;
    tail.until("I left it.\n").await;
    person.until_idle(&thread).await;
    person.json(&["thread", "archive", "docs"]).await;
    let (code, seen, stderr) = tail.end().await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(!seen.contains("hello"), "{seen}");
    let mut rest = seen.as_str();
    for part in [
        "queue: 1 turn waiting\n",
        "queue: 0 turns waiting\n",
        "turn ",
        "user\nrun the test\n",
        "exec\nmake test in ",
        "1 failed\n",
        " exited 2 in ",
        "agent\nOne failed.\n",
        "completed in ",
        "user\nclean up\n",
        "approval asked: rm -r build in ",
        " (removes a directory)\n  turnlane approvals accept ",
        "approval: decline, by client\n",
        " declined\n",
        "agent\nI left it.\n",
        "completed in ",
        "the thread was archived or deleted\n",
    ] {
        let at = rest.find(part);
        rest = &rest[at.unwrap_or_else(|| panic!("no {part:?} in {rest:?} of {seen}"))..];
    }
}

#[tokio::test]
async fn tail_tells_programs_the_same_line_by_line() {
    let person = Person::new();
    let _daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "clean up").await;
    let approval = person.asked().await;
    let id = approval["approvalId"].as_str().unwrap();
    let arguments = ["thread", "tail", "docs", "--until-idle", "--json"];
    let mut tail = Following::new(person.spec(&arguments));
    tail.until("approval.requested").await;
    person.json(&["approvals", "accept", id]).await;
    let (code, seen, stderr) = tail.end().await;
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let lines: Vec<Value> = seen
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |kind: &str| {
        let found = lines.iter().filter(|line| line["type"] == kind);
        found.collect::<Vec<_>>()
    };
    assert_eq!(of("turn.started").len(), 1, "{seen}");
    assert_eq!(of("approval.requested")[0]["approval"]["approvalId"], id);
    assert_eq!(of("approval.resolved")[0]["decision"], "accept");
    assert_eq!(of("turn.ended")[0]["status"], "completed");
    let kinds: Vec<_> = of("item.completed")
        .iter()
        .map(|line| line["item"]["type"].clone())
        .collect();
    assert_eq!(kinds, ["userMessage", "commandExecution", "agentMessage"]);
    person.until_idle(&thread).await;
}

#[tokio::test]
async fn a_list_says_how_each_thread_stands_and_its_short_ids_are_taken_everywhere() {
    let person = Person::new();
    let _daemon = person.daemon().await;
    let (done, _) = person.queued("done", "hello").await;
    let (failed, _) = person.queued("failed", "refuse it").await;
    let (running, _) = person.queued("running", "hang on").await;
    let (asking, _) = person.queued("asking", "clean up").await;
    for thread in [&done, &failed] {
        person.until_idle(thread).await;
    }
    person.until_running(&running).await;
    person.asked().await;
    let listed = crate::shown(person.spec(&["thread", "list"])).await;
    for (thread, state) in [
        (&done, "completed"),
        (&failed, "failed"),
        (&running, "running"),
        (&asking, "needs approval"),
    ] {
        let short = &thread[28..];
        let line = listed.lines().find(|line| line.contains(short));
        let line = line.unwrap_or_else(|| panic!("no {short} in {listed}"));
        assert!(line.starts_with(&format!("{short}  {state} ")), "{listed}");
        // The same word where one thread is shown, by its short id.
        let shown = crate::shown(person.spec(&["thread", "show", short, "-n", "0"])).await;
        assert!(shown.contains(&format!("state      {state}\n")), "{shown}");
        assert!(shown.contains(thread.as_str()), "{shown}");
    }
    // Programs are told the same.
    let json = person.json(&["thread", "list"]).await;
    let of = |id: &str| json.iter().find(|thread| thread["id"] == id).unwrap();
    assert_eq!(of(&failed)["lastTurn"]["status"], "failed");
    assert!(of(&failed)["lastTurn"]["completedAtMs"].is_i64());
    assert_eq!(of(&running)["lastTurn"]["status"], "inProgress");

    // Nothing waits, so nothing is offered that would let it go on.
    let shown = crate::shown(person.spec(&["thread", "show", "failed"])).await;
    assert!(!shown.contains("queue resume"), "{shown}");
    assert!(shown.contains("the provider refused it"), "{shown}");
    // The open question is named, with what answers it.
    let shown = crate::shown(person.spec(&["thread", "show", "asking"])).await;
    let id = person.asked().await["approvalId"].as_str().unwrap()[28..].to_owned();
    assert!(shown.contains("needs approval  rm -r build in "), "{shown}");
    assert!(
        shown.contains(&format!("turnlane approvals accept {id}")),
        "{shown}"
    );
    // Messages repeat the name that was typed.
    person.json(&["queue", "pause", "done"]).await;
    let paused = crate::shown(person.spec(&["queue", "pause", "done"])).await;
    assert!(paused.contains("`turnlane queue resume done`"), "{paused}");
    assert!(!paused.contains(&done), "{paused}");
}

#[tokio::test]
async fn only_the_answers_are_shown_where_that_is_asked_for() {
    let person = Person::new();
    let _daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "hello").await;
    person.until_idle(&thread).await;
    person.adds("docs", "run the test").await;
    person.until_idle(&thread).await;
    let output = crate::run(person.spec(&["thread", "show", "docs", "--answers"])).await;
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.trim_end(), "You said: hello\n\nOne failed.", "{text}");
    let json = person
        .json(&["thread", "show", "docs", "--answers", "-n", "1"])
        .await;
    assert_eq!(json[0]["answer"], "One failed.");
}

#[tokio::test]
async fn a_turn_is_named_by_its_short_id_to_copy_up_to_it() {
    let person = Person::new();
    let _daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "hello").await;
    person.until_idle(&thread).await;
    person.adds("docs", "hello again").await;
    person.until_idle(&thread).await;
    let shown = person.json(&["thread", "show", "docs"]).await.remove(0);
    let first = shown["turns"][0]["id"].as_str().unwrap();
    let copy = person
        .json(&[
            "thread",
            "fork",
            "docs",
            "--at",
            &first[28..],
            "--name",
            "copy",
        ])
        .await;
    let copied = person
        .json(&["thread", "show", copy[0]["id"].as_str().unwrap()])
        .await;
    assert_eq!(copied[0]["turns"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn tail_ends_where_only_a_person_can_let_the_queue_go_on() {
    let person = Person::new();
    let _daemon = person.daemon().await;
    person.queued("docs", "hello").await;
    person.until_idle("docs").await;
    person.json(&["queue", "pause", "docs"]).await;
    person.adds("docs", "more").await;
    let tail = Following::new(person.spec(&["thread", "tail", "docs", "--until-idle"]));
    let (code, _, stderr) = tail.end().await;
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("turnlane queue resume docs"), "{stderr}");
}

#[tokio::test]
async fn tail_ends_where_an_approval_is_not_decided() {
    let person = Person::new();
    let _daemon = person.daemon().await;
    person.queued("docs", "clean up").await;
    let id = person.asked().await["approvalId"].clone();
    let id = &id.as_str().unwrap()[28..];
    let tail = Following::new(person.spec(&["thread", "tail", "docs", "--until-idle"]));
    let (code, _, stderr) = tail.end().await;
    assert_eq!(code, Some(1), "{stderr}");
    let directory = person.home.workspace();
    let directory = directory.display();
    let expected = format!(
        "thread docs waits for your approval: rm -r build in {directory}\n  decide with `turnlane approvals accept \
         {id}` or `turnlane approvals decline {id}`\n"
    );
    assert!(stderr.ends_with(&expected), "{stderr}");
}

#[tokio::test]
async fn tail_says_until_when_it_waits_for_a_queue_that_goes_on_by_itself() {
    let person = Person::new();
    let _daemon = person.daemon().await;
    person.queued("docs", "hello").await;
    person.until_idle("docs").await;
    let later = ["queue", "add", "--thread", "docs", "--not-before", "6h"];
    crate::run(person.spec(&later).args(["more"])).await;
    let tail = Following::new(person.spec(&["thread", "tail", "docs", "--until-idle"]));
    let told = |line: &str| line.starts_with("the queue waits and goes on by itself in ");
    let told = tail.process.wait_for_stderr_line(told, DEADLINE);
    told.await.unwrap();
    // It ends with the wait.
    person.json(&["queue", "rm", "docs", "1"]).await;
    let (code, _, stderr) = tail.end().await;
    assert_eq!(code, Some(0), "{stderr}");
}

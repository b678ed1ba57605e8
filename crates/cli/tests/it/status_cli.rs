//! `turnlane status`: one screen, with and without a daemon.

use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::people::Person;
use crate::serve::Daemon;

#[tokio::test]
async fn one_screen_says_who_has_to_act_and_how_the_last_day_went() {
    let person = Person::new();
    let script = person.script();
    let daemon = Daemon::start(&person.home, &["--script", script.to_str().unwrap()]).await;
    let (done, _) = person.queued("done", "hello").await;
    let (failed, _) = person.queued("broken", "refuse it").await;
    let (running, _) = person.queued("long", "hang on").await;
    let (asking, _) = person.queued("nightly", "clean up").await;
    person.until_idle(&done).await;
    person.until_idle(&failed).await;
    person.until_running(&running).await;
    person.asked().await;
    person
        .json(&["queue", "pause", "done", "--reason", "lunch"])
        .await;
    person.adds("done", "more").await;
    person
        .json(&[
            "queue",
            "add",
            "--new",
            "--name",
            "later",
            "--not-before",
            "6h",
            "x",
        ])
        .await;
    let later = async || person.json(&["status"]).await[0]["waits"][0]["name"] == "later";
    eventually("a thread that waits", DEADLINE, later)
        .await
        .unwrap();

    let text = crate::shown(person.spec(&["status"])).await;
    let pid = daemon.process.pid();
    for part in [
        format!(
            "daemon    version {}, process {pid}, started just now, on ",
            env!("CARGO_PKG_VERSION")
        ),
        daemon.url.trim_end_matches('/').to_owned(),
        "threads   1 needs approval, 1 held, 1 running, 1 waiting for a time, 1 idle\n".to_owned(),
        "next due  in 6h\n".to_owned(),
        "2 turns ended: 1 completed, 1 failed, 0 interrupted".to_owned(),
        format!(
            "{}  needs approval  nightly  rm -r build in ",
            &asking[28..]
        ),
        "turnlane approvals show ".to_owned(),
        format!("{}  held: paused  done  lunch\n", &done[28..]),
        format!("turnlane queue resume {}", &done[28..]),
        format!("{}  running  long  hang on\n", &running[28..]),
        "starts in 6h  later  x\n".to_owned(),
        format!(
            "{}  failed  broken  the provider refused it\n",
            &failed[28..]
        ),
    ] {
        assert!(text.contains(&part), "no {part:?} in {text}");
    }
    let json = person.json(&["status"]).await.remove(0);
    assert_eq!(json["daemon"]["pid"], pid);
    assert_eq!(json["needsApproval"][0]["threadId"], asking.as_str());
    assert_eq!(json["held"][0]["why"], "lunch");
    assert_eq!(json["lastDay"]["failed"], 1);
    assert!(json["lastDay"]["tokens"].is_i64(), "{json}");
}

#[tokio::test]
async fn status_works_without_a_daemon() {
    let person = Person::new();
    let text = crate::shown(person.spec(&["status"])).await;
    assert!(text.contains("daemon    no daemon runs in "), "{text}");
    assert!(text.contains("threads   0 idle\n"), "{text}");
    assert!(text.contains("last 24h  no turn ended\n"), "{text}");
    let (thread, _) = person.queued("docs", "hello").await;
    let text = crate::shown(person.spec(&["status"])).await;
    assert!(text.contains("threads   1 queued\n"), "{text}");
    assert!(
        text.contains(&format!("{}  queued  docs  hello\n", &thread[28..])),
        "{text}"
    );
    assert_eq!(
        person.json(&["status"]).await[0]["daemon"],
        serde_json::Value::Null
    );
}

//! `resume` and `fork`: which thread is meant, and what is refused instead of guessed.

use serde_json::json;
use turnlane_testkit::mock_model::Reply;

use super::World;

async fn world() -> World {
    World::new(|request| Reply::text(request.last_user_text())).await
}

#[tokio::test]
async fn a_known_id_goes_on_with_its_history() {
    let world = world().await;
    let first = world.run(&["--json", "one"]).await;
    let thread = first.thread();
    let second = world.run(&["--json", "resume", &thread, "two"]).await;
    assert_eq!((second.code, second.thread()), (0, thread.clone()));
    let requests = world.mock.requests();
    let sent = serde_json::to_string(requests[1].input()).unwrap();
    assert!(sent.contains("one") && sent.contains("two"), "{sent}");
    assert_eq!(world.turns(&thread).await.len(), 2);
}

#[tokio::test]
async fn what_is_not_there_is_refused_and_nothing_is_made_in_its_place() {
    let world = world().await;
    let id = "01a1e099-0000-7000-8000-000000000000";
    for method in ["resume", "fork"] {
        let reason = format!(
            "Error: thread/{method}: thread/{method} failed: no rollout found for thread id {id} \
             (code -32600)"
        );
        world
            .run(&["--json", method, id, "p"])
            .await
            .is_refused(&reason);
    }
    let place = world.work().display().to_string();
    let ran = world.run(&["--json", "resume", "nobody", "p"]).await;
    ran.is_refused(&format!(
        "no thread named \"nobody\" in {place} (use --all to search every directory)"
    ));
    let ran = world.run(&["--json", "resume", "--last", "p"]).await;
    ran.is_refused(&format!("no thread to resume in {place}"));
    let ran = world.run(&["--json", "--ephemeral", "p"]).await;
    let thread = ran.thread();
    let ran = world.run(&["--json", "resume", &thread, "p"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(world.threads().await.is_empty());
    assert_eq!(world.mock.requests().len(), 1);
}

/// Gives all of them one name, as earlier versions did.
#[expect(clippy::disallowed_methods, reason = "no command of ours does it")]
fn name_all(world: &World, threads: &[String], name: &str) {
    let database = world.home.turnlane().join("turnlane.db");
    let database = rusqlite::Connection::open(database).unwrap();
    for thread in threads {
        let sql = "UPDATE thread SET name = ?1 WHERE id = ?2";
        assert_eq!(database.execute(sql, [name, thread]).unwrap(), 1);
    }
}

#[tokio::test]
async fn a_name_is_exact_and_the_only_one() {
    let world = world().await;
    let mut threads = Vec::new();
    for prompt in ["build it", "other"] {
        threads.push(world.run(&["--json", prompt]).await.thread());
    }
    name_all(&world, &threads, "build");
    let ran = world.run(&["--json", "resume", "build", "p"]).await;
    ran.is_refused("2 threads are named \"build\"; name one by its id");
    assert!(
        threads
            .iter()
            .all(|thread| ran.stderr.contains(thread.as_str())),
        "{ran:?}"
    );
    let mut client = world.client().await;
    let params = json!({"threadId": threads[1], "name": "build it"});
    client.ok("thread/name/set", params).await;
    drop(client);
    let ran = world.run(&["--json", "resume", "build", "p"]).await;
    assert_eq!((ran.code, ran.thread()), (0, threads[0].clone()));
    let ran = world.run(&["--json", "fork", "build it", "p"]).await;
    assert_eq!(ran.code, 0);
}

#[tokio::test]
async fn the_last_one_is_that_of_the_directory() {
    let world = world().await;
    let here = world.run(&["--json", "here"]).await.thread();
    let other = world.home.path().join("other");
    std::fs::create_dir_all(other.join(".git")).unwrap();
    let other = other.display().to_string();
    let there = world.run(&["--json", "-C", &other, "there"]).await.thread();
    let last =
        async |arguments: &[&str]| world.run(&[&["--json"], arguments].concat()).await.thread();
    assert_eq!(last(&["resume", "--last", "p"]).await, here);
    assert_eq!(last(&["resume", "--last", "-C", &other, "p"]).await, there);
    assert_eq!(last(&["resume", "--last", "--all", "p"]).await, there);
    // A thread is of the directory in which it was last resumed.
    assert_eq!(last(&["resume", &here, "-C", &other, "p"]).await, here);
    assert_eq!(last(&["resume", "--last", "p"]).await, there);
    assert_eq!(last(&["resume", "--last", "-C", &other, "p"]).await, here);
}

#[tokio::test]
async fn of_many_threads_with_a_name_five_are_listed_with_time_and_directory() {
    let world = world().await;
    let mut threads = Vec::new();
    for _ in 0..6 {
        threads.push(world.run(&["--json", "p"]).await.thread());
    }
    name_all(&world, &threads, "same");
    let ran = world.run(&["--json", "resume", "same", "p"]).await;
    ran.is_refused("6 threads are named \"same\"; name one by its id");
    let place = world.work().display().to_string();
    let listed: Vec<_> = ran
        .stderr
        .lines()
        .filter(|line| line.ends_with(&place) && line.contains(" UTC  "))
        .collect();
    assert_eq!(listed.len(), 5, "{}", ran.stderr);
}

#[tokio::test]
async fn a_name_of_another_directory_needs_a_word() {
    let world = world().await;
    let thread = world.run(&["--json", "p"]).await.thread();
    let mut client = world.client().await;
    let params = json!({"threadId": thread, "name": "mine"});
    client.ok("thread/name/set", params).await;
    drop(client);
    let other = world.home.path().join("other");
    std::fs::create_dir_all(other.join(".git")).unwrap();
    let place = other.canonicalize().unwrap().display().to_string();
    let ran = world
        .run(&["--json", "-C", &place, "resume", "mine", "p"])
        .await;
    ran.is_refused(&format!(
        "no thread named \"mine\" in {place} (use --all to search every directory)"
    ));
    let ran = world
        .run(&["--json", "-C", &place, "resume", "--all", "mine", "p"])
        .await;
    assert_eq!((ran.code, ran.thread()), (0, thread));
    let ran = world
        .run(&["--json", "resume", "--all", "nobody", "p"])
        .await;
    ran.is_refused("no thread named \"nobody\"");
}

#[tokio::test]
async fn the_last_one_is_that_of_the_provider() {
    let world = world().await;
    let ours = world.run(&["--json", "p"]).await.thread();
    let config = world.home.turnlane().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let start = text.find("[model_providers.mock]").unwrap();
    let second = text[start..].replace("model_providers.mock", "model_providers.second");
    std::fs::write(&config, format!("{text}\n{second}")).unwrap();
    let second = ["--json", "-c", "model_provider=second"];
    let ran = world
        .run(&[&second[..], &["resume", "--last", "q"]].concat())
        .await;
    ran.is_refused(&format!(
        "no thread to resume in {}",
        world.work().display()
    ));
    let theirs = world.run(&[&second[..], &["q"]].concat()).await.thread();
    assert_ne!(theirs, ours);
    let ran = world.run(&["--json", "resume", "--last", "r"]).await;
    assert_eq!((ran.code, ran.thread()), (0, ours));
}

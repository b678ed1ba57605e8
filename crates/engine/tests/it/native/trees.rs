//! Commands whose descendants try to get away, with containments that hold them.

use std::sync::Arc;

use serde_json::{Map, json};
use tempfile::TempDir;
use turnlane_engine::native::{Native, NativeConfig, NativeOptions};
use turnlane_engine::{CancelReason, Engine as _};
use turnlane_process::{ContainmentKind, Options, ProcessService};
use turnlane_testkit::mock_model::{Item, MockModel, Reply};

use super::support::{Bench, KEY, NOW_MS, thread};

/// One that left the session, and one that also left its parent and its output.
const LEAVING: &str = "setsid sh -c 'echo $$ > left; trap \"\" INT TERM; exec sleep 1000' & \
    (setsid sh -c 'echo $$ > daemon; exec sleep 1000' >/dev/null 2>&1 &); \
    while [ ! -s left ] || [ ! -s daemon ]; do sleep 0.01; done; echo started";

/// A bench with this containment, or a word about why not.
async fn bench(kind: ContainmentKind) -> Option<Bench> {
    let service = ProcessService::start(Options {
        containment: Some(kind),
        ..Options::default()
    });
    let service = match service {
        Ok(service) => service,
        Err(error) => {
            turnlane_testkit::skipped(error);
            return None;
        }
    };
    let mock = MockModel::start().await.unwrap();
    let providers = json!({"mock": {"base_url": mock.base_url(), "env_key": "MOCK_KEY"}});
    let home = TempDir::new().unwrap();
    let engine = Native::new(NativeOptions {
        service,
        config: Arc::new(NativeConfig {
            shared: Map::from_iter([("model_providers".to_owned(), providers)]),
            ..NativeConfig::default()
        }),
        clock: Arc::new(|| NOW_MS),
        variables: Arc::new(|name| (name == "MOCK_KEY").then(|| KEY.to_owned())),
        turnlane_home: home.path().to_owned(),
        codex_home: None,
    });
    Some(Bench {
        mock,
        engine: Arc::new(engine),
        home,
        cwd: TempDir::new().unwrap(),
    })
}

/// Whether the process that wrote its id into this file lives.
fn lives(bench: &Bench, file: &str) -> bool {
    let pid = std::fs::read_to_string(bench.cwd.path().join(file)).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim().starts_with('Z'))
}

#[tokio::test]
async fn an_interrupt_reaches_whatever_a_command_started() {
    for kind in [ContainmentKind::Cgroup, ContainmentKind::Reaper] {
        let Some(bench) = bench(kind).await else {
            continue;
        };
        let cmd = json!({"cmd": format!("{LEAVING}; wait")});
        bench.mock.push(Reply::of([
            Item::function_call("exec_command", &cmd).call_id("c")
        ]));
        let mut lane = bench.start(bench.request(1, "go", vec![]));
        lane.until("delta \"started").await;
        assert!(lives(&bench, "left") && lives(&bench, "daemon"));
        lane.end.cancel.cancel(CancelReason::Interrupt);
        lane.finish().await.assert_whole();
        assert!(
            !lives(&bench, "left") && !lives(&bench, "daemon"),
            "{kind:?}"
        );
        assert!(bench.engine.background(thread()).await.is_empty());
    }
}

#[tokio::test]
async fn what_a_command_left_behind_is_listed_and_ends_with_the_thread() {
    for kind in [ContainmentKind::Cgroup, ContainmentKind::Reaper] {
        let Some(bench) = bench(kind).await else {
            continue;
        };
        let cmd = json!({"cmd": LEAVING});
        bench.mock.push(Reply::of([
            Item::function_call("exec_command", &cmd).call_id("c")
        ]));
        bench.mock.push(Reply::text("done"));
        bench.turn("go").await.assert_completed();
        let output = bench.mock.requests()[1].tool_output("c").unwrap();
        assert!(output.contains("Process exited with code 0"), "{output}");
        assert!(lives(&bench, "left") && lives(&bench, "daemon"), "{kind:?}");
        assert_eq!(bench.engine.background(thread()).await.len(), 1);
        bench.engine.close(thread()).await;
        assert!(
            !lives(&bench, "left") && !lives(&bench, "daemon"),
            "{kind:?}"
        );
    }
}

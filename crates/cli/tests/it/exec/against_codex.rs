//! The same prompts to the real `codex exec --json` and to ours: the same lines.
//!
//! Needs the Codex CLI of the pinned version: `TURNLANE_TEST_CODEX` names its program; without it
//! this test says that it was skipped. [`without_differences`] is the whole list of what may differ.

use serde_json::{Value, json};
use turnlane_testkit::mock_model::{ApiError, Item, RecordedRequest, Reply};

use super::{Ran, World, ran};

/// What the model says, by the prompt.
fn reply(request: &RecordedRequest) -> Reply {
    let outputs = request.input().iter();
    let outputs = outputs.filter(|item| {
        let kind = item["type"].as_str().unwrap_or_default();
        kind.ends_with("_call_output")
    });
    let call = |name: &str, arguments: Value| {
        Reply::of([Item::function_call(name, arguments).call_id("c1")])
    };
    let answers = outputs.count();
    // Also where it is asked for something shorter.
    if json!(request.input()).to_string().contains("\"full\"") {
        return Reply::http_error(ApiError::context_length_exceeded());
    }
    match (request.last_user_text().as_str(), answers) {
        ("say", _) => Reply::text("hello"),
        ("think", _) => Reply::reasoning("**Thinking** about it").and(Item::text("thought")),
        ("two", _) => Reply::of([Item::text("one"), Item::text("two")]),
        ("silent", _) => Reply::of([]),
        ("run", 0) => call("exec_command", json!({"cmd": "echo hi; exit 4"})),
        ("search", _) => Reply::of([Item::web_search_call("rust"), Item::text("found")]),
        ("patch", 0) => {
            let patch = "*** Begin Patch\n*** Add File: new.txt\n+hi\n*** End Patch\n";
            Reply::of([Item::custom_tool_call("apply_patch", patch).call_id("c1")])
        }
        ("bad", _) => Reply::http_error(ApiError::bad_request("x", "no")),
        ("plan", 0 | 1) => {
            let word = ["in_progress", "completed"][answers];
            let steps = json!([{"step": "a", "status": word}, {"step": "b", "status": "pending"}]);
            let item = Item::function_call("update_plan", json!({"plan": steps}));
            Reply::of([item.call_id(format!("c{answers}"))])
        }
        ("auth", _) => Reply::http_error(ApiError::unauthorized()),
        ("incomplete", _) => Reply::text("part").incomplete("max_output_tokens"),
        (_, _) => Reply::text("done"),
    }
}

/// `full` is a context that stays full: Codex gives up at once, we after the history was made shorter
/// in vain; the lines are the same.
const PROMPTS: [&str; 12] = [
    "say",
    "think",
    "two",
    "silent",
    "run",
    "search",
    "patch",
    "bad",
    "auth",
    "incomplete",
    "plan",
    "full",
];

/// The lines with what may differ taken out: ids of threads and turns, our own members, the
/// provider's texts of errors (only that there is one is compared), the second `id` of searches,
/// which Codex writes and we call `call_id`, the shell that runs commands and whether it is a
/// login shell, and Codex's warning about
/// a model that it has no entry for.
fn without_differences(lines: Vec<Value>) -> Vec<Value> {
    let unknown_model = |line: &Value| {
        let message = line["item"]["message"].as_str().unwrap_or_default();
        message.starts_with("Model metadata for ")
    };
    let mut lines: Vec<Value> = lines
        .into_iter()
        .filter(|line| !unknown_model(line))
        .collect();
    let mut ids = Vec::new();
    for line in &mut lines {
        let object = line.as_object_mut().unwrap();
        for ours in ["turn_usage", "turn_id", "kind", "will_retry"] {
            object.remove(ours);
        }
        for key in ["thread_id", "message"] {
            if let Some(value) = object.get_mut(key) {
                *value = json!("TEXT");
            }
        }
        if let Some(error) = object.get_mut("error") {
            *error = json!({"message": error["message"].as_str().map(|_| "TEXT")});
        }
        let Some(item) = object.get_mut("item").and_then(Value::as_object_mut) else {
            continue;
        };
        item.remove("call_id");
        if let Some(command) = item.get_mut("command") {
            let text = command.as_str().unwrap();
            *command = json!(text.split_once("c '").unwrap().1);
        }
        // Numbered anew: Codex may have left one out, and a second `id` hides the first.
        let id = item["id"].as_str().unwrap().to_owned();
        let number = ids
            .iter()
            .position(|known| *known == id)
            .unwrap_or_else(|| {
                ids.push(id);
                ids.len() - 1
            });
        item.insert("id".to_owned(), json!(number));
    }
    lines
}

fn read(ran: &Ran) -> Vec<Value> {
    let lines = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    without_differences(lines.collect())
}

#[tokio::test]
async fn the_same_prompts_give_the_same_lines() {
    let Some(codex) = crate::codex::codex().await else {
        return;
    };
    let (theirs, ours) = (World::new(reply).await, World::new(reply).await);
    for world in [&theirs, &ours] {
        let config = world.home.codex().join("config.toml");
        let text = std::fs::read_to_string(&config).unwrap();
        let retries = text.replace(
            "[model_providers.mock]\n",
            "[model_providers.mock]\nrequest_max_retries = 0\nstream_max_retries = 0\n",
        );
        std::fs::write(&config, &retries).unwrap();
        let own = world.home.turnlane().join("config.toml");
        let text = std::fs::read_to_string(&own).unwrap();
        let retries = text.replace(
            "[model_providers.mock]\n",
            "[model_providers.mock]\nrequest_max_retries = 0\nstream_max_retries = 0\n",
        );
        std::fs::write(&own, retries).unwrap();
    }
    for prompt in PROMPTS {
        // A model that Codex knows, since it offers fewer tools to others.
        // Codex 0.166 offers its tool for plans to nobody who does not ask for it.
        let plans = "tools.update_plan.enabled=true";
        let arguments = ["--json", "--yolo", "-m", "gpt-5.5", "-c", plans, prompt];
        let spec = turnlane_testkit::ProcessSpec::new(&codex)
            .args(["exec"])
            .args(arguments)
            .envs(theirs.home.env())
            .current_dir(theirs.home.workspace());
        let codex_ran = ran(spec, b"").await;
        let our_ran = ours.run(&arguments).await;
        assert_eq!(
            codex_ran.code, our_ran.code,
            "{prompt}: {codex_ran:?} {our_ran:?}"
        );
        let place = |world: &World| world.work().display().to_string();
        let theirs_shown = json!(read(&codex_ran))
            .to_string()
            .replace(&place(&theirs), "W");
        let ours_shown = json!(read(&our_ran))
            .to_string()
            .replace(&place(&ours), "W");
        assert_eq!(theirs_shown, ours_shown, "{prompt}");
    }
}

//! Recorded traffic of the real Codex: everything in it that has a type here comes back whole.
//!
//! The recordings are not part of the repository; they lie in `shared/transcripts` beside it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use serde_json::value::RawValue;
use turnlane_protocol::approval::{
    COMMAND_METHOD, CommandApprovalParams, FILE_CHANGE_METHOD, FileChangeApprovalParams,
};
use turnlane_protocol::handshake::{InitializeParams, InitializeResult};
use turnlane_protocol::item::{ItemBody, ThreadItem};
use turnlane_protocol::method::{
    AccountReadAnswer, AccountReadParams, CollaborationModeListAnswer, ConfigReadAnswer,
    ConfigReadParams, ConfigRequirementsReadAnswer, Done, GovCloudAnswer, HooksListAnswer,
    HooksListParams, ModelListAnswer, ModelListParams, PluginListAnswer, PluginListParams,
    SkillsListAnswer, SkillsListParams, StartAnswer, ThreadArchiveParams, ThreadForkParams,
    ThreadItemsListAnswer, ThreadItemsListParams, ThreadListAnswer, ThreadListParams,
    ThreadLoadedListAnswer, ThreadLoadedListParams, ThreadNameSetParams, ThreadQueueAddParams,
    ThreadQueueDeleteAnswer, ThreadQueueDeleteParams, ThreadQueueListParams,
    ThreadQueueReorderParams, ThreadQueueStartAnswer, ThreadQueueStartParams,
    ThreadQueueUpdateParams, ThreadReadAnswer, ThreadReadParams, ThreadResumeAnswer,
    ThreadResumeParams, ThreadRevertAnswer, ThreadRevertParams, ThreadSettingsUpdateParams,
    ThreadStartParams, ThreadTurnsListParams, ThreadUnarchiveAnswer, ThreadUnsubscribeAnswer,
    ThreadUnsubscribeParams, TurnInterruptAnswer, TurnInterruptParams, TurnStartAnswer,
    TurnStartParams, TurnSteerAnswer, TurnSteerParams, TurnsPage,
};
use turnlane_protocol::notification::ServerNotification;
use turnlane_protocol::params;
use turnlane_protocol::thread::Thread;
use turnlane_protocol::turn::Turn;

use crate::example::Wire;

/// Members we add as null to what Codex sends without them; the only difference there may be.
const OURS: &[&str] = &[
    "engine",
    "binding",
    "queue",
    "queuedTurnId",
    "attempt",
    "source",
    "usage",
    "outcome",
    "layers",
];

#[test]
fn recorded_traffic_comes_back_whole() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/transcripts");
    let files = recordings(&folder);
    if files.is_empty() {
        // Past the capture of the test runner: a skip must be seen.
        let mut stderr = std::io::stderr();
        _ = writeln!(stderr, "SKIPPED: no recorded traffic beside the repository");
        return;
    }
    let mut counts = BTreeMap::new();
    for file in files {
        check_recording(&file, &mut counts);
    }
    for wanted in [
        "notification",
        "answer thread/start",
        "answer turn/start",
        "answer model/list",
        "answer config/read",
        "item",
        "request",
    ] {
        let kinds = counts
            .keys()
            .filter(|kind| kind.starts_with(wanted))
            .count();
        assert!(kinds > 0, "nothing of {wanted} among {counts:?}");
    }
}

fn recordings(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jsonl")
        })
        .collect();
    files.sort();
    files
}

fn check_recording(file: &Path, counts: &mut BTreeMap<String, usize>) {
    let mut asked: HashMap<String, (String, Value)> = HashMap::new();
    for line in fs::read_to_string(file).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let message = &line["msg"];
        let (id, method) = (&message["id"], message["method"].as_str());
        let params = message.get("params").cloned().unwrap_or_default();
        match (line["dir"].as_str().unwrap(), method) {
            ("send" | "c2s", Some(method)) if !id.is_null() => {
                asked.insert(id.to_string(), (method.to_owned(), params));
            }
            ("recv" | "s2c", Some(method)) if id.is_null() => {
                check_notification(method, &params);
                count(counts, &format!("notification {method}"));
            }
            ("recv" | "s2c", Some(method)) => {
                check_server_request(method, &params);
                count(counts, &format!("request {method}"));
            }
            ("recv" | "s2c", None) if message.get("result").is_some() => {
                if let Some((method, params)) = asked.get(&id.to_string()) {
                    check_params(method, params);
                    check_answer(method, &message["result"]);
                    count(counts, &format!("answer {method}"));
                }
            }
            _ => {}
        }
        if line["dir"] == "recv" || line["dir"] == "s2c" {
            check_parts(message, counts);
        }
    }
}

fn count(counts: &mut BTreeMap<String, usize>, kind: &str) {
    *counts.entry(kind.to_owned()).or_default() += 1;
}

fn check_notification(method: &str, params: &Value) {
    let raw = RawValue::from_string(params.to_string()).unwrap();
    match ServerNotification::read(method, Some(&raw)) {
        Ok(read) => {
            let written = serde_json::to_value(&read).unwrap();
            assert_same(method, params, &written["params"]);
        }
        Err(why) => panic!("{method}: {why}: {params}"),
    }
}

fn check_server_request(method: &str, params: &Value) {
    match method {
        COMMAND_METHOD => check::<CommandApprovalParams>(method, params),
        FILE_CHANGE_METHOD => check::<FileChangeApprovalParams>(method, params),
        _ => panic!("no type for the server request {method}"),
    }
}

/// What Codex has answered with a result must be params we can read.
fn check_params(method: &str, params: &Value) {
    let raw = match params {
        Value::Null => None,
        given => Some(RawValue::from_string(given.to_string()).unwrap()),
    };
    let params = raw.as_deref();
    match method {
        "initialize" => check_read::<InitializeParams>(method, params),
        "thread/start" => check_read::<ThreadStartParams>(method, params),
        "thread/resume" => check_read::<ThreadResumeParams>(method, params),
        "thread/fork" => check_read::<ThreadForkParams>(method, params),
        "thread/read" => check_read::<ThreadReadParams>(method, params),
        "thread/list" => check_read::<ThreadListParams>(method, params),
        "turn/start" => check_read::<TurnStartParams>(method, params),
        "turn/steer" => check_read::<TurnSteerParams>(method, params),
        "turn/interrupt" => check_read::<TurnInterruptParams>(method, params),
        "thread/archive" | "thread/unarchive" | "thread/delete" | "thread/compact/start" => {
            check_read::<ThreadArchiveParams>(method, params);
        }
        "thread/loaded/list" => check_read::<ThreadLoadedListParams>(method, params),
        "thread/unsubscribe" => check_read::<ThreadUnsubscribeParams>(method, params),
        "thread/queue/add" => check_read::<ThreadQueueAddParams>(method, params),
        "thread/queue/list" => check_read::<ThreadQueueListParams>(method, params),
        "thread/queue/update" => check_read::<ThreadQueueUpdateParams>(method, params),
        "thread/queue/delete" => check_read::<ThreadQueueDeleteParams>(method, params),
        "thread/queue/reorder" => check_read::<ThreadQueueReorderParams>(method, params),
        "thread/queue/start" => check_read::<ThreadQueueStartParams>(method, params),
        "thread/turns/list" => check_read::<ThreadTurnsListParams>(method, params),
        "thread/items/list" => check_read::<ThreadItemsListParams>(method, params),
        "thread/name/set" => check_read::<ThreadNameSetParams>(method, params),
        "thread/revert" => check_read::<ThreadRevertParams>(method, params),
        "thread/settings/update" => check_read::<ThreadSettingsUpdateParams>(method, params),
        "account/read" => check_read::<AccountReadParams>(method, params),
        "model/list" => check_read::<ModelListParams>(method, params),
        "config/read" => check_read::<ConfigReadParams>(method, params),
        "hooks/list" => check_read::<HooksListParams>(method, params),
        "skills/list" => check_read::<SkillsListParams>(method, params),
        "plugin/list" => check_read::<PluginListParams>(method, params),
        _ => {}
    }
}

fn check_answer(method: &str, result: &Value) {
    match method {
        "initialize" => check::<InitializeResult>(method, result),
        "thread/start" | "thread/fork" => check::<StartAnswer>(method, result),
        "thread/resume" => check::<ThreadResumeAnswer>(method, result),
        "thread/read" => check::<ThreadReadAnswer>(method, result),
        "thread/list" => check::<ThreadListAnswer>(method, result),
        "thread/archive" | "thread/delete" | "thread/name/set" | "thread/settings/update" => {
            check::<Done>(method, result);
        }
        "thread/unarchive" => check::<ThreadUnarchiveAnswer>(method, result),
        "thread/loaded/list" => check::<ThreadLoadedListAnswer>(method, result),
        "thread/unsubscribe" => check::<ThreadUnsubscribeAnswer>(method, result),
        "thread/queue/delete" => check::<ThreadQueueDeleteAnswer>(method, result),
        "thread/queue/start" => check::<ThreadQueueStartAnswer>(method, result),
        "thread/items/list" => check::<ThreadItemsListAnswer>(method, result),
        "thread/revert" => check::<ThreadRevertAnswer>(method, result),
        "account/read" => check::<AccountReadAnswer>(method, result),
        "account/bedrock/checkGovCloudRequirements" => check::<GovCloudAnswer>(method, result),
        "model/list" => check::<ModelListAnswer>(method, result),
        "config/read" => check::<ConfigReadAnswer>(method, result),
        "configRequirements/read" => check::<ConfigRequirementsReadAnswer>(method, result),
        "hooks/list" => check::<HooksListAnswer>(method, result),
        "skills/list" => check::<SkillsListAnswer>(method, result),
        "collaborationMode/list" => check::<CollaborationModeListAnswer>(method, result),
        "plugin/list" => check::<PluginListAnswer>(method, result),
        "thread/turns/list" => check::<TurnsPage>(method, result),
        "turn/start" => check::<TurnStartAnswer>(method, result),
        "turn/steer" => check::<TurnSteerAnswer>(method, result),
        "turn/interrupt" => check::<TurnInterruptAnswer>(method, result),
        _ => {}
    }
}

/// Threads, turns and items wherever they stand, also in answers that have no type yet.
fn check_parts(value: &Value, counts: &mut BTreeMap<String, usize>) {
    match value {
        Value::Object(members) => {
            for (name, part) in members {
                match name.as_str() {
                    "thread" if part.is_object() => check::<Thread>("thread", part),
                    "turn" if part.is_object() => check::<Turn>("turn", part),
                    "item" if part.is_object() => {
                        check::<ThreadItem>("item", part);
                        let item: ThreadItem = serde_json::from_value(part.clone()).unwrap();
                        assert!(!matches!(item.body, ItemBody::Other(_)), "{part}");
                        count(counts, &format!("item {}", item.type_word()));
                    }
                    _ => {}
                }
                check_parts(part, counts);
            }
        }
        Value::Array(parts) => parts.iter().for_each(|part| check_parts(part, counts)),
        _ => {}
    }
}

fn check_read<T: Wire>(method: &str, raw: Option<&RawValue>) {
    if let Err(why) = params::read::<T>(raw) {
        panic!("params of {method}: {why}: {raw:?}");
    }
}

fn check<T: Wire>(what: &str, json: &Value) {
    match serde_json::from_value::<T>(json.clone()) {
        Ok(read) => assert_same(what, json, &serde_json::to_value(read).unwrap()),
        Err(why) => panic!("{what}: {why}: {json}"),
    }
}

fn assert_same(what: &str, received: &Value, written: &Value) {
    let mut written = written.clone();
    remove_ours(&mut written, received);
    assert_eq!(&written, received, "{what}");
}

/// Takes our null members out of `written` where `received` has no such member.
fn remove_ours(written: &mut Value, received: &Value) {
    match written {
        Value::Object(members) => {
            members.retain(|name, value| {
                let ours = OURS.contains(&name.as_str()) && value.is_null();
                !ours || received.get(name).is_some()
            });
            for (name, value) in members {
                remove_ours(value, &received[name]);
            }
        }
        Value::Array(parts) => {
            for (index, part) in parts.iter_mut().enumerate() {
                remove_ours(part, &received[index]);
            }
        }
        _ => {}
    }
}

//! Servers that speak the Responses API, each in its own way.
//!
//! Each mood is a mock that refuses what the server refuses and leaves out what it leaves out; in
//! each a turn with a tool call completes, and so does a second one with that history.

use serde_json::{Value, json};
use turnlane_testkit::mock_model::{ApiError, At, Item, Noise, RecordedRequest, Reply};

use super::support::Bench;

/// Why a server refuses a request; none: it takes it.
type Refuses = fn(&Value) -> Option<&'static str>;
/// What a server makes of the events of an answer.
type Speaks = fn(Reply) -> Reply;

struct Mood {
    name: &'static str,
    refuses: Refuses,
    speaks: Speaks,
}

const OPENAI: Mood = Mood {
    name: "OpenAI",
    refuses: |body| {
        let lost =
            |item: &Value| item["type"] == "reasoning" && item["encrypted_content"].is_null();
        any_item(body, lost).then_some("reasoning item not found")
    },
    speaks: |reply| reply,
};

const OLLAMA: Mood = Mood {
    name: "Ollama",
    refuses: |body| {
        let known = [
            "message",
            "reasoning",
            "function_call",
            "function_call_output",
        ];
        let strange = |item: &Value| !known.iter().any(|word| item["type"] == *word);
        if any_item(body, strange) {
            return Some("unknown input item type");
        }
        let efforts = ["none", "low", "medium", "high", "max"];
        let effort = body["reasoning"]["effort"].as_str();
        (!effort.is_none_or(|word| efforts.contains(&word))).then_some("invalid reasoning value")
    },
    // Thinking is plain text in a field that is meant for something else.
    speaks: |reply| {
        edit(reply, |event| {
            if event["item"]["type"] == "reasoning" {
                event["item"]["encrypted_content"] = json!("plain thoughts");
            }
            Kept::Yes
        })
    },
};

const VLLM: Mood = Mood {
    name: "vLLM",
    refuses: |body| {
        let bare = |item: &Value| {
            item["role"] == "assistant"
                && (item["id"].is_null()
                    || item["status"] != "completed"
                    || item["content"].as_array().is_none_or(Vec::is_empty))
        };
        let broken = |item: &Value| {
            let arguments = item["arguments"].as_str().unwrap_or("{}");
            serde_json::from_str::<serde_json::Map<String, Value>>(arguments).is_err()
        };
        (any_item(body, bare) || any_item(body, broken)).then_some("validation error")
    },
    speaks: |reply| {
        edit(reply, |event| {
            let done = [
                "response.output_text.done",
                "response.content_part.done",
                "response.output_item.done",
            ];
            if done.iter().any(|word| event["type"] == *word) {
                Kept::No
            } else {
                Kept::Yes
            }
        })
    },
};

const LLAMA_CPP: Mood = Mood {
    name: "llama.cpp",
    refuses: |body| {
        let tools = body["tools"].as_array().into_iter().flatten();
        let mut strange = tools.filter(|tool| tool["type"] != "function");
        strange.next().map(|_| "'type' of tool must be 'function'")
    },
    speaks: |reply| {
        edit(reply, |event| {
            if let Some(event) = event.as_object_mut() {
                for name in ["output_index", "sequence_number", "item_id"] {
                    event.remove(name);
                }
                if let Some(item) = event.get_mut("item").and_then(Value::as_object_mut) {
                    item.remove("id");
                }
            }
            Kept::Yes
        })
    },
};

const LM_STUDIO: Mood = Mood {
    name: "LM Studio",
    refuses: |body| {
        let tools = body["tools"].as_array().into_iter().flatten();
        let empty = |tool: &Value| !tool["parameters"]["properties"].is_object();
        let mut refused = tools.filter(|tool| tool["type"] != "function" || empty(tool));
        refused.next().map(|_| "Invalid type for 'tools.0.type'")
    },
    speaks: |reply| reply,
};

const OPENROUTER: Mood = Mood {
    name: "OpenRouter",
    refuses: |body| {
        let stored = body["store"] == true || body.get("previous_response_id").is_some();
        stored.then_some("stateless")
    },
    speaks: |reply| {
        let reply = reply.insert(At::AfterEvents(1), Noise::Comment);
        edit(reply, |event| {
            if event["type"] == "response.completed" {
                event["type"] = json!("response.done");
            }
            Kept::Yes
        })
    },
};

#[derive(PartialEq, Eq)]
enum Kept {
    Yes,
    No,
}

fn edit(reply: Reply, change: fn(&mut Value) -> Kept) -> Reply {
    reply.without_event_names().edited(move |events| {
        let events = events.into_iter();
        let changed =
            events.filter_map(|mut event| (change(&mut event) == Kept::Yes).then_some(event));
        changed.collect()
    })
}

fn any_item(body: &Value, is: impl Fn(&Value) -> bool) -> bool {
    body["input"].as_array().into_iter().flatten().any(is)
}

fn answers(mood: &Mood, request: &RecordedRequest) -> Reply {
    if let Some(problem) = (mood.refuses)(&request.body) {
        return Reply::http_error(ApiError::bad_request("input", problem));
    }
    let last = request.input().last().cloned().unwrap_or_default();
    if last["type"] == "function_call_output" {
        return (mood.speaks)(Reply::text("done"));
    }
    let call = Item::function_call("exec_command", json!({"cmd": "echo hello"}));
    (mood.speaks)(
        Reply::reasoning("Look.")
            .and(Item::text("Running."))
            .and(call),
    )
}

#[tokio::test]
async fn a_turn_with_a_tool_call_and_a_second_one_complete_with_every_known_server() {
    for mood in [OPENAI, OLLAMA, VLLM, LLAMA_CPP, LM_STUDIO, OPENROUTER] {
        let name = mood.name;
        let bench = Bench::new().await;
        bench
            .mock
            .choose_with(move |request| Some(answers(&mood, request)));
        let mut history = vec![];
        for number in [1, 2] {
            let request = bench.request(number, "go", history.clone());
            let seen = bench.start(request).finish().await;
            let outcome = seen.outcome();
            assert_eq!(outcome.error, None, "{name}, turn {number}");
            assert_eq!(
                outcome.last_agent_message.as_deref(),
                Some("done"),
                "{name}"
            );
            seen.assert_whole();
            assert_eq!(seen.items("commandExecution").len(), 1, "{name}");
            assert_eq!(seen.warnings, Vec::<String>::new(), "{name}");
            history = seen.after(&history);
        }
        assert_eq!(bench.mock.requests().len(), 4, "{name}");
    }
}

#[tokio::test]
async fn a_call_with_broken_arguments_is_sent_again_as_one_that_every_server_takes() {
    let bench = Bench::new().await;
    bench.mock.push(Reply::of([
        Item::function_call("exec_command", "{broken").call_id("c")
    ]));
    bench
        .mock
        .choose_with(|request| Some(answers(&VLLM, request)));
    let seen = bench.turn("go").await;
    assert_eq!(seen.outcome().error, None);
    assert_eq!(bench.mock.requests()[1].input()[1]["arguments"], "{}");
}

#[tokio::test]
async fn a_model_that_takes_no_images_is_offered_and_sent_none() {
    let native = json!({"providers": {"mock": {"image_input": false}}});
    let bench = Bench::with(&json!({}), &native).await;
    bench.mock.push(Reply::text("ok"));
    let mut request = bench.request(1, "look", vec![]);
    let image = json!({"type": "image", "url": "data:image/gif;base64,R0lGODlh"});
    request.input.push(serde_json::from_value(image).unwrap());
    bench.start(request).finish().await.assert_completed();
    let request = bench.mock.requests().pop().unwrap();
    assert!(!request.tool_names().contains(&"view_image"));
    let text = &request.input()[0]["content"][1]["text"];
    assert_eq!(text, "[image omitted: this model takes no images]");
}

#[tokio::test]
async fn a_picture_that_a_tool_looked_at_follows_all_answers() {
    let bench = Bench::new().await;
    std::fs::write(bench.cwd.path().join("a.gif"), b"GIF89a").unwrap();
    let look = |id: &str| Item::function_call("view_image", json!({"path": "a.gif"})).call_id(id);
    bench.mock.push(Reply::of([look("c0"), look("c1")]));
    bench.mock.push(Reply::text("a picture"));
    bench.turn("look").await.assert_completed();
    let input = bench.mock.requests()[1].input().to_vec();
    assert_eq!(input[3]["output"], "image attached");
    assert_eq!(input[4]["output"], "image attached");
    assert_eq!(input[5]["content"].as_array().unwrap().len(), 2);
    assert_eq!(input[5]["content"][0]["type"], "input_image");
}

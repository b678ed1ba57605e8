//! What models are told about the tools.
//!
//! The invariant here: what is described works, and strict servers take it.

use turnlane_protocol::thread::ThreadEnvironment;

use super::*;
use crate::native::tools::schema::{NAMES, offered};

fn names(tools: &ToolSettings, environments: Option<&[ThreadEnvironment]>) -> Vec<String> {
    let offered = offered(tools, environments).into_iter();
    offered.map(|tool| tool.name).collect()
}

#[test]
fn settings_say_which_tools_are_offered() {
    let seeing = tool_settings();
    let blind = ToolSettings {
        pictures: Pictures::Refused,
        ..tool_settings()
    };
    assert_eq!(names(&seeing, None), NAMES);
    assert_eq!(names(&blind, None), NAMES[..4]);
    assert_eq!(names(&seeing, Some(&[])), ["update_plan"]);
}

#[test]
fn every_schema_is_one_that_strict_servers_take() {
    for tool in offered(&tool_settings(), None) {
        let schema = &tool.parameters;
        assert_eq!(schema["type"], "object", "{}", tool.name);
        assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
        let properties = schema["properties"].as_object().unwrap();
        assert!(!properties.is_empty());
        for required in schema["required"].as_array().unwrap() {
            assert!(
                properties.contains_key(required.as_str().unwrap()),
                "{}",
                tool.name
            );
        }
        assert!(tool.description.len() > 40 && tool.description.len() < 1_000);
    }
}

#[test]
fn the_same_settings_give_the_same_bytes() {
    let bytes = || {
        let tools = offered(&tool_settings(), None).into_iter();
        let tools = tools.map(|tool| json!([tool.name, tool.description, tool.parameters]));
        serde_json::to_string(&tools.collect::<Vec<_>>()).unwrap()
    };
    assert_eq!(bytes(), bytes());
}

/// The example in the description is a patch that works.
#[tokio::test]
async fn the_example_of_a_patch_can_be_applied() {
    let tools = offered(&tool_settings(), None);
    let described = &tools[2].description;
    let start = described.find("*** Begin Patch").unwrap();
    let end = described.find("*** End Patch").unwrap() + "*** End Patch".len();
    let mut stage = Stage::new();
    stage.write(
        "src/old.rs",
        "fn main() {\nunchanged line\nremoved line\n}\n",
    );
    stage.write("gone.txt", "");
    let input = json!({"input": described[start..end]});
    let done = stage
        .call("apply_patch", input, Permission::Usual)
        .await
        .unwrap();
    assert!(done.success, "{}", done.text);
    let expected = "fn main() {\nunchanged line\nadded line\n}\n";
    assert_eq!(stage.read("src/new.rs").as_deref(), Some(expected));
}

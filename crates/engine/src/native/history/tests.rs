//! Entries as they are made.
//!
//! The shapes here are those of the contract, compared as whole values.

use serde_json::{Value, json};
use turnlane_protocol::ids::{ItemId, TurnId};
use turnlane_protocol::input::UserInput;
use turnlane_protocol::item::{AgentMessage, ThreadItem, UserMessage};

use super::*;

fn author() -> Author {
    Author {
        turn_id: TurnId::at(1, [1; 10]),
        provider: "p".to_owned(),
        model: "m".to_owned(),
    }
}

fn items(entry: &Entry) -> Value {
    serde_json::from_str(&entry.items).unwrap()
}

fn call(call_id: &str, arguments: &str) -> Produced {
    Produced::Call {
        call_id: call_id.to_owned(),
        name: "exec_command".to_owned(),
        arguments: arguments.to_owned(),
    }
}

#[test]
fn a_user_entry_names_its_item_and_holds_one_message() {
    let input = [UserInput::text("run the tests")];
    let entry = author().user(&ItemId::from("i-1"), &input).unwrap();
    assert_eq!((entry.kind, entry.call_ids.len()), (EntryKind::User, 0));
    assert_eq!(entry.item_id, Some(ItemId::from("i-1")));
    let content = json!([{"type": "input_text", "text": "run the tests"}]);
    let expected = json!([{"type": "message", "role": "user", "content": content}]);
    assert_eq!(items(&entry), expected);
}

#[test]
fn a_response_becomes_one_entry_in_the_form_strict_servers_take() {
    let message = Produced::Message {
        item_id: ItemId::from("0f3a-11"),
        text: "Running.".to_owned(),
        phase: Some("commentary".to_owned()),
    };
    let thought = Produced::Reasoning(json!({"type": "reasoning", "id": "rs_1", "status": "x",
        "content": [{"type": "reasoning_text", "text": "long"}],
        "summary": [{"type": "summary_text", "text": "Look first."}],
        "encrypted_content": "gAAA"}));
    let made = [thought, message, call("call_7", "{\"cmd\":\"make test\"}")];
    let entry = author().output(&made).unwrap();
    assert_eq!(entry.kind, EntryKind::Output);
    assert_eq!(entry.call_ids, ["call_7"]);
    let expected = json!([
        {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA",
         "summary": [{"type": "summary_text", "text": "Look first."}]},
        {"type": "message", "id": "msg_0f3a11", "role": "assistant", "status": "completed",
         "phase": "commentary",
         "content": [{"type": "output_text", "text": "Running.", "annotations": []}]},
        {"type": "function_call", "call_id": "call_7", "name": "exec_command",
         "arguments": "{\"cmd\":\"make test\"}"},
    ]);
    assert_eq!(items(&entry), expected);
}

#[test]
fn what_no_server_takes_back_is_left_out() {
    let silent = Produced::Message {
        item_id: ItemId::from("a"),
        text: String::new(),
        phase: None,
    };
    let plain = Produced::Reasoning(json!({"id": "rs_1", "summary": []}));
    let empty = Produced::Reasoning(json!({"id": "rs_1", "encrypted_content": ""}));
    assert_eq!(author().output(&[silent, plain, empty]), None);
    assert_eq!(author().output(&[]), None);
    assert_eq!(author().answers(&[]), None);
    assert_eq!(author().pictures(&[]), None);
}

#[test]
fn arguments_that_are_no_object_become_an_empty_one() {
    for (arguments, sent) in [
        ("{\"a\": 1}", "{\"a\": 1}"),
        (" {} ", " {} "),
        ("", "{}"),
        ("[1]", "{}"),
        ("null", "{}"),
        ("{\"a\":", "{}"),
        ("{} {}", "{}"),
    ] {
        let entry = author().output(&[call("c", arguments)]).unwrap();
        assert_eq!(items(&entry)[0]["arguments"], sent, "{arguments}");
    }
}

#[test]
fn an_id_of_another_form_is_spelt_in_hex() {
    assert_eq!(message_id(&ItemId::from("0f3A-b")), "msg_0f3Ab");
    assert_eq!(message_id(&ItemId::from("it:1")), "msg_69743a31");
    assert_eq!(message_id(&ItemId::from("--")), "msg_2d2d");
}

#[test]
fn answers_keep_the_order_of_their_calls() {
    let answer = |call_id: &str| Answer {
        call_id: call_id.to_owned(),
        text: format!("of {call_id}"),
    };
    let entry = author().answers(&[answer("b"), answer("a")]).unwrap();
    assert_eq!(entry.kind, EntryKind::ToolOutput);
    assert_eq!(entry.call_ids, ["b", "a"]);
    let expected = json!([
        {"type": "function_call_output", "call_id": "b", "output": "of b"},
        {"type": "function_call_output", "call_id": "a", "output": "of a"},
    ]);
    assert_eq!(items(&entry), expected);
}

#[test]
fn pictures_of_tools_are_one_note_in_the_users_role() {
    let picture = Image::new(b"GIF89a", None).unwrap();
    let entry = author().pictures(&[picture.clone(), picture]).unwrap();
    assert_eq!(entry.kind, EntryKind::Note);
    let message = &items(&entry)[0];
    assert_eq!(message["role"], "user");
    assert_eq!(message["content"].as_array().unwrap().len(), 2);
}

#[test]
fn a_message_that_came_late_belongs_to_its_own_turn() {
    let turn_id = TurnId::at(0, [9; 10]);
    let said = UserMessage {
        content: vec![UserInput::text("one more thing")],
        ..UserMessage::default()
    };
    let item = |body| ThreadItem::started(ItemId::from("late"), 5, body);
    let item_of = |body| UnrecordedMessage {
        turn_id,
        item: item(body),
    };
    let message = item_of(ItemBody::UserMessage(said));
    let entry = author().late(&message).unwrap().unwrap();
    assert_eq!(entry.turn_id, turn_id);
    assert_eq!(entry.item_id, Some(ItemId::from("late")));
    assert!(entry.items.contains("one more thing"));
    let other = item_of(ItemBody::AgentMessage(AgentMessage::default()));
    assert_eq!(author().late(&other), None);
}

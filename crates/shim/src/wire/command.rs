//! Commands of the orchestrator, read from one frame.
//!
//! The invariant here: reading is total. A frame that is no command becomes a [`BadCommand`] that names
//! the command and the field, so that the sender can be told and the shim goes on. Fields nobody knows
//! are ignored, and `null` counts as absent.

use serde_json::{Map, Value};

/// The longest name of a command that is repeated in an error.
const NAME_CHARS_MAX: usize = 64;
/// The longest drain that `Shutdown` may ask for.
const SHUTDOWN_SECS_MAX: u64 = 3_600;
/// The largest `client_data`, as JSON.
const CLIENT_DATA_BYTES_MAX: usize = 4_096;

/// A command and the sender's own number for it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) command: Command,
    /// Present when the sender wants exactly one `Ok` or `Error` for it.
    pub(crate) req: Option<Value>,
}

/// A frame that is no command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BadCommand {
    /// The command's name, or `frame`.
    pub(crate) command: String,
    pub(crate) reason: String,
    pub(crate) req: Option<Value>,
    /// The sender's id, where the frame has one: a message that is refused is refused by name.
    pub(crate) message_id: Option<String>,
}

/// What the orchestrator asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    SendMessage(Message),
    CaptureScreen {
        last_n_lines: Option<usize>,
    },
    GetState,
    Resize,
    Shutdown {
        timeout_secs: u64,
        reason: ShutdownReason,
    },
    Kill,
    Ping,
    Hello(Hello),
    Interrupt {
        turn_id: Option<String>,
        then: Option<AfterInterrupt>,
    },
    Steer {
        body: String,
        message_id: Option<String>,
    },
    ListQueue,
    CancelMessage {
        message_id: String,
    },
    EditMessage {
        message_id: String,
        body: String,
    },
    ReorderQueue {
        ids: Vec<String>,
    },
    RetryMessage {
        message_id: String,
    },
    Pause {
        reason: Option<String>,
    },
    Resume,
    AnswerApproval {
        approval_id: String,
        decision: &'static str,
    },
    GetUsage,
    GetTranscript {
        since: Option<String>,
        limit: u32,
    },
    Preserve {
        label: String,
    },
    Successor,
    Detach,
}

/// One message for the agent.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::struct_field_names,
    reason = "the fields have the names of the wire"
)]
pub(crate) struct Message {
    pub(crate) from: String,
    pub(crate) body: String,
    pub(crate) message_id: Option<String>,
    pub(crate) inject: Option<Injection>,
    pub(crate) expected_thread_id: Option<String>,
    pub(crate) client_data: Option<Value>,
}

/// What stands around the body of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Injection {
    /// The sender and how to reply.
    Reply,
    /// Nothing.
    Plain,
}

/// Why the orchestrator ends the shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShutdownReason {
    Requested,
    RestartHandoff,
    ContextExhausted,
    TopologyChange,
    DaemonStop,
}

impl ShutdownReason {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::RestartHandoff => "restart_handoff",
            Self::ContextExhausted => "context_exhausted",
            Self::TopologyChange => "topology_change",
            Self::DaemonStop => "daemon_stop",
        }
    }
}

/// What the queue does after an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterInterrupt {
    Pause,
    Continue,
}

/// Opens dialect v2 on a connection.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hello {
    pub(crate) version: u64,
    pub(crate) since: Option<Cursor>,
    pub(crate) items: bool,
}

/// The last event that a client has read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cursor {
    pub(crate) epoch: String,
    pub(crate) seq: u64,
}

/// Reads a frame.
pub(crate) fn parse(frame: &[u8]) -> Result<Request, BadCommand> {
    let bad_frame = |reason: String| BadCommand {
        command: "frame".to_owned(),
        reason,
        req: None,
        message_id: None,
    };
    if frame.trim_ascii().is_empty() {
        return Err(bad_frame("the frame is empty".to_owned()));
    }
    let value: Value = serde_json::from_slice(frame)
        .map_err(|error| bad_frame(format!("the frame is not JSON: {error}")))?;
    let Value::Object(fields) = value else {
        return Err(bad_frame("the frame is not an object".to_owned()));
    };
    let req = fields.get("req").filter(|req| !req.is_null()).cloned();
    let message_id = fields.get("message_id").and_then(Value::as_str);
    let message_id = message_id.map(str::to_owned);
    let name = match fields.get("cmd") {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Null) | None => {
            return Err(BadCommand {
                req,
                ..bad_frame("missing field `cmd`".to_owned())
            });
        }
        Some(_) => {
            return Err(BadCommand {
                req,
                ..bad_frame("field `cmd` must be a string".to_owned())
            });
        }
    };
    match command(&name, &Fields(&fields)) {
        Ok(command) => Ok(Request { command, req }),
        Err(reason) => Err(BadCommand {
            command: name.chars().take(NAME_CHARS_MAX).collect(),
            reason,
            req,
            message_id,
        }),
    }
}

fn command(name: &str, fields: &Fields<'_>) -> Result<Command, String> {
    Ok(match name {
        "SendMessage" => Command::SendMessage(message(fields)?),
        "CaptureScreen" => Command::CaptureScreen {
            last_n_lines: fields
                .optional_number("last_n_lines")?
                .map(|lines| usize::try_from(lines).unwrap_or(usize::MAX)),
        },
        "GetState" => Command::GetState,
        "Resize" => {
            fields.number("rows")?;
            fields.number("cols")?;
            Command::Resize
        }
        "Shutdown" => Command::Shutdown {
            timeout_secs: fields.number("timeout_secs")?.min(SHUTDOWN_SECS_MAX),
            reason: shutdown_reason(fields)?,
        },
        "Kill" => Command::Kill,
        "Ping" => Command::Ping,
        "Hello" => Command::Hello(hello(fields)?),
        "Interrupt" => Command::Interrupt {
            turn_id: fields.optional_text("turn_id")?,
            then: match fields.optional_text("then")?.as_deref() {
                None => None,
                Some("pause") => Some(AfterInterrupt::Pause),
                Some("continue") => Some(AfterInterrupt::Continue),
                Some(_) => return Err("field `then` must be `pause` or `continue`".to_owned()),
            },
        },
        "Steer" => Command::Steer {
            body: fields.text("body")?,
            message_id: fields.optional_text("message_id")?,
        },
        "ListQueue" => Command::ListQueue,
        "CancelMessage" => Command::CancelMessage {
            message_id: fields.text("message_id")?,
        },
        "EditMessage" => Command::EditMessage {
            message_id: fields.text("message_id")?,
            body: fields.text("body")?,
        },
        "ReorderQueue" => Command::ReorderQueue {
            ids: fields.texts("ids")?,
        },
        "RetryMessage" => Command::RetryMessage {
            message_id: fields.text("message_id")?,
        },
        "Pause" => Command::Pause {
            reason: fields.optional_text("reason")?,
        },
        "Resume" => Command::Resume,
        "AnswerApproval" => Command::AnswerApproval {
            approval_id: fields.text("approval_id")?,
            decision: decision(&fields.text("decision")?)?,
        },
        "GetUsage" => Command::GetUsage,
        "GetTranscript" => Command::GetTranscript {
            since: fields.optional_text("since")?,
            limit: fields.optional_number("limit")?.map_or(100, |limit| {
                u32::try_from(limit.clamp(1, 100)).unwrap_or(100)
            }),
        },
        "Preserve" => Command::Preserve {
            label: fields.optional_text("label")?.unwrap_or_default(),
        },
        "Successor" => Command::Successor,
        "Detach" => Command::Detach,
        _ => return Err("unknown command".to_owned()),
    })
}

fn message(fields: &Fields<'_>) -> Result<Message, String> {
    let client_data = fields.0.get("client_data").filter(|data| !data.is_null());
    if client_data.is_some_and(|data| data.to_string().len() > CLIENT_DATA_BYTES_MAX) {
        return Err(format!(
            "field `client_data` must be at most {CLIENT_DATA_BYTES_MAX} bytes"
        ));
    }
    Ok(Message {
        from: fields.text("from")?,
        body: fields.text("body")?,
        message_id: fields.optional_text("message_id")?,
        inject: match fields.optional_text("inject")?.as_deref() {
            None => None,
            Some("reply") => Some(Injection::Reply),
            Some("plain") => Some(Injection::Plain),
            Some(_) => return Err("field `inject` must be `reply` or `plain`".to_owned()),
        },
        expected_thread_id: fields.optional_text("expected_thread_id")?,
        client_data: client_data.cloned(),
    })
}

fn shutdown_reason(fields: &Fields<'_>) -> Result<ShutdownReason, String> {
    Ok(match fields.optional_text("reason")?.as_deref() {
        Some("restart_handoff") => ShutdownReason::RestartHandoff,
        Some("context_exhausted") => ShutdownReason::ContextExhausted,
        Some("topology_change") => ShutdownReason::TopologyChange,
        Some("daemon_stop") => ShutdownReason::DaemonStop,
        // A later orchestrator may know more reasons; all of them end the shim in the same way.
        _ => ShutdownReason::Requested,
    })
}

fn hello(fields: &Fields<'_>) -> Result<Hello, String> {
    let since = match fields.0.get("since") {
        None | Some(Value::Null) => None,
        Some(Value::Object(cursor)) => {
            let cursor = Fields(cursor);
            Some(Cursor {
                epoch: cursor.text("epoch")?,
                seq: cursor.number("seq")?,
            })
        }
        Some(_) => return Err("field `since` must be an object".to_owned()),
    };
    let items = match fields.0.get("items") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(items)) => *items,
        Some(_) => return Err("field `items` must be a boolean".to_owned()),
    };
    Ok(Hello {
        version: fields.number("version")?,
        since,
        items,
    })
}

fn decision(word: &str) -> Result<&'static str, String> {
    let known = ["accept", "acceptForSession", "decline", "cancel"];
    let found = known.into_iter().find(|known| *known == word);
    found.ok_or_else(|| {
        "field `decision` must be one of `accept`, `acceptForSession`, `decline`, `cancel`"
            .to_owned()
    })
}

/// The fields of a command; each method says which one is missing or wrong.
struct Fields<'a>(&'a Map<String, Value>);

impl Fields<'_> {
    fn optional_text(&self, name: &str) -> Result<Option<String>, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("field `{name}` must be a string")),
        }
    }

    fn text(&self, name: &str) -> Result<String, String> {
        self.optional_text(name)?
            .ok_or_else(|| format!("missing field `{name}`"))
    }

    fn optional_number(&self, name: &str) -> Result<Option<u64>, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Number(number)) if number.is_u64() => Ok(number.as_u64()),
            Some(_) => Err(format!("field `{name}` must be a number of at least 0")),
        }
    }

    fn number(&self, name: &str) -> Result<u64, String> {
        self.optional_number(name)?
            .ok_or_else(|| format!("missing field `{name}`"))
    }

    fn texts(&self, name: &str) -> Result<Vec<String>, String> {
        let wrong = || format!("field `{name}` must be a list of strings");
        match self.0.get(name) {
            None | Some(Value::Null) => Err(format!("missing field `{name}`")),
            Some(Value::Array(list)) => list
                .iter()
                .map(|entry| entry.as_str().map(str::to_owned).ok_or_else(wrong))
                .collect(),
            Some(_) => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reason(frame: &str) -> (String, String) {
        let bad = parse(frame.as_bytes()).unwrap_err();
        (bad.command, bad.reason)
    }

    #[test]
    fn the_commands_of_the_first_dialect_are_read_as_they_are_written() {
        let sent =
            r#"{"cmd":"SendMessage","from":"manager","body":"fix it","message_id":"m1","x":1}"#;
        let Command::SendMessage(message) = parse(sent.as_bytes()).unwrap().command else {
            panic!("no message");
        };
        assert_eq!(message.from, "manager");
        assert_eq!(message.message_id.as_deref(), Some("m1"));
        let read = |frame: &str| parse(frame.as_bytes()).unwrap().command;
        assert_eq!(
            read(r#"{"cmd":"CaptureScreen","last_n_lines":null}"#),
            Command::CaptureScreen { last_n_lines: None }
        );
        assert_eq!(
            read(r#"{"cmd":"Resize","rows":40,"cols":100}"#),
            Command::Resize
        );
        assert_eq!(
            read(r#"{"cmd":"Shutdown","timeout_secs":99999,"reason":"from the future"}"#),
            Command::Shutdown {
                timeout_secs: 3_600,
                reason: ShutdownReason::Requested
            }
        );
        assert_eq!(read(r#"{"cmd":"Ping"}"#), Command::Ping);
    }

    #[test]
    fn what_is_no_command_is_refused_by_name_and_field() {
        assert_eq!(reason(" ").0, "frame");
        assert_eq!(reason("{x").0, "frame");
        assert_eq!(
            reason("[]"),
            ("frame".into(), "the frame is not an object".into())
        );
        assert_eq!(reason("{}").1, "missing field `cmd`");
        assert_eq!(
            reason(r#"{"cmd":"Dance"}"#),
            ("Dance".into(), "unknown command".into())
        );
        assert_eq!(
            reason(r#"{"cmd":"SendMessage","from":"a"}"#),
            ("SendMessage".into(), "missing field `body`".into())
        );
        assert_eq!(
            reason(r#"{"cmd":"SendMessage","from":"a","body":7}"#).1,
            "field `body` must be a string"
        );
        assert_eq!(
            reason(r#"{"cmd":"Resize","rows":-1,"cols":2}"#).1,
            "field `rows` must be a number of at least 0"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_command_or_an_error(frame in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&frame);
        }

        #[test]
        fn any_object_is_a_command_or_an_error(
            name in "SendMessage|Shutdown|Hello|Resize|Interrupt|[a-z]{0,5}",
            key in "from|body|version|since|timeout_secs|rows|[a-z]{0,4}",
            value in "1|-1|\"a\"|null|\\[\\]|\\{\\}|true",
        ) {
            let frame = format!("{{\"cmd\":\"{name}\",\"{key}\":{value}}}");
            let _ = parse(frame.as_bytes());
        }
    }
}

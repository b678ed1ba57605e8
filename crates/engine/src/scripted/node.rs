//! A script as a tree whose nodes know where they stand.
//!
//! The invariant here: every complaint about a node names file, line, column and key, because the
//! node carries them. JSON is read as the YAML it is.
//!
//! What the keys mean is in the neighbour `read`.

use std::borrow::Cow;
use std::sync::Arc;

use granit_parser::{Event, Marker, Parser, ScalarStyle, ScanError};

use crate::error::Error;

/// How deep a script may be nested; more is a mistake or an attack.
const DEPTH_MAX: usize = 64;

/// A part of a script.
#[derive(Debug)]
pub(super) struct Node {
    file: Arc<str>,
    line: usize,
    column: usize,
    key: String,
    value: Value,
}

#[derive(Debug)]
enum Value {
    Scalar { text: String, is_plain: bool },
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    /// The tree of a script; `file` is what complaints call it.
    pub(super) fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let tree = Tree {
            file: file.into(),
            events: Parser::new_from_str(text),
        };
        tree.read()
    }

    /// A complaint about this node.
    pub(super) fn bad(&self, problem: impl Into<String>) -> Error {
        Error::Script {
            file: self.file.as_ref().to_owned(),
            line: self.line,
            column: self.column,
            key: match self.key.as_str() {
                "" => "the script".to_owned(),
                key => key.to_owned(),
            },
            problem: problem.into(),
        }
    }

    /// A text; numbers and words are texts too.
    pub(super) fn text(&self) -> Result<&str, Error> {
        match &self.value {
            Value::Scalar { text, is_plain } if !(*is_plain && is_null(text)) => Ok(text),
            _ => Err(self.bad("expected a text")),
        }
    }

    /// A number that fits.
    pub(super) fn number<T: std::str::FromStr>(&self) -> Result<T, Error> {
        let wrong = || self.bad("expected a whole number in range");
        self.plain().ok_or_else(wrong)?.parse().map_err(|_| wrong())
    }

    /// `true` or `false`.
    pub(super) fn boolean(&self) -> Result<bool, Error> {
        match self.plain() {
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            _ => Err(self.bad("expected true or false")),
        }
    }

    /// The parts of a list.
    pub(super) fn list(&self) -> Result<&[Self], Error> {
        match &self.value {
            Value::List(parts) => Ok(parts),
            Value::Scalar { .. } | Value::Map(_) => Err(self.bad("expected a list")),
        }
    }

    /// Whether it is a map.
    pub(super) fn is_map(&self) -> bool {
        matches!(self.value, Value::Map(_))
    }

    /// Whether it is a list.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.value, Value::List(_))
    }

    /// The members of a map that has no others than `known`.
    pub(super) fn fields(&self, known: &[&str]) -> Result<Fields<'_>, Error> {
        let Value::Map(members) = &self.value else {
            return Err(self.bad(format!("expected a map with {}", known.join(", "))));
        };
        let is_known = |name: &str| known.contains(&name);
        match members.iter().find(|(name, _)| !is_known(name)) {
            Some((_, node)) => Err(node.bad(format!("unknown key, expected {}", known.join(", ")))),
            None => Ok(Fields {
                node: self,
                members,
            }),
        }
    }

    /// The one member of a map.
    pub(super) fn single(&self) -> Result<(&str, &Self), Error> {
        match &self.value {
            Value::Map(members) => match members.as_slice() {
                [(name, node)] => Ok((name, node)),
                _ => Err(self.bad("expected exactly one key")),
            },
            Value::Scalar { .. } | Value::List(_) => {
                Err(self.bad("expected a step such as `say: text`"))
            }
        }
    }

    fn plain(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar {
                text,
                is_plain: true,
            } => Some(text),
            Value::Scalar { .. } | Value::List(_) | Value::Map(_) => None,
        }
    }
}

/// The members of a map.
pub(super) struct Fields<'a> {
    node: &'a Node,
    members: &'a [(String, Node)],
}

impl<'a> Fields<'a> {
    /// A member, if it is there.
    pub(super) fn get(&self, name: &str) -> Option<&'a Node> {
        let found = self.members.iter().find(|(member, _)| member == name);
        found.map(|(_, node)| node)
    }

    /// A member that has to be there.
    pub(super) fn need(&self, name: &str) -> Result<&'a Node, Error> {
        let missing = || self.node.bad(format!("the key {name} is missing"));
        self.get(name).ok_or_else(missing)
    }

    /// A text, if it is there.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, Error> {
        let text = self.get(name).map(Node::text).transpose()?;
        Ok(text.map(str::to_owned))
    }

    /// A number, if it is there.
    pub(super) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Error> {
        self.get(name).map(Node::number).transpose()
    }
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null")
}

/// Makes the tree from the parser's events.
struct Tree<'a> {
    file: Arc<str>,
    events: Parser<'a, granit_parser::StrInput<'a>>,
}

impl<'a> Tree<'a> {
    fn read(mut self) -> Result<Node, Error> {
        loop {
            match self.next()? {
                Some((Event::StreamStart | Event::DocumentStart(..), _)) => {}
                Some((Event::StreamEnd, _)) | None => {
                    return Err(self.syntax(1, 1, "the script is empty"));
                }
                Some((event, at)) => {
                    let root = self.node(event, at, String::new(), 0)?;
                    self.no_more()?;
                    return Ok(root);
                }
            }
        }
    }

    fn no_more(&mut self) -> Result<(), Error> {
        while let Some((event, at)) = self.next()? {
            if let Event::DocumentStart(..) = event {
                return Err(self.syntax(at.line(), at.col() + 1, "a script is one document"));
            }
        }
        Ok(())
    }

    fn node(
        &mut self,
        event: Event<'a>,
        at: Marker,
        key: String,
        depth: usize,
    ) -> Result<Node, Error> {
        if depth > DEPTH_MAX {
            return Err(self.syntax(at.line(), at.col() + 1, "nested too deeply"));
        }
        let value = match event {
            Event::Scalar(text, style, ..) => Value::Scalar {
                text: Cow::into_owned(text),
                is_plain: style == ScalarStyle::Plain,
            },
            Event::SequenceStart(..) => Value::List(self.list(&key, depth)?),
            Event::MappingStart(..) => Value::Map(self.map(&key, depth)?),
            _ => {
                let problem = "an alias cannot be read here";
                return Err(self.syntax(at.line(), at.col() + 1, problem));
            }
        };
        Ok(Node {
            file: Arc::clone(&self.file),
            line: at.line(),
            column: at.col() + 1,
            key,
            value,
        })
    }

    fn list(&mut self, key: &str, depth: usize) -> Result<Vec<Node>, Error> {
        let mut parts = Vec::new();
        loop {
            match self.next()? {
                Some((Event::SequenceEnd, _)) | None => return Ok(parts),
                Some((event, at)) => {
                    let key = format!("{key}[{}]", parts.len());
                    parts.push(self.node(event, at, key, depth + 1)?);
                }
            }
        }
    }

    fn map(&mut self, key: &str, depth: usize) -> Result<Vec<(String, Node)>, Error> {
        let mut members: Vec<(String, Node)> = Vec::new();
        loop {
            let (name, at) = match self.next()? {
                Some((Event::MappingEnd, _)) | None => return Ok(members),
                Some((Event::Scalar(name, ..), at)) => (Cow::into_owned(name), at),
                Some((_, at)) => {
                    return Err(self.syntax(at.line(), at.col() + 1, "a key has to be a word"));
                }
            };
            let dot = if key.is_empty() { "" } else { "." };
            let path = format!("{key}{dot}{name}");
            let Some((event, value_at)) = self.next()? else {
                return Err(self.syntax(at.line(), at.col() + 1, "a key without a value"));
            };
            // A list or map may begin on a later line; a complaint about it belongs to its key.
            let at = if matches!(event, Event::Scalar(..)) {
                value_at
            } else {
                at
            };
            let node = self.node(event, at, path, depth + 1)?;
            if members.iter().any(|(member, _)| *member == name) {
                return Err(node.bad("the key is there twice"));
            }
            members.push((name, node));
        }
    }

    fn next(&mut self) -> Result<Option<(Event<'a>, Marker)>, Error> {
        match self.events.next_event() {
            None => Ok(None),
            Some(Ok((event, span))) => Ok(Some((event, span.start))),
            Some(Err(error)) => Err(self.broken(&error)),
        }
    }

    fn broken(&self, error: &ScanError) -> Error {
        let at = error.marker();
        self.syntax(at.line(), at.col() + 1, &error.kind().to_string())
    }

    fn syntax(&self, line: usize, column: usize, problem: &str) -> Error {
        Error::Syntax {
            file: self.file.as_ref().to_owned(),
            line,
            column,
            problem: problem.to_owned(),
        }
    }
}

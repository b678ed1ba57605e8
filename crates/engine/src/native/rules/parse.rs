//! The language of rule files: calls with literal arguments, the part of Starlark that needs no
//! evaluation.
//!
//! The invariant here: a file is understood completely or refused with the line of the first problem.
//! Nothing is skipped, since a skipped line may be the one that forbids. Any bytes are read in time
//! that grows with their length, and lists nest to a fixed depth.
//!
//! Which files are read is decided by `load`.

mod calls;
mod examples;

use super::{NetworkRule, PrefixRule, RuleOrigin};

/// How deep lists may nest; a pattern needs two levels.
const DEPTH_MAX: usize = 4;

/// The content of one file.
#[derive(Debug, Default)]
pub(super) struct RuleFile {
    pub(super) prefixes: Vec<PrefixRule>,
    /// Names of programs and the paths that count as them.
    pub(super) executables: Vec<(String, Vec<String>)>,
    pub(super) network: Vec<NetworkRule>,
}

/// Why a file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {problem}")]
pub(in crate::native) struct ParseError {
    line: usize,
    problem: String,
}

impl ParseError {
    fn new(line: usize, problem: impl Into<String>) -> Self {
        Self {
            line,
            problem: problem.into(),
        }
    }
}

/// Reads a file and checks the examples of its rules.
pub(super) fn parse(text: &str, origin: RuleOrigin) -> Result<RuleFile, ParseError> {
    let mut parser = Parser {
        rest: text.strip_prefix('\u{feff}').unwrap_or(text),
        line: 1,
    };
    let mut calls = Vec::new();
    loop {
        parser.skip_blank();
        while parser.eat(';') {
            parser.skip_blank();
        }
        if parser.rest.is_empty() {
            break;
        }
        calls.push(parser.call()?);
        parser.end_statement()?;
    }
    calls::interpret(calls, origin)
}

/// A literal.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Literal {
    Text(String),
    Flag(bool),
    List(Vec<Literal>),
}

/// A named argument.
#[derive(Debug)]
struct Argument {
    line: usize,
    name: String,
    value: Literal,
}

/// A call at the top level.
#[derive(Debug)]
struct Call {
    line: usize,
    name: String,
    arguments: Vec<Argument>,
}

struct Parser<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Parser<'a> {
    fn error<T>(&self, problem: impl Into<String>) -> Result<T, ParseError> {
        Err(ParseError::new(self.line, problem))
    }

    fn bump(&mut self) -> Option<char> {
        let mut letters = self.rest.chars();
        let letter = letters.next()?;
        self.rest = letters.as_str();
        if letter == '\n' {
            self.line += 1;
        }
        Some(letter)
    }

    fn eat(&mut self, letter: char) -> bool {
        let is_there = self.rest.starts_with(letter);
        if is_there {
            self.bump();
        }
        is_there
    }

    fn eat_text(&mut self, text: &str) -> bool {
        let behind = self.rest.strip_prefix(text);
        self.rest = behind.unwrap_or(self.rest);
        behind.is_some()
    }

    fn skip_while(&mut self, skips: impl Fn(char) -> bool) {
        while self.rest.starts_with(&skips) {
            self.bump();
        }
    }

    /// Skips blanks and comments; line ends too.
    fn skip_blank(&mut self) {
        loop {
            self.skip_while(|letter| matches!(letter, ' ' | '\t' | '\r' | '\n'));
            if !self.rest.starts_with('#') {
                return;
            }
            self.skip_while(|letter| letter != '\n');
        }
    }

    fn end_statement(&mut self) -> Result<(), ParseError> {
        self.skip_while(|letter| matches!(letter, ' ' | '\t' | '\r'));
        if self.rest.starts_with('#') {
            self.skip_while(|letter| letter != '\n');
        }
        if self.rest.is_empty() || self.rest.starts_with(['\n', ';']) {
            return Ok(());
        }
        self.error("expected the end of the line after a call")
    }

    fn name(&mut self) -> Result<&'a str, ParseError> {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let end = self.rest.find(|letter| !is_name(letter));
        let (name, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        if name.is_empty() || name.starts_with(|letter: char| letter.is_ascii_digit()) {
            return self.error("expected a call such as prefix_rule(…)");
        }
        self.rest = rest;
        Ok(name)
    }

    fn call(&mut self) -> Result<Call, ParseError> {
        let line = self.line;
        let name = self.name()?.to_owned();
        self.skip_while(|letter| matches!(letter, ' ' | '\t'));
        if !self.eat('(') {
            return self.error("only calls with literal arguments are understood");
        }
        let mut arguments = Vec::new();
        loop {
            self.skip_blank();
            if self.eat(')') {
                break;
            }
            arguments.push(self.argument()?);
            self.skip_blank();
            if self.eat(')') {
                break;
            }
            if !self.eat(',') {
                return self.error("expected `,` or `)` after an argument");
            }
        }
        Ok(Call {
            line,
            name,
            arguments,
        })
    }

    fn argument(&mut self) -> Result<Argument, ParseError> {
        let line = self.line;
        if self.rest.starts_with(['"', '\'', '[']) {
            return self.error("arguments must be named, as in pattern = […]");
        }
        let name = self.name()?.to_owned();
        self.skip_blank();
        if !self.eat('=') {
            return self.error(format!("expected `=` after `{name}`"));
        }
        self.skip_blank();
        let value = self.literal(0)?;
        Ok(Argument { line, name, value })
    }

    fn literal(&mut self, depth: usize) -> Result<Literal, ParseError> {
        if self.eat('[') {
            return self.list(depth);
        }
        for raw in ["r\"", "r'"] {
            if self.rest.starts_with(raw) {
                self.bump();
                return self.text(Escapes::Raw).map(Literal::Text);
            }
        }
        if self.rest.starts_with(['"', '\'']) {
            return self.text(Escapes::Read).map(Literal::Text);
        }
        for (word, flag) in [("True", true), ("False", false)] {
            let behind = self.rest.strip_prefix(word);
            let goes_on = |rest: &str| rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
            if behind.is_some_and(|rest| !goes_on(rest)) {
                self.eat_text(word);
                return Ok(Literal::Flag(flag));
            }
        }
        self.error("expected a string, a list, True or False")
    }

    /// The members behind the opening bracket.
    fn list(&mut self, depth: usize) -> Result<Literal, ParseError> {
        if depth >= DEPTH_MAX {
            return self.error("lists are nested too deeply");
        }
        let mut members = Vec::new();
        loop {
            self.skip_blank();
            if self.eat(']') {
                break;
            }
            members.push(self.literal(depth + 1)?);
            self.skip_blank();
            if self.eat(']') {
                break;
            }
            if !self.eat(',') {
                return self.error("expected `,` or `]` in a list");
            }
        }
        Ok(Literal::List(members))
    }

    fn text(&mut self, escapes: Escapes) -> Result<String, ParseError> {
        let line = self.line;
        let quote = match self.bump() {
            Some('\'') => "'",
            _ => "\"",
        };
        let triple = quote.repeat(3);
        let (end, spans_lines) = if self.eat_text(&triple[1..]) {
            (triple.as_str(), true)
        } else {
            (quote, false)
        };
        let mut text = String::new();
        loop {
            if self.eat_text(end) {
                return Ok(text);
            }
            match self.bump() {
                None => return Err(ParseError::new(line, "a string is not closed")),
                Some('\n') if !spans_lines => {
                    return Err(ParseError::new(line, "a string is not closed on its line"));
                }
                Some('\\') if escapes == Escapes::Raw => {
                    // A raw string keeps the backslash, which still hides a quote behind it.
                    text.push('\\');
                    text.extend(self.bump());
                }
                Some('\\') => self.escape(&mut text)?,
                Some(letter) => text.push(letter),
            }
        }
    }

    fn escape(&mut self, text: &mut String) -> Result<(), ParseError> {
        let letter = match self.bump() {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some(letter @ ('\\' | '"' | '\'')) => letter,
            Some('\n') => return Ok(()),
            Some('x') => self.code(2)?,
            Some('u') => self.code(4)?,
            Some('U') => self.code(8)?,
            _ => return self.error("unknown escape in a string"),
        };
        text.push(letter);
        Ok(())
    }

    /// A character by its number in hexadecimal digits.
    fn code(&mut self, digits: usize) -> Result<char, ParseError> {
        let number = self.rest.get(..digits);
        let number = number.filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let number = number.and_then(|text| u32::from_str_radix(text, 16).ok());
        let Some(letter) = number.and_then(char::from_u32) else {
            return self.error("unknown escape in a string");
        };
        self.rest = self.rest.get(digits..).unwrap_or_default();
        Ok(letter)
    }
}

/// The meaning of a backslash in a string.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escapes {
    Read,
    Raw,
}

//! The calls of a rule file: `prefix_rule`, `host_executable`, `network_rule`.
//!
//! The invariant here: an argument that is unknown, given twice, missing or of another type refuses
//! the file. An unknown argument may be a condition under which a rule holds, so it is never ignored.

use super::examples::{self, Examples};
use super::{Argument, Call, Literal, ParseError, RuleFile};
use crate::native::rules::{
    NetworkRule, PATTERN_WORDS_MAX, PrefixRule, RuleDecision, RuleOrigin, base_name,
};

/// The protocols that Codex's proxy tells apart.
const PROTOCOLS: [&str; 6] = [
    "http",
    "https",
    "https_connect",
    "http-connect",
    "socks5_tcp",
    "socks5_udp",
];

/// Makes rules of the calls, then checks their examples with the file's own executables.
pub(super) fn interpret(calls: Vec<Call>, origin: RuleOrigin) -> Result<RuleFile, ParseError> {
    let mut file = RuleFile::default();
    let mut examples = Vec::new();
    for call in calls {
        let mut arguments = Arguments::new(call)?;
        match arguments.call.as_str() {
            "prefix_rule" => {
                let (rule, of_rule) = prefix_rule(&mut arguments, origin)?;
                file.prefixes.push(rule);
                examples.push((file.prefixes.len() - 1, of_rule));
            }
            "host_executable" => file.executables.push(host_executable(&mut arguments)?),
            "network_rule" => file.network.push(network_rule(&mut arguments)?),
            name => {
                let problem = format!(
                    "`{name}` is not understood; expected prefix_rule, host_executable or \
                     network_rule"
                );
                return arguments.error(problem);
            }
        }
        arguments.end()?;
    }
    for (index, of_rule) in examples {
        examples::check(&file, index, &of_rule)?;
    }
    Ok(file)
}

/// The arguments of one call that were not read yet.
struct Arguments {
    call: String,
    line: usize,
    left: Vec<Argument>,
}

impl Arguments {
    fn new(call: Call) -> Result<Self, ParseError> {
        for (index, argument) in call.arguments.iter().enumerate() {
            let is_same = |other: &Argument| other.name == argument.name;
            if call.arguments[..index].iter().any(is_same) {
                let problem = format!("`{}` is given twice", argument.name);
                return Err(ParseError::new(argument.line, problem));
            }
        }
        Ok(Self {
            call: call.name,
            line: call.line,
            left: call.arguments,
        })
    }

    fn error<T>(&self, problem: impl Into<String>) -> Result<T, ParseError> {
        Err(ParseError::new(self.line, problem))
    }

    fn take(&mut self, name: &str) -> Option<Argument> {
        let at = self
            .left
            .iter()
            .position(|argument| argument.name == name)?;
        Some(self.left.remove(at))
    }

    fn required(&mut self, name: &str) -> Result<Argument, ParseError> {
        match self.take(name) {
            Some(argument) => Ok(argument),
            None => self.error(format!("{} needs `{name}`", self.call)),
        }
    }

    fn end(self) -> Result<(), ParseError> {
        match self.left.first() {
            None => Ok(()),
            Some(argument) => {
                let problem = format!("{} has no argument `{}`", self.call, argument.name);
                Err(ParseError::new(argument.line, problem))
            }
        }
    }
}

impl Argument {
    pub(super) fn error<T>(&self, problem: &str) -> Result<T, ParseError> {
        let problem = format!("`{}` {problem}", self.name);
        Err(ParseError::new(self.line, problem))
    }

    /// A string that is not blank.
    fn text(&self) -> Result<String, ParseError> {
        match &self.value {
            Literal::Text(text) if !text.trim().is_empty() => Ok(text.clone()),
            Literal::Text(_) => self.error("must not be empty"),
            Literal::Flag(_) | Literal::List(_) => self.error("must be a string"),
        }
    }

    pub(super) fn list(&self) -> Result<&[Literal], ParseError> {
        match &self.value {
            Literal::List(members) => Ok(members),
            Literal::Text(_) | Literal::Flag(_) => self.error("must be a list"),
        }
    }

    /// A list of strings, at least one.
    pub(super) fn texts(&self, members: &[Literal]) -> Result<Vec<String>, ParseError> {
        if members.is_empty() {
            return self.error("must not hold an empty list");
        }
        let text = |member: &Literal| match member {
            Literal::Text(text) => Ok(text.clone()),
            Literal::Flag(_) | Literal::List(_) => self.error("must hold strings"),
        };
        members.iter().map(text).collect()
    }
}

fn prefix_rule(
    arguments: &mut Arguments,
    origin: RuleOrigin,
) -> Result<(PrefixRule, Examples), ParseError> {
    let given = arguments.required("pattern")?;
    let mut pattern = Vec::new();
    for member in given.list()? {
        pattern.push(match member {
            Literal::Text(word) => vec![word.clone()],
            Literal::List(alternatives) => given.texts(alternatives)?,
            Literal::Flag(_) => return given.error("must hold strings and lists of strings"),
        });
    }
    if pattern.is_empty() || pattern.iter().flatten().any(String::is_empty) {
        return given.error("must hold at least one word, and none that is empty");
    }
    if pattern.len() > PATTERN_WORDS_MAX {
        return given.error(&format!("must hold at most {PATTERN_WORDS_MAX} words"));
    }
    let decision = match arguments.take("decision") {
        None => RuleDecision::Allow,
        Some(decision) => match decision.text()?.as_str() {
            "allow" => RuleDecision::Allow,
            "prompt" => RuleDecision::Prompt,
            "forbidden" => RuleDecision::Forbidden,
            _ => return decision.error("must be `allow`, `prompt` or `forbidden`"),
        },
    };
    let justification = arguments.take("justification");
    let justification = justification.map(|text| text.text()).transpose()?;
    let examples = Examples {
        matching: arguments.take("match"),
        other: arguments.take("not_match"),
    };
    let rule = PrefixRule {
        pattern,
        decision,
        justification,
        origin,
    };
    Ok((rule, examples))
}

fn host_executable(arguments: &mut Arguments) -> Result<(String, Vec<String>), ParseError> {
    let given = arguments.required("name")?;
    let name = given.text()?;
    if name.contains('/') {
        return given.error("must be a name without a directory");
    }
    let given = arguments.required("paths")?;
    let paths = given.texts(given.list()?)?;
    if paths.iter().any(|path| !path.starts_with('/')) {
        return given.error("must hold absolute paths");
    }
    if paths.iter().any(|path| base_name(path) != name) {
        return given.error("must hold paths that end in the name");
    }
    Ok((name, paths))
}

fn network_rule(arguments: &mut Arguments) -> Result<NetworkRule, ParseError> {
    let host = arguments.required("host")?.text()?;
    let protocol = arguments.required("protocol")?;
    if !PROTOCOLS.contains(&protocol.text()?.as_str()) {
        return protocol.error(&format!("must be one of {}", PROTOCOLS.join(", ")));
    }
    let given = arguments.required("decision")?;
    let decision = match given.text()?.as_str() {
        "allow" => RuleDecision::Allow,
        "prompt" => RuleDecision::Prompt,
        "deny" | "forbidden" => RuleDecision::Forbidden,
        _ => return given.error("must be `allow`, `prompt` or `deny`"),
    };
    if let Some(justification) = arguments.take("justification") {
        justification.text()?;
    }
    Ok(NetworkRule { host, decision })
}

//! The examples of a rule: commands that it must match, and commands that it must not.
//!
//! The invariant here: an example that fails refuses its file. The author of a rule that does not
//! match what they meant learns it before a command runs, not afterwards.

use super::{Argument, Literal, ParseError, RuleFile};
use crate::native::rules::RuleSet;
use crate::native::words;

/// The examples of one rule.
pub(super) struct Examples {
    pub(super) matching: Option<Argument>,
    pub(super) other: Option<Argument>,
}

/// Compares the examples of one rule with that rule alone.
pub(super) fn check(file: &RuleFile, index: usize, examples: &Examples) -> Result<(), ParseError> {
    let Some(rule) = file.prefixes.get(index) else {
        return Ok(());
    };
    if examples.matching.is_none() && examples.other.is_none() {
        return Ok(());
    }
    let mut alone = RuleSet::default();
    for executable in &file.executables {
        alone.add_executable(rule.origin, executable.clone());
    }
    alone.push(rule.clone());
    for (argument, expected) in [(&examples.matching, true), (&examples.other, false)] {
        let Some(argument) = argument else {
            continue;
        };
        for example in argument.list()? {
            let words = words_of(argument, example)?;
            if alone.matches_words(&words) != expected {
                let is = if expected { "is not" } else { "is" };
                let problem = format!("example {is} matched by the rule: {}", words.join(" "));
                return argument.error(&problem);
            }
        }
    }
    Ok(())
}

/// The words of an example: a list of words, or a command in one string.
fn words_of(argument: &Argument, example: &Literal) -> Result<Vec<String>, ParseError> {
    match example {
        Literal::List(words) => argument.texts(words),
        Literal::Text(line) => {
            let script = words::read(line);
            match script.commands.as_slice() {
                [command] if !command.words.is_empty() => Ok(command.words.clone()),
                _ => argument.error("must hold examples of one command each"),
            }
        }
        Literal::Flag(_) => argument.error("must hold strings and lists of strings"),
    }
}

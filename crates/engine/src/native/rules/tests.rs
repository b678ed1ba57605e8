//! Rules as their authors write them, against scripts as models write them.

mod files;
mod language;
mod properties;
mod spellings;

use super::parse::{self, ParseError};
use super::{RuleOrigin, RuleSet, Verdict};

/// A set of the rules in several texts.
fn rules(files: &[(RuleOrigin, &str)]) -> RuleSet {
    let mut rules = RuleSet::default();
    for (origin, text) in files {
        let file = parse::parse(text, *origin).unwrap();
        for executable in file.executables {
            rules.add_executable(*origin, executable);
        }
        rules.network.extend(file.network);
        file.prefixes.into_iter().for_each(|rule| rules.push(rule));
    }
    rules
}

impl RuleSet {
    /// A set of the rules in one text.
    pub(crate) fn of(origin: RuleOrigin, text: &str) -> Self {
        rules(&[(origin, text)])
    }
}

fn of_user(text: &str) -> RuleSet {
    rules(&[(RuleOrigin::User, text)])
}

fn problem(text: &str) -> String {
    parse::parse(text, RuleOrigin::User)
        .unwrap_err()
        .to_string()
}

fn judge(rules: &RuleSet, script: &str) -> Verdict {
    rules.judge(script, script)
}

fn is_forbidden(rules: &RuleSet, script: &str) -> bool {
    matches!(judge(rules, script), Verdict::Forbidden(_))
}

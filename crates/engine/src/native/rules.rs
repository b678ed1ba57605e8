//! Rules about commands: which ones are forbidden, asked about, or run without a question.
//!
//! The invariant here: a rule can only be made stricter by what is not understood. A file that cannot
//! be read completely stops every turn, a script that cannot be split is matched word by word, and of
//! several matching rules the strictest holds. `allow` is the one decision that widens rights, so it
//! needs a script whose every command is known.
//!
//! `parse` reads the files' language, `load` finds the files, `split` lists the commands of a script,
//! and `decide` compares the two. What a decision means for a call is said by the tool `exec_command`.
//! Rules compare spellings. A program that was copied, or that an interpreter starts, is not seen here;
//! the sandbox is the wall.

mod decide;
mod load;
mod parse;
mod split;
#[cfg(test)]
mod tests;
mod wildcard;

use std::collections::HashMap;

pub(crate) use decide::Verdict;
pub(crate) use load::{RuleCache, RuleDirectories};

/// How many rules are in force at most, of all files together.
const RULES_MAX: usize = 10_000;
/// How many words a pattern has at most.
const PATTERN_WORDS_MAX: usize = 64;

/// Which rule files an engine reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RuleSources {
    /// The system's, the user's and those of trusted projects.
    #[default]
    All,
    /// Only the system's: `--ignore-rules`.
    SystemOnly,
}

/// The decision of a rule; the later the stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RuleDecision {
    Allow,
    Prompt,
    Forbidden,
}

/// The owner of a rule file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RuleOrigin {
    /// `/etc/codex/rules`.
    System,
    /// The directory `rules` of a home.
    User,
    /// `.codex/rules` of a project. Its `allow` never leaves the sandbox.
    Project,
}

/// One `prefix_rule`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PrefixRule {
    /// The words from the command's name on; each is a list of alternatives. Never empty.
    pattern: Vec<Vec<String>>,
    decision: RuleDecision,
    justification: Option<String>,
    origin: RuleOrigin,
}

/// One `network_rule`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NetworkRule {
    host: String,
    decision: RuleDecision,
}

/// All rules that hold for a turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleSet {
    prefixes: Vec<PrefixRule>,
    /// Indexes into `prefixes` by the name of the program, without its directory.
    by_program: HashMap<String, Vec<usize>>,
    /// The paths that count as a program, where a `host_executable` names them. They hold for rules
    /// of the same owner: a project must not narrow what the user forbade.
    executables: HashMap<(RuleOrigin, String), Vec<String>>,
    network: Vec<NetworkRule>,
}

impl RuleSet {
    fn add_executable(&mut self, origin: RuleOrigin, (name, paths): (String, Vec<String>)) {
        let known = self.executables.entry((origin, name));
        known.or_default().extend(paths);
    }

    fn push(&mut self, rule: PrefixRule) {
        let index = self.prefixes.len();
        for program in rule.pattern.first().into_iter().flatten() {
            let known = self.by_program.entry(base_name(program).to_owned());
            known.or_default().push(index);
        }
        self.prefixes.push(rule);
    }

    /// Whether a rule about a host closes the network.
    pub(crate) fn closes_network(&self) -> bool {
        self.network_warning().is_some()
    }

    /// A warning when a rule about a host closes the network.
    ///
    /// There is no proxy that could tell hosts apart, so one denied host closes them all.
    pub(crate) fn network_warning(&self) -> Option<String> {
        let mut denied = self.network.iter();
        let rule = denied.find(|rule| rule.decision != RuleDecision::Allow)?;
        Some(format!(
            "the network is closed for this thread: a network_rule limits `{}`, and this server has \
             no proxy to tell hosts apart",
            rule.host
        ))
    }
}

/// The name of a program without its directory.
fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

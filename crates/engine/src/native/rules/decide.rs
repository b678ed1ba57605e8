//! The verdict of all rules on one script.
//!
//! The invariant here: of everything that matches, the strictest decision holds. `forbidden` and
//! `prompt` match a command that may be meant (an unknown word, a glob); `allow` matches only words
//! that are known, and only if it matches every command of the script.

use std::collections::HashSet;

use super::split::{self, Reading, Split};
use super::wildcard::{self, Wildcard};
use super::{PrefixRule, RuleDecision, RuleOrigin, RuleSet, base_name};

/// How many characters of a command a text repeats.
const QUOTED_CHARS_MAX: usize = 2_000;
/// Directories whose programs count as themselves for `allow`: no sandbox lets them be written.
const SYSTEM_DIRECTORIES: [&str; 4] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// What the rules say about a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No rule matches, or `allow` does not match every command.
    Unmatched,
    /// Nobody is asked; it runs in the sandbox.
    Allowed,
    /// Nobody is asked; it runs without a sandbox.
    AllowedUnconfined,
    /// Somebody is asked each time; the text is the reason.
    Prompt(String),
    /// It never runs; the text is for the model.
    Forbidden(String),
}

/// A rule above `allow` that matches.
struct Match<'a> {
    rule: &'a PrefixRule,
    /// The words of the rule, with the alternatives that matched.
    prefix: String,
}

impl RuleSet {
    /// Decides about a script; `shown` is the command as people and the model see it.
    pub(crate) fn judge(&self, script: &str, shown: &str) -> Verdict {
        if self.prefixes.is_empty() {
            return Verdict::Unmatched;
        }
        let split = split::split(script);
        let (decision, why) = if split.reading == Reading::TooLong {
            let why = format!(
                "the script has more than {} commands, too many to check against the rules",
                split::COMMANDS_MAX
            );
            let strictest = self.prefixes.iter().map(|rule| rule.decision).max();
            (strictest.unwrap_or(RuleDecision::Allow), why)
        } else {
            match self.strictest(&split) {
                Some(found) => (found.rule.decision, found.why()),
                None => return self.allowed(&split),
            }
        };
        let shown: String = shown.chars().take(QUOTED_CHARS_MAX).collect();
        match decision {
            RuleDecision::Forbidden => Verdict::Forbidden(format!("`{shown}` rejected: {why}")),
            RuleDecision::Prompt => Verdict::Prompt(format!("`{shown}` requires approval: {why}")),
            RuleDecision::Allow => Verdict::Unmatched,
        }
    }

    /// The strictest rule above `allow` that may match.
    fn strictest(&self, split: &Split) -> Option<Match<'_>> {
        let known = split.words();
        let mut found = None;
        for command in &split.commands {
            self.narrow(&mut found, command, &known);
        }
        if split.reading == Reading::Opaque {
            for tokens in &split.tokens {
                for start in 0..tokens.len() {
                    self.narrow(&mut found, &tokens[start..], &known);
                }
            }
        }
        found
    }

    /// Replaces a match by a stricter one of this command.
    fn narrow<'a>(
        &'a self,
        found: &mut Option<Match<'a>>,
        command: &[String],
        known: &HashSet<&str>,
    ) {
        let Some(first) = command.first() else {
            return;
        };
        let every: Vec<usize>;
        let candidates = if Wildcard::of(first).is_some() {
            every = (0..self.prefixes.len()).collect();
            every.as_slice()
        } else {
            // zsh replaces `=name` by the path of the program.
            let name = base_name(first).trim_start_matches('=');
            self.by_program.get(name).map_or(&[][..], Vec::as_slice)
        };
        for rule in candidates
            .iter()
            .filter_map(|index| self.prefixes.get(*index))
        {
            let strictest = found
                .as_ref()
                .map_or(RuleDecision::Allow, |m| m.rule.decision);
            if rule.decision <= strictest {
                continue;
            }
            if let Some(prefix) = self.may_match(rule, command, known) {
                *found = Some(Match { rule, prefix });
            }
        }
    }

    /// The words of the rule, if the command may begin with them.
    fn may_match(
        &self,
        rule: &PrefixRule,
        command: &[String],
        known: &HashSet<&str>,
    ) -> Option<String> {
        let mut prefix = Vec::new();
        for (index, alternatives) in rule.pattern.iter().enumerate() {
            let word = command.get(index)?;
            let unknown = match index {
                0 => Wildcard::of_program(word),
                _ => Wildcard::of(word),
            };
            let matches = |alternative: &&String| match (&unknown, index) {
                (Some(wildcard), 0) => wildcard.matches(base_name(alternative)),
                (Some(wildcard), _) => wildcard.matches(alternative),
                (None, 0) => self.is_program(rule.origin, alternative, word),
                (None, _) => *alternative == word,
            };
            if let Some(alternative) = alternatives.iter().find(matches) {
                prefix.push(alternative.as_str());
                continue;
            }
            if !unknown.is_some_and(|wildcard| wildcard.is_anything()) {
                return None;
            }
            // It may become any number of words; those that stand in the script are suspects.
            for alternatives in &rule.pattern[index..] {
                let suspect = alternatives
                    .iter()
                    .find(|word| known.contains(word.as_str()))?;
                prefix.push(suspect.as_str());
            }
            break;
        }
        Some(prefix.join(" "))
    }

    /// Whether a command's first word is the program that a rule names.
    fn is_program(&self, origin: RuleOrigin, named: &str, word: &str) -> bool {
        let word = word.strip_prefix('=').unwrap_or(word);
        let path = wildcard::tidy(word);
        if path == wildcard::tidy(named) {
            return true;
        }
        if named.contains('/') || base_name(&path) != named {
            return false;
        }
        match self.executables.get(&(origin, named.to_owned())) {
            Some(paths) if path.contains('/') => paths.iter().any(|p| wildcard::tidy(p) == path),
            Some(_) | None => true,
        }
    }

    /// Whether the only rule of the set matches these words; for examples.
    pub(super) fn matches_words(&self, words: &[String]) -> bool {
        let known = HashSet::new();
        let mut rules = self.prefixes.iter();
        rules.any(|rule| self.may_match(rule, words, &known).is_some())
    }

    /// The verdict when nothing stricter than `allow` matches.
    fn allowed(&self, split: &Split) -> Verdict {
        let Some(commands) = split.plain.as_ref().filter(|all| !all.is_empty()) else {
            return Verdict::Unmatched;
        };
        let mut verdict = Verdict::AllowedUnconfined;
        for command in commands {
            let matching = self
                .prefixes
                .iter()
                .filter(|rule| self.allows(rule, command));
            let mut origins = matching.map(|rule| rule.origin).peekable();
            if origins.peek().is_none() {
                return Verdict::Unmatched;
            }
            if origins.all(|origin| origin == RuleOrigin::Project) {
                verdict = Verdict::Allowed;
            }
        }
        verdict
    }

    /// Whether a rule allows a command whose words are all known.
    ///
    /// Stricter than the other decisions about the program's path: a program of the workspace that
    /// is called like an allowed one must not leave the sandbox.
    fn allows(&self, rule: &PrefixRule, command: &[String]) -> bool {
        let Some(first) = command.first() else {
            return false;
        };
        let is_same = |alternatives: &Vec<String>, word: &String| alternatives.contains(word);
        let path = wildcard::tidy(first);
        let program = |named: &String| {
            let is_listed = || {
                let listed = self.executables.get(&(rule.origin, named.clone()));
                listed.is_some_and(|paths| paths.iter().any(|p| wildcard::tidy(p) == path))
            };
            let is_of_system = || {
                let directory = path.rsplit_once('/').map(|(directory, _)| directory);
                let listed = self.executables.contains_key(&(rule.origin, named.clone()));
                !listed && directory.is_some_and(|found| SYSTEM_DIRECTORIES.contains(&found))
            };
            named == first || (base_name(&path) == named && (is_listed() || is_of_system()))
        };
        rule.decision == RuleDecision::Allow
            && command.len() >= rule.pattern.len()
            && rule.pattern[0].iter().any(program)
            && rule
                .pattern
                .iter()
                .zip(command)
                .skip(1)
                .all(|(a, w)| is_same(a, w))
    }
}

impl Match<'_> {
    fn why(&self) -> String {
        let usual = || match self.rule.decision {
            RuleDecision::Forbidden => {
                format!("policy forbids commands starting with `{}`", self.prefix)
            }
            RuleDecision::Prompt | RuleDecision::Allow => {
                format!("policy asks about commands starting with `{}`", self.prefix)
            }
        };
        self.rule.justification.clone().unwrap_or_else(usual)
    }
}

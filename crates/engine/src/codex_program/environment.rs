//! The environment of a Codex child, made from the worker's.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use crate::native::redact::Redactor;

/// Variables that are meant for us, for an orchestrator above us or for a developer of ours. Inside
/// Codex they would change the behaviour of the commands that it runs.
const REMOVED: [&str; 4] = ["TURNLANE_*", "BATTY_*", "CLAUDECODE", "RUST_BACKTRACE"];

/// Parts of the names of variables whose values are secret.
const SECRET_PARTS: [&str; 4] = ["KEY", "SECRET", "TOKEN", "PASSWORD"];

/// The worker's variables without [`REMOVED`] and `env_remove`.
pub(super) fn for_child(
    worker: Vec<(OsString, OsString)>,
    env_remove: &[String],
) -> BTreeMap<OsString, OsString> {
    let is_removed = |name: &OsStr| {
        let usual = REMOVED.iter().any(|pattern| fits(pattern, name));
        usual || env_remove.iter().any(|pattern| fits(pattern, name))
    };
    let kept = worker.into_iter();
    kept.filter(|(name, _)| !is_removed(name)).collect()
}

/// A redactor of the values that are secret by the names of their variables.
pub(super) fn redactor(environment: &BTreeMap<OsString, OsString>) -> Redactor {
    let is_secret = |name: &OsStr| {
        let name = name.to_string_lossy().to_ascii_uppercase();
        SECRET_PARTS.iter().any(|part| name.contains(part))
    };
    let secret = environment.iter().filter(|(name, _)| is_secret(name));
    Redactor::new(secret.filter_map(|(_, value)| value.to_str()))
}

fn fits(pattern: &str, name: &OsStr) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.as_bytes().starts_with(beginning.as_bytes()),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(names: &[&str]) -> Vec<(OsString, OsString)> {
        let pair = |name: &&str| (OsString::from(name), OsString::from("value"));
        names.iter().map(pair).collect()
    }

    #[test]
    fn our_own_variables_are_removed_and_provider_keys_stay() {
        let worker = pairs(&[
            "PATH",
            "OPENAI_API_KEY",
            "CODEX_HOME",
            "TURNLANE_HOME",
            "BATTY_PANE",
            "CLAUDECODE",
            "CLAUDECODE_KEPT",
            "RUST_BACKTRACE",
            "RUST_LOG",
            "MY_OWN",
            "MINE_1",
            "MINE_2",
        ]);
        let removed = ["MY_OWN".to_owned(), "MINE_*".to_owned()];
        let kept = for_child(worker, &removed);
        let names: Vec<_> = kept.keys().map(|name| name.to_str().unwrap()).collect();
        let expected = [
            "CLAUDECODE_KEPT",
            "CODEX_HOME",
            "OPENAI_API_KEY",
            "PATH",
            "RUST_LOG",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn values_of_keys_are_redacted() {
        let mut worker = pairs(&["PATH"]);
        worker.push(("openai_api_key".into(), "sk-planted-1".into()));
        let redactor = redactor(&for_child(worker, &[]));
        assert_eq!(redactor.text("a sk-planted-1 value"), "a [redacted] value");
    }
}

//! `shell_environment_policy`: which variables reach the commands of a turn.
//!
//! The invariant here: the keys that a thread's client gave narrow what the user's files say and never
//! widen it. The default excludes are the user's to lift, in a file or a flag. Whatever has no effect
//! is named.
//!
//! Building an environment is the process service's business, which keeps secrets out by itself.

use serde_json::{Map, Value};
use turnlane_process::{EnvPolicy, Inherit};

use super::config::laid_over;
use super::config::table::Table;
use super::provider::Error;

const KEY: &str = "shell_environment_policy";

/// The policy of a turn's commands, and what of it has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandEnvironment {
    pub(crate) policy: EnvPolicy,
    pub(crate) warnings: Vec<String>,
}

impl Default for CommandEnvironment {
    /// Everything that the process service lets through.
    fn default() -> Self {
        Self {
            policy: EnvPolicy {
                inherit: Inherit::All,
                ..EnvPolicy::default()
            },
            warnings: Vec::new(),
        }
    }
}

impl CommandEnvironment {
    /// Reads the user's keys, then those that a thread was started with.
    pub(crate) fn read(
        files: &Map<String, Value>,
        thread: &Map<String, Value>,
    ) -> Result<Self, Error> {
        let mut environment = Self::default();
        if let Some(table) = Table::top(files).table(KEY)? {
            environment.take_files(table)?;
        }
        // Dotted keys become a table first.
        let thread = laid_over(&Map::new(), thread);
        if let Some(table) = Table::top(&thread).table(KEY)? {
            environment.narrow(table)?;
        }
        Ok(environment)
    }

    fn take_files(&mut self, members: &Map<String, Value>) -> Result<(), Error> {
        let table = Table::named(KEY, members);
        let policy = &mut self.policy;
        policy.inherit = inherit(&table)?.unwrap_or(Inherit::All);
        policy.ignore_default_excludes = table.flag("ignore_default_excludes")? == Some(true);
        policy.exclude = table.texts("exclude")?.unwrap_or_default();
        policy.include_only = table.texts("include_only")?.unwrap_or_default();
        self.set(&table)?;
        self.name_others(members);
        Ok(())
    }

    /// Takes keys of a client as far as they leave less.
    fn narrow(&mut self, members: &Map<String, Value>) -> Result<(), Error> {
        let table = Table::named(KEY, members);
        if let Some(wanted) = inherit(&table)? {
            self.policy.inherit = match (self.policy.inherit, wanted) {
                (Inherit::None, _) | (_, Inherit::None) => Inherit::None,
                (Inherit::Core, _) | (_, Inherit::Core) => Inherit::Core,
                (Inherit::Listed, _) | (_, Inherit::Listed) => Inherit::Listed,
                (Inherit::All, Inherit::All) => Inherit::All,
            };
        }
        let excluded = table.texts("exclude")?.unwrap_or_default();
        self.policy.exclude.extend(excluded);
        match table.texts("include_only")? {
            Some(only) if self.policy.include_only.is_empty() => self.policy.include_only = only,
            Some(only) if only != self.policy.include_only => {
                self.ignore("include_only", "the user's configuration has its own");
            }
            Some(_) | None => {}
        }
        if table.flag("ignore_default_excludes")? == Some(true)
            && !self.policy.ignore_default_excludes
        {
            self.ignore(
                "ignore_default_excludes",
                "only a config file or a flag may set it",
            );
        }
        self.set(&table)?;
        self.name_others(members);
        Ok(())
    }

    fn set(&mut self, table: &Table<'_>) -> Result<(), Error> {
        for (name, value) in table.table("set")?.into_iter().flatten() {
            let Some(value) = value.as_str() else {
                return Err(table.wrong("set", "must be a table of strings"));
            };
            self.policy.set.insert(name.into(), value.into());
        }
        Ok(())
    }

    fn ignore(&mut self, key: &str, why: &str) {
        let warning = format!("`{KEY}.{key}` is ignored: {why}");
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    fn name_others(&mut self, members: &Map<String, Value>) {
        let known = [
            "inherit",
            "ignore_default_excludes",
            "exclude",
            "include_only",
            "set",
        ];
        for key in members.keys().filter(|key| !known.contains(&key.as_str())) {
            let key: String = key.chars().take(64).collect();
            self.ignore(&key, "it is not supported");
        }
    }
}

fn inherit(table: &Table<'_>) -> Result<Option<Inherit>, Error> {
    let words = [
        ("all", Inherit::All),
        ("core", Inherit::Core),
        ("none", Inherit::None),
    ];
    table.word("inherit", &words)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(files: &Value, thread: &Value) -> Result<CommandEnvironment, Error> {
        let map = |value: &Value| value.as_object().unwrap().clone();
        CommandEnvironment::read(&map(files), &map(thread))
    }

    #[test]
    fn a_client_narrows_and_never_widens() {
        let files = json!({KEY: {"inherit": "core", "exclude": ["A*"], "include_only": ["P*"]}});
        let thread = json!({KEY: {
            "inherit": "all", "exclude": ["B"], "include_only": ["*"],
            "ignore_default_excludes": true, "set": {"X": "1"},
        }});
        let CommandEnvironment { policy, warnings } = read(&files, &thread).unwrap();
        assert_eq!(policy.inherit, Inherit::Core);
        assert!(!policy.ignore_default_excludes);
        assert_eq!(policy.exclude, ["A*", "B"]);
        assert_eq!(policy.include_only, ["P*"]);
        assert_eq!(policy.set.len(), 1);
        assert_eq!(
            warnings,
            [
                "`shell_environment_policy.include_only` is ignored: the user's configuration has \
                 its own",
                "`shell_environment_policy.ignore_default_excludes` is ignored: only a config file \
                 or a flag may set it",
            ]
        );
        let dotted = json!({"shell_environment_policy.inherit": "none"});
        assert_eq!(read(&files, &dotted).unwrap().policy.inherit, Inherit::None);
    }

    #[test]
    fn the_users_files_are_obeyed_and_their_other_keys_named() {
        let files = json!({KEY: {"ignore_default_excludes": true, "filters": []}});
        let CommandEnvironment { policy, warnings } = read(&files, &json!({})).unwrap();
        assert!(policy.ignore_default_excludes);
        assert_eq!(
            warnings,
            ["`shell_environment_policy.filters` is ignored: it is not supported"]
        );
        let default = read(&json!({}), &json!({})).unwrap();
        assert_eq!(default, CommandEnvironment::default());
        let wrong = read(&json!({KEY: {"inherit": "some"}}), &json!({})).unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "shell_environment_policy.inherit: must be one of all, core, none"
        );
    }
}

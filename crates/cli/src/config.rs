//! `config.toml`: read once, checked key by key.
//!
//! A bad value fails with file, line and key; a key nobody knows is a warning, since a newer or
//! older version may know it. `-c key=value` has the last word. What a section means is decided in
//! its own module below.

mod exec_server;
mod section;

use std::path::Path;

use anyhow::{Context as _, bail};
use toml::de::DeTable;

pub(crate) use exec_server::ExecServerConfig;
use section::{Section, Source};

/// Everything that can be configured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    pub(crate) exec_server: ExecServerConfig,
}

impl Config {
    /// Defaults, then `config.toml` in `home` if there is one, then the overrides in their order.
    pub(crate) fn load(home: &Path, overrides: &[String]) -> anyhow::Result<Self> {
        let mut config = Self::default();
        let path = home.join("config.toml");
        match std::fs::read_to_string(&path) {
            Ok(text) => config.apply(&Source::file(&path, &text))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        }
        for given in overrides {
            let text = override_as_toml(given)?;
            config.apply(&Source::flag(given, &text))?;
        }
        Ok(config)
    }

    fn apply(&mut self, source: &Source<'_>) -> anyhow::Result<()> {
        let table = DeTable::parse(source.text)
            .map_err(|error| source.error(error.span().map(|span| span.start), error.message()))?;
        for (name, value) in table.get_ref() {
            let at = name.span().start;
            match name.get_ref().as_ref() {
                "exec_server" => {
                    let Some(table) = value.get_ref().as_table() else {
                        return Err(source.error(Some(at), "exec_server: expected a table"));
                    };
                    self.exec_server
                        .apply(Section::new(source, "exec_server", table))?;
                }
                // Known to the contract, used by commands that are not here yet.
                other => source.warn(at, &format!("unknown key `{other}`")),
            }
        }
        Ok(())
    }
}

/// `a.b=1` is TOML already; `a.b=word` becomes a string, so that nobody has to quote twice.
fn override_as_toml(given: &str) -> anyhow::Result<String> {
    let Some((key, value)) = given.split_once('=') else {
        bail!("-c wants key=value, not `{given}`");
    };
    let as_it_is = format!("{key} = {value}");
    if DeTable::parse(&as_it_is).is_ok() {
        return Ok(as_it_is);
    }
    let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
    Ok(format!("{key} = \"{quoted}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, overrides: &[&str]) -> Result<Config, String> {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config.toml"), text).unwrap();
        let overrides: Vec<_> = overrides.iter().copied().map(str::to_owned).collect();
        Config::load(home.path(), &overrides)
            .map_err(|error| format!("{error:#}").replace(home.path().to_str().unwrap(), "HOME"))
    }

    #[test]
    fn values_come_from_the_file_and_flags_win() {
        let text = "[exec_server]\nmax_connections = 7\nallowed_hosts = [\"box\"]\n";
        let config = load(text, &["exec_server.max_connections=9"]).unwrap();
        assert_eq!(config.exec_server.max_connections, 9);
        assert_eq!(config.exec_server.allowed_hosts, ["box"]);
        let config = load(text, &["exec_server.listen=stdio"]).unwrap();
        assert_eq!(config.exec_server.listen.as_deref(), Some("stdio"));
    }

    #[test]
    fn a_bad_value_is_named_with_file_line_and_key() {
        for (text, message) in [
            (
                "[exec_server]\n\nmax_connections = \"x\"\n",
                "HOME/config.toml:3: exec_server.max_connections: expected a whole number, found a string",
            ),
            (
                "[exec_server]\nmax_connections = 0\n",
                "HOME/config.toml:2: exec_server.max_connections: must be 1 to 65536, not 0",
            ),
            (
                "[exec_server]\ndialect = \"v1\"\n",
                "HOME/config.toml:2: exec_server.dialect: must be one of auto, v0, process, not `v1`",
            ),
            (
                "exec_server = 1\n",
                "HOME/config.toml:1: exec_server: expected a table",
            ),
        ] {
            assert_eq!(load(text, &[]).unwrap_err(), message);
        }
        assert!(
            load("[exec_server\n", &[])
                .unwrap_err()
                .starts_with("HOME/config.toml:1: ")
        );
        assert_eq!(
            load("", &["exec_server.max_connections=-1"]).unwrap_err(),
            "-c exec_server.max_connections=-1: exec_server.max_connections: must be 1 to 65536, not -1"
        );
        assert_eq!(load("", &["x"]).unwrap_err(), "-c wants key=value, not `x`");
    }

    #[test]
    fn no_file_means_the_defaults() {
        let home = tempfile::tempdir().unwrap();
        let config = Config::load(home.path(), &[]).unwrap();
        assert_eq!(config.exec_server.max_connections, 256);
    }
}

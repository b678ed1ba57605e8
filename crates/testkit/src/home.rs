//! Homes that vanish: a `TURNLANE_HOME` and a `CODEX_HOME` for one test.
//!
//! The invariant here: a child started with [`TempHome::env`] sees nothing of the host but its
//! `PATH` and temporary folder: no keys, no proxies, no configuration, no real home. Every folder
//! is 0700, and all of them are removed when the value is dropped.
//!
//! What the configuration means is not known here; only how a provider is written down.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Error;

/// The variable that carries the mock's key, named by `env_key` in the configuration.
pub const MOCK_KEY_VARIABLE: &str = "TURNLANE_MOCK_KEY";

/// The mock's key: long enough to be redacted, and unlike any other text.
pub const MOCK_KEY: &str = "mock-key-4b1f9e02";

/// A temporary folder with the homes of one test in it.
#[derive(Debug)]
pub struct TempHome {
    folder: TempDir,
}

/// How the mock is described as a provider; `None` leaves the default.
#[derive(Clone, Debug, Default)]
pub struct Provider {
    /// `model`; programs that know models by name know more about some than about `mock-model`.
    pub model: Option<String>,
    /// `request_max_retries`.
    pub request_max_retries: Option<u32>,
    /// `stream_max_retries`.
    pub stream_max_retries: Option<u32>,
    /// `stream_idle_timeout_ms`.
    pub stream_idle_timeout_ms: Option<u64>,
}

impl TempHome {
    /// Makes the folders; nothing is configured yet.
    pub fn new() -> Result<Self, Error> {
        let folder = tempfile::Builder::new()
            .prefix("turnlane-test-")
            .tempdir()
            .map_err(Error::doing("make a temporary folder"))?;
        let home = Self { folder };
        for path in [home.user(), home.turnlane(), home.codex(), home.workspace()] {
            let made = fs::DirBuilder::new().mode(0o700).create(&path);
            made.map_err(Error::doing(format!("make {}", path.display())))?;
        }
        Ok(home)
    }

    /// The folder that holds all others.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// `TURNLANE_HOME`.
    pub fn turnlane(&self) -> PathBuf {
        self.path().join("turnlane")
    }

    /// `CODEX_HOME`.
    pub fn codex(&self) -> PathBuf {
        self.path().join("codex")
    }

    /// `HOME`.
    pub fn user(&self) -> PathBuf {
        self.path().join("user")
    }

    /// An empty folder to work in.
    pub fn workspace(&self) -> PathBuf {
        self.path().join("workspace")
    }

    /// Writes a `config.toml` into both homes that makes the provider at `base_url` the model.
    pub fn use_model(&self, base_url: &str) -> Result<(), Error> {
        self.use_provider(base_url, &Provider::default())
    }

    /// The same with the provider's limits. Replaces what the files held before.
    pub fn use_provider(&self, base_url: &str, provider: &Provider) -> Result<(), Error> {
        let shared = provider.to_toml(base_url);
        write_private(&self.turnlane().join("config.toml"), &shared)?;
        // Codex alone: a test must not reach for the network.
        let quiet = "check_for_update_on_startup = false\n";
        let silent = "\n[analytics]\nenabled = false\n";
        write_private(
            &self.codex().join("config.toml"),
            &format!("{quiet}{shared}{silent}"),
        )
    }

    /// The whole environment for a child: start it with these variables and no others.
    pub fn env(&self) -> Vec<(String, String)> {
        let path = |path: PathBuf| path.to_string_lossy().into_owned();
        let host = |name: &str, default: &str| {
            std::env::var(name).unwrap_or_else(|_unset| default.to_owned())
        };
        let variables = [
            ("PATH", host("PATH", "/usr/local/bin:/usr/bin:/bin")),
            ("TMPDIR", host("TMPDIR", "/tmp")),
            ("HOME", path(self.user())),
            ("TURNLANE_HOME", path(self.turnlane())),
            ("CODEX_HOME", path(self.codex())),
            (MOCK_KEY_VARIABLE, MOCK_KEY.to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            ("TZ", "UTC".to_owned()),
        ];
        variables
            .map(|(name, value)| (name.to_owned(), value))
            .into()
    }
}

impl Provider {
    fn to_toml(&self, base_url: &str) -> String {
        let model = self.model.as_deref().unwrap_or("mock-model");
        let mut text = format!(
            "model = \"{model}\"\n\
             model_provider = \"mock\"\n\
             \n\
             [model_providers.mock]\n\
             name = \"mock\"\n\
             base_url = \"{base_url}\"\n\
             wire_api = \"responses\"\n\
             env_key = \"{MOCK_KEY_VARIABLE}\"\n"
        );
        let limits = [
            (
                "request_max_retries",
                self.request_max_retries.map(u64::from),
            ),
            ("stream_max_retries", self.stream_max_retries.map(u64::from)),
            ("stream_idle_timeout_ms", self.stream_idle_timeout_ms),
        ];
        for (key, value) in limits {
            if let Some(value) = value {
                // Writing into a string cannot fail.
                let _ = writeln!(text, "{key} = {value}");
            }
        }
        text
    }
}

/// Writes a file only its owner can read, since configuration may hold keys.
fn write_private(path: &Path, text: &str) -> Result<(), Error> {
    use std::os::unix::fs::OpenOptionsExt;

    let written = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(Error::doing(format!("write {}", path.display())))
}

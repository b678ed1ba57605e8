//! A person's command as a client: of the daemon of this home, or of a desk in this process.
//!
//! The invariant here: a desk runs nothing. It reads and changes what is stored, which is shared by
//! all processes of this home, so whatever needs no turn to run works without a daemon. Nobody who
//! only looks is ever asked for an approval.
//!
//! What refusals mean for people is in `refused`, which thread or row is meant in `find`.

pub(crate) mod find;
mod refused;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use turnlane::{CallError, CallOptions, Client, ClientBuilder, Validation};

use crate::assembly::{Assembly, Kind};
use crate::config::{ConfigFiles, Layers};
use crate::home;
use crate::linked::Linked;
use crate::shown;

/// What commands of people are called.
const NAME: &str = "turnlane";
/// How many entries one call fetches.
const PAGE: u32 = 100;

/// Whom a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Any server: what is stored is enough.
    Store,
    /// The daemon, because turns run there.
    Daemon,
}

/// A connection of a command.
pub(crate) struct Session {
    linked: Linked,
    home: PathBuf,
}

/// Runs a command with a session, which is ended in order whatever becomes of the command.
pub(crate) fn with<F>(before: &[String], needs: Needs, command: F) -> anyhow::Result<ExitCode>
where
    F: AsyncFnOnce(&Session) -> anyhow::Result<ExitCode>,
{
    // One thread: a command waits most of the time.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let whole = async {
        let session = Box::pin(Session::open(before, needs)).await?;
        let done = Box::pin(command(&session)).await;
        session.linked.end().await;
        done
    };
    let done = runtime.block_on(whole);
    // A blocked read of standard input must not hold up the exit.
    runtime.shutdown_background();
    match done {
        // Whoever reads a part, such as `head`, has what it wanted.
        Err(error) if shown::is_unread(&error) => Ok(ExitCode::SUCCESS),
        done => done,
    }
}

impl Session {
    async fn open(before: &[String], needs: Needs) -> anyhow::Result<Self> {
        let home = home::find()?;
        let codex_home = home::codex();
        let layers = Layers::new(&home, codex_home.as_deref(), before);
        if let Some(linked) = Linked::daemon(&home, builder()).await {
            return Ok(Self { linked, home });
        }
        if needs == Needs::Daemon {
            bail!(
                "no daemon runs in {}, so no turn runs there\n  \
                 start one with `turnlane serve` and try again; \
                 `turnlane thread show` and `turnlane queue list` show what is stored",
                home.display()
            );
        }
        home::make(&home)?;
        let files = ConfigFiles::new(layers);
        let assembly =
            Assembly::start(Kind::Desk, None, &home, codex_home.as_deref(), files).await?;
        let linked = Linked::own(assembly, builder()).await?;
        Ok(Self { linked, home })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.linked.client
    }

    /// A line for those whose work waits: none where a daemon runs it.
    pub(crate) fn nobody_runs_it(&self) -> Option<String> {
        let home = self.home.display();
        let text = format!("no daemon runs in {home}: it waits until `turnlane serve` does");
        (!self.linked.is_daemon()).then_some(text)
    }

    /// One call, with its refusal as it came.
    pub(crate) async fn try_ask<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &Value,
    ) -> Result<R, CallError> {
        // What a thread may do was decided by whoever made it; nothing is taken away here.
        let options = CallOptions {
            validation: Some(Validation::Off),
            ..CallOptions::default()
        };
        let client = self.client();
        let answer = client.call_raw(method, params.clone(), options).await?;
        serde_json::from_value(answer).map_err(|reason| CallError::InvalidArgument {
            what: "answer",
            reason: format!("the answer to {method} cannot be read: {reason}"),
        })
    }

    /// One call, with its refusal in words and the next step.
    pub(crate) async fn ask<R: DeserializeOwned>(
        &self,
        method: &str,
        params: Value,
    ) -> anyhow::Result<R> {
        let answer = self.try_ask(method, &params).await;
        answer.map_err(|error| refused::in_words(error, &params))
    }

    /// The entries of a list, page by page, at most so many. Whether there are more.
    pub(crate) async fn list(
        &self,
        method: &str,
        mut params: Value,
        max: Option<usize>,
    ) -> anyhow::Result<(Vec<Value>, More)> {
        let mut entries = Vec::new();
        params["limit"] = json!(PAGE);
        loop {
            let mut page: Value = self.ask(method, params.clone()).await?;
            if let Value::Array(data) = page["data"].take() {
                entries.extend(data);
            }
            let cursor = page["nextCursor"].take();
            if let Some(max) = max
                && entries.len() >= max
            {
                let more = entries.len() > max || !cursor.is_null();
                entries.truncate(max);
                return Ok((entries, if more { More::Yes } else { More::No }));
            }
            // A server that repeats itself would be asked for ever.
            if cursor.is_null() || cursor == params["cursor"] {
                return Ok((entries, More::No));
            }
            params["cursor"] = cursor;
        }
    }
}

/// Whether a list goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum More {
    Yes,
    No,
}

fn builder() -> ClientBuilder {
    Client::builder()
        .client_info(NAME, env!("CARGO_PKG_VERSION"))
        .reviews_elsewhere()
}

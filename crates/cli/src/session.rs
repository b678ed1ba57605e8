//! A person's command as a client: of a server that was named, of the daemon of this home, or of a
//! desk in this process.
//!
//! The invariant here: a desk runs nothing. It reads and changes what is stored, which is shared by
//! all processes of this home, so whatever needs no turn to run works without a daemon. Nobody who
//! only looks is ever asked for an approval.
//!
//! What refusals mean for people is in `refused`, how a daemon is reached that stops in `draining`,
//! which thread or row is meant in `find`, how a server is reached that was named in `reach`.

mod draining;
pub(crate) mod find;
mod reach;
pub(crate) mod refused;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use turnlane::{CallError, CallOptions, Client, ClientBuilder, Validation};

use crate::args::Reach;
use crate::assembly::{Assembly, Kind};
use crate::commands::serve::record::{self, Presence};
use crate::config::{ConfigFiles, Layers};
use crate::home;
use crate::linked::Linked;
use crate::shown::ids::short;
use reach::Elsewhere;

/// What commands of people are called.
const NAME: &str = "turnlane";
/// The exit code of a command that Ctrl-C ended, as shells have it.
pub(crate) const INTERRUPTED: u8 = 130;
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
    place: Place,
    /// What was found where the daemon should be, for a session without one.
    presence: Presence,
    /// What the person typed for an id, so that messages repeat it instead of the id.
    typed: RefCell<HashMap<String, String>>,
}

/// Whose threads these are.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// Those of this home.
    Home(PathBuf),
    /// Those of a server that was named; its files need not be ours.
    Elsewhere,
}

/// Runs a command with a session, which is ended in order whatever becomes of the command.
pub(crate) fn with<F>(reach: &Reach, needs: Needs, command: F) -> anyhow::Result<ExitCode>
where
    F: AsyncFnOnce(&Session) -> anyhow::Result<ExitCode>,
{
    // One thread: a command waits most of the time.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let whole = async {
        let session = Box::pin(Session::open(reach, needs)).await?;
        let done = Box::pin(command(&session)).await;
        session.linked.end().await;
        done
    };
    let done = runtime.block_on(whole);
    // A blocked read of standard input must not hold up the exit.
    runtime.shutdown_background();
    done
}

/// The server in this process that a command starts where no other runs its work.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnServer {
    /// The script of the engine `scripted`.
    pub(crate) script: Option<PathBuf>,
    /// Settings of this command, which no daemon knows.
    pub(crate) overrides: Vec<String>,
}

impl OwnServer {
    /// Returns true if a daemon could not do what is wanted.
    pub(crate) fn is_needed(&self) -> bool {
        self.script.is_some() || !self.overrides.is_empty()
    }
}

/// Returns true if the arguments or the environment name a server.
pub(crate) fn names_a_server(reach: &Reach) -> bool {
    reach::server(reach).is_some()
}

/// Runs a command with a session that runs fan-out jobs: on the daemon, or in this process.
pub(crate) fn with_runner<F>(reach: &Reach, own: OwnServer, command: F) -> anyhow::Result<ExitCode>
where
    F: AsyncFnOnce(&Session) -> anyhow::Result<ExitCode>,
{
    crate::runtime::block_on(async {
        let session = Box::pin(Session::open_runner(reach, own)).await?;
        let done = Box::pin(command(&session)).await;
        session.linked.end().await;
        done
    })?
}

impl Session {
    fn new(linked: Linked, place: Place, presence: Presence) -> Self {
        Self {
            linked,
            place,
            presence,
            typed: RefCell::default(),
        }
    }

    /// The word by which a message names this id: what the person typed, else its short form.
    pub(crate) fn word(&self, id: &str) -> String {
        let typed = self.typed.borrow().get(id).cloned();
        typed.unwrap_or_else(|| short(id))
    }

    fn remember(&self, id: &str, word: &str) {
        let mut typed = self.typed.borrow_mut();
        typed.insert(id.to_owned(), word.to_owned());
    }

    async fn open(reach: &Reach, needs: Needs) -> anyhow::Result<Self> {
        if let Some(elsewhere) = Elsewhere::named(reach)? {
            let linked = elsewhere.link(builder()).await?;
            return Ok(Self::new(linked, Place::Elsewhere, Presence::Absent));
        }
        let home = home::open()?;
        let codex_home = home::codex();
        let layers = Layers::new(&home, codex_home.as_deref(), &[]);
        if let Some(linked) = Linked::daemon(&home, builder()).await {
            return Ok(Self::new(linked, Place::Home(home), Presence::Absent));
        }
        let presence = record::presence(&home);
        // Its last turns run there and nowhere else.
        if needs == Needs::Daemon
            && let Presence::Stopping(pid) = presence
            && let Some(linked) = draining::connect(&home, pid).await
        {
            return Ok(Self::new(linked, Place::Home(home), presence));
        }
        if needs == Needs::Daemon {
            bail!(without_daemon(&home, &presence));
        }
        home::make(&home)?;
        let files = ConfigFiles::new(layers);
        let assembly =
            Assembly::start(Kind::Desk, None, &home, codex_home.as_deref(), files).await?;
        let linked = Linked::own(assembly, builder()).await?;
        Ok(Self::new(linked, Place::Home(home), presence))
    }

    async fn open_runner(reach: &Reach, own: OwnServer) -> anyhow::Result<Self> {
        if let Some(elsewhere) = Elsewhere::named(reach)? {
            let linked = elsewhere.link(builder()).await?;
            return Ok(Self::new(linked, Place::Elsewhere, Presence::Absent));
        }
        let home = home::open()?;
        let codex_home = home::codex();
        if !own.is_needed()
            && let Some(linked) = Linked::daemon(&home, builder()).await
        {
            return Ok(Self::new(linked, Place::Home(home), Presence::Absent));
        }
        home::make(&home)?;
        let layers = Layers::new(&home, codex_home.as_deref(), &own.overrides);
        let files = ConfigFiles::new(layers);
        let script = own.script.as_deref();
        let assembly =
            Assembly::start(Kind::Fanout, script, &home, codex_home.as_deref(), files).await?;
        let linked = Linked::own(assembly, builder()).await?;
        let presence = record::presence(&home);
        Ok(Self::new(linked, Place::Home(home), presence))
    }

    /// Returns true if a daemon serves this home, and this command runs its job in its own process.
    pub(crate) fn is_beside_daemon(&self) -> bool {
        !self.linked.is_daemon() && matches!(self.presence, Presence::Listening(_))
    }

    /// Returns true if the server goes on when this command has ended.
    pub(crate) fn outlives_us(&self) -> bool {
        self.linked.is_daemon()
    }

    pub(crate) fn client(&self) -> &Client {
        &self.linked.client
    }

    /// A line for those whose work waits: none where a daemon runs it.
    pub(crate) fn nobody_runs_it(&self) -> Option<String> {
        match &self.place {
            Place::Home(home) if !self.linked.is_daemon() => Some(waits(home, &self.presence)),
            Place::Home(_) | Place::Elsewhere => None,
        }
    }

    /// The refusal of a call with these params, in words and with the next step.
    pub(crate) fn refusal(&self, error: CallError, params: &Value) -> anyhow::Error {
        refused::in_words(error, params, &|id| self.word(id))
    }

    /// How long the server remembers the key of an ended turn; `usual` where its settings are not ours
    /// to read.
    pub(crate) fn dedupe_window(&self, usual: Duration) -> Duration {
        let Place::Home(home) = &self.place else {
            return usual;
        };
        let config = Layers::new(home, home::codex().as_deref(), &[]).load();
        config.map_or(usual, |config| config.server.dedupe_window)
    }

    /// A directory as the server knows it.
    pub(crate) fn directory(&self, given: &Path) -> anyhow::Result<PathBuf> {
        match &self.place {
            Place::Home(_) => Ok(given.canonicalize()?),
            Place::Elsewhere if given.is_absolute() => Ok(given.to_owned()),
            Place::Elsewhere => bail!(
                "--cd {} is a directory of the server\n  name it from the root, beginning with `/`",
                given.display()
            ),
        }
    }

    /// The home whose threads these are; none for a server that was named.
    pub(crate) fn home(&self) -> Option<&Path> {
        match &self.place {
            Place::Home(home) => Some(home),
            Place::Elsewhere => None,
        }
    }

    /// Whether paths here mean the same to the server.
    pub(crate) fn shares_files(&self) -> bool {
        self.place != Place::Elsewhere
    }

    /// One call, with its refusal as it came.
    pub(crate) async fn try_ask<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &Value,
    ) -> Result<R, CallError> {
        let answer = match call(self.client(), method, params).await {
            Ok(answer) => answer,
            Err(error) => match self.owner_of(method, &error).await {
                Some(owner) => call(&owner, method, params).await?,
                None => return Err(error),
            },
        };
        serde_json::from_value(answer).map_err(|reason| CallError::InvalidArgument {
            what: "answer",
            reason: format!("the answer to {method} cannot be read: {reason}"),
        })
    }

    /// A daemon of this home that stops and owns the lane which the refused call is about.
    async fn owner_of(&self, method: &str, error: &CallError) -> Option<Client> {
        draining::owner_of(self.home()?, method, error).await
    }

    /// One call, with its refusal in words and the next step.
    pub(crate) async fn ask<R: DeserializeOwned>(
        &self,
        method: &str,
        params: Value,
    ) -> anyhow::Result<R> {
        let answer = self.try_ask(method, &params).await;
        answer.map_err(|error| self.refusal(error, &params))
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

async fn call(client: &Client, method: &str, params: &Value) -> Result<Value, CallError> {
    // The client that made a thread decided what it may do; nothing is taken away here.
    let options = CallOptions {
        validation: Some(Validation::Off),
        ..CallOptions::default()
    };
    client.call_raw(method, params.clone(), options).await
}

/// A command that only a daemon can do, where none answers.
fn without_daemon(home: &Path, presence: &Presence) -> String {
    let home = home.display();
    match presence {
        Presence::Absent => format!(
            "no daemon runs in {home}, so no turn runs there\n  \
             start one with `turnlane serve` and try again; \
             `turnlane thread show` and `turnlane queue list` show what is stored"
        ),
        Presence::Listening(pid) => format!(
            "the daemon of {home}, process {pid}, does not answer\n  \
             try again, or stop it with `turnlane serve stop` and start it anew"
        ),
        Presence::Suspended(pid) => format!(
            "the daemon of {home}, process {pid}, is suspended\n  \
             let it go on with `kill -CONT {pid}` and try again"
        ),
        Presence::Stopping(pid) => format!(
            "the daemon of {home}, process {pid}, is stopping: its last turns come to their end\n  \
             start the next one with `turnlane serve` and try again"
        ),
        Presence::Denied => format!(
            "the socket of the daemon of {home} may not be used: permission denied\n  \
             run the command as the user who runs the daemon"
        ),
    }
}

/// A queued turn that no daemon runs now.
fn waits(home: &Path, presence: &Presence) -> String {
    let home = home.display();
    match presence {
        Presence::Absent => {
            format!("no daemon runs in {home}: queued turns wait until `turnlane serve` runs")
        }
        Presence::Listening(pid) => format!(
            "the daemon of {home}, process {pid}, does not answer: queued turns wait until it does"
        ),
        Presence::Suspended(pid) => format!(
            "the daemon of {home}, process {pid}, is suspended: queued turns wait until `kill -CONT {pid}`"
        ),
        Presence::Stopping(pid) => format!(
            "the daemon of {home}, process {pid}, is stopping: queued turns wait until the next \
             `turnlane serve`"
        ),
        Presence::Denied => format!(
            "the socket of the daemon of {home} may not be used by this user: the daemon finds queued \
             turns in the database by itself, within a second"
        ),
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

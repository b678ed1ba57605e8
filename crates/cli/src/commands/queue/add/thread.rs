//! The thread of a queued turn: named, found by its name, found by a key, or made.
//!
//! The invariant here: at most one thread is made for one key and for one name that may be reused,
//! however many processes run the command at once. The server decides both: by the key of
//! `thread/start`, and by its refusal of a name that another thread has.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use serde_json::{Value, json};
use turnlane::CallError;
use turnlane_runtime::{Clock as _, SystemClock};

use super::settings::Settings;
use crate::args::QueueAdd;
use crate::session::{Session, find};

/// How long a server remembers the key of an ended turn, unless it is configured otherwise.
const DEDUPE_WINDOW: Duration = Duration::from_hours(24);

/// How often, and how long apart, this process looks whether another one has named the thread.
const RENAME_TRIES: u32 = 100;
const RENAME_PAUSE: Duration = Duration::from_millis(50);

/// How the thread came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Made,
    Before,
}

/// The thread whose lane gets the turn.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) thread: String,
    /// What the user called it, or its id.
    pub(super) called: String,
    pub(super) origin: Origin,
    /// The directory that the turn changes to, on a thread that exists.
    pub(super) turn_cwd: Option<PathBuf>,
    /// The answer to an add whose row is no longer remembered: its thread is.
    pub(super) answered: Option<Value>,
}

impl Lane {
    fn new(thread: String, called: &str, origin: Origin) -> Self {
        Self {
            thread,
            called: called.to_owned(),
            origin,
            turn_cwd: None,
            answered: None,
        }
    }

    /// Removes a thread that holds nothing.
    pub(super) async fn delete(&self, session: &Session) {
        let params = json!({"threadId": self.thread});
        let _ = session.try_ask::<Value>("thread/delete", &params).await;
    }
}

/// Finds or makes the thread that the arguments name.
pub(super) async fn choose(
    session: &Session,
    args: &QueueAdd,
    settings: &Settings,
) -> anyhow::Result<Lane> {
    if let Some(given) = &args.thread {
        let thread = find::thread(session, given).await?;
        let mut lane = Lane::new(thread, given, Origin::Before);
        lane.turn_cwd = args
            .cd
            .as_deref()
            .map(|given| directory(session, given))
            .transpose()?;
        return Ok(lane);
    }
    match &args.name {
        Some(name) if args.reuse => reuse(session, args, settings, name).await,
        Some(name) => named(session, args, settings, name).await,
        None => make(session, args, settings).await,
    }
}

/// The thread of this name, made if there is none.
async fn reuse(
    session: &Session,
    args: &QueueAdd,
    settings: &Settings,
    name: &str,
) -> anyhow::Result<Lane> {
    let cwd = match &args.cd {
        Some(given) => Some(directory(session, given)?),
        None => None,
    };
    // Twice: another process may make the thread between our look and our attempt.
    for _ in 0..2 {
        if let Some(found) = with_name(session, name).await?.first() {
            let engine = found["engine"].as_str();
            let wanted = settings.thread.get("engine").and_then(Value::as_str);
            if let (Some(wanted), Some(engine)) = (wanted, engine)
                && wanted != engine
            {
                bail!(
                    "thread {name} runs with the engine {engine}, not {wanted}\n  \
                     leave --engine out, or make another thread with another --name"
                );
            }
            let id = found["id"].as_str().unwrap_or_default().to_owned();
            let mut lane = Lane::new(id, name, Origin::Before);
            lane.turn_cwd.clone_from(&cwd);
            return Ok(lane);
        }
        let mut lane = make(session, args, settings).await?;
        match rename(session, &lane.thread, name).await {
            Ok(()) => {
                name.clone_into(&mut lane.called);
                // As on a thread that exists, so that a repeated key compares equal.
                lane.turn_cwd.clone_from(&cwd);
                return Ok(lane);
            }
            Err(Rename::InUse) => lane.delete(session).await,
            Err(Rename::Elsewhere(error) | Rename::Failed(error)) => {
                lane.delete(session).await;
                return Err(error);
            }
        }
    }
    Err(in_use(name))
}

/// A new thread of this name, or the one that the key names.
async fn named(
    session: &Session,
    args: &QueueAdd,
    settings: &Settings,
    name: &str,
) -> anyhow::Result<Lane> {
    let mut lane = make(session, args, settings).await?;
    name.clone_into(&mut lane.called);
    let has_name = async |lane: &Lane| -> anyhow::Result<bool> {
        let params = json!({"threadId": lane.thread});
        let read: Value = session.ask("thread/read", params).await?;
        Ok(read["thread"]["name"].is_string())
    };
    // The first run with this key may have ended before it gave the name.
    if lane.origin == Origin::Before && has_name(&lane).await? {
        return Ok(lane);
    }
    let mut renamed = rename(session, &lane.thread, name).await;
    // The process that made the thread owns it until that process ends, and may be about to name it.
    // No event of the store tells of either, so this process looks again, for 5 s at the most.
    for _ in 0..RENAME_TRIES {
        if !matches!(renamed, Err(Rename::Elsewhere(_))) || lane.origin == Origin::Made {
            break;
        }
        if has_name(&lane).await? {
            return Ok(lane);
        }
        tokio::time::sleep(RENAME_PAUSE).await;
        renamed = rename(session, &lane.thread, name).await;
    }
    match renamed {
        Ok(()) => Ok(lane),
        Err(refused) => {
            // Nothing is queued on it: this run stops here, and so does any other with the same name.
            if lane.origin == Origin::Made {
                lane.delete(session).await;
            }
            Err(match refused {
                Rename::InUse => in_use(name),
                Rename::Elsewhere(error) | Rename::Failed(error) => error,
            })
        }
    }
}

/// Threads of this name that are not archived.
async fn with_name(session: &Session, name: &str) -> anyhow::Result<Vec<Value>> {
    let params = json!({"archived": false, "sortKey": "updated_at"});
    let (threads, _) = session.list("thread/list", params, None).await?;
    let same = threads.into_iter().filter(|thread| thread["name"] == name);
    Ok(same.collect())
}

/// Why a thread did not get its name.
enum Rename {
    InUse,
    /// Another process has the thread now.
    Elsewhere(anyhow::Error),
    Failed(anyhow::Error),
}

async fn rename(session: &Session, thread: &str, name: &str) -> Result<(), Rename> {
    let params = json!({"threadId": thread, "name": name});
    match session.try_ask::<Value>("thread/name/set", &params).await {
        Ok(_) => Ok(()),
        Err(CallError::Rpc(error)) if error.reason() == Some("nameInUse") => Err(Rename::InUse),
        Err(error) => {
            let reason = match &error {
                CallError::Rpc(error) => error.reason().map(str::to_owned),
                _ => None,
            };
            let refusal = session.refusal(error, &params);
            Err(match reason.as_deref() {
                Some("ownedElsewhere") => Rename::Elsewhere(refusal),
                _ => Rename::Failed(refusal),
            })
        }
    }
}

fn in_use(name: &str) -> anyhow::Error {
    anyhow!(
        "there is a thread `{name}` already\n  \
         queue the turn on it with `--new --name {name} --reuse` or `--thread {name}`, give another \
         --name, or free the name with `turnlane thread archive {name}`"
    )
}

/// Makes a thread, or finds the one that the same key made before.
async fn make(session: &Session, args: &QueueAdd, settings: &Settings) -> anyhow::Result<Lane> {
    let mut params = settings.thread.clone();
    if session.shares_files() {
        let given = args.cd.as_deref().unwrap_or(Path::new("."));
        params.insert("cwd".to_owned(), json!(directory(session, given)?));
    } else if let Some(given) = &args.cd {
        params.insert("cwd".to_owned(), json!(directory(session, given)?));
    }
    // A thread that may be reused is found by its name; the key is that of the turn alone.
    let key = args.key.as_ref().filter(|_| !args.reuse);
    if let Some(key) = key {
        params.insert("idempotencyKey".to_owned(), json!(key));
    }
    let answer: Value = session.ask("thread/start", Value::Object(params)).await?;
    let id = answer["thread"]["id"].as_str();
    let id = id.context("the server made no thread")?.to_owned();
    let origin = if answer["existing"] == true {
        Origin::Before
    } else {
        Origin::Made
    };
    let mut lane = Lane::new(id.clone(), &id, origin);
    if args.network && !has_network(&answer["sandbox"]) {
        if origin == Origin::Made {
            lane.delete(session).await;
        }
        bail!(
            "--network has no effect in the sandbox of the configuration\n  \
             give -s workspace-write as well"
        );
    }
    if key.is_some() && origin == Origin::Before {
        lane.answered = remembered(session, &answer["thread"]).await?;
    }
    Ok(lane)
}

fn has_network(sandbox: &Value) -> bool {
    sandbox["type"] == "dangerFullAccess" || sandbox["networkAccess"] == true
}

/// The answer for a thread whose first turn ended so long ago that its key is forgotten.
///
/// The lane would take the turn as a new one. A thread without turns is one whose first add was cut
/// off, and gets it now.
async fn remembered(session: &Session, thread: &Value) -> anyhow::Result<Option<Value>> {
    let now_s = SystemClock.now_ms() / 1_000;
    let age_s = now_s - thread["createdAt"].as_i64().unwrap_or(now_s);
    let window_s = i64::try_from(session.dedupe_window(DEDUPE_WINDOW).as_secs());
    if age_s < window_s.unwrap_or(i64::MAX) {
        return Ok(None);
    }
    let params =
        json!({"threadId": thread["id"], "sortDirection": "asc", "itemsView": "notLoaded"});
    let (turns, _) = session.list("thread/turns/list", params, Some(1)).await?;
    Ok(turns
        .first()
        .map(|turn| json!({"deduplicated": true, "turnId": turn["id"], "state": turn["status"]})))
}

/// A directory as the server knows it; one that does not exist here is refused.
fn directory(session: &Session, given: &Path) -> anyhow::Result<PathBuf> {
    let found = session.directory(given);
    if !session.shares_files() {
        return found;
    }
    let found = found.with_context(|| format!("cannot work in {}", given.display()))?;
    if !found.is_dir() {
        bail!("cannot work in {}: it is no directory", given.display());
    }
    Ok(found)
}

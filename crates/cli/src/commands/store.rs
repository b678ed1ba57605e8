//! `turnlane store`: copy the database, check it, delete old threads, make the file smaller.
//!
//! The invariant here: nothing is deleted that was not shown and confirmed, and a backup never
//! overwrites a file. The work itself is done by the store crate, on the files of this home.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use serde_json::json;
use turnlane_protocol::ids::ThreadId;
use turnlane_runtime::{Clock as _, SystemClock, delete_idle, idle_threads, this_worker};
use turnlane_store::sqlite::{self, Options, SqliteStore};
use turnlane_store::thread::{IdleScope, IdleThread};
use turnlane_store::{Store as _, StoreError};

use super::thread::confirm;
use crate::args::{StoreArgs, StoreBackup, StoreCheck, StoreCommand, StoreCompact, StorePrune};
use crate::assembly::DATABASE;
use crate::home;
use crate::runtime;
use crate::shown::ids::short;
use crate::shown::table::{Cell, Column, table};
use crate::shown::text::counted;
use crate::shown::{Form, Screen};

/// So many threads are listed before a question; the rest is counted.
const LISTED_MAX: usize = 20;

pub(crate) fn run(args: StoreArgs) -> anyhow::Result<ExitCode> {
    let home = home::open()?;
    let database = database(&home)?;
    let done = match args.command {
        StoreCommand::Backup(args) => backup(&database, &args),
        StoreCommand::Check(args) => check(&database, &args),
        StoreCommand::Prune(args) => runtime::block_on(prune(&home, &database, &args))?,
        StoreCommand::Compact(args) => compact(&database, &args),
    };
    done.map_err(|error| home::explained(error, &home))
}

/// The database of this home, which must exist.
fn database(home: &Path) -> anyhow::Result<PathBuf> {
    let path = home.join(DATABASE);
    match fs::metadata(&path) {
        Ok(_) => Ok(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
            "nothing is stored in {} yet\n  \
             name another directory in TURNLANE_HOME, or begin with `turnlane queue add --new`",
            home.display()
        ),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn backup(database: &Path, args: &StoreBackup) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let to = std::path::absolute(&args.file).context("the path of the backup cannot be used")?;
    if fs::symlink_metadata(&to).is_ok() {
        bail!(
            "{} exists, and a backup overwrites nothing\n  name another file, or remove this one",
            to.display()
        );
    }
    let copied = sqlite::backup(database, &to);
    let bytes = copied.with_context(|| format!("cannot back up to {}", to.display()))?;
    match screen.form {
        Form::Json => screen.json(&json!({"path": to, "bytes": bytes}))?,
        Form::People => {
            screen.print(&format!("{} ({})\n", to.display(), sized(bytes)))?;
            screen.hint("to restore it, stop the daemon and put it in the place of turnlane.db");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn check(database: &Path, args: &StoreCheck) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let size = sqlite::size(database);
    let size = size.with_context(|| format!("cannot read {}", database.display()))?;
    let found = sqlite::check(database);
    let found = found.with_context(|| format!("cannot check {}", database.display()))?;
    let sound = found.problems.is_empty();
    match screen.form {
        Form::Json => screen.json(&json!({
            "schema": found.schema, "problems": found.problems,
            "databaseBytes": size.database_bytes, "logBytes": size.log_bytes,
        }))?,
        Form::People if sound => {
            let size = sized(size.total_bytes());
            screen.print(&format!("{} is sound ({size})\n", database.display()))?;
        }
        Form::People => {
            screen.print(&format!("{} is damaged:\n", database.display()))?;
            for problem in &found.problems {
                screen.print(&format!("  {problem}\n"))?;
            }
            screen.hint(
                "stop the daemon, keep a copy of the file, and put a backup made by \
                 `turnlane store backup` in its place",
            );
        }
    }
    Ok(if sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn compact(database: &Path, args: &StoreCompact) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let (before, after) = sqlite::compact(database).map_err(|error| match &error {
        StoreError::Locked { holder, .. } => anyhow!(
            "{holder} uses {}\n  stop it first; `turnlane doctor` says what it is",
            database.display()
        ),
        _ => anyhow::Error::new(error),
    })?;
    let (before, after) = (before.total_bytes(), after.total_bytes());
    match screen.form {
        Form::Json => screen.json(&json!({"bytesBefore": before, "bytesAfter": after}))?,
        Form::People => {
            let text = format!("{} before, {} now\n", sized(before), sized(after));
            screen.print(&text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn prune(home: &Path, database: &Path, args: &StorePrune) -> anyhow::Result<ExitCode> {
    let clock = SystemClock;
    let options = Options::new(database, this_worker("cli", &clock));
    let store = SqliteStore::open(options)
        .with_context(|| format!("cannot open {}", database.display()))?;
    let done = prune_in(home, &store, args).await;
    store.close().await?;
    done
}

async fn prune_in(home: &Path, store: &SqliteStore, args: &StorePrune) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let age_ms = i64::try_from(args.older_than.as_millis()).unwrap_or(i64::MAX / 2);
    let before_ms = SystemClock.now_ms().saturating_sub(age_ms);
    let scope = if args.archived_only {
        IdleScope::Archived
    } else {
        IdleScope::All
    };
    let mut found = idle_threads(store, before_ms, scope).await?;
    if found.is_empty() && screen.form == Form::People {
        screen.print("nothing is that old\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.dry_run {
        show(&screen, &found, "found")?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.yes && !found.is_empty() {
        if screen.form == Form::People {
            show(&screen, &found, "found")?;
        }
        let question = format!("Delete {} for good?", counted(found.len(), "thread"));
        let instead = "use --dry-run to see what would go";
        if let Some(code) = confirm::declined(&question, instead, "nothing was deleted").await? {
            return Ok(code);
        }
    }
    let mut count = 0;
    // A look finds at most 1,000. Threads that are in use by then are not found again.
    while !found.is_empty() {
        let deleted = delete_idle(store, before_ms, found).await?;
        if deleted.is_empty() {
            break;
        }
        for thread in &deleted {
            let id = ThreadId::from_uuid(thread.id.as_uuid());
            let copies = turnlane_server::attachments_of(home, id);
            let copies = turnlane_server::attachments_still_of(store, id, copies).await;
            turnlane_server::remove_attachments(&copies);
        }
        count += deleted.len();
        show(&screen, &deleted, "deleted")?;
        found = idle_threads(store, before_ms, scope).await?;
        if !args.yes {
            // Only what was shown was confirmed.
            break;
        }
    }
    screen.hint(&format!("{} deleted", counted(count, "thread")));
    Ok(ExitCode::SUCCESS)
}

const COLUMNS: [Column; 5] = [
    Column::whole("THREAD"),
    Column::cut("NAME", 12),
    Column::whole("STATE"),
    Column::whole("LAST USED"),
    Column::whole("WHAT"),
];

/// Lists threads, or what became of them.
fn show(screen: &Screen, threads: &[IdleThread], done: &str) -> anyhow::Result<()> {
    match screen.form {
        Form::Json => {
            for thread in threads {
                screen.json(&json!({
                    "threadId": thread.id.to_string(), "name": thread.name,
                    "archived": thread.archived, "lastActivityMs": thread.last_ms, "done": done,
                }))?;
            }
        }
        Form::People => {
            let rows = threads.iter().take(LISTED_MAX).map(|thread| {
                vec![
                    Cell::new(&short(&thread.id.to_string())),
                    Cell::new(thread.name.as_deref().unwrap_or("-")),
                    Cell::new(if thread.archived { "archived" } else { "-" }),
                    Cell::new(&screen.ago(thread.last_ms)),
                    Cell::new(done),
                ]
            });
            screen.print(&table(screen, &COLUMNS, rows.collect()))?;
            let more = threads.len().saturating_sub(LISTED_MAX);
            if more > 0 {
                screen.print(&format!("and {more} more\n"))?;
            }
        }
    }
    Ok(())
}

/// `512 B`, `1.5 GB`.
fn sized(bytes: u64) -> String {
    super::doctor::bytes(bytes)
}

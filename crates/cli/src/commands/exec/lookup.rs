//! Which thread is meant: by id, by name, or the newest of a directory.
//!
//! The invariant here: a thread that is not found, or not the only one, is refused; nothing is ever
//! resumed that was not named, and no thread is made in its place.

use std::fmt::Write as _;
use std::path::Path;

use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::method::{
    CwdFilter, SortDirection, ThreadListAnswer, ThreadListParams, ThreadSortKey, thread_list,
};
use turnlane_protocol::thread::Thread;

use super::calls::Calls;
use super::refusal::Refused;
use crate::args::Which;
use crate::shown::time::utc;

/// How many threads a page has.
const PAGE: u32 = 100;
/// How many threads of one name are listed.
const LISTED_MAX: usize = 5;

/// Where threads are looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Among<'a> {
    pub(super) cwd: &'a Path,
    pub(super) where_: Where,
    pub(super) provider: &'a str,
}

/// In which directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    Here,
    Everywhere,
}

/// The id of the thread that is meant.
pub(super) async fn find(
    calls: &Calls,
    which: &Which,
    among: Among<'_>,
) -> Result<String, Refused> {
    match which {
        Which::Named(text) if text.parse::<ThreadId>().is_ok() => Ok(text.to_lowercase()),
        Which::Named(name) => named(calls, name, among).await,
        Which::Last => last(calls, among).await,
    }
}

fn filter(among: Among<'_>) -> ThreadListParams {
    let here = || CwdFilter::One(among.cwd.display().to_string());
    ThreadListParams {
        limit: Some(PAGE),
        sort_key: Some(ThreadSortKey::UpdatedAt),
        sort_direction: Some(SortDirection::Desc),
        cwd: (among.where_ == Where::Here).then(here),
        ..ThreadListParams::default()
    }
}

async fn named(calls: &Calls, name: &str, among: Among<'_>) -> Result<String, Refused> {
    let mut params = ThreadListParams {
        search_term: Some(name.to_owned()),
        ..filter(among)
    };
    let mut found: Vec<Thread> = Vec::new();
    loop {
        let page: ThreadListAnswer = calls.call(thread_list::METHOD, &params).await?;
        let same = |thread: &Thread| thread.name.as_deref() == Some(name);
        found.extend(page.data.into_iter().filter(same));
        params.cursor = page.next_cursor;
        if params.cursor.is_none() {
            break;
        }
    }
    let place = among.cwd.display();
    match (found.as_slice(), among.where_) {
        ([only], _) => Ok(only.id.to_string()),
        ([], Where::Here) => Err(Refused::new(format!(
            "no thread named \"{name}\" in {place} (use --all to search every directory)"
        ))),
        ([], Where::Everywhere) => Err(Refused::new(format!("no thread named \"{name}\""))),
        (many, _) => Err(several(name, many)),
    }
}

fn several(name: &str, threads: &[Thread]) -> Refused {
    let mut text = String::new();
    for thread in threads.iter().take(LISTED_MAX) {
        let at = utc(thread.updated_at);
        // Writing into a string cannot fail.
        let _ = writeln!(text, "  {}  {at}  {}", thread.id, thread.cwd);
    }
    let count = threads.len();
    Refused::new(format!(
        "{text}{count} threads are named \"{name}\"; name one by its id"
    ))
}

async fn last(calls: &Calls, among: Among<'_>) -> Result<String, Refused> {
    let params = ThreadListParams {
        limit: Some(1),
        model_providers: Some(vec![among.provider.to_owned()]),
        ..filter(among)
    };
    let page: ThreadListAnswer = calls.call(thread_list::METHOD, &params).await?;
    let newest = page.data.first().map(|thread| thread.id.to_string());
    newest.ok_or_else(|| match among.where_ {
        Where::Here => {
            let place = among.cwd.display();
            Refused::new(format!("no thread to resume in {place}"))
        }
        Where::Everywhere => Refused::new("no thread to resume"),
    })
}

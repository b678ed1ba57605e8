//! `thread/resume`: opens a thread and follows it.
//!
//! The invariant here: answer, picture and live notices meet at one cut. The answer's history ends
//! there, with the running turn's items as they were; whatever began after it is told and not shown.

use std::sync::Arc;

use turnlane_protocol::error::{ErrorObject, MissingThread};
use turnlane_protocol::ids::{ThreadId, TurnId};
use turnlane_protocol::item::ThreadItem;
use turnlane_protocol::method::thread_resume::METHOD;
use turnlane_protocol::method::{
    EventsPosition, InitialTurnsPageParams, Overrides, ThreadResumeAnswer, ThreadResumeParams,
    TurnsPage,
};
use turnlane_protocol::thread::ThreadStatus;
use turnlane_protocol::turn::{ItemsView, Turn, TurnStatus};
use turnlane_runtime::store::thread::Direction;
use turnlane_runtime::{Error, Replay, RunningSnapshot, Since, Snapshot};

use super::thread_history::{self, Page};
use super::thread_start;
use crate::connection::Connection;
use crate::cursors;
use crate::errors::{self, About};
use crate::methods::Then;
use crate::rights;
use crate::settings;
use crate::subscriptions::{Join, Joined, join, leave, picture, show_to_follower};
use crate::view;

/// `thread/resume`
pub(crate) async fn resume(
    cx: Arc<Connection>,
    params: ThreadResumeParams,
) -> Result<Then<ThreadResumeAnswer>, ErrorObject> {
    let thread = params.thread_id.parse::<ThreadId>();
    let thread = thread.map_err(|why| ErrorObject::invalid_session_id(&why))?;
    if params.history.is_some() || params.path.is_some() {
        return Err(ErrorObject::history_not_supported());
    }
    let about = About {
        method: METHOD,
        thread,
        missing: MissingThread::NoRollout,
    };
    let row = super::stored(&cx, &about).await?;
    if row.archived {
        return Err(ErrorObject::archived(&thread.to_string()));
    }
    let over = params.effective_overrides();
    if row.engine == thread_start::NATIVE {
        let stored = view::settings(&row)?.cwd;
        settings::check_rules(&cx, Some(over.cwd.as_ref().unwrap_or(&stored)))?;
    }
    override_settings(&cx, &about, &over).await?;
    let since = match (params.since_seq, &params.epoch) {
        (Some(seq), Some(epoch)) => Some(Since {
            epoch: epoch.clone(),
            seq,
        }),
        _ => None,
    };
    let asked_replay = since.is_some();
    let followed = follow(&cx, &about, since).await?;
    let answer = answer(&cx, &about, &params, &followed, asked_replay).await;
    let (answer, last_turn) = match answer {
        Ok(answer) => answer,
        Err(error) => {
            if followed.is_new() {
                leave(&cx, thread).await;
            }
            return Err(error);
        }
    };
    Ok(Then::new(answer, async move {
        followed.go_live(&cx, last_turn);
    }))
}

/// Follows a thread, or takes a picture of one that the connection follows already.
pub(super) async fn follow(
    cx: &Arc<Connection>,
    about: &About,
    since: Option<Since>,
) -> Result<Follower, ErrorObject> {
    match join(cx, about.thread, since).await {
        Ok(Join::New(joined)) => Ok(Follower::New(joined)),
        Ok(Join::Already) => {
            let snapshot = picture(cx, about.thread).await;
            let snapshot = snapshot.map_err(|error| errors::of(&error, about))?;
            Ok(Follower::Old(snapshot))
        }
        Err(error) => Err(errors::explained(cx, &error, about).await),
    }
}

/// A connection that opens a thread and is shown nothing yet.
pub(super) enum Follower {
    /// It did not follow the thread before.
    New(Joined),
    /// It did.
    Old(Box<Snapshot>),
}

impl Follower {
    /// Returns true if the connection did not follow the thread before.
    pub(super) fn is_new(&self) -> bool {
        matches!(self, Self::New(_))
    }

    /// The request is answered: shows what is under way and waits, and goes live. Never waits.
    pub(super) fn go_live(self, cx: &Arc<Connection>, last_turn: Option<TurnId>) {
        match self {
            Self::New(joined) => joined.go_live(last_turn),
            Self::Old(snapshot) => show_to_follower(cx, &snapshot, last_turn),
        }
    }

    fn snapshot(&self) -> &Snapshot {
        match self {
            Self::New(joined) => &joined.snapshot,
            Self::Old(snapshot) => snapshot,
        }
    }

    fn begun_since(&self) -> Vec<TurnId> {
        match self {
            Self::New(joined) => joined.begun_since(),
            Self::Old(_) => Vec::new(),
        }
    }
}

/// Applies what the caller said about the next turns.
pub(super) async fn override_settings(
    cx: &Connection,
    about: &About,
    over: &Overrides,
) -> Result<(), ErrorObject> {
    if *over == Overrides::default() {
        return Ok(());
    }
    let row = super::stored(cx, about).await?;
    // Refused here if it cannot be meant; then it cannot fail below.
    let after = settings::after(cx, &view::settings(&row)?, over)?;
    settings::check_sandbox(cx, &after.sandbox_policy)?;
    let change = |before: &turnlane_runtime::Settings| {
        let after = settings::after(cx, before, over);
        let may_run = |after: &turnlane_runtime::Settings| {
            let checked = rights::check(cx, &after.sandbox_policy);
            checked.is_ok()
        };
        // Another client may have taken the sandbox away since the check above.
        after.ok().filter(may_run).unwrap_or_else(|| before.clone())
    };
    let runtime = &cx.shared().options.runtime;
    match runtime.update_settings(about.thread, change).await {
        Ok(settings) => rights::check(cx, &settings.sandbox_policy),
        Err(error) => Err(errors::explained(cx, &error, about).await),
    }
}

async fn answer(
    cx: &Connection,
    about: &About,
    params: &ThreadResumeParams,
    followed: &Follower,
    asked_replay: bool,
) -> Result<(ThreadResumeAnswer, Option<TurnId>), ErrorObject> {
    let snapshot = followed.snapshot();
    let mut thread = super::shown(cx, &snapshot.thread, about).await?;
    if let (Some(_), ThreadStatus::Idle | ThreadStatus::SystemError) =
        (&snapshot.running, &thread.status)
    {
        // It ended after the cut, and that is told.
        thread.status = ThreadStatus::Active {
            active_flags: Vec::new(),
        };
    }
    let newest = thread_history::newest(cx, about, None).await?;
    if !params.exclude_turns {
        let turns = thread_history::all(cx, about).await?;
        thread.turns = at_cut(turns, snapshot.running.as_ref(), &followed.begun_since());
    }
    if let Follower::New(joined) = followed
        && joined.overrun()
    {
        return Err(errors::of(&Error::Overloaded, about));
    }
    let initial_turns_page = match params.initial_turns_page {
        Some(page) => Some(initial_page(cx, about, page).await?),
        None => None,
    };
    let settings = view::settings(&snapshot.thread)?;
    let replay = asked_replay && snapshot.replay == Replay::Snapshot;
    let answer = ThreadResumeAnswer {
        start: thread_start::answer(cx, &snapshot.thread, thread).await?,
        collaboration_mode: Some(settings::collaboration(&settings)),
        initial_turns_page,
        turns_backwards_cursor: newest.turns_cursor,
        items_backwards_cursor: newest.items_cursor,
        events: Some(EventsPosition {
            epoch: snapshot.epoch.clone(),
            seq: snapshot.seq,
            replay: replay.then(|| "snapshot".to_owned()),
        }),
    };
    Ok((answer, newest.turn))
}

/// A history as it was at the cut.
fn at_cut(
    turns: Vec<Turn>,
    running: Option<&RunningSnapshot>,
    begun_since: &[TurnId],
) -> Vec<Turn> {
    let running = running.map(|running| {
        let mut items: Vec<ThreadItem> = running.ended.iter().filter_map(view::item).collect();
        items.extend(running.open.iter().cloned());
        items.sort_by_key(|item| item.started_at_ms);
        let mut turn = view::turn(&running.turn, items, ItemsView::Full);
        turn.status = TurnStatus::InProgress;
        turn
    });
    let running_id = running.as_ref().map(|turn| turn.id);
    let mut turns = turns;
    turns.retain(|turn| {
        Some(turn.id) != running_id
            && turn.status != TurnStatus::InProgress
            && !begun_since.contains(&turn.id)
    });
    turns.extend(running);
    turns
}

async fn initial_page(
    cx: &Connection,
    about: &About,
    page: InitialTurnsPageParams,
) -> Result<TurnsPage, ErrorObject> {
    let page = Page {
        after: None,
        direction: cursors::direction(page.sort_direction, Direction::Descending),
        limit: cursors::limit(page.limit),
        view: page.items_view.unwrap_or(ItemsView::Summary),
    };
    thread_history::turns(cx, about, page).await
}

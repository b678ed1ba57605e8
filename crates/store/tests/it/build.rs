//! What tests are made of: ids from names, rows and turns with defaults.
//!
//! The invariant here: everything follows from the names a test gives, so a run is like the last.
//! What these are handed to is in `hand`.

pub(crate) mod fanout;
mod hand;

use turnlane_store::lane::{Changed, LaneView, Paused, Waiting};
use turnlane_store::queue::{
    Accepting, Append, Appended, Back, CannotStart, Claim, Claimed, Fate, NewRow, Policies,
    QueueFrom, QueueQuery, Row, Verdict, Which,
};
use turnlane_store::recovery::{Deciding, Decision, Found, FoundFate, Recover, Whose};
use turnlane_store::thread::{Direction, Listed, NewThread};
use turnlane_store::turn::{
    Accept, Accepted, AcceptedTurn, Complete, EndedTurn, EntryRow, FirstItem, ItemQuery, ItemRow,
    Keep, PauseChange, Put, StartTurn, TurnEnd, TurnQuery, TurnStatus, WaitingChange, WhenBusy,
};
use turnlane_store::{ApprovalId, Json, RowId, StoreError, ThreadId, TurnId, Worker, WorkerId};
use uuid::Uuid;

pub(crate) use hand::{Db, Hand};

/// Now, unless a test says otherwise.
pub(crate) const NOW: i64 = 1_000_000;

/// For how long the keys of ended rows are remembered in tests.
pub(crate) const WINDOW: i64 = 1_000;

/// Fails unless the operation was refused with this error.
macro_rules! refused {
    ($work:expr, $error:pat $(if $guard:expr)?) => {{
        let error = $work.await.map(|_| "done").unwrap_err();
        assert!(matches!(&error, $error $(if $guard)?), "{error:?}");
    }};
}
pub(crate) use refused;

fn named(kind: u8, name: &str) -> Uuid {
    let mut bytes = [0; 16];
    bytes[0] = kind;
    bytes[1..=name.len()].copy_from_slice(name.as_bytes());
    Uuid::from_bytes(bytes)
}

pub(crate) fn thread_id(name: &str) -> ThreadId {
    named(1, name).into()
}

/// The thread that most tests are about.
pub(crate) fn thread() -> ThreadId {
    thread_id("t")
}

pub(crate) fn row_id(name: &str) -> RowId {
    named(2, name).into()
}

pub(crate) fn turn_id(name: &str) -> TurnId {
    named(3, name).into()
}

pub(crate) fn worker_id(name: &str) -> WorkerId {
    named(4, name).into()
}

pub(crate) fn approval_id(name: &str) -> ApprovalId {
    named(5, name).into()
}

pub(crate) fn json(text: &str) -> Json {
    Json::new(text)
}

/// The boot of the machine that all workers run in.
pub(crate) const BOOT: &str = "boot";

fn worker(id: WorkerId) -> Worker {
    Worker {
        id,
        pid: 1,
        pid_start: 2,
        boot_id: BOOT.to_owned(),
        host: "host".to_owned(),
        endpoint: None,
        kind: "serve".to_owned(),
        started_ms: NOW,
    }
}

pub(crate) fn new_thread(name: &str) -> NewThread {
    NewThread {
        id: thread_id(name),
        engine: "native".to_owned(),
        settings: json("{\"model\":\"m\"}"),
        facts: json("{}"),
        name: None,
        cwd: "/project".to_owned(),
        source: "cli".to_owned(),
        provider: "local".to_owned(),
        parent: None,
        binding: None,
        listed: Listed::Yes,
        max_depth: 10,
        at_ms: NOW,
    }
}

/// A row that may start at once, without a key, named by its client id.
pub(crate) fn row(name: &str) -> NewRow {
    let mut content_hash = [0; 32];
    content_hash[..name.len()].copy_from_slice(name.as_bytes());
    NewRow {
        id: row_id(name),
        turn: turn_id(name),
        source: "queue".to_owned(),
        params: json(&format!("{{\"say\":\"{name}\"}}")),
        client_id: name.to_owned(),
        key: None,
        content_hash,
        not_before_ms: 0,
        policies: Policies::default(),
        bound: None,
    }
}

/// The row `name` with a key and this content.
pub(crate) fn keyed(name: &str, key: &str, content: &str) -> NewRow {
    NewRow {
        key: Some(key.to_owned()),
        content_hash: row(content).content_hash,
        ..row(name)
    }
}

pub(crate) fn append(row: NewRow) -> Append {
    Append {
        thread: thread(),
        row,
        key_window_ms: WINDOW,
        at_ms: NOW,
    }
}

pub(crate) fn new(appended: Changed<Appended>) -> Row {
    match appended.value {
        Appended::New(row) => row,
        Appended::Repeated(repeated) => panic!("repeated: {repeated:?}"),
    }
}

/// A claim of the head.
pub(crate) fn head() -> Claim {
    Claim {
        thread: thread(),
        which: Which::Head,
        at_ms: NOW,
    }
}

pub(crate) fn head_now() -> Claim {
    Claim {
        which: Which::HeadNow,
        ..head()
    }
}

pub(crate) fn this_row(name: &str) -> Claim {
    Claim {
        which: Which::Row(row_id(name)),
        ..head()
    }
}

pub(crate) fn ours<T: std::fmt::Debug>(claimed: Claimed<T>) -> T {
    match claimed {
        Claimed::Ours(value) => value,
        Claimed::NotNow(lane) => panic!("not now: {lane:?}"),
    }
}

pub(crate) fn not_now<T: std::fmt::Debug>(claimed: Claimed<T>) -> LaneView {
    match claimed {
        Claimed::NotNow(lane) => lane,
        Claimed::Ours(value) => panic!("ours: {value:?}"),
    }
}

pub(crate) fn begun(accepted: Accepted) -> AcceptedTurn {
    match accepted {
        Accepted::Begun(turn) => *turn,
        Accepted::CannotStart(refused) => panic!("cannot start: {refused:?}"),
        Accepted::Claimed(claimed) => panic!("only claimed: {claimed:?}"),
    }
}

/// Accepts every row with a user message named after it.
pub(crate) fn accepting() -> Accepting {
    Accepting::new(|acceptance| Verdict::Accept(Box::new(said(&acceptance.row.client_id))))
}

/// What a row becomes whose text is this.
pub(crate) fn said(text: &str) -> Accept {
    Accept {
        item: Some(FirstItem {
            id: format!("item-{text}"),
            kind: "userMessage".to_owned(),
            body: json(&format!("{{\"text\":\"{text}\"}}")),
        }),
        settings: None,
        cwd: None,
        preview: Some(text.to_owned()),
    }
}

/// Starts no row.
pub(crate) fn refusing(how: CannotStart) -> Accepting {
    Accepting::new(move |_| Verdict::CannotStart(Box::new(how.clone())))
}

pub(crate) fn block(name: &str) -> CannotStart {
    CannotStart::Block {
        failure: json("\"no\""),
        turn: turn_id(&format!("{name}+")),
    }
}

pub(crate) fn fail() -> CannotStart {
    CannotStart::Fail(Box::new(EndedTurn {
        accept: said("failed"),
        end: failed(),
    }))
}

/// A direct turn of that name, refused when busy.
pub(crate) fn start(name: &str) -> StartTurn {
    StartTurn {
        thread: thread(),
        row: NewRow {
            source: "direct".to_owned(),
            ..row(name)
        },
        accepting: accepting(),
        when_busy: WhenBusy::Refuse,
        key_window_ms: WINDOW,
        at_ms: NOW,
    }
}

pub(crate) fn completed() -> TurnEnd {
    TurnEnd {
        status: TurnStatus::Completed,
        error: None,
        usage: None,
        muted: false,
    }
}

pub(crate) fn failed() -> TurnEnd {
    TurnEnd {
        status: TurnStatus::Failed,
        error: Some(json("\"broken\"")),
        usage: Some(json("{\"tokens\":1}")),
        muted: true,
    }
}

/// The end of a turn that went well.
pub(crate) fn complete(turn: &AcceptedTurn, fate: Fate) -> Complete {
    Complete {
        grip: turn.grip,
        row: turn.row.id,
        turn_ord: turn.turn.ord,
        end: completed(),
        put: Put::default(),
        fate,
        waiting: WaitingChange::Keep,
        pause: PauseChange::Keep,
        keep: Keep::Ours,
        at_ms: NOW,
    }
}

/// Back at the head, at once, as turn `turn`.
pub(crate) fn back(turn: &str, why: Back) -> Fate {
    Fate::Back {
        turn: turn_id(turn),
        not_before_ms: 0,
        why,
    }
}

pub(crate) fn paused() -> Paused {
    Paused {
        reason: "user".to_owned(),
        by: Some("me".to_owned()),
        since_ms: NOW,
    }
}

pub(crate) fn waiting(until_ms: Option<i64>) -> Waiting {
    Waiting {
        kind: "quota".to_owned(),
        message: "too much".to_owned(),
        since_ms: NOW,
        until_ms,
        nth: 1,
        login: None,
    }
}

/// An item of the turn, with the number that is next plus `further`.
pub(crate) fn item(turn: &AcceptedTurn, further: i64, kind: &str) -> ItemRow {
    let ord = turn.next_item_ord + further;
    ItemRow {
        ord,
        turn_ord: turn.turn.ord,
        id: format!("item-{ord}"),
        kind: kind.to_owned(),
        body: json("{}"),
        started_ms: NOW,
        completed_ms: NOW + 1,
    }
}

/// An entry of the turn, with the number that is next plus `further`.
pub(crate) fn entry(turn: &AcceptedTurn, further: i64, kind: &str) -> EntryRow {
    EntryRow {
        ord: turn.next_entry_ord + further,
        turn_ord: turn.turn.ord,
        turn: turn.turn.id,
        kind: kind.to_owned(),
        provider: Some("local".to_owned()),
        model: Some("m".to_owned()),
        item_id: None,
        call_ids: None,
        items: json("[]"),
    }
}

pub(crate) fn items(items: Vec<ItemRow>) -> Put {
    Put {
        items,
        ..Put::default()
    }
}

/// A search that makes this of every row found, and ends its turn as cut off.
pub(crate) fn recover(whose: Whose, fate: FoundFate) -> Recover {
    let deciding = Deciding::new(move |found: Found<'_>| Decision {
        muted: false,
        // Whether it has ended is what an engine is asked about.
        turn_error: found
            .turn
            .filter(|_| fate != FoundFate::Ask)
            .map(|_| json("\"stopped\"")),
        row: fate.clone(),
    });
    Recover {
        whose,
        deciding,
        limit: 500,
        at_ms: NOW,
    }
}

pub(crate) fn whole_queue() -> QueueQuery {
    QueueQuery {
        thread: thread(),
        from: QueueFrom::Head,
        limit: 1_000,
    }
}

pub(crate) fn whole_thread() -> TurnQuery {
    TurnQuery {
        thread: thread(),
        after_ord: None,
        direction: Direction::Ascending,
        limit: 1_000,
    }
}

pub(crate) fn all_items() -> ItemQuery {
    ItemQuery {
        thread: thread(),
        turn_ord: None,
        after_ord: None,
        direction: Direction::Ascending,
        limit: 1_000,
    }
}

/// Whether a grip no longer holds.
pub(crate) fn is_fenced<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Fenced))
}

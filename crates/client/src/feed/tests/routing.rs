//! Who gets what.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use serde_json::json;

use super::{delta, event, fed, next, read, router, status, turn_started, words};
use crate::error::TransportError;
use crate::event::EventBody;
use crate::feed::{Fed, Filter};
use crate::ids::{ThreadId, TurnId};
use crate::limits::Limits;

fn thread(id: &str) -> ThreadId {
    ThreadId::from(id)
}

fn turn(id: &str) -> TurnId {
    TurnId::from(id)
}

#[test]
fn a_stream_gets_what_its_filter_wants_in_order() {
    let router = router(&Limits::default());
    let mut all = router.events(Filter::all());
    let mut of_t = router.events(Filter::all().thread("t"));
    let mut items = router.events(Filter::all().thread("t").method_prefix("item/"));
    router.deliver(turn_started("t", "u"));
    router.deliver(delta("t", "u", "a"));
    router.deliver(delta("other", "v", "b"));
    router.deliver(event("account/updated", &json!({})));
    let told = |stream: &mut _| read(stream).0.iter().map(words).collect::<Vec<_>>();
    assert_eq!(
        told(&mut all),
        ["turn/started", "a", "b", "account/updated"]
    );
    assert_eq!(told(&mut of_t), ["turn/started", "a"]);
    assert_eq!(told(&mut items), ["a"]);
}

#[test]
fn a_feed_that_waits_for_its_turn_drops_what_was_of_others_when_it_is_bound() {
    let router = router(&Limits::default());
    let mut feed = router.expect(&thread("t"));
    router.deliver(delta("t", "old", "of the turn before"));
    router.deliver(status("t", "idle"));
    router.deliver(turn_started("t", "new"));
    router.deliver(delta("t", "new", "ours"));
    router.deliver(delta("t", "old", "late"));
    feed.bind(&turn("new"));
    router.deliver(delta("t", "old", "later"));
    router.deliver(delta("t", "new", "ours too"));
    assert_eq!(fed(&mut feed), ["idle", "turn/started", "ours", "ours too"]);
}

#[test]
fn gaps_in_the_turn_before_are_not_told_to_the_next_one() {
    let limits = Limits {
        progress_buffer: 2,
        ..Limits::default()
    };
    let router = router(&limits);
    let mut feed = router.expect(&thread("t"));
    for text in ["a", "b", "c", "d"] {
        router.deliver(delta("t", "old", text));
    }
    router.deliver(turn_started("t", "new"));
    for text in ["1", "2", "3"] {
        router.deliver(delta("t", "new", text));
    }
    feed.bind(&turn("new"));
    assert_eq!(fed(&mut feed), ["turn/started", "lagged 1", "2", "3"]);
}

#[test]
fn a_feed_gets_of_its_thread_what_a_turn_needs_to_know() {
    let router = router(&Limits::default());
    let mut feed = router.follow(&thread("t"), &turn("u"));
    router.deliver(status("t", "active"));
    router.deliver(status("other", "active"));
    router.deliver(event("thread/queue/changed", &json!({"threadId": "t"})));
    router.deliver(event("warning", &json!({"threadId": "t", "message": "m"})));
    router.deliver(event("warning", &json!({"threadId": null, "message": "m"})));
    router.deliver(event("thread/name/updated", &json!({"threadId": "t"})));
    router.deliver(event("thread/archived", &json!({"threadId": "t"})));
    let told = [
        "active",
        "thread/queue/changed",
        "warning",
        "thread/archived",
    ];
    assert_eq!(fed(&mut feed), told);
}

#[test]
fn what_the_server_left_out_is_a_gap_for_turns_that_have_begun() {
    let router = router(&Limits::default());
    let lagged = |missed: u64| {
        event(
            "connection/lagged",
            &json!({"threadId": "t", "missed": missed}),
        )
    };
    let mut running = router.follow(&thread("t"), &turn("u"));
    let mut waiting = router.follow(&thread("t"), &turn("v"));
    let mut stream = router.events(Filter::all().thread("t").method_prefix("item/"));
    router.deliver(delta("t", "u", "a"));
    router.deliver(lagged(3));
    router.deliver(lagged(4));
    router.deliver(delta("t", "u", "b"));
    assert_eq!(fed(&mut running), ["a", "lagged 7", "b"]);
    assert_eq!(fed(&mut waiting), [""; 0]);
    let told: Vec<_> = read(&mut stream).0.iter().map(words).collect();
    assert_eq!(told, ["a", "lagged 7", "b"]);
}

#[test]
fn a_lost_connection_and_the_next_one_are_told_in_their_place() {
    let router = router(&Limits::default());
    let mut feed = router.follow(&thread("t"), &turn("u"));
    let mut stream = router.events(Filter::all().method_prefix("item/"));
    router.deliver(delta("t", "u", "a"));
    router.lost();
    router.reconnected(2);
    router.deliver(delta("t", "u", "b"));
    assert_eq!(fed(&mut feed), ["a", "lost", "reconnected 2", "b"]);
    let told: Vec<_> = read(&mut stream).0.iter().map(words).collect();
    assert_eq!(told, ["a", "reconnected 2", "b"]);
}

#[test]
fn every_receiver_ends_with_the_client_and_later_ones_at_once() {
    let router = router(&Limits::default());
    let mut feed = router.follow(&thread("t"), &turn("u"));
    let mut stream = router.events(Filter::all());
    router.deliver(delta("t", "u", "a"));
    let why = |reason: &str| TransportError::Closed {
        reason: reason.to_owned(),
    };
    router.close(&why("first"));
    router.close(&why("second"));
    router.deliver(delta("t", "u", "b"));
    assert_eq!(fed(&mut feed), ["a", &why("first").to_string()]);
    assert!(matches!(next(&mut feed), Some(Fed::Closed(told)) if told == why("first")));
    let (events, ended) = read(&mut stream);
    assert_eq!((events.len(), ended), (1, true));

    assert_eq!(
        fed(&mut router.expect(&thread("t"))),
        [why("first").to_string()]
    );
    let (events, ended) = read(&mut router.events(Filter::all().thread("t")));
    assert!(events.is_empty() && ended);
}

#[test]
fn a_receiver_that_lets_too_much_lie_reads_what_there_was_and_ends() {
    let limits = Limits {
        lossless_buffer: 3,
        ..Limits::default()
    };
    let router = router(&limits);
    let mut feed = router.follow(&thread("t"), &turn("u"));
    let mut stream = router.events(Filter::all());
    for word in ["a", "b", "c", "d", "e"] {
        router.deliver(status("t", word));
    }
    assert_eq!(fed(&mut feed), ["a", "b", "c", "too slow"]);
    assert_eq!(fed(&mut feed), ["too slow"], "nothing follows");
    let (events, ended) = read(&mut stream);
    assert!(ended);
    assert!(matches!(events.last().unwrap().body, EventBody::TooSlow));
    assert_eq!(events.len(), 4);
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn an_event_touches_only_those_it_concerns() {
    let router = router(&Limits::default());
    let mut feeds: Vec<_> = (0..100)
        .map(|n| router.follow(&thread("t"), &turn(&n.to_string())))
        .chain((0..100).map(|n| router.follow(&thread(&n.to_string()), &turn("u"))))
        .collect();
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    for feed in &mut feeds {
        let polled = std::pin::pin!(feed.next()).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    }
    for _ in 0..10 {
        router.deliver(delta("t", "7", "x"));
    }
    assert_eq!(
        count.0.load(Ordering::Relaxed),
        1,
        "one reader, woken once until it reads"
    );
    assert_eq!(fed(&mut feeds[7]).len(), 10);
    assert!(feeds.iter_mut().all(|feed| next(feed).is_none()));
}

#[test]
fn a_dropped_receiver_leaves_nothing_behind() {
    let router = router(&Limits::default());
    for n in 0..1_000 {
        let id = thread(&n.to_string());
        let mut expecting = router.expect(&id);
        let bound = router.follow(&id, &turn("u"));
        let stream = router.events(Filter::all().thread(&id));
        let anywhere = router.events(Filter::all());
        router.deliver(delta(id.as_str(), "u", "x"));
        expecting.bind(&turn("v"));
        drop((expecting, bound, stream, anywhere));
    }
    assert!(router.is_empty());
}

#[test]
fn a_reader_may_drop_another_receiver_while_it_is_woken() {
    /// Drops what it holds when it is woken.
    struct Dropping(std::sync::Mutex<Option<crate::feed::EventStream>>);

    impl Wake for Dropping {
        fn wake(self: Arc<Self>) {
            self.0.lock().unwrap().take();
        }
    }

    let router = router(&Limits::default());
    let other = router.events(Filter::all());
    let mut stream = router.events(Filter::all());
    let waker = Waker::from(Arc::new(Dropping(std::sync::Mutex::new(Some(other)))));
    let polled = stream.poll_event(&mut Context::from_waker(&waker));
    assert!(matches!(polled, Poll::Pending));
    router.deliver(status("t", "idle"));
    assert_eq!(read(&mut stream).0.len(), 1);
}

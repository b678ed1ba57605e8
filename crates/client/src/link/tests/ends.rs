//! How a link ends: by the server, by its owner, with or without a runtime.

use super::*;
use crate::error::ShutdownError;
use crate::link::Connection;

#[tokio::test]
async fn the_end_of_the_connection_fails_everybody_who_waits_and_is_told_once() {
    let (link, heard, mut far) = pair().await;
    let waiting: Vec<_> = (0..100).map(|_| spawned(&link, call("wait"))).collect();
    let held: Vec<_> = {
        let mut held = Vec::new();
        for _ in 0..64 {
            held.push(far.asked().await.2);
        }
        held
    };
    drop(far);
    std::mem::forget(held);
    for call in waiting {
        let error = within("the end of a call", SECOND, call).await.unwrap();
        assert!(matches!(
            error.unwrap().unwrap_err(),
            CallError::Transport(TransportError::Closed { .. })
        ));
    }
    heard.until("closed").await;
    assert_eq!(
        heard.words(),
        ["closed: the connection was closed: closed by the other side"]
    );
    let error = link.call(call("later")).await.unwrap_err();
    assert!(matches!(
        error,
        CallError::Transport(TransportError::Closed { .. })
    ));
    assert!(matches!(
        &*link.connection().borrow(),
        Connection::Closed { reason } if reason == "closed by the other side"
    ));
    // A lost link can be shut down once; from then on it was closed by its owner.
    link.shutdown(SECOND).await.unwrap();
    assert!(matches!(link.call(call("x")).await, Err(CallError::Closed)));
    assert_eq!(heard.count("closed"), 1);
}

#[tokio::test]
async fn after_a_shutdown_every_call_says_that_the_client_is_closed() {
    let (link, heard, mut far) = pair().await;
    let waiting = spawned(&link, call("wait"));
    let (_, _, _responder) = far.asked().await;
    link.shutdown(SECOND).await.unwrap();
    assert!(matches!(waiting.await.unwrap(), Err(CallError::Closed)));
    assert!(matches!(link.call(call("x")).await, Err(CallError::Closed)));
    let params = RawValue::from_string("{}".to_owned()).unwrap();
    assert!(matches!(
        link.notify("x", &params).await,
        Err(CallError::Closed)
    ));
    assert!(matches!(
        link.shutdown(SECOND).await,
        Err(ShutdownError::Closed)
    ));
    link.close();
    assert_eq!(
        heard.words(),
        ["closed: the connection was closed: closed by this side"]
    );
    assert!(far.next().await.is_none());
}

#[tokio::test]
async fn detached_calls_are_written_before_the_link_closes_whatever_the_window_says() {
    let (link, heard, mut far) = pair_with(|options| options.limits.in_flight = 2).await;
    let detached = || {
        for n in 0..10 {
            link.send_detached(with_params("turn/interrupt", &json!({ "n": n })));
        }
        link.close();
    };
    // Not inside any runtime, as a drop may be.
    std::thread::scope(|scope| scope.spawn(detached).join()).unwrap();
    for n in 0..10 {
        let (method, params, responder) = far.asked().await;
        assert_eq!((&*method, params), ("turn/interrupt", json!({ "n": n })));
        responder.result(&json!({}));
    }
    assert!(far.next().await.is_none());
    heard.until("closed").await;
    assert_eq!(heard.count("closed"), 1);
}

#[tokio::test]
async fn a_detached_call_beyond_the_window_is_sent_when_there_is_room() {
    let (link, _, mut far) = pair_with(|options| options.limits.in_flight = 1).await;
    let first = spawned(&link, call("first"));
    let (_, _, responder) = far.asked().await;
    link.send_detached(call("second"));
    link.send_detached(call("third"));
    responder.result(&json!({}));
    first.await.unwrap().unwrap();
    for method in ["second", "third"] {
        let (asked, _, responder) = far.asked().await;
        assert_eq!(asked, method);
        responder.result(&json!({}));
    }
}

#[test]
fn a_link_whose_runtime_is_gone_answers_at_once_and_can_be_closed() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    };
    let (first, second) = (runtime(), runtime());
    let (link, heard, _far, waiting) = first.block_on(async {
        let (link, heard, mut far) = pair().await;
        let waiting = {
            let link = link.clone();
            second.spawn(async move { link.call(call("wait")).await })
        };
        let responder = far.asked().await.2;
        (link, heard, (far, responder), waiting)
    });
    drop(first);
    let waiting = second.block_on(within("the end of the call", DEADLINE, waiting));
    assert!(matches!(
        waiting.unwrap().unwrap(),
        Err(CallError::Transport(_))
    ));
    let later = second.block_on(link.call(call("later")));
    assert!(matches!(later, Err(CallError::Transport(_))));
    link.send_detached(call("nobody"));
    link.close();
    assert_eq!(
        heard.words(),
        ["closed: the connection was closed: the client's runtime is gone"]
    );
}

#[tokio::test]
async fn an_owner_that_panics_is_still_told_the_end_once() {
    #[derive(Debug)]
    struct Panics(Heard);
    impl Inbound for Panics {
        fn notification(&self, _: Notification) {
            panic!("a bug of the owner");
        }
        fn request(&self, _: Request) {}
        fn lost(&self) {}
        fn reconnected(&self, _: u64) {}
        fn closed(&self, why: &TransportError) {
            self.0.closed(why);
        }
    }
    let (near, far) = Duplex::memory();
    let mut far = Far::new(far);
    let heard = Heard::default();
    let inbound = Arc::new(Panics(heard.clone()));
    let opening = Link::open(options(Endpoint::io(near)), inbound);
    let (link, ()) = tokio::join!(opening, far.initialise());
    let link = link.unwrap();
    far.peer.tell("boom", &json!({})).unwrap();
    heard.until("closed").await;
    assert_eq!(heard.count("closed"), 1);
    assert!(link.call(call("x")).await.is_err());
}

#[tokio::test]
async fn a_link_that_was_dropped_by_everybody_keeps_nothing_alive() {
    let (near, far) = Duplex::memory();
    let mut far = Far::new(far);
    let heard = Arc::new(Heard::default());
    let weak = Arc::downgrade(&heard);
    let opening = Link::open(options(Endpoint::io(near)), heard);
    let (link, ()) = tokio::join!(opening, far.initialise());
    link.unwrap().close();
    assert!(far.next().await.is_none());
    let gone = async || weak.upgrade().is_none();
    turnlane_testkit::wait::eventually("the owner's end", DEADLINE, gone)
        .await
        .unwrap();
}

//! Approvals: asked, decided once, and closed with their turn.

use turnlane_store::approval::{ApprovalAsked, ApprovalQuery, ApprovalResolved, ApprovalRow};
use turnlane_store::queue::Fate;
use turnlane_store::recovery::FoundFate;
use turnlane_store::turn::{AcceptedTurn, Complete, Level, Put};

use crate::backend::{on_many_workers, on_one_worker};
use crate::build::*;

on_one_worker![
    an_approval_is_open_until_it_is_decided,
    an_approval_is_decided_once,
    open_approvals_are_listed_oldest_first_and_by_thread,
    the_end_of_a_turn_closes_what_is_open,
    an_approval_may_be_asked_and_decided_in_one_write,
    an_approval_that_is_not_there_is_none,
];
on_many_workers![what_a_dead_worker_left_open_is_closed_by_recovery];

fn asked(name: &str, turn: &AcceptedTurn) -> ApprovalAsked {
    ApprovalAsked {
        id: approval_id(name),
        turn: turn.turn.id,
        body: json("{\"run\":\"ls\"}"),
        requested_ms: NOW,
        expires_ms: Some(NOW + 100),
    }
}

fn resolved(name: &str, decision: &str) -> ApprovalResolved {
    ApprovalResolved {
        id: approval_id(name),
        decision: decision.to_owned(),
        decided_by: Some("me".to_owned()),
        reason: Some("fine".to_owned()),
        resolved_ms: NOW + 1,
    }
}

async fn ask(hand: &Hand, turn: &AcceptedTurn, approvals: Vec<ApprovalAsked>) {
    let put = Put {
        asked: approvals,
        ..Put::default()
    };
    hand.put(turn.grip, put, Level::Visible).await.unwrap();
}

async fn resolve(hand: &Hand, turn: &AcceptedTurn, resolved: ApprovalResolved) {
    let put = Put {
        resolved: vec![resolved],
        ..Put::default()
    };
    hand.put(turn.grip, put, Level::Visible).await.unwrap();
}

async fn one(hand: &Hand, name: &str) -> ApprovalRow {
    let query = ApprovalQuery::One(approval_id(name));
    hand.approvals(query).await.unwrap().remove(0)
}

async fn an_approval_is_open_until_it_is_decided(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    ask(&hand, &turn, vec![asked("x", &turn)]).await;
    let open = hand.approvals(ApprovalQuery::Open).await.unwrap();
    let row = ApprovalRow {
        thread: thread(),
        asked: asked("x", &turn),
        resolved: None,
    };
    assert_eq!(open, std::slice::from_ref(&row));
    resolve(&hand, &turn, resolved("x", "accept")).await;
    assert!(
        hand.approvals(ApprovalQuery::Open)
            .await
            .unwrap()
            .is_empty()
    );
    let decided = ApprovalRow {
        resolved: Some(resolved("x", "accept")),
        ..row
    };
    assert_eq!(one(&hand, "x").await, decided);
}

async fn an_approval_is_decided_once(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    ask(&hand, &turn, vec![asked("x", &turn)]).await;
    resolve(&hand, &turn, resolved("x", "accept")).await;
    resolve(&hand, &turn, resolved("x", "decline")).await;
    assert_eq!(one(&hand, "x").await.resolved.unwrap().decision, "accept");
}

async fn open_approvals_are_listed_oldest_first_and_by_thread(db: Db) {
    let hand = db.one().await;
    hand.create_thread(new_thread("u")).await.unwrap();
    let turn = hand.direct("a").await;
    let mut early = asked("y", &turn);
    early.requested_ms = NOW - 1;
    ask(&hand, &turn, vec![asked("x", &turn), early]).await;
    let ids = |rows: Vec<ApprovalRow>| rows.into_iter().map(|row| row.asked.id).collect::<Vec<_>>();
    let expected = [approval_id("y"), approval_id("x")];
    assert_eq!(
        ids(hand.approvals(ApprovalQuery::Open).await.unwrap()),
        expected
    );
    let of = |name| hand.approvals(ApprovalQuery::OpenOf(thread_id(name)));
    assert_eq!(ids(of("t").await.unwrap()), expected);
    assert!(of("u").await.unwrap().is_empty());
}

async fn the_end_of_a_turn_closes_what_is_open(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    let both = vec![asked("x", &turn), asked("y", &turn)];
    ask(&hand, &turn, both).await;
    resolve(&hand, &turn, resolved("y", "accept")).await;
    let end = Complete {
        at_ms: NOW + 8,
        ..complete(&turn, Fate::Done)
    };
    hand.complete(end).await.unwrap();
    let closed = one(&hand, "x").await.resolved.unwrap();
    assert_eq!(
        (closed.decision.as_str(), closed.resolved_ms),
        ("interrupt", NOW + 8)
    );
    assert_eq!(one(&hand, "y").await.resolved.unwrap().decision, "accept");
}

async fn an_approval_may_be_asked_and_decided_in_one_write(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    let put = Put {
        asked: vec![asked("x", &turn)],
        resolved: vec![resolved("x", "accept")],
        ..Put::default()
    };
    hand.put(turn.grip, put, Level::Visible).await.unwrap();
    assert_eq!(
        one(&hand, "x").await.resolved,
        Some(resolved("x", "accept"))
    );
}

async fn an_approval_that_is_not_there_is_none(db: Db) {
    let hand = db.one().await;
    let query = ApprovalQuery::One(approval_id("never"));
    assert!(hand.approvals(query).await.unwrap().is_empty());
}

async fn what_a_dead_worker_left_open_is_closed_by_recovery(db: Db) {
    let (owner, other) = db.two().await;
    let turn = owner.direct("a").await;
    ask(&owner, &turn, vec![asked("x", &turn)]).await;
    db.kill(owner).await;
    assert_eq!(other.approvals(ApprovalQuery::Open).await.unwrap().len(), 1);
    let recovered = other.recover_with(FoundFate::Done).await;
    let closed = one(&other, "x").await;
    assert_eq!(closed.resolved.as_ref().unwrap().decision, "interrupt");
    // Told by the same transaction, so that nobody has to look before and miss one.
    assert_eq!(recovered.lanes[0].resolved, [closed]);
    assert!(
        other
            .approvals(ApprovalQuery::Open)
            .await
            .unwrap()
            .is_empty()
    );
}

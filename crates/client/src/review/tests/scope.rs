//! Who is in scope: the turn before its thread before the client, and never another thread.
//!
//! A question of a turn that nobody knows waits for the turns whose ids are not known yet.

use super::*;

/// A reviewer that can be told from others.
fn reviewer() -> Arc<dyn Reviewer> {
    // Of some size: values without any may share their address.
    struct Named(#[expect(dead_code, reason = "gives it an address")] u8);
    impl Reviewer for Named {
        fn review<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Decision> {
            Box::pin(std::future::ready(Decision::Accept))
        }
    }
    Arc::new(Named(0))
}

async fn found(scopes: &Scopes, thread: &str, turn: &str) -> Option<Arc<dyn Reviewer>> {
    let (thread, turn) = (ThreadId::from(thread), TurnId::from(turn));
    scopes.find(Some(&thread), Some(&turn)).await
}

fn is(found: Option<Arc<dyn Reviewer>>, expected: &Arc<dyn Reviewer>) -> bool {
    found.is_some_and(|found| Arc::ptr_eq(&found, expected))
}

#[tokio::test]
async fn the_turn_decides_before_its_thread_before_the_client() {
    let (client, of_a, of_turn) = (reviewer(), reviewer(), reviewer());
    let scopes = Arc::new(Scopes::new(Some(Arc::clone(&client))));
    scopes.add_thread(&ThreadId::from("a"), &of_a);
    let scope = TurnScope::new(&scopes, &ThreadId::from("a"), Arc::clone(&of_turn));
    scope.bind(&TurnId::from("1"));
    assert!(is(found(&scopes, "a", "1").await, &of_turn));
    assert!(is(found(&scopes, "a", "2").await, &of_a));
    assert!(is(found(&scopes, "b", "1").await, &client));
    assert!(is(scopes.find(None, None).await, &client));
    drop(scope);
    assert!(is(found(&scopes, "a", "1").await, &of_a));
    drop(of_a);
    assert!(is(found(&scopes, "a", "1").await, &client));
}

#[tokio::test]
async fn of_two_handles_of_a_thread_the_later_decides_while_it_lives() {
    let scopes = Scopes::new(None);
    let (first, second) = (reviewer(), reviewer());
    let thread = ThreadId::from("a");
    scopes.add_thread(&thread, &first);
    scopes.add_thread(&thread, &second);
    assert!(is(found(&scopes, "a", "1").await, &second));
    drop(second);
    assert!(is(found(&scopes, "a", "1").await, &first));
    drop(first);
    assert!(found(&scopes, "a", "1").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_question_of_an_unknown_turn_waits_for_turns_without_an_id() {
    let (client, of_turn) = (reviewer(), reviewer());
    let scopes = Arc::new(Scopes::new(Some(Arc::clone(&client))));
    let scope = TurnScope::new(&scopes, &ThreadId::from("a"), Arc::clone(&of_turn));
    let a_second = Duration::from_secs(1);
    assert!(timeout(a_second, found(&scopes, "a", "1")).await.is_err());
    assert!(is(found(&scopes, "b", "1").await, &client));

    let (own, others) = tokio::join!(
        async { tokio::join!(found(&scopes, "a", "1"), found(&scopes, "a", "2")) },
        async {
            tokio::task::yield_now().await;
            scope.bind(&TurnId::from("1"));
        }
    );
    let () = others;
    assert!(is(own.0, &of_turn));
    assert!(is(own.1, &client));

    // A turn that never got an id holds up nobody.
    let scope = TurnScope::new(&scopes, &ThreadId::from("a"), reviewer());
    let (late, ()) = tokio::join!(found(&scopes, "a", "3"), async {
        tokio::task::yield_now().await;
        drop(scope);
    });
    assert!(is(late, &client));
}

proptest! {
    /// D1: whoever has reviewers, and whichever question comes, nobody else's reviewer is found.
    #[test]
    fn nobody_is_asked_about_another_thread(
        threads in proptest::collection::vec((any::<bool>(), any::<bool>()), 1..100),
        asked in proptest::collection::vec((0_usize..100, 0_usize..2), 1..50),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let scopes = Arc::new(Scopes::new(None));
            let mut of_threads = Vec::new();
            for (n, (has_own, has_turn)) in threads.iter().enumerate() {
                let thread = ThreadId::from(format!("t{n}"));
                let own = has_own.then(reviewer);
                if let Some(own) = &own {
                    scopes.add_thread(&thread, own);
                }
                let turn = has_turn.then(|| {
                    let reviewer = reviewer();
                    let scope = TurnScope::new(&scopes, &thread, Arc::clone(&reviewer));
                    scope.bind(&TurnId::from("u0"));
                    (scope, reviewer)
                });
                of_threads.push((own, turn));
            }
            for (thread, turn) in asked {
                let found = found(&scopes, &format!("t{thread}"), &format!("u{turn}")).await;
                let expected = of_threads.get(thread).and_then(|(own, of_turn)| {
                    let of_turn = of_turn.as_ref().filter(|_| turn == 0);
                    of_turn.map(|(_, reviewer)| reviewer).or(own.as_ref())
                });
                match expected {
                    Some(expected) => prop_assert!(is(found, expected)),
                    None => prop_assert!(found.is_none()),
                }
            }
            Ok(())
        })?;
    }
}

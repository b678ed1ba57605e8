//! Names and counts of a session, without a process.

use std::sync::atomic::Ordering;

use super::*;

fn session(dialect: Dialect, per_session_max: usize) -> Arc<Session> {
    let around = Surroundings {
        capacity: Capacity {
            per_session_max,
            total_max: 100,
            total: Arc::default(),
        },
        retain: Duration::from_secs(30),
        sweep: Arc::default(),
    };
    Session::new("s".to_owned(), dialect, around)
}

fn claim(session: &Arc<Session>, id: &str) -> Result<Claim, ClaimError> {
    session.claim(id, Asked::default())
}

#[test]
fn a_name_is_taken_once_and_free_again_when_the_start_failed() {
    let session = session(Dialect::ProcessV1, 10);
    let first = claim(&session, "a").unwrap();
    assert_eq!(claim(&session, "a").unwrap_err(), ClaimError::Exists);
    assert!(session.find("a").is_some());
    drop(first);
    assert!(session.find("a").is_none());
    claim(&session, "a").unwrap();
}

#[test]
fn starts_count_against_the_limit_until_they_failed() {
    let session = session(Dialect::ProcessV1, 2);
    let one = claim(&session, "1").unwrap();
    let _two = claim(&session, "2").unwrap();
    assert_eq!(claim(&session, "3").unwrap_err(), ClaimError::Full);
    assert!(session.find("3").is_none());
    drop(one);
    let three = claim(&session, "3").unwrap();
    assert_eq!(
        session.around.capacity.total.load(Ordering::Acquire),
        2,
        "the server counts the same"
    );
    drop(three);
}

#[test]
fn a_failed_start_uses_up_its_number() {
    let session = session(Dialect::V0, 10);
    let first = session.claim_next(Asked::default()).unwrap();
    assert_eq!(&*first.entry().id, "session-1");
    drop(first);
    let second = session.claim_next(Asked::default()).unwrap();
    assert_eq!(&*second.entry().id, "session-2");
}

#[test]
fn an_ended_session_starts_nothing_and_cancels_what_was_starting() {
    let session = session(Dialect::ProcessV1, 10);
    let starting = claim(&session, "a").unwrap();
    assert_eq!(session.end(), 0);
    assert!(starting.entry().start_cancelled.is_cancelled());
    assert!(starting.keep(|_| panic!("it must not run")).is_none());
    assert_eq!(claim(&session, "b").unwrap_err(), ClaimError::Over);
}

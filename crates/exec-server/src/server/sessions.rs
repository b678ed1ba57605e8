//! Which sessions there are, which connection each is attached to, and when a lonely one ends.
//!
//! The invariant here: a session is attached to at most one connection, and one that nobody is
//! attached to ends when its time is over, not before. Attaching, detaching and that end exclude
//! each other by the registry's lock, under which nothing waits and no process is touched.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::dialect::Dialect;
use super::outbox::Outbox;
use super::session::{Session, Surroundings};

/// How long a resumed process's events are held back when nobody reads it.
const HOLD_MAX: Duration = Duration::from_secs(1);

/// All sessions of `process.v1`.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, Registered>>);

#[derive(Debug)]
struct Registered {
    session: Arc<Session>,
    attached: Option<Weak<Outbox>>,
    /// Grows with every change of `attached`, so that an old timer finds out that it is old.
    epoch: u64,
    ttl: Duration,
}

/// Why a session cannot be gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResumeError {
    Unknown,
    /// Another connection is attached; it was asked for a sign of life.
    Attached,
}

/// How many sessions there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionCounts {
    pub(crate) attached: usize,
    pub(crate) detached: usize,
}

impl Sessions {
    /// A new session, attached to a connection.
    pub(crate) fn create(
        &self,
        around: Surroundings,
        outbox: &Arc<Outbox>,
        ttl: Duration,
    ) -> Arc<Session> {
        let id = uuid::Uuid::new_v4().to_string();
        let session = Session::new(id.clone(), Dialect::ProcessV1, around);
        session
            .ready
            .join(outbox.connection, Arc::clone(&outbox.wake));
        let registered = Registered {
            session: Arc::clone(&session),
            attached: Some(Arc::downgrade(outbox)),
            epoch: 0,
            ttl,
        };
        self.lock().insert(id, registered);
        session
    }

    /// Attaches a connection to a session that has none.
    pub(crate) fn resume(
        self: &Arc<Self>,
        id: &str,
        outbox: &Arc<Outbox>,
        ttl: Duration,
    ) -> Result<Arc<Session>, ResumeError> {
        let mut sessions = self.lock();
        let registered = sessions.get_mut(id).ok_or(ResumeError::Unknown)?;
        if let Some(attached) = &registered.attached {
            if let Some(other) = attached.upgrade() {
                other.probe();
            }
            return Err(ResumeError::Attached);
        }
        registered.attached = Some(Arc::downgrade(outbox));
        registered.epoch += 1;
        registered.ttl = ttl;
        let epoch = registered.epoch;
        let session = Arc::clone(&registered.session);
        drop(sessions);
        session.resumed();
        session
            .ready
            .join(outbox.connection, Arc::clone(&outbox.wake));
        let sessions = Arc::downgrade(self);
        let waiting = Arc::downgrade(&session);
        tokio::spawn(async move {
            tokio::time::sleep(HOLD_MAX).await;
            let (Some(sessions), Some(session)) = (sessions.upgrade(), waiting.upgrade()) else {
                return;
            };
            if sessions.epoch(&session.id) == Some(epoch) {
                session.release_all();
            }
        });
        Ok(session)
    }

    /// A connection is gone; its session waits for another one until its time is over.
    pub(crate) fn detach(self: &Arc<Self>, session: &Arc<Session>, connection: u64) {
        session.ready.leave(connection);
        let mut sessions = self.lock();
        let Some(registered) = sessions.get_mut(&session.id) else {
            return;
        };
        registered.attached = None;
        registered.epoch += 1;
        let (epoch, ttl) = (registered.epoch, registered.ttl);
        drop(sessions);
        if ttl.is_zero() {
            self.end_if(&session.id, epoch);
            return;
        }
        session.detached();
        let sessions = Arc::downgrade(self);
        let id = session.id.clone();
        tokio::spawn(async move {
            tokio::time::sleep(ttl).await;
            if let Some(sessions) = sessions.upgrade() {
                sessions.end_if(&id, epoch);
            }
        });
    }

    /// Ends a session for good; how many of its processes still ran.
    pub(crate) fn end(&self, session: &Session) -> usize {
        let registered = self.lock().remove(&session.id);
        drop(registered);
        session.end()
    }

    fn end_if(&self, id: &str, epoch: u64) {
        let mut sessions = self.lock();
        let unchanged = sessions
            .get(id)
            .is_some_and(|registered| registered.epoch == epoch);
        let registered = if unchanged { sessions.remove(id) } else { None };
        drop(sessions);
        if let Some(registered) = registered {
            let ended = registered.session.end();
            tracing::info!(session = id, ended, "a session nobody came back to is over");
        }
    }

    fn epoch(&self, id: &str) -> Option<u64> {
        self.lock().get(id).map(|registered| registered.epoch)
    }

    /// How many there are.
    pub(crate) fn counts(&self) -> SessionCounts {
        let sessions = self.lock();
        let attached = sessions
            .values()
            .filter(|registered| registered.attached.is_some())
            .count();
        SessionCounts {
            attached,
            detached: sessions.len() - attached,
        }
    }

    /// Forgets what need not be known any more, in every session; whether something is left.
    pub(crate) fn sweep(&self) -> bool {
        let all: Vec<_> = self
            .lock()
            .values()
            .map(|registered| Arc::clone(&registered.session))
            .collect();
        all.iter()
            .fold(false, |left, session| session.sweep() | left)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Registered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::session::Capacity;

    const TTL: Duration = Duration::from_secs(30);

    fn around() -> Surroundings {
        Surroundings {
            capacity: Capacity {
                per_session_max: 1,
                total_max: 1,
                total: Arc::default(),
            },
            retain: Duration::from_secs(30),
            sweep: Arc::default(),
        }
    }

    fn outbox(connection: u64) -> Arc<Outbox> {
        Arc::new(Outbox::new(connection))
    }

    /// Lets time pass and whoever waited for it act.
    async fn pass(time: Duration) {
        let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_is_resumed_until_its_time_is_over() {
        let sessions: Arc<Sessions> = Arc::default();
        let (first, second) = (outbox(1), outbox(2));
        let session = sessions.create(around(), &first, TTL);
        sessions.detach(&session, 1);
        pass(TTL / 2).await;
        let resumed = sessions.resume(&session.id, &second, TTL).unwrap();
        assert!(Arc::ptr_eq(&resumed, &session));
        pass(TTL).await;
        assert_eq!(sessions.counts().attached, 1, "the old timer is of no use");
        sessions.detach(&session, 2);
        pass(TTL + Duration::from_secs(1)).await;
        let late = sessions.resume(&session.id, &first, TTL);
        assert_eq!(late.unwrap_err(), ResumeError::Unknown);
    }

    #[tokio::test]
    async fn who_wants_an_attached_session_has_its_connection_probed() {
        let sessions: Arc<Sessions> = Arc::default();
        let (first, second) = (outbox(1), outbox(2));
        let session = sessions.create(around(), &first, TTL);
        let refused = sessions.resume(&session.id, &second, TTL);
        assert_eq!(refused.unwrap_err(), ResumeError::Attached);
        first.probed().await;
    }

    #[tokio::test]
    async fn a_session_without_time_ends_at_once() {
        let sessions: Arc<Sessions> = Arc::default();
        let first = outbox(1);
        let session = sessions.create(around(), &first, Duration::ZERO);
        sessions.detach(&session, 1);
        assert_eq!(sessions.counts(), SessionCounts::default());
    }
}

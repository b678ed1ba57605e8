//! Waiting, the only kinds of it that tests use: for a future, or for a condition.
//!
//! The invariant here: every wait has an end, and a wait that ends in vain says what it was for.
//! A wait is never the reason that a test passes: the condition is looked at first, at once, and
//! a condition that holds costs no time.
//!
//! Deadlines run on tokio's clock. In a test with a paused clock they pass as soon as nothing else
//! is ready, real sockets included; such a test waits for its own events instead.

use std::time::Duration;

use crate::Error;

/// How long a test waits for what should happen at once. Generous: machines that run tests are
/// busy, and only a failing test ever waits this long.
pub const DEADLINE: Duration = Duration::from_mins(2);

/// How often [`eventually`] looks.
const POLL_EVERY: Duration = Duration::from_millis(5);

/// The future's output, or an error naming `what` when it takes longer than `limit`.
///
/// The future is dropped on time-out.
pub async fn within<T>(
    what: &str,
    limit: Duration,
    future: impl Future<Output = T>,
) -> Result<T, Error> {
    tokio::time::timeout(limit, future)
        .await
        .map_err(|_elapsed| Error::TimedOut {
            what: what.to_owned(),
            limit,
            seen: String::new(),
        })
}

/// Returns as soon as `condition` holds, or with an error naming `what` after `limit`.
///
/// For conditions that nothing announces, such as a file another process writes; where there is
/// an event to await, [`within`] is the better tool.
pub async fn eventually(
    what: &str,
    limit: Duration,
    mut condition: impl AsyncFnMut() -> bool,
) -> Result<(), Error> {
    let holds = async {
        while !condition().await {
            tokio::time::sleep(POLL_EVERY).await;
        }
    };
    within(what, limit, holds).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_in_vain_names_what_it_was_for_and_for_how_long() {
        let limit = Duration::from_secs(3);
        let error = eventually("the moon", limit, async || false).await;
        assert_eq!(
            error.unwrap_err().to_string(),
            "waited 3s in vain for the moon"
        );
        let error = within("the sun", limit, std::future::pending::<()>()).await;
        assert_eq!(
            error.unwrap_err().to_string(),
            "waited 3s in vain for the sun"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_condition_that_holds_costs_no_time() {
        let before = tokio::time::Instant::now();
        eventually("now", DEADLINE, async || true).await.unwrap();
        assert_eq!(before.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_condition_is_looked_at_until_it_holds() {
        let mut looks = 0;
        let third = async || {
            looks += 1;
            looks == 3
        };
        eventually("the third look", DEADLINE, third).await.unwrap();
        assert_eq!(looks, 3);
    }
}

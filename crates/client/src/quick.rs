//! One prompt, one call: connect, one thread, one turn, shut down.
//!
//! The invariant here: what was connected is shut down however the turn ends, and neither failure
//! hides the other.
//!
//! Who asks more than once keeps a [`Client`].

use std::path::Path;
use std::time::Duration;

use crate::client::Client;
use crate::error::{QuickRunError, ShutdownError, TurnError};
use crate::input::Input;
use crate::link::ExitReport;
use crate::outcome::TurnOutcome;
use crate::profile::Profile;

/// How long the server has to end by itself.
const GRACE: Duration = Duration::from_millis(750);

/// Runs one prompt in `cwd` with the safe defaults and returns what came of it.
///
/// The server is the one of [`Client::connect_default`]. Dropping the future interrupts the turn and
/// ends the server if it was started for this. Called twice, it runs two turns on two threads.
///
/// ```no_run
/// # async fn example() -> Result<(), turnlane::QuickRunError> {
/// let out = turnlane::quick_run(".", "Summarise this repository in three bullets").await?;
/// assert!(out.text.is_some());
/// # Ok(())
/// # }
/// ```
pub async fn quick_run(
    cwd: impl AsRef<Path>,
    prompt: impl Into<Input>,
) -> Result<TurnOutcome, QuickRunError> {
    quick_run_with(cwd, prompt, Profile::new()).await
}

/// The same with choices of the caller's.
pub async fn quick_run_with(
    cwd: impl AsRef<Path>,
    prompt: impl Into<Input>,
    profile: Profile,
) -> Result<TurnOutcome, QuickRunError> {
    let client = Client::connect_default().await?;
    run_and_shut_down(client, cwd.as_ref(), prompt.into(), profile).await
}

/// The part after connecting.
async fn run_and_shut_down(
    client: Client,
    cwd: &Path,
    prompt: Input,
    profile: Profile,
) -> Result<TurnOutcome, QuickRunError> {
    let run = async {
        let mut thread = client.threads().start(cwd);
        thread.profile = profile;
        thread.await?.turn(prompt).run().await
    };
    let run = run.await;
    joined(run, client.shutdown(GRACE).await)
}

/// What the caller is told, so that neither failure hides the other.
fn joined(
    run: Result<TurnOutcome, TurnError>,
    shutdown: Result<ExitReport, ShutdownError>,
) -> Result<TurnOutcome, QuickRunError> {
    match (run, shutdown) {
        (Ok(outcome), Ok(_)) => Ok(outcome),
        (Ok(outcome), Err(source)) => Err(QuickRunError::Shutdown {
            source,
            outcome: Box::new(outcome),
        }),
        (Err(run), shutdown) => Err(QuickRunError::Run {
            run,
            shutdown: shutdown.err(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use turnlane_engine::scripted::{AbortSteps, Script, Scripted};
    use turnlane_server::{Embedded, EmbeddedConfig};

    use super::*;
    use crate::endpoint::Endpoint;
    use crate::error::{CallError, ConnectError};
    use crate::link::Connection;
    use crate::outcome::TurnStatus;
    use crate::profile::Effort;

    async fn client(script: &str) -> Client {
        let script = Script::parse("test.yaml", script, AbortSteps::Refused).unwrap();
        let engine = Scripted::new(script, Arc::new(|| 0));
        let server = Embedded::start(EmbeddedConfig::new(Arc::new(engine)));
        let server = server.await.unwrap();
        Client::connect(Endpoint::io(server.connect()))
            .await
            .unwrap()
    }

    async fn quick(client: Client, prompt: &str) -> Result<TurnOutcome, QuickRunError> {
        let profile = Profile::new().effort(Effort::low());
        run_and_shut_down(client, Path::new("."), prompt.into(), profile).await
    }

    #[tokio::test]
    async fn a_quick_run_gives_the_outcome_and_leaves_nothing_open() {
        let client = client("version: 1").await;
        let connection = client.connection();
        let outcome = quick(client, "hello").await.unwrap();
        assert_eq!(outcome.status, TurnStatus::Completed);
        assert_eq!(outcome.text.as_deref(), Some("You said: hello"));
        let closed = matches!(*connection.borrow(), Connection::Closed { .. });
        assert!(closed, "the connection is still open");
    }

    #[tokio::test]
    async fn a_turn_that_fails_is_the_error_of_a_quick_run() {
        let client = client("version: 1\nfallback: {error: {message: \"no money\"}}").await;
        match quick(client, "hello").await {
            Err(QuickRunError::Run {
                run: TurnError::Failed { info, .. },
                shutdown: None,
            }) => assert_eq!(info.message, "no money"),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn an_empty_prompt_is_refused_and_the_client_is_still_shut_down() {
        let client = client("version: 1").await;
        match quick(client, " ").await {
            Err(QuickRunError::Run {
                run: TurnError::Call(CallError::InvalidArgument { reason, .. }),
                shutdown: None,
            }) => assert_eq!(reason, "turn input must not be empty"),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn both_failures_are_kept() {
        let client = client("version: 1").await;
        client.clone().shutdown(GRACE).await.unwrap();
        match quick(client, "hello").await {
            Err(QuickRunError::Run {
                shutdown: Some(ShutdownError::Closed),
                ..
            }) => {}
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn an_outcome_is_not_lost_when_only_the_shutdown_failed() {
        let outcome = client("version: 1").await.run(".", "hello").await.unwrap();
        match joined(Ok(outcome.clone()), Err(ShutdownError::Closed)) {
            Err(QuickRunError::Shutdown {
                outcome: kept,
                source: ShutdownError::Closed,
            }) => assert_eq!(*kept, outcome),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_error_that_main_returns_is_shown_in_words() {
        let source = std::io::Error::from_raw_os_error(2);
        let missing = ConnectError::Refused {
            at: "unix /h/run/app-server.sock".to_owned(),
            source,
        };
        assert_eq!(
            format!("{:?}", QuickRunError::from(missing)),
            "cannot connect to unix /h/run/app-server.sock (`turnlane serve` starts a daemon): \
             No such file or directory (os error 2)"
        );
        let run = TurnError::Call(CallError::Closed);
        let failed = QuickRunError::Run {
            run,
            shutdown: None,
        };
        assert_eq!(format!("{failed:?}"), "the client is closed");
    }
}

//! Every row of the table of failed connections that needs no child.

use super::*;

/// What a connection fails with whose server does this with `initialize`.
async fn answered(serve: impl AsyncFnOnce(Responder, &Peer)) -> ConnectError {
    let (near, far) = Duplex::memory();
    let mut far = Far::new(far);
    let server = async {
        let (method, _, responder) = far.asked().await;
        assert_eq!(method, "initialize");
        serve(responder, &far.peer).await;
    };
    let (error, ()) = tokio::join!(refused(options(Endpoint::io(near))), server);
    error
}

#[tokio::test]
async fn an_answer_that_is_none_is_told_at_once() {
    let error = answered(async |responder, _| responder.result(&json!({"hello": 1}))).await;
    assert!(matches!(error, ConnectError::Protocol { .. }), "{error:?}");
    let error = answered(async |responder, _| responder.error(&bare(-32600, "no"))).await;
    assert!(
        matches!(&error, ConnectError::Initialize(error) if error.code == -32600),
        "{error:?}"
    );
}

#[tokio::test]
async fn what_echoes_is_no_server() {
    let error = answered(async |responder, peer| {
        peer.ask(
            900,
            bytes::Bytes::from_static(br#"{"id":0,"method":"initialize","params":{}}"#),
        )
        .map(drop)
        .unwrap();
        std::mem::forget(responder);
    })
    .await;
    assert!(matches!(error, ConnectError::Protocol { .. }), "{error:?}");
}

#[tokio::test]
async fn a_connection_that_ends_before_the_answer_is_told_at_once() {
    let (near, far) = Duplex::memory();
    drop(far);
    let error = refused(options(Endpoint::io(near))).await;
    assert!(
        matches!(&error, ConnectError::ServerExited { status: None, stderr_tail } if stderr_tail.is_empty()),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn silence_is_waited_for_as_long_as_the_limit_says() {
    let started = tokio::time::Instant::now();
    let (near, _far) = Duplex::memory();
    let error = open(options(Endpoint::io(near))).await.unwrap_err();
    let after = Duration::from_secs(30);
    assert!(
        matches!(error, ConnectError::HandshakeTimeout { after: told } if told == after),
        "{error:?}"
    );
    assert_eq!(started.elapsed(), after);
}

#[tokio::test]
async fn a_connection_can_be_used_once() {
    let (near, _far) = Duplex::memory();
    let endpoint = Endpoint::io(near);
    let Endpoint::Io(io) = &endpoint else {
        panic!("another endpoint");
    };
    drop(io.take().unwrap());
    let error = refused(options(endpoint)).await;
    assert!(
        matches!(error, ConnectError::InvalidEndpoint { .. }),
        "{error:?}"
    );
}

//! What only the inside can show: a peer that is somebody else.

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;

use super::arrival::receive_unix;
use super::unadmitted::Unadmitted;
use super::*;

#[tokio::test]
async fn another_user_is_turned_away() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(b"{}\n").await.unwrap();
    let uid = ours.peer_cred().unwrap().uid();
    let site = Site {
        options: Options::default(),
        ready: Arc::new(|| Ok(())),
        http: None,
        counters: Arc::default(),
        refusals: RefusalLog::default(),
        peer_checks: Arc::new(Semaphore::new(1)),
    };
    let place = Unadmitted::new(1, Duration::ZERO).enter();
    let received = receive_unix(ours, Some(uid + 1), &site, &place).await;
    assert!(received.is_none());
    assert_eq!(site.counters.auth_failures(), 1);
}

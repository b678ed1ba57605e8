//! No child outlives its client, however that goes.

use super::*;

/// How long a child may be there after its client is gone.
const GONE: Duration = Duration::from_secs(2);

#[tokio::test]
async fn no_child_is_left_after_a_close() {
    for script in [SERVER, STUBBORN] {
        let place = Place::new();
        let (link, _) = opened(place.options(script)).await;
        link.close();
        place.emptied(GONE).await;
    }
}

#[tokio::test]
async fn no_child_is_left_of_a_connection_that_nobody_waited_for() {
    let place = Place::new();
    let script = r#"echo $$ >> "$PIDS"; exec sleep 1000"#;
    {
        let connecting = open(place.options(script));
        let started = eventually("the child", DEADLINE, async || !place.pids().is_empty());
        tokio::select! {
            _ = connecting => panic!("it does not answer"),
            started = started => started.unwrap(),
        }
    }
    place.emptied(GONE).await;
}

#[test]
fn no_child_is_left_after_its_runtime_whether_it_was_dropped_or_is_not_driven() {
    for script in [SERVER, STUBBORN] {
        for drops in [true, false] {
            let place = Place::new();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let (link, _) = runtime.block_on(opened(place.options(script)));
            let kept = if drops {
                drop(runtime);
                None
            } else {
                link.close();
                Some(runtime)
            };
            let other = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            other.block_on(place.emptied(GONE));
            drop((kept, link));
        }
    }
}

//! What automation tells a tracing subscriber.
//!
//! The invariant under test: one span for each run, with ids and numbers alone.

use std::fmt::{Debug, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::double::{Stage, Step};
use super::*;

/// More than another test needs to register a span.
const TRIES: usize = 10_000;

/// Keeps the name and fields of every span.
#[derive(Clone, Default)]
struct Spans {
    seen: Arc<Mutex<Vec<String>>>,
    ids: Arc<AtomicU64>,
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl Subscriber for Spans {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(span.metadata().name().to_owned());
        span.record(&mut fields);
        self.seen.lock().unwrap().push(fields.0);
        Id::from_u64(self.ids.fetch_add(1, Ordering::SeqCst) + 1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, _event: &Event<'_>) {}

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn every_run_has_a_span_that_names_it() {
    let spans = Spans::default();
    let _guard = tracing::subscriber::set_default(spans.clone());
    let expected = [1, 2].map(|run| format!("automation.run thread=thread run={run}"));
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        // A span is registered by whichever test reaches it first, on a thread without a subscriber;
        // one that is being registered meanwhile passes this subscriber over.
        tracing::callsite::rebuild_interest_cache();
        two_runs().await;
        seen = std::mem::take(&mut *spans.seen.lock().unwrap());
        if seen == expected {
            return;
        }
        std::thread::yield_now();
    }
    assert_eq!(seen, expected);
}

async fn two_runs() {
    let stage = Stage::new(Step::completes());
    let handle = stage.spawn(AutomationSpec {
        max_runs: Some(2),
        ..spec(SECOND)
    });
    handle.wait().await;
}

//! What one listener has not taken yet.
//!
//! Two parts: `recent`, bounded, and before it `saved`, what was in `recent` and may not be lost
//! (exits, closes, the connection's own events) with one marker per process for the output that was.
//! The invariant: read in order, every number of a process is either there or counted by the marker
//! at its place. `saved` grows with the processes of the client, never with their output.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::{Event, ProcessId};

/// Events a listener may be behind.
const EVENTS_MAX: usize = 4096;
/// Bytes a listener may be behind.
const BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Backlog {
    queue: Mutex<Queue>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    saved: VecDeque<Event>,
    /// How many events of `saved` were taken so far: a place in it is this far from its number.
    taken: usize,
    /// Where in `saved` the open marker of a process is, by number.
    markers: HashMap<ProcessId, usize>,
    recent: VecDeque<Event>,
    recent_bytes: usize,
    end: End,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    No,
    /// Nothing more comes.
    Told,
    /// Nobody listens any more.
    Abandoned,
}

impl Backlog {
    /// Adds an event; false when nobody listens any more.
    pub(super) fn push(&self, event: &Event) -> bool {
        let mut queue = self.lock();
        if queue.end == End::Abandoned {
            return false;
        }
        queue.push(event.clone());
        drop(queue);
        self.arrived.notify_one();
        true
    }

    pub(super) fn pop(&self) -> Option<Event> {
        self.lock().pop()
    }

    pub(super) async fn next(&self) -> Option<Event> {
        loop {
            let arrived = self.arrived.notified();
            {
                let mut queue = self.lock();
                if let Some(event) = queue.pop() {
                    return Some(event);
                }
                if queue.end != End::No {
                    return None;
                }
            }
            arrived.await;
        }
    }

    pub(super) fn end(&self) {
        self.lock().end = End::Told;
        self.arrived.notify_one();
    }

    pub(super) fn abandon(&self) {
        let mut queue = self.lock();
        *queue = Queue {
            end: End::Abandoned,
            ..Queue::default()
        };
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn push(&mut self, event: Event) {
        self.recent_bytes += event.bytes();
        self.recent.push_back(event);
        while self.recent.len() > EVENTS_MAX || self.recent_bytes > BYTES_MAX {
            let Some(oldest) = self.recent.pop_front() else {
                return;
            };
            self.recent_bytes -= oldest.bytes();
            self.give_up(oldest);
        }
    }

    fn give_up(&mut self, event: Event) {
        let (process, events, bytes) = match event {
            Event::Output { process, bytes, .. } => (process, 1, bytes.len() as u64),
            // A marker that came with the stream itself: the place counts more than its identity.
            Event::Lagged {
                process,
                events,
                bytes,
            } => (process, events, bytes),
            Event::Exited { ref process, .. } | Event::Closed { ref process, .. } => {
                // What is lost after this has its place after this.
                self.markers.remove(process);
                return self.saved.push_back(event);
            }
            Event::Disconnected { .. } | Event::Resumed => {
                self.markers.clear();
                return self.saved.push_back(event);
            }
        };
        let place = self.markers.get(&process).map(|place| place - self.taken);
        if let Some(Event::Lagged {
            events: all_events,
            bytes: all_bytes,
            ..
        }) = place.and_then(|place| self.saved.get_mut(place))
        {
            *all_events += events;
            *all_bytes += bytes;
            return;
        }
        let place = self.taken + self.saved.len();
        self.markers.insert(process.clone(), place);
        self.saved.push_back(Event::Lagged {
            process,
            events,
            bytes,
        });
    }

    fn pop(&mut self) -> Option<Event> {
        if let Some(event) = self.saved.pop_front() {
            self.taken += 1;
            if let Event::Lagged { process, .. } = &event {
                self.markers.remove(process);
            }
            return Some(event);
        }
        let event = self.recent.pop_front()?;
        self.recent_bytes -= event.bytes();
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use turnlane_process::StreamName;

    use super::*;
    use crate::client::events::Exit;

    static ZEROS: [u8; 2_000_000] = [0; 2_000_000];

    fn output(process: &str, seq: u64, len: usize) -> Event {
        Event::Output {
            process: ProcessId::new(process),
            seq,
            stream: StreamName::Stdout,
            bytes: Bytes::from_static(&ZEROS[..len]),
        }
    }

    fn exited(process: &str, seq: u64) -> Event {
        Event::Exited {
            process: ProcessId::new(process),
            seq,
            exit: Exit {
                code: 0,
                signal: None,
                reason: None,
                sandbox_denied: false,
            },
        }
    }

    fn drain(backlog: &Backlog) -> Vec<Event> {
        std::iter::from_fn(|| backlog.pop()).collect()
    }

    #[test]
    fn one_marker_counts_what_is_missing_and_stands_where_it_is_missing() {
        let backlog = Backlog::default();
        for seq in 1..=5000 {
            assert!(backlog.push(&output("p", seq, 10)));
        }
        let events = drain(&backlog);
        let lost = 5000 - EVENTS_MAX as u64;
        assert_eq!(
            events[0],
            Event::Lagged {
                process: ProcessId::new("p"),
                events: lost,
                bytes: lost * 10
            }
        );
        assert_eq!(events[1], output("p", lost + 1, 10));
        assert_eq!(events.len(), 1 + EVENTS_MAX);
    }

    #[test]
    fn bytes_are_bounded_too() {
        let backlog = Backlog::default();
        for seq in 1..=9 {
            backlog.push(&output("p", seq, 1024 * 1024));
        }
        let events = drain(&backlog);
        assert_eq!(events.len(), 5);
        assert!(matches!(events[0], Event::Lagged { events: 5, .. }));
    }

    #[test]
    fn exits_are_never_lost_and_part_the_losses_before_and_after() {
        let backlog = Backlog::default();
        backlog.push(&output("p", 1, 3));
        backlog.push(&exited("q", 1));
        backlog.push(&exited("p", 2));
        backlog.push(&output("p", 3, 4));
        for seq in 1..=EVENTS_MAX as u64 {
            backlog.push(&output("r", seq, 1));
        }
        let events = drain(&backlog);
        let lagged = |bytes| Event::Lagged {
            process: ProcessId::new("p"),
            events: 1,
            bytes,
        };
        assert_eq!(
            events[..4],
            [lagged(3), exited("q", 1), exited("p", 2), lagged(4)]
        );
        assert_eq!(events.len(), 4 + EVENTS_MAX);
    }

    #[test]
    fn a_marker_that_was_taken_counts_no_further() {
        let backlog = Backlog::default();
        for seq in 1..=EVENTS_MAX as u64 + 1 {
            backlog.push(&output("p", seq, 1));
        }
        assert!(matches!(
            backlog.pop(),
            Some(Event::Lagged { events: 1, .. })
        ));
        for seq in 1..=2 {
            backlog.push(&output("p", EVENTS_MAX as u64 + 1 + seq, 1));
        }
        assert!(matches!(
            backlog.pop(),
            Some(Event::Lagged { events: 2, .. })
        ));
    }

    proptest::proptest! {
        /// Whatever is taken whenever: numbers of output, exits and what markers count add up.
        #[test]
        fn nothing_is_missing_uncounted(
            steps in proptest::collection::vec((0_usize..3, 0_usize..2_000_000, 0_usize..3), 1..200),
        ) {
            let backlog = Backlog::default();
            let mut told = [(0_u64, 0_u64); 3];
            let mut seen = [(0_u64, 0_u64); 3];
            let names = ["a", "b", "c"];
            let mut take = |backlog: &Backlog, count: usize| {
                for event in std::iter::from_fn(|| backlog.pop()).take(count) {
                    let (process, events, bytes) = match &event {
                        Event::Output { process, bytes, .. } => (process, 1, bytes.len() as u64),
                        Event::Lagged { process, events, bytes } => (process, *events, *bytes),
                        other => panic!("{other:?}"),
                    };
                    let at = names.iter().position(|name| *name == process.as_str()).unwrap();
                    seen[at].0 += events;
                    seen[at].1 += bytes;
                    if let Event::Output { seq, .. } = event {
                        assert_eq!(seq, seen[at].0, "every number before it is there or counted");
                    }
                }
                seen
            };
            for (at, len, takes) in steps {
                told[at].0 += 1;
                told[at].1 += len as u64;
                backlog.push(&output(names[at], told[at].0, len));
                take(&backlog, takes);
            }
            proptest::prop_assert_eq!(take(&backlog, usize::MAX), told);
        }
    }
}

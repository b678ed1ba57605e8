//! The store against a model: a list of everything that was ever put in.

use proptest::prelude::*;

use super::*;
use crate::spec::{Stdin, TerminalSize};
use crate::status::{Reason, Rusage};

const PIPES: Io = Io::Pipe {
    stdin: Stdin::Closed,
};

fn terminal() -> Io {
    Io::Pty(TerminalSize::default())
}

fn status() -> ExitStatus {
    ExitStatus {
        code: 3,
        signal: None,
        reason: Reason::Exited,
        rusage: Rusage::default(),
    }
}

/// Bytes that tell where they are in their stream.
fn counted(from: u64, len: usize) -> Bytes {
    (0..len as u64)
        .map(|at| u8::try_from((from + at) % 251).unwrap())
        .collect()
}

fn push(store: &mut Store, name: StreamName, len: usize) {
    let from = store.picture(name).total;
    store.push(name, counted(from, len));
}

fn stdout(store: &Store) -> StreamSnapshot {
    store.picture(StreamName::Stdout).join()
}

#[test]
fn events_are_numbered_without_gaps_and_told_in_order() {
    let mut store = Store::new(PIPES, Delivery::Stream, 1 << 20);
    push(&mut store, StreamName::Stdout, 2);
    push(&mut store, StreamName::Stderr, 3);
    store.push_exited(status());
    push(&mut store, StreamName::Stdout, 4);
    store.push_closed(false);
    let mut position = 0;
    let mut told = Vec::new();
    while let Some(event) = store.next_after(position) {
        position = event.seq();
        told.push(match event {
            Event::Output { seq, stream, bytes } => format!("{seq} {stream:?} {}", bytes.len()),
            Event::Exited { seq, .. } => format!("{seq} exited"),
            Event::Closed { seq, .. } => format!("{seq} closed"),
        });
    }
    let expected = [
        "1 Stdout 2",
        "2 Stderr 3",
        "3 exited",
        "4 Stdout 4",
        "5 closed",
    ];
    assert_eq!(told, expected);
}

#[test]
fn what_was_delivered_and_lost_is_undelivered_again_as_far_as_it_is_there() {
    let mut store = Store::new(PIPES, Delivery::Stream, 100_000);
    for _ in 0..40 {
        push(&mut store, StreamName::Stdout, 4096);
        store.deliver(store.last_seq());
    }
    let last = store.last_seq();
    assert_eq!(
        (store.recall(last - 3), store.undelivered_bytes()),
        (last - 3, 3 * 4096)
    );
    // What comes now evicts only what is delivered.
    for _ in 0..40 {
        push(&mut store, StreamName::Stdout, 4096);
    }
    assert!(!store.read(last - 3, None).truncated);
    store.deliver(store.last_seq());
    let there = store.recall(0);
    assert!(there > 0, "what is gone does not come back");
    let dense: Vec<u64> = store
        .read(there, None)
        .chunks
        .iter()
        .map(|(seq, ..)| *seq)
        .collect();
    assert_eq!(dense, (there + 1..=store.last_seq()).collect::<Vec<_>>());
    store.deliver(store.last_seq());
    assert_eq!(store.undelivered_bytes(), 0);
}

#[test]
fn a_chunk_that_overflows_the_head_becomes_two() {
    let mut store = Store::new(terminal(), Delivery::Retain, 8 * 1000);
    store.push(StreamName::Pty, counted(0, 2000));
    let page = store.read(0, None);
    let lengths: Vec<usize> = page
        .chunks
        .iter()
        .map(|(_, _, bytes)| bytes.len())
        .collect();
    assert_eq!(lengths, [1000 - CHUNK_CHARGE, 1000 + CHUNK_CHARGE]);
    let kept = store.picture(StreamName::Pty).join();
    assert_eq!(kept.head.len(), 1000 - CHUNK_CHARGE);
    assert_eq!(kept.omitted_bytes, 0);
}

#[test]
fn a_loud_stream_does_not_push_out_the_other() {
    let mut store = Store::new(PIPES, Delivery::Retain, 1 << 20);
    for _ in 0..25 {
        push(&mut store, StreamName::Stderr, 4096);
        for _ in 0..64 {
            push(&mut store, StreamName::Stdout, 65_536);
        }
    }
    let stderr = store.picture(StreamName::Stderr).join();
    assert_eq!((stderr.total_bytes, stderr.omitted_bytes), (102_400, 0));
    let out = stdout(&store);
    assert_eq!(out.head, counted(0, out.head.len()));
    let tail_from = out.total_bytes - out.tail.len() as u64;
    assert_eq!(out.tail, counted(tail_from, out.tail.len()));
    let kept = (out.head.len() + out.tail.len()) as u64;
    assert_eq!(out.omitted_bytes + kept, out.total_bytes);
    assert!(store.kept_charge() <= 1 << 20);
}

#[test]
fn a_million_single_bytes_cost_no_more_than_the_cap() {
    let mut store = Store::new(PIPES, Delivery::Retain, 1 << 20);
    for _ in 0..1_000_000 {
        store.push(StreamName::Stdout, Bytes::from_static(b"x"));
    }
    let page = store.read(0, None);
    assert!(page.chunks.len() <= (1 << 20) / CHUNK_CHARGE);
    assert!(page.truncated);
    let kept = page.chunks.len() as u64;
    assert_eq!(page.omitted_bytes + kept, 1_000_000);
}

#[test]
fn nothing_undelivered_is_evicted_and_with_no_cap_everything_else_is() {
    let mut store = Store::new(PIPES, Delivery::Stream, 0);
    for _ in 0..4 {
        push(&mut store, StreamName::Stdout, 100);
    }
    assert_eq!(store.undelivered_bytes(), 400);
    assert_eq!(stdout(&store).omitted_bytes, 0);
    store.deliver(3);
    assert_eq!(stdout(&store).omitted_bytes, 300);
    assert_eq!(store.read(0, None).first_seq, Some(4));
    assert_eq!(store.undelivered_bytes(), 100);
}

#[test]
fn a_page_has_at_least_one_chunk_and_then_none_that_exceeds_it() {
    let mut store = Store::new(PIPES, Delivery::Stream, 1 << 20);
    for len in [10, 20, 30] {
        push(&mut store, StreamName::Stdout, len);
    }
    let page = store.read(0, Some(1));
    assert_eq!((page.chunks.len(), page.next_seq), (1, 2));
    let page = store.read(0, Some(30));
    assert_eq!((page.chunks.len(), page.next_seq), (2, 3));
    let page = store.read(2, Some(1000));
    assert_eq!((page.chunks.len(), page.next_seq), (1, 4));
    let page = store.read(3, Some(1000));
    assert_eq!((page.chunks.len(), page.next_seq), (0, 4));
    assert_eq!(store.read(0, None).next_seq, 4);
}

#[test]
fn what_is_released_is_told_as_omitted() {
    let mut store = Store::new(PIPES, Delivery::Stream, 1 << 20);
    push(&mut store, StreamName::Stdout, 10);
    push(&mut store, StreamName::Stdout, 20);
    store.deliver(1);
    store.release();
    let page = store.read(0, None);
    assert!(page.truncated);
    assert_eq!((page.omitted_bytes, page.chunks.len()), (10, 1));
    assert_eq!(store.kept_charge(), 20 + CHUNK_CHARGE);
}

#[test]
fn a_marker_stands_for_what_is_missing() {
    let snapshot = StreamSnapshot {
        head: Bytes::from_static(b"first"),
        tail: Bytes::from_static(b"last"),
        total_bytes: 20,
        omitted_bytes: 11,
    };
    assert_eq!(snapshot.text(), "first\n[... 11 bytes omitted ...]\nlast");
}

#[derive(Clone, Debug)]
enum Step {
    Push(StreamName, usize),
    Deliver(u64),
    Read(u64, Option<usize>),
    Retain,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = prop_oneof![Just(StreamName::Stdout), Just(StreamName::Stderr)];
    let len = prop_oneof![4 => 1..200_usize, 1 => 1..5000_usize];
    let step = prop_oneof![
        10 => (name, len).prop_map(|(name, len)| Step::Push(name, len)),
        5 => (1..6_u64).prop_map(Step::Deliver),
        3 => (0..40_u64, prop::option::of(0..3000_usize))
            .prop_map(|(after, most)| Step::Read(after, most)),
        1 => Just(Step::Retain),
    ];
    prop::collection::vec(step, 1..150)
}

/// Everything that was put in, by what the store said of its numbers.
#[derive(Default)]
struct Model {
    all: Vec<(u64, StreamName, Bytes)>,
    delivered: u64,
}

impl Model {
    fn of(&self, name: StreamName) -> Vec<u8> {
        let mut whole = Vec::new();
        for (_, of, bytes) in &self.all {
            if *of == name {
                whole.extend_from_slice(bytes);
            }
        }
        whole
    }

    fn check(&self, store: &Store, cap: usize) {
        let undelivered = self.all.iter().filter(|(seq, ..)| *seq > self.delivered);
        let (bytes, chunks) = undelivered.clone().fold((0, 0), |(bytes, chunks), chunk| {
            (bytes + chunk.2.len(), chunks + 1)
        });
        assert_eq!(store.undelivered_bytes(), bytes);
        let charge = bytes + chunks * CHUNK_CHARGE;
        assert_eq!(store.undelivered(), bytes.max(chunks * CHUNK_CHARGE));
        assert!(store.kept_charge() <= cap / 8 + (cap - cap / 8).max(charge));
        let kept = store.read(self.delivered, None).chunks;
        assert!(undelivered.eq(kept.iter()), "undelivered output stays");
        for name in [StreamName::Stdout, StreamName::Stderr] {
            let whole = self.of(name);
            let snapshot = store.picture(name).join();
            assert_eq!(snapshot.total_bytes, whole.len() as u64);
            assert!(whole.starts_with(&snapshot.head));
            assert!(whole.ends_with(&snapshot.tail));
            let kept = snapshot.head.len() + snapshot.tail.len();
            assert_eq!(snapshot.omitted_bytes + kept as u64, snapshot.total_bytes);
        }
    }

    fn check_page(&self, store: &Store, after: u64, most: Option<usize>) {
        let page = store.read(after, most);
        for (seq, name, bytes) in &page.chunks {
            assert!(*seq > after);
            let at = usize::try_from(*seq).unwrap() - 1;
            assert_eq!(self.all.get(at), Some(&(*seq, *name, bytes.clone())));
        }
        assert!(page.chunks.is_sorted_by(|one, two| one.0 < two.0));
        let sum: usize = page.chunks.iter().map(|(_, _, bytes)| bytes.len()).sum();
        assert!(page.chunks.len() <= 1 || most.is_none_or(|most| sum <= most));
        let whole = store.read(after, None).chunks;
        assert!(page.chunks.len() == whole.len() || most.is_some());
        assert!(!page.chunks.is_empty() || whole.is_empty());
        let there = whole.len() as u64;
        let ever = (self.all.len() as u64).saturating_sub(after);
        assert_eq!(page.truncated, there < ever);
    }
}

proptest! {
    #[test]
    fn the_store_agrees_with_a_list_of_everything(
        steps in steps(),
        cap in prop_oneof![Just(0_usize), 1..3000_usize, Just(40_000)],
    ) {
        let mut store = Store::new(PIPES, Delivery::Stream, cap);
        let mut model = Model::default();
        let mut position = 0;
        let mut retains = false;
        for step in steps {
            match step {
                Step::Push(name, len) => {
                    let bytes = counted(store.picture(name).total, len);
                    let first = model.all.len() as u64 + 1;
                    let before = store.read(0, None).next_seq;
                    prop_assert_eq!(before, first);
                    store.push(name, bytes.clone());
                    // A chunk becomes two at the end of a head; the store says where.
                    let parts = store.read(0, None).next_seq - first;
                    prop_assert!(parts == 1 || parts == 2);
                    let head_end = store.picture(name).join().head.len() as u64;
                    let from = store.picture(name).total - len as u64;
                    let cut = if parts == 2 { usize::try_from(head_end - from).unwrap() } else { len };
                    model.all.push((first, name, bytes.slice(..cut)));
                    if parts == 2 {
                        model.all.push((first + 1, name, bytes.slice(cut..)));
                    }
                }
                Step::Deliver(count) if !retains => {
                    for _ in 0..count {
                        let Some(event) = store.next_after(position) else { break };
                        prop_assert_eq!(event.seq(), position + 1);
                        position += 1;
                        store.deliver(position);
                    }
                    model.delivered = position;
                }
                Step::Deliver(_) => {}
                Step::Read(after, most) => model.check_page(&store, after, most),
                Step::Retain => {
                    store.retain();
                    retains = true;
                }
            }
            if retains {
                model.delivered = model.all.len() as u64;
            }
            model.check(&store, cap);
        }
    }
}

//! The queue against a model that searches and counts.

use std::collections::VecDeque;

use proptest::prelude::*;

use crate::feed::buffer::{Bounds, Buffer, Class, Keep, Popped, TooLong, Weight};

/// What can be done to a queue.
#[derive(Clone, Debug)]
enum Step {
    Progress {
        bytes: usize,
    },
    Lossless {
        bytes: usize,
    },
    Gap {
        missed: u64,
    },
    Pop,
    /// Keeps items by their number modulo three: wanted, beside, not.
    Retain,
}

/// The same queue, the slow way: everything stands in one list.
#[derive(Debug)]
struct Model {
    bounds: Bounds,
    list: VecDeque<Entry>,
    held: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Entry {
    Item(u32, Weight),
    Gap(u64),
    Dropped(u64),
}

impl Entry {
    fn is_progress(self) -> bool {
        matches!(self, Self::Gap(_))
            || matches!(self, Self::Item(_, weight) if weight.class == Class::Progress)
    }

    fn bytes(self) -> usize {
        match self {
            Self::Item(_, weight) => weight.bytes,
            Self::Gap(_) | Self::Dropped(_) => 0,
        }
    }
}

impl Model {
    fn load(&self, of: impl Fn(Entry) -> bool) -> (usize, usize) {
        let of = self.list.iter().copied().filter(|entry| of(*entry));
        of.fold((0, 0), |(items, bytes), entry| {
            (items + 1, bytes + entry.bytes())
        })
    }

    fn push(&mut self, entry: Entry) -> Result<u64, TooLong> {
        let fits = |(items, bytes): (usize, usize), items_max, bytes_max| {
            items == 0 || (items < items_max && bytes + entry.bytes() <= bytes_max)
        };
        let mut dropped = 0;
        if entry.is_progress() {
            let (items, bytes) = (self.bounds.progress, self.bounds.progress_bytes);
            while !fits(self.load(Entry::is_progress), items, bytes) {
                let oldest = self
                    .list
                    .iter_mut()
                    .find(|entry| entry.is_progress())
                    .unwrap();
                *oldest = match *oldest {
                    Entry::Gap(missed) => Entry::Dropped(missed),
                    Entry::Item(..) | Entry::Dropped(_) => {
                        dropped += 1;
                        Entry::Dropped(1)
                    }
                };
            }
        } else {
            let lossless = |entry: Entry| matches!(entry, Entry::Item(..)) && !entry.is_progress();
            let (items, bytes) = (self.bounds.lossless, self.bounds.lossless_bytes);
            if !fits(self.load(lossless), items, bytes) {
                return Err(TooLong);
            }
        }
        self.list.push_back(entry);
        Ok(dropped)
    }

    fn push_gap(&mut self, missed: u64) -> u64 {
        if let Some(Entry::Gap(before)) = self.list.back_mut() {
            *before += missed;
            return 0;
        }
        self.push(Entry::Gap(missed)).unwrap()
    }

    fn pop(&mut self) -> Option<Popped<u32>> {
        if let Some(item) = self.held.take() {
            return Some(Popped::Item(item));
        }
        let mut gap = None;
        while let Some(Entry::Gap(missed) | Entry::Dropped(missed)) = self.list.front() {
            gap = Some(gap.unwrap_or(0) + missed);
            self.list.pop_front();
        }
        let item = match self.list.pop_front() {
            Some(Entry::Item(item, _)) => Some(item),
            _ => None,
        };
        match gap {
            Some(missed) => {
                self.held = item;
                Some(Popped::Gap { missed })
            }
            None => item.map(Popped::Item),
        }
    }

    fn retain(&mut self) -> bool {
        let mut wanted = false;
        let mut kept: VecDeque<Entry> = VecDeque::new();
        for entry in self.list.drain(..) {
            match (entry, kept.back_mut()) {
                (Entry::Item(item, _), _) => {
                    wanted |= keep(item) == Keep::Wanted;
                    if keep(item) != Keep::No {
                        kept.push_back(entry);
                    }
                }
                (Entry::Gap(more), Some(Entry::Gap(missed))) if wanted => *missed += more,
                (Entry::Gap(_) | Entry::Dropped(_), _) if wanted => kept.push_back(entry),
                (Entry::Gap(_) | Entry::Dropped(_), _) => {}
            }
        }
        self.list = kept;
        wanted
    }
}

fn keep(item: u32) -> Keep {
    match item % 3 {
        0 => Keep::Wanted,
        1 => Keep::Beside,
        _ => Keep::No,
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (0..30_usize).prop_map(|bytes| Step::Progress { bytes }),
        4 => (0..30_usize).prop_map(|bytes| Step::Lossless { bytes }),
        2 => (0..5_u64).prop_map(|missed| Step::Gap { missed }),
        6 => Just(Step::Pop),
        1 => Just(Step::Retain),
    ];
    proptest::collection::vec(step, 0..200)
}

fn bounds() -> impl Strategy<Value = Bounds> {
    (0..6_usize, 0..90_usize, 0..9_usize, 0..120_usize).prop_map(
        |(progress, progress_bytes, lossless, lossless_bytes)| Bounds {
            progress,
            progress_bytes,
            lossless,
            lossless_bytes,
        },
    )
}

fn progress(bytes: usize) -> Weight {
    Weight {
        class: Class::Progress,
        bytes,
    }
}

fn lossless(bytes: usize) -> Weight {
    Weight {
        class: Class::Lossless,
        bytes,
    }
}

proptest! {
    #[test]
    fn a_queue_does_what_its_model_does(bounds in bounds(), steps in steps()) {
        let mut buffer = Buffer::new(bounds);
        let mut model = Model { bounds, list: VecDeque::new(), held: None };
        for (item, step) in (0_u32..).zip(steps) {
            match step {
                Step::Progress { bytes } => {
                    let weight = progress(bytes);
                    let pushed = model.push(Entry::Item(item, weight));
                    prop_assert_eq!(buffer.push(item, weight), pushed);
                }
                Step::Lossless { bytes } => {
                    let weight = lossless(bytes);
                    let pushed = model.push(Entry::Item(item, weight));
                    prop_assert_eq!(buffer.push(item, weight), pushed);
                }
                Step::Gap { missed } => {
                    prop_assert_eq!(buffer.push_gap(missed), model.push_gap(missed));
                }
                Step::Pop => prop_assert_eq!(buffer.pop(), model.pop()),
                Step::Retain => prop_assert_eq!(buffer.retain(|item| keep(*item)), model.retain()),
            }
        }
        loop {
            let (popped, expected) = (buffer.pop(), model.pop());
            prop_assert_eq!(&popped, &expected);
            if popped.is_none() {
                break;
            }
        }
    }

    #[test]
    fn what_comes_out_is_in_order_with_one_gap_for_what_does_not(
        bounds in bounds(),
        steps in steps(),
    ) {
        let mut buffer = Buffer::new(Bounds { lossless: 1_000, lossless_bytes: 100_000, ..bounds });
        let (mut pushed, mut popped) = (Vec::new(), Vec::new());
        for (item, step) in (0_u32..).zip(steps) {
            match step {
                Step::Progress { bytes } => {
                    buffer.push(item, progress(bytes)).unwrap();
                    pushed.push((item, Class::Progress));
                }
                Step::Lossless { bytes } => {
                    buffer.push(item, lossless(bytes)).unwrap();
                    pushed.push((item, Class::Lossless));
                }
                Step::Gap { .. } | Step::Retain => {}
                Step::Pop => popped.extend(buffer.pop()),
            }
        }
        while let Some(more) = buffer.pop() {
            popped.push(more);
        }
        // Everything that was pushed is there, or counted in the gap at its place.
        let mut pushed = pushed.into_iter();
        let mut after_gap = false;
        for out in popped {
            match out {
                Popped::Item(item) => {
                    prop_assert_eq!(pushed.next().map(|(item, _)| item), Some(item));
                    after_gap = false;
                }
                Popped::Gap { missed } => {
                    prop_assert!(!after_gap, "two gaps follow each other");
                    after_gap = true;
                    for _ in 0..missed {
                        prop_assert_eq!(pushed.next().map(|(_, class)| class), Some(Class::Progress));
                    }
                }
            }
        }
        prop_assert_eq!(pushed.next(), None);
    }
}

fn roomy() -> Bounds {
    Bounds {
        progress: 4,
        progress_bytes: 1_000,
        lossless: 1_000_000,
        lossless_bytes: 1_000_000,
    }
}

#[test]
fn a_gap_stays_between_the_lossless_items_it_was_made_in() {
    let mut buffer = Buffer::new(roomy());
    for text in ["a", "b", "|", "c", "d", "|", "e", "f", "g"] {
        let weight = if text == "|" {
            lossless(1)
        } else {
            progress(1)
        };
        buffer.push(text, weight).unwrap();
    }
    let popped: Vec<_> = std::iter::from_fn(|| buffer.pop()).collect();
    let gap = |missed| Popped::Gap { missed };
    let [bar, d, e, f, g] = ["|", "d", "e", "f", "g"].map(Popped::Item);
    assert_eq!(popped, [gap(2), bar.clone(), gap(1), d, bar, e, f, g]);
}

#[test]
fn leaving_out_more_after_a_gap_was_read_makes_no_second_gap_at_its_place() {
    let mut buffer = Buffer::new(roomy());
    for item in 0..6 {
        buffer.push(item, progress(1)).unwrap();
    }
    assert_eq!(buffer.pop(), Some(Popped::Gap { missed: 2 }));
    for item in 6..20 {
        buffer.push(item, progress(1)).unwrap();
    }
    let popped: Vec<_> = std::iter::from_fn(|| buffer.pop()).collect();
    let rest = (16..20).map(Popped::Item);
    let expected = [Popped::Item(2), Popped::Gap { missed: 13 }];
    assert_eq!(popped, expected.into_iter().chain(rest).collect::<Vec<_>>());
}

#[test]
fn one_item_longer_than_the_bound_is_kept_alone() {
    let mut buffer = Buffer::new(roomy());
    buffer.push("short", progress(1)).unwrap();
    assert_eq!(buffer.push("long", progress(5_000)), Ok(1));
    assert_eq!(buffer.push("next", progress(1)), Ok(1));
    assert_eq!(buffer.pop(), Some(Popped::Gap { missed: 2 }));
    assert_eq!(buffer.pop(), Some(Popped::Item("next")));
    assert_eq!(buffer.pop(), None);
}

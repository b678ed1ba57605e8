//! The input queue of one process: who may put in how much, in which order. No I/O, no locks.
//!
//! Order is decided when somebody asks for room: a slot is taken then, and what is sent into it later
//! keeps that place. Bytes that are queued or promised never exceed the cap, except for a single
//! larger piece, which is let in when there is nothing else. When the input ends, everybody who still
//! waits is told so. The driver writes; this only says what comes next.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};

use crate::error::InputError;

/// How much input of one process may wait to be written. More makes the caller wait.
pub(crate) const INPUT_MAX: usize = 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Input {
    /// Sorted by ticket. Those who wait are behind those who were let in.
    slots: VecDeque<Slot>,
    /// How many were let in.
    admitted: usize,
    next_ticket: u64,
    /// Bytes that are queued or promised.
    used: usize,
    phase: Phase,
}

#[derive(Debug)]
struct Slot {
    ticket: u64,
    len: usize,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Waiting(Option<Waker>),
    Reserved,
    Ready(Bytes),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// Takes nothing new; ends when what was asked for before is written.
    Ending,
    Closed,
}

impl Input {
    pub(crate) fn open() -> Self {
        Self {
            slots: VecDeque::new(),
            admitted: 0,
            next_ticket: 0,
            used: 0,
            phase: Phase::Open,
        }
    }

    pub(crate) fn closed() -> Self {
        Self {
            phase: Phase::Closed,
            ..Self::open()
        }
    }

    /// Takes a place in the order for `len` bytes.
    pub(crate) fn enter(&mut self, len: usize) -> Result<u64, InputError> {
        if self.phase != Phase::Open {
            return Err(InputError::StdinClosed);
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.slots.push_back(Slot {
            ticket,
            len,
            content: Content::Waiting(None),
        });
        self.admit();
        Ok(ticket)
    }

    /// Whether the holder of `ticket` was let in.
    pub(crate) fn poll_admitted(
        &mut self,
        ticket: u64,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), InputError>> {
        let Some(at) = self.find(ticket) else {
            return Poll::Ready(Err(InputError::StdinClosed));
        };
        match self.slots.get_mut(at).map(|slot| &mut slot.content) {
            Some(Content::Waiting(waker)) => {
                if !waker
                    .as_ref()
                    .is_some_and(|waker| waker.will_wake(cx.waker()))
                {
                    *waker = Some(cx.waker().clone());
                }
                Poll::Pending
            }
            Some(Content::Reserved | Content::Ready(_)) => Poll::Ready(Ok(())),
            None => Poll::Ready(Err(InputError::StdinClosed)),
        }
    }

    /// Puts the bytes into the place that was reserved for them.
    pub(crate) fn send(&mut self, ticket: u64, bytes: Bytes) -> Result<(), InputError> {
        let Some(at) = self.find(ticket) else {
            return Err(InputError::StdinClosed);
        };
        if bytes.is_empty() {
            self.remove(at);
        } else if let Some(slot) = self.slots.get_mut(at) {
            self.used = self.used - slot.len + bytes.len();
            slot.len = bytes.len();
            slot.content = Content::Ready(bytes);
        }
        Ok(())
    }

    /// Gives a place up; nothing if it was used or the input has ended.
    pub(crate) fn give_up(&mut self, ticket: u64) {
        if let Some(at) = self.find(ticket) {
            self.remove(at);
        }
    }

    /// What is to be written next. Nothing while an earlier place is still reserved.
    pub(crate) fn front(&self) -> Option<&Bytes> {
        match &self.slots.front()?.content {
            Content::Ready(bytes) => Some(bytes),
            Content::Waiting(_) | Content::Reserved => None,
        }
    }

    /// The first `len` bytes of the front were written.
    pub(crate) fn wrote(&mut self, len: usize) {
        let Some(slot) = self.slots.front_mut() else {
            return;
        };
        if let Content::Ready(bytes) = &mut slot.content {
            let len = len.min(bytes.len());
            bytes.advance(len);
            slot.len -= len;
            self.used -= len;
            if bytes.is_empty() {
                self.remove(0);
            } else {
                self.admit();
            }
        }
    }

    /// Takes nothing new and ends after what was asked for before.
    pub(crate) fn end(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Ending;
        }
    }

    /// Whether the descriptor is to be closed now.
    pub(crate) fn is_over(&self) -> bool {
        match self.phase {
            Phase::Open => false,
            Phase::Ending => self.slots.is_empty(),
            Phase::Closed => true,
        }
    }

    /// Ends at once; whoever waits is told.
    pub(crate) fn close(&mut self) {
        self.phase = Phase::Closed;
        self.admitted = 0;
        self.used = 0;
        for slot in std::mem::take(&mut self.slots) {
            if let Content::Waiting(Some(waker)) = slot.content {
                waker.wake();
            }
        }
    }

    fn find(&self, ticket: u64) -> Option<usize> {
        let found = self.slots.binary_search_by_key(&ticket, |slot| slot.ticket);
        found.ok()
    }

    fn remove(&mut self, at: usize) {
        if let Some(slot) = self.slots.remove(at)
            && at < self.admitted
        {
            self.admitted -= 1;
            self.used -= slot.len;
        }
        if self.slots.is_empty() {
            // A process that was fed once does not keep the room for it.
            self.slots = VecDeque::new();
        }
        self.admit();
    }

    /// Lets in who fits, in order; nobody overtakes one who does not fit.
    fn admit(&mut self) {
        while let Some(slot) = self.slots.get_mut(self.admitted)
            && (self.used == 0 || slot.len == 0 || self.used + slot.len <= INPUT_MAX)
        {
            self.used += slot.len;
            self.admitted += 1;
            let before = std::mem::replace(&mut slot.content, Content::Reserved);
            if let Content::Waiting(Some(waker)) = before {
                waker.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_admitted(input: &mut Input, ticket: u64) -> Option<Result<(), InputError>> {
        match input.poll_admitted(ticket, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }

    fn piece(byte: u8, len: usize) -> Bytes {
        vec![byte; len].into()
    }

    #[test]
    fn the_order_of_asking_is_the_order_of_writing() {
        let mut input = Input::open();
        let first = input.enter(3).unwrap();
        let second = input.enter(3).unwrap();
        input.send(second, piece(b'2', 3)).unwrap();
        assert_eq!(input.front(), None);
        input.send(first, piece(b'1', 3)).unwrap();
        assert_eq!(input.front(), Some(&piece(b'1', 3)));
        input.wrote(2);
        assert_eq!(input.front(), Some(&piece(b'1', 1)));
        input.wrote(1);
        assert_eq!(input.front(), Some(&piece(b'2', 3)));
    }

    #[test]
    fn who_does_not_fit_waits_and_nobody_overtakes() {
        let mut input = Input::open();
        let first = input.enter(INPUT_MAX).unwrap();
        let second = input.enter(1).unwrap();
        let third = input.enter(1).unwrap();
        input.send(first, piece(b'1', INPUT_MAX)).unwrap();
        assert_eq!(is_admitted(&mut input, second), None);
        input.wrote(1);
        assert_eq!(is_admitted(&mut input, second), Some(Ok(())));
        assert_eq!(is_admitted(&mut input, third), None);
        input.wrote(1);
        assert_eq!(is_admitted(&mut input, third), Some(Ok(())));
    }

    #[test]
    fn a_larger_piece_is_let_in_when_there_is_nothing_else() {
        let mut input = Input::open();
        let small = input.enter(1).unwrap();
        let large = input.enter(5 * INPUT_MAX).unwrap();
        assert_eq!(is_admitted(&mut input, large), None);
        input.send(small, piece(b's', 1)).unwrap();
        input.wrote(1);
        assert_eq!(is_admitted(&mut input, large), Some(Ok(())));
        let later = input.enter(1).unwrap();
        assert_eq!(is_admitted(&mut input, later), None);
    }

    #[test]
    fn a_place_that_is_given_up_makes_room() {
        let mut input = Input::open();
        let first = input.enter(INPUT_MAX).unwrap();
        let second = input.enter(1).unwrap();
        let third = input.enter(2).unwrap();
        input.give_up(second);
        input.give_up(first);
        assert_eq!(is_admitted(&mut input, third), Some(Ok(())));
        input.give_up(first);
        input.send(third, piece(b'3', 2)).unwrap();
        assert_eq!(input.front(), Some(&piece(b'3', 2)));
    }

    #[test]
    fn an_end_waits_for_what_was_asked_for_before_and_takes_nothing_new() {
        let mut input = Input::open();
        let first = input.enter(INPUT_MAX).unwrap();
        let second = input.enter(1).unwrap();
        input.send(first, piece(b'1', INPUT_MAX)).unwrap();
        input.end();
        input.end();
        assert_eq!(input.enter(1), Err(InputError::StdinClosed));
        input.wrote(INPUT_MAX);
        assert!(!input.is_over());
        input.send(second, piece(b'2', 1)).unwrap();
        input.wrote(1);
        assert!(input.is_over());
    }

    #[test]
    fn a_close_is_told_to_everybody() {
        let mut input = Input::open();
        let first = input.enter(INPUT_MAX).unwrap();
        let second = input.enter(1).unwrap();
        input.close();
        assert_eq!(
            is_admitted(&mut input, second),
            Some(Err(InputError::StdinClosed))
        );
        assert_eq!(
            input.send(first, piece(b'1', 1)),
            Err(InputError::StdinClosed)
        );
        assert_eq!(input.enter(0), Err(InputError::StdinClosed));
        assert_eq!(input.front(), None);
        assert!(input.is_over());
    }

    #[test]
    fn empty_pieces_take_no_room() {
        let mut input = Input::open();
        let empty = input.enter(0).unwrap();
        input.send(empty, Bytes::new()).unwrap();
        assert_eq!(input.front(), None);
        input.end();
        assert!(input.is_over());
    }
}

//! The task that lives as long as a session's process: it reads, shows and ends.
//!
//! The invariant here: all that is emitted about a session after its start is emitted by this one
//! task, so nothing overtakes the item's end. It always reads on: while an item is open a slow lane
//! holds up the command, without one nothing does.
//!
//! Theory of operation: it waits for the process's output and for orders (at most
//! [`ORDERS_MAX`](super::session)). The process's exit ends it: the item is completed or handed
//! back, the end is told, and pending orders are answered without being obeyed. Then it only drains
//! what survivors write, until the streams close.

use std::sync::Arc;

use tokio::sync::mpsc;
use turnlane_process::{End, Event, ExitStatus, Output};

use super::decode::Decoders;
use super::session::{Call, Ended, Ending, Order, Session};
use super::shown::{How, Shown};

/// Answers an order without obeying it: items go back, and there is none to complete.
fn answer(order: Order) {
    match order {
        Order::Show(shown, done) => {
            let _ = done.send(Err(shown));
        }
        Order::Hide(_, done) => {
            let _ = done.send(());
        }
    }
}

/// What becomes of a command that the sandbox denied something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnDenial {
    /// It ends like others.
    Complete,
    /// Its item goes back to the call, if that still waits.
    HandBack,
}

pub(super) struct Attendant {
    pub(super) session: Arc<Session>,
    pub(super) decoders: Decoders,
    pub(super) shown: Option<Shown>,
    pub(super) on_denial: OnDenial,
}

impl Attendant {
    pub(super) async fn attend(mut self, mut orders: mpsc::Receiver<Order>) {
        // The process was handed over with nobody reading it; were it read, nothing could be shown.
        let Ok(mut output) = self.session.process.output() else {
            self.session.process.end(End::Force);
            return self.ended(None).await;
        };
        let status = self.until_exit(&mut output, &mut orders).await;
        let rest = self.decoders.finish();
        self.tell(&rest).await;
        let is_ending = self.session.lock().ending != Ending::Nobody;
        if is_ending {
            self.until_empty(&mut output).await;
        }
        self.ended(status).await;
        orders.close();
        while let Some(order) = orders.recv().await {
            answer(order);
        }
        drop(orders);
        while output.next().await.is_some() {}
    }

    /// None when the exit was never told.
    async fn until_exit(
        &mut self,
        output: &mut Output,
        orders: &mut mpsc::Receiver<Order>,
    ) -> Option<ExitStatus> {
        loop {
            tokio::select! {
                biased;
                Some(order) = orders.recv() => self.obey(order).await,
                event = output.next() => match event {
                    Some(Event::Output { stream, bytes, .. }) => {
                        let text = self.decoders.push(stream, &bytes);
                        self.tell(&text).await;
                    }
                    Some(Event::Exited { status, .. }) => return Some(status),
                    Some(Event::Closed { .. }) | None => return None,
                },
            }
        }
    }

    async fn tell(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.session.lock().unreported.push(text);
        self.show(text).await;
    }

    async fn show(&mut self, text: &str) {
        if let Some(shown) = &mut self.shown
            && shown.grow(text).await.is_err()
        {
            // The lane has gone, and completes what is open itself.
            self.shown = None;
        }
    }

    async fn obey(&mut self, order: Order) {
        match order {
            Order::Show(..) if self.shown.is_some() => answer(order),
            Order::Show(mut shown, done) => {
                shown.runs();
                if shown.start().await.is_ok() {
                    self.shown = Some(*shown);
                }
                // What nobody was told or shown yet comes first.
                let unseen = self.session.unreported();
                self.show(&unseen).await;
                let _ = done.send(Ok(()));
            }
            Order::Hide(how, done) => {
                self.complete(how).await;
                let _ = done.send(());
            }
        }
    }

    async fn complete(&mut self, how: How) {
        if let Some(shown) = self.shown.take() {
            // A lane that has gone completes the item itself.
            let _ = shown.complete(how).await;
        }
    }

    async fn ended(&mut self, status: Option<ExitStatus>) {
        let ended = Ended {
            code: status.map_or(-1, |status| status.code),
            signal: status.and_then(|status| status.signal),
        };
        let Ended { code, signal } = ended;
        let asks = self.on_denial == OnDenial::HandBack && self.session.process.looks_denied();
        let how = {
            let mut state = self.session.lock();
            if state.ending == Ending::Interrupted {
                How::Interrupted { signal }
            } else {
                if asks && state.call == Call::Waits {
                    state.handed_back = self.shown.take();
                }
                How::Exited { code, signal }
            }
        };
        self.complete(how).await;
        self.session.ended.send_replace(Some(ended));
    }

    /// Waits until an end has reached everybody, and reads on meanwhile.
    async fn until_empty(&mut self, output: &mut Output) {
        let session = Arc::clone(&self.session);
        let gone = session.gone();
        tokio::pin!(gone);
        let mut is_open = true;
        loop {
            tokio::select! {
                () = &mut gone => break,
                event = output.next(), if is_open => match event {
                    Some(Event::Output { stream, bytes, .. }) => {
                        let text = self.decoders.push(stream, &bytes);
                        self.tell(&text).await;
                    }
                    Some(Event::Exited { .. }) => {}
                    Some(Event::Closed { .. }) | None => is_open = false,
                },
            }
        }
        let rest = self.decoders.finish();
        self.tell(&rest).await;
    }
}

//! From effects to deeds: operations submitted, engines run, timers set.
//!
//! The invariant here: an effect is carried out whole before the next one is looked at, and
//! operations are submitted in the order of the effects.

use std::sync::{Arc, PoisonError};

use turnlane_engine::{CancelReason, Steer, Steering as Answered, TurnOutcome};
use turnlane_protocol::input::UserInput;
use turnlane_protocol::method::TurnStartParams;
use turnlane_store::crash;
use turnlane_store::queue::{Append, Claim, NewRow, Policies, Which};
use turnlane_store::thread::ThreadChange;
use turnlane_store::turn::{StartTurn, WhenBusy};
use turnlane_store::{Grip, RowId};

use super::Actor;
use super::answers::Pending;
use super::results::Done;
use crate::dispatcher::recover_dead;
use crate::error::Error;
use crate::fanout::board::RunningPlace;
use crate::ids;
use crate::lane::accept::{self, Chosen, PARAMS_READ_INSIDE_MAX, ReadParams};
use crate::lane::command::{Bound, StartRequest};
use crate::lane::event::{
    CancelWhy, Closing, Committed, Effect, Event, FailedOp, Op, RequestNo, StartHow, Tell,
    UnclaimWhy,
};
use crate::lane::past::Taken;
use crate::lane::rights::CallerRights;
use crate::lane::state::HASTY_GRACE;
use crate::lane::turn::RunningTurn;
use crate::lane::{request, rows};
use crate::options::BeforeTurnVerdict;
use crate::queue::content_hash;
use crate::settings::Settings;

/// Which attempt at taking the lane it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// The first.
    First,
    /// The one after the owner of the lane was looked at: dead ones own nothing any more.
    AfterRecovery,
}

/// A claim that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// Which row.
    pub which: Which,
    /// Who asked for it, if somebody did.
    pub request: Option<RequestNo>,
    pub attempt: Attempt,
}

impl Actor {
    pub(super) async fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Commit(op) => self.commit(op).await,
            Effect::AskSlot => {
                let slots = Arc::clone(&self.shared.slots);
                self.slot_wait = Some(Box::pin(slots.one()));
            }
            Effect::GiveSlot => {
                self.slot_wait = None;
                self.slot = None;
            }
            Effect::RunHooks => self.run_hooks(),
            Effect::RunEngine => self.run_engine(),
            Effect::TakeGiven => self.take_given(),
            Effect::AskEngine => self.ask_engine(),
            Effect::HandSteer(request) => self.hand_steer(request),
            Effect::CloseSteer(closing) => self.close_steer(closing),
            Effect::Cancel(why) => self.cancel(why),
            Effect::Drop => self.drop_engine(),
            Effect::Answer(request, answer) => self.answer(request, answer),
            Effect::Tell(Tell::Began) => self.tell_began().await,
            Effect::Tell(Tell::Completed) => self.tell_completed(),
            Effect::WakeAt(wake) => self.wake_at = wake,
            Effect::Unload(why) => self.unload = Some(why),
        }
    }

    /// Adds an operation to those under way.
    pub(super) fn submit(&mut self, op: impl Future<Output = Done> + Send + 'static) {
        self.ops.push_back(Box::pin(op));
    }

    async fn commit(&mut self, op: Op) {
        match op {
            Op::Start(request) => self.commit_start(request, Attempt::First),
            Op::Claim { which, request } => {
                // Whoever listens sees the row once before it is gone.
                self.tell_queue().await;
                crash::point("claim:before-submit");
                self.commit_claim(Asked {
                    which,
                    request,
                    attempt: Attempt::First,
                });
            }
            Op::Accept => self.commit_accept(),
            Op::Unclaim(why) => self.commit_unclaim(why),
            Op::Steer(request) => self.commit_steer(request),
            Op::Append(request) => self.commit_append(request),
            Op::Complete { how, queue } => self.commit_complete(how, queue),
            Op::Settle => self.commit_settle(),
            Op::Release => self.commit_release(),
        }
    }

    fn chosen(&self) -> Chosen {
        let at_ms = self.now_ms();
        Chosen {
            item: ids::new_item(at_ms),
            next_turn: ids::new_turn(at_ms),
            turns: self.shared.options.turns,
            engines: self.shared.engine_names(),
            read: None,
            at_ms,
        }
    }

    /// Reads the history while the acceptance is being committed.
    pub(super) fn read_history(&mut self) {
        self.history = Some(self.known.read(&self.shared.store, self.thread));
    }

    pub(super) fn commit_start(&mut self, request: RequestNo, attempt: Attempt) {
        let Some(Pending::Start { request: start, .. }) = self.requests.get(&request) else {
            return;
        };
        let start = match self.new_row(start) {
            Ok(row) => StartTurn {
                thread: self.thread,
                accepting: accept::accepting(Chosen {
                    read: Some(ReadParams::known(row.id, Arc::new(start.params.clone()))),
                    ..self.chosen()
                }),
                row,
                when_busy: match start.how {
                    StartHow::OrQueue => WhenBusy::Queue,
                    StartHow::OrSteer | StartHow::OrReject | StartHow::Row(_) => WhenBusy::Refuse,
                },
                key_window_ms: self.shared.dedupe_window_ms(),
                at_ms: self.now_ms(),
            },
            Err(error) => {
                self.keep_result(request, Err(error));
                let failed = Committed::Failed(FailedOp::Taking);
                self.events.push_back(Event::Committed(failed));
                return;
            }
        };
        self.read_history();
        match attempt {
            Attempt::First => {
                let work = self.shared.store.start_turn(start);
                self.submit(async move { Done::Start(request, attempt, work.await) });
            }
            Attempt::AfterRecovery => {
                let shared = Arc::clone(&self.shared);
                self.submit(async move {
                    if let Err(error) = recover_dead(&shared).await {
                        return Done::Start(request, attempt, Err(error));
                    }
                    Done::Start(request, attempt, shared.store.start_turn(start).await)
                });
            }
        }
    }

    /// The row of a wanted turn, as it would wait or start.
    fn new_row(&self, start: &StartRequest) -> Result<NewRow, Error> {
        let now_ms = self.now_ms();
        let id: RowId = ids::new_row(now_ms);
        let params = rows::write(&start.params);
        Ok(NewRow {
            id,
            turn: ids::new_turn(now_ms),
            source: rows::DIRECT.to_owned(),
            client_id: start
                .params
                .client_user_message_id
                .clone()
                .unwrap_or_else(|| id.to_string()),
            key: start.key.clone(),
            content_hash: content_hash(&start.params)?,
            not_before_ms: 0,
            policies: Policies::default(),
            bound: (start.bound == Bound::ToThisWorker).then(|| self.shared.store.worker()),
            params,
        })
    }

    pub(super) fn commit_claim(&mut self, asked: Asked) {
        let claim = Claim {
            thread: self.thread,
            which: asked.which,
            at_ms: self.now_ms(),
        };
        if self.shared.options.before_turn.is_some() {
            let work = self.shared.store.claim(claim);
            self.submit(async move { Done::Claim(asked, work.await) });
            return;
        }
        self.read_history();
        let accepting = accept::accepting(self.chosen()).up_to(PARAMS_READ_INSIDE_MAX);
        let work = self.shared.store.claim_and_accept(claim, accepting);
        self.submit(async move { Done::ClaimAndAccept(asked, work.await) });
    }

    /// Claims again when the dead own nothing any more.
    pub(super) fn claim_after_recovery(&mut self, asked: Asked) {
        let shared = Arc::clone(&self.shared);
        let asked = Asked {
            attempt: Attempt::AfterRecovery,
            ..asked
        };
        self.submit(async move { Done::Recovered(asked, recover_dead(&shared).await) });
    }

    fn run_hooks(&mut self) {
        let Some(claimed) = &self.claimed else {
            return;
        };
        let hook = self.shared.options.before_turn.as_ref().map(|before_turn| {
            crash::point("hook:before");
            let thread = ids::wire_thread(self.thread);
            before_turn.before_turn(thread, &claimed.row)
        });
        let row = claimed.row.clone();
        // What an earlier claim read is not this row's any more.
        self.read_params = Arc::default();
        let read = Arc::clone(&self.read_params);
        self.hooks = Some(Box::pin(async move {
            let verdict = match hook {
                Some(hook) => hook.await,
                None => BeforeTurnVerdict::Go,
            };
            if verdict == BeforeTurnVerdict::Go
                && row.params.as_str().len() > PARAMS_READ_INSIDE_MAX
            {
                // On a thread of its own: the lane answers its clients meanwhile. A task that
                // panicked has read nothing, and the transaction reads it itself.
                let params = tokio::task::spawn_blocking(move || ReadParams::of(&row)).await;
                *read.lock().unwrap_or_else(PoisonError::into_inner) = params.ok();
            }
            verdict
        }));
    }

    fn commit_accept(&mut self) {
        let Some(claimed) = &self.claimed else {
            return;
        };
        let (grip, row) = (claimed.grip, claimed.row.id);
        let read = self.read_params.lock();
        let read = read.unwrap_or_else(PoisonError::into_inner).take();
        self.read_history();
        let accepting = accept::accepting(Chosen {
            read,
            ..self.chosen()
        });
        let work = self
            .shared
            .store
            .accept(grip, row, accepting, self.now_ms());
        self.submit(async move { Done::Accept(work.await) });
    }

    fn commit_unclaim(&mut self, why: UnclaimWhy) {
        let Some(claimed) = &self.claimed else {
            return;
        };
        let now_ms = self.now_ms();
        let next_turn = ids::new_turn(now_ms);
        let how = match why {
            UnclaimWhy::Blocked => {
                let why = self.blocked.as_deref().unwrap_or("blocked by a hook");
                let text = format!("queued turn could not start: {why}");
                accept::cannot_start(&claimed.row, &text, next_turn)
            }
            UnclaimWhy::GoBack => accept::back(&claimed.row, next_turn),
        };
        let (grip, row) = (claimed.grip, claimed.row.id);
        let work = self.shared.store.unclaim(grip, row, how, now_ms);
        self.submit(async move { Done::Unclaim(work.await) });
    }

    fn commit_steer(&mut self, request: RequestNo) {
        let now_ms = self.now_ms();
        let failed = Event::Committed(Committed::Failed(FailedOp::Steer(request)));
        let (input, client_id, admitted) = match self.requests.get(&request) {
            Some(Pending::Start { request, .. }) => (
                request.params.input.clone(),
                request.params.client_user_message_id.clone(),
                self.admits_start(&request.params),
            ),
            Some(Pending::Steer {
                input,
                client_id,
                caller,
                ..
            }) => (input.clone(), client_id.clone(), self.admits(*caller)),
            Some(Pending::Row { .. } | Pending::Interrupt { .. }) | None => return,
        };
        let reserved = if admitted {
            self.reserve_steer(input, client_id, now_ms)
        } else {
            Err(Error::Unconfined)
        };
        let (steer, grip, item) = match reserved {
            Ok(reserved) => reserved,
            Err(error) => {
                self.keep_result(request, Err(error));
                self.events.push_back(failed);
                return;
            }
        };
        if let Some(Pending::Start { steer: place, .. } | Pending::Steer { steer: place, .. }) =
            self.requests.get_mut(&request)
        {
            *place = Some(steer);
        }
        let work = self.shared.store.add_steer(grip, item);
        self.submit(async move { Done::Steer(request, work.await) });
        self.settings_of_steer(request);
    }

    /// Returns true if a caller may give the running turn more to do. Called when the steer is
    /// written: the request may have waited while another turn began.
    fn admits(&self, caller: CallerRights) -> bool {
        let running = self.running.as_ref();
        running.is_none_or(|running| running.rights.admits(caller))
    }

    /// The same for a start that becomes a steer; what it says about later turns counts as well.
    fn admits_start(&self, params: &TurnStartParams) -> bool {
        if !params.requires_sandbox() {
            return true;
        }
        let running = self.running.as_ref();
        let settings = running.map(|running| &running.accepted.thread.settings);
        let settings = settings.and_then(|settings| rows::read::<Settings>(settings).ok());
        let after = settings.and_then(|settings| settings.after(params).ok());
        self.admits(CallerRights::Confined)
            && after.is_none_or(|after| after.sandbox_policy.is_confined())
    }

    /// Takes a place for a steer and makes its item.
    fn reserve_steer(
        &mut self,
        input: Vec<UserInput>,
        client_id: Option<String>,
        now_ms: i64,
    ) -> Result<
        (
            turnlane_engine::AcceptedSteer,
            Grip,
            turnlane_store::turn::ItemRow,
        ),
        Error,
    > {
        let running = self.running.as_mut().ok_or(Error::NoTurnToSteer)?;
        let end = running.end.as_ref().ok_or(Error::NoTurnToSteer)?;
        let item_id = ids::new_item(now_ms);
        let place = end.steer.reserve(Steer::Input {
            input: input.clone(),
            item_id: item_id.clone(),
            client_id: client_id.clone(),
        });
        let steer = place.map_err(|refused| match refused {
            turnlane_engine::SteerRefused::Full => Error::Overloaded,
            turnlane_engine::SteerRefused::Gone => Error::NoTurnToSteer,
        })?;
        let item = accept::user_message(item_id.clone(), input, client_id, now_ms);
        let ord = running.item_ord();
        let row = running.item_row(ord, &item, now_ms);
        running.untold.insert(item_id, item);
        Ok((steer, running.accepted.grip, row))
    }

    /// A start that became a steer may still change the settings of later turns.
    fn settings_of_steer(&mut self, request: RequestNo) {
        let Some(Pending::Start { request: start, .. }) = self.requests.get(&request) else {
            return;
        };
        let Some(running) = &mut self.running else {
            return;
        };
        let Ok(settings) = rows::read::<Settings>(&running.accepted.thread.settings) else {
            return;
        };
        let Ok(after) = settings.after(&start.params) else {
            return;
        };
        if after == settings {
            return;
        }
        let stored = rows::write(&after);
        running.accepted.thread.settings = stored.clone();
        let change = ThreadChange {
            settings: Some(stored),
            cwd: Some(after.cwd.clone()),
            ..ThreadChange::of(self.thread, self.shared.clock.now_ms())
        };
        let work = self.shared.store.change_thread(change);
        let after = Box::new(after);
        self.submit(async move { Done::Settings(work.await.map(|_changed| after)) });
    }

    fn commit_append(&mut self, request: RequestNo) {
        let Some(Pending::Start { request: start, .. }) = self.requests.get(&request) else {
            return;
        };
        let row = match self.new_row(start) {
            Ok(row) => row,
            Err(error) => {
                self.keep_result(request, Err(error));
                let failed = Committed::Failed(FailedOp::Append(request));
                self.events.push_back(Event::Committed(failed));
                return;
            }
        };
        let work = self.shared.store.append(Append {
            thread: self.thread,
            row,
            key_window_ms: self.shared.dedupe_window_ms(),
            at_ms: self.now_ms(),
        });
        self.submit(async move { Done::Append(request, work.await) });
    }

    fn commit_release(&mut self) {
        let Some(lane) = &self.lane else {
            return;
        };
        if lane.owner != Some(self.shared.store.worker()) || lane.active.is_some() {
            return;
        }
        let grip = Grip {
            thread: self.thread,
            fence: lane.fence,
        };
        let work = self.shared.store.release(grip);
        self.submit(async move { Done::Release(work.await) });
    }

    /// Runs the turn that has begun, with the history that was read meanwhile.
    fn run_engine(&mut self) {
        let (Some(accepted), Some(history)) = (self.began.take(), self.history.take()) else {
            return;
        };
        let (sink, control, end) = turnlane_engine::channel(self.hooks_of_turn());
        let engine = self.shared.engines.get(&accepted.thread.engine).cloned();
        let mut request = request::from_accepted(&accepted, self.turn_kind);
        let timeout = request.as_ref().ok().and_then(|ready| ready.timeout);
        let timeout = timeout.or(self.shared.options.turn_timeout);
        let tools = request.as_mut().ok().and_then(|ready| {
            let (name, item) = (&accepted.thread.engine, ready.item.take());
            self.shared.tools.equip(&mut ready.request, name, item)
        });
        let request = request.map(|ready| ready.request);
        let model = request.as_ref().ok();
        let model = model.map(|request| request.settings.model.clone());
        let taken = Taken::of(&accepted);
        let place = self.place.as_mut();
        let preparation = place.and_then(RunningPlace::take_preparation);
        crash::point("engine:before-run");
        let task = tokio::spawn(async move {
            let past = history.finish(&taken).await;
            let prepared = match preparation {
                Some(preparation) => preparation.await,
                None => Ok(()),
            };
            match prepared {
                Ok(()) => request::run(engine, request, past, sink, control).await,
                Err(error) => turnlane_engine::end(TurnOutcome::cannot_start(error), sink).await,
            }
        });
        let mut running = RunningTurn::new(*accepted, Some(end), task.abort_handle());
        running.model = model.unwrap_or_default();
        running.tools = tools;
        if self.shared.options.turns == CallerRights::Confined {
            running.rights.caller = CallerRights::Confined;
        }
        running.timeout_at = timeout.map(|timeout| tokio::time::Instant::now() + timeout);
        self.running = Some(Box::new(running));
    }

    fn close_steer(&mut self, closing: Closing) {
        let reply = self
            .running
            .as_mut()
            .and_then(|running| running.close_steer.take());
        if let Some(reply) = reply {
            // An engine that has stopped asking needs no answer.
            let _ = reply.send(match closing {
                Closing::Closed => Answered::Closed,
                Closing::More => Answered::More,
            });
        }
    }

    fn cancel(&mut self, why: CancelWhy) {
        let by = self.requests.values().find_map(|pending| match pending {
            Pending::Interrupt { by, .. } => by.clone(),
            Pending::Start { .. } | Pending::Row { .. } | Pending::Steer { .. } => None,
        });
        let Some(running) = &mut self.running else {
            return;
        };
        running.cancelled = Some(why);
        running.stopped_by = by;
        crash::point("interrupt:before-cancel");
        if let Some(end) = &running.end {
            let reason = match why {
                CancelWhy::Interrupt => CancelReason::Interrupt,
                CancelWhy::Timeout => CancelReason::Timeout,
                CancelWhy::Shutdown => CancelReason::Shutdown,
            };
            if self.haste {
                end.cancel.cancel_within(reason, HASTY_GRACE);
            } else {
                end.cancel.cancel(reason);
            }
        }
    }

    /// Gives the engine up: whatever it says from now on is not heard.
    fn drop_engine(&mut self) {
        if let Some(running) = &mut self.running {
            running.task.abort();
            running.end = None;
            running.outcome.get_or_insert_with(TurnOutcome::interrupted);
        }
    }
}

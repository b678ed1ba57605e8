//! What Codex tells of its turn, as events of ours.
//!
//! The invariant here: only notifications of the running Codex turn become events. Late ones of other
//! turns are passed over; their totals are the base of the turn's usage. Codex's userMessage items are
//! left out, because the lane tells its own.

use turnlane_protocol::item::ItemBody;
use turnlane_protocol::notification::{DeltaKind, method};
use turnlane_rpc::Notification;

use super::shapes::{
    DiffNotice, ErrorNotice, HookNotice, InteractionNotice, ItemNotice, PieceNotice, PlanNotice,
    SummaryPartNotice, TurnName, WarningNotice, read,
};
use super::{Halt, Turn};
use crate::codex::errors::classified;
use crate::codex::usage::UsageUpdate;
use crate::event::{Event, HookPhase};

/// What a notification changes besides what it tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoticeEffect {
    None,
    /// The turn has failed; its end follows.
    LastError,
}

impl Turn {
    /// Tells what a notification says of the Codex turn `turn`.
    pub(super) async fn notice(
        &mut self,
        turn: Option<&str>,
        notice: &Notification,
    ) -> Result<NoticeEffect, Halt> {
        let name = read::<TurnName>(notice).and_then(|name| name.turn_id);
        if notice.method == method::THREAD_TOKEN_USAGE_UPDATED {
            self.usage(turn, notice).await?;
            return Ok(NoticeEffect::None);
        }
        // Warnings and hooks may name a thread alone.
        let may_lack_turn = matches!(
            notice.method.as_str(),
            method::WARNING | method::HOOK_STARTED | method::HOOK_COMPLETED
        );
        let is_ours = match &name {
            Some(name) => turn == Some(name.as_str()),
            None => may_lack_turn,
        };
        if !is_ours {
            return Ok(NoticeEffect::None);
        }
        if notice.method == method::ERROR {
            return self.failing(notice).await;
        }
        let events = self.events(notice);
        self.emit_all(events).await?;
        Ok(NoticeEffect::None)
    }

    fn events(&mut self, notice: &Notification) -> Vec<Event> {
        let event = match notice.method.as_str() {
            method::ITEM_STARTED => self.item_started(notice),
            method::ITEM_COMPLETED => return self.item_completed(notice),
            method::AGENT_MESSAGE_DELTA => self.piece(notice, |_| DeltaKind::AgentMessage),
            method::PLAN_DELTA => self.piece(notice, |_| DeltaKind::Plan),
            method::COMMAND_OUTPUT_DELTA => self.piece(notice, |_| DeltaKind::CommandOutput),
            method::REASONING_SUMMARY_TEXT_DELTA => self.piece(notice, |piece| {
                let summary_index = piece.summary_index;
                DeltaKind::ReasoningSummary { summary_index }
            }),
            method::REASONING_TEXT_DELTA => self.piece(notice, |piece| {
                let content_index = piece.content_index;
                DeltaKind::ReasoningText { content_index }
            }),
            method::REASONING_SUMMARY_PART_ADDED => {
                read::<SummaryPartNotice>(notice).map(|part| Event::SummaryPartAdded {
                    item_id: self.items.id(&part.item_id),
                    summary_index: part.summary_index,
                })
            }
            method::TERMINAL_INTERACTION => {
                read::<InteractionNotice>(notice).map(|typed| Event::TerminalInteraction {
                    item_id: self.items.id(&typed.item_id),
                    process_id: typed.process_id,
                    stdin: typed.stdin,
                })
            }
            method::TURN_PLAN_UPDATED => read::<PlanNotice>(notice).map(|plan| Event::Plan {
                explanation: plan.explanation,
                plan: plan.plan,
            }),
            method::TURN_DIFF_UPDATED => {
                read::<DiffNotice>(notice).map(|notice| Event::Diff(notice.diff))
            }
            method::WARNING => {
                read::<WarningNotice>(notice).map(|warning| Event::Warning(warning.message))
            }
            method::HOOK_STARTED => hook(notice, HookPhase::Started),
            method::HOOK_COMPLETED => hook(notice, HookPhase::Completed),
            _ => None,
        };
        event.into_iter().collect()
    }

    fn item_started(&mut self, notice: &Notification) -> Option<Event> {
        let ItemNotice { item } = read(notice)?;
        if matches!(item.body, ItemBody::UserMessage(_)) {
            return None;
        }
        let of_codex = item.id.clone();
        let event = self.items.start(item)?;
        let name = self.items.id(of_codex.as_str());
        let threads = &self.shared.threads;
        threads.note_item(self.request.thread_id, of_codex, name);
        Some(event)
    }

    fn item_completed(&mut self, notice: &Notification) -> Vec<Event> {
        match read::<ItemNotice>(notice) {
            Some(ItemNotice { item }) if !matches!(item.body, ItemBody::UserMessage(_)) => {
                self.items.complete(item)
            }
            _ => Vec::new(),
        }
    }

    fn piece(
        &mut self,
        notice: &Notification,
        kind: impl FnOnce(&PieceNotice) -> DeltaKind,
    ) -> Option<Event> {
        let piece = read::<PieceNotice>(notice)?;
        let kind = kind(&piece);
        self.items.grow(&piece.item_id, kind, piece.delta)
    }

    async fn usage(&mut self, turn: Option<&str>, notice: &Notification) -> Result<(), Halt> {
        let Some(update) = read::<UsageUpdate>(notice) else {
            return Ok(());
        };
        if turn != Some(update.turn_id.as_str()) {
            self.meter.note_base(&update);
            return Ok(());
        }
        match self.meter.note(&update) {
            Some(event) => Ok(self.emit(event).await?),
            None => Ok(()),
        }
    }

    async fn failing(&mut self, notice: &Notification) -> Result<NoticeEffect, Halt> {
        let Some(ErrorNotice { error, will_retry }) = read(notice) else {
            return Ok(NoticeEffect::None);
        };
        if will_retry {
            let error = classified(error, &self.limits);
            self.emit(Event::Retry(Box::new(error))).await?;
            return Ok(NoticeEffect::None);
        }
        self.error = Some(error);
        Ok(NoticeEffect::LastError)
    }
}

fn hook(notice: &Notification, phase: HookPhase) -> Option<Event> {
    let HookNotice { run } = read(notice)?;
    Some(Event::Hook { phase, run })
}

//! Leaves out of a request what its provider refuses.
//!
//! The invariant here: a field is left out once; a provider that refuses a request without it is
//! not asked again for that reason. What is learned counts for all later calls of that model.
//!
//! Which words of a refusal name a field is decided by the error table.

use std::collections::BTreeSet;

use super::ModelCall;
use crate::native::failure::{Learned, Learning, Omission};
use crate::native::history::Reasoning;
use crate::native::request::Fields;

/// What was left out of the body of a call.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    omissions: BTreeSet<Omission>,
}

impl LeftOut {
    /// Leaves out what was learned before.
    pub(super) fn learned(learned: &Learned, call: &mut ModelCall<'_>) -> Self {
        let omissions = learned.omissions(&call.provider.id, call.model);
        let left_out = Self { omissions };
        if !left_out.omissions.is_empty() {
            left_out.apply(call);
        }
        left_out
    }

    /// Leaves out what was refused now; none: that cannot help.
    pub(super) fn refused(
        &mut self,
        omission: Omission,
        learned: &Learned,
        call: &mut ModelCall<'_>,
    ) -> Option<Learning> {
        let is_gone = match omission {
            Omission::ReasoningEntries => call.body.reasoning() == Reasoning::LeftOut,
            field => call.fields.drop.iter().any(|name| name == field.name()),
        };
        // Another call may have learned it since this one was sent: then it is only left out.
        if is_gone || !self.omissions.insert(omission) {
            return None;
        }
        self.apply(call);
        Some(learned.learn(&call.provider.id, call.model, omission))
    }

    fn apply(&self, call: &mut ModelCall<'_>) {
        if self.omissions.contains(&Omission::ReasoningEntries) {
            call.body.leave_reasoning_out();
        }
        let names = self.omissions.iter().map(|field| field.name().to_owned());
        let drop: Vec<String> = call.fields.drop.iter().cloned().chain(names).collect();
        let fields = Fields {
            drop: &drop,
            ..*call.fields
        };
        let reasoning = call.body.reasoning();
        call.body.change(&fields, reasoning);
    }
}

/// What a person is told when a field is left out from now on.
pub(super) fn warning(call: &ModelCall<'_>, omission: Omission) -> String {
    let (provider, model, field) = (&call.provider.name, call.model, omission.name());
    format!("{provider} does not take `{field}` for {model}: it is left out from now on")
}

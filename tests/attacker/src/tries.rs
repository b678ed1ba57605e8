//! Verdicts, and how several attempts of one attack become one.

use crate::sys::{Answer, errno_name};

/// How much of a verdict is told.
const DETAIL_CHARS_MAX: usize = 200;

/// What came of an attack.
pub(crate) enum Verdict {
    Held(String),
    Broken(String),
    /// The machine lacks what the attack needs.
    Skipped(String),
}

impl Verdict {
    /// As one text, for a pipe.
    pub(crate) fn encode(&self) -> String {
        match self {
            Self::Held(detail) => format!("H{detail}"),
            Self::Broken(detail) => format!("B{detail}"),
            Self::Skipped(detail) => format!("S{detail}"),
        }
    }

    pub(crate) fn decode(text: &str) -> Self {
        match text.split_at_checked(1) {
            Some(("H", detail)) => Self::Held(detail.to_owned()),
            Some(("S", detail)) => Self::Skipped(detail.to_owned()),
            Some(("B", detail)) => Self::Broken(detail.to_owned()),
            _ => Self::Broken("unknown: the attack said nothing".to_owned()),
        }
    }
}

/// The attempts of one attack.
#[derive(Default)]
pub(crate) struct Tries {
    passed: Vec<String>,
    refused: Vec<i32>,
    skipped: Vec<String>,
}

impl Tries {
    /// Counts an attempt that must fail, with whatever error.
    pub(crate) fn must_fail(&mut self, what: impl Into<String>, answer: Answer) {
        match answer {
            Ok(_) => self.passed.push(what.into()),
            Err(errno) => self.refused.push(errno),
        }
    }

    /// Counts an attempt that must fail with one of these errors: another one means that the kernel
    /// looked at the arguments, behind the check that should have refused the call.
    pub(crate) fn must_fail_with(
        &mut self,
        what: impl Into<String>,
        answer: Answer,
        expected: &[i32],
    ) {
        match answer {
            Err(errno) if expected.contains(&errno) => self.refused.push(errno),
            Err(errno) => {
                let what: String = what.into();
                self.passed.push(format!("{what} ({})", errno_name(errno)));
            }
            Ok(_) => self.passed.push(what.into()),
        }
    }

    /// Counts an attempt by what it reached.
    pub(crate) fn must_not(&mut self, what: impl Into<String>, reached: bool) {
        if reached {
            self.passed.push(what.into());
        } else {
            self.refused.push(0);
        }
    }

    /// Names an attempt that cannot be made here.
    pub(crate) fn skip(&mut self, what: impl Into<String>) {
        self.skipped.push(what.into());
    }

    pub(crate) fn verdict(self) -> Verdict {
        if !self.passed.is_empty() {
            return Verdict::Broken(shortened(&self.passed.join(", ")));
        }
        if self.refused.is_empty() {
            return Verdict::Skipped(self.skipped.join(", "));
        }
        let mut errnos: Vec<String> = self
            .refused
            .iter()
            .map(|errno| errno_name(*errno))
            .collect();
        let count = errnos.len();
        errnos.sort();
        errnos.dedup();
        let mut detail = format!("{count} refused: {}", errnos.join(" "));
        if !self.skipped.is_empty() {
            detail.push_str(&format!("; not tried: {}", self.skipped.join(", ")));
        }
        Verdict::Held(shortened(&detail))
    }
}

/// The routes keep only so much of a command's output.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(DETAIL_CHARS_MAX) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text.to_owned(),
    }
}

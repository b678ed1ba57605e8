//! What a demo shows: short lines, each with the time since its start.
//!
//! The invariant here: every line is written whole and stays; there is nothing to redraw, so a pipe
//! reads what a terminal shows. Words of commands and agents cannot steer a terminal.

use std::time::Duration;

use turnlane_runtime::{Clock as _, SystemClock};

use super::Pace;
use crate::shown::text::{visible, wrapped};
use crate::shown::{Ink, Screen};

/// How long a chapter waits before it begins, so that the one before it can be read.
const CHAPTER: Duration = Duration::from_millis(500);

/// Before a line: the time, and a gap.
const MARGIN: usize = 9;

/// The screen of a demo.
#[derive(Debug)]
pub(super) struct View {
    screen: Screen,
    pace: Pace,
}

impl View {
    pub(super) fn new(screen: Screen, pace: Pace) -> Self {
        Self { screen, pace }
    }

    pub(super) fn paint(&self, ink: Ink, text: &str) -> String {
        self.screen.paint(ink, text)
    }

    /// Text without a time.
    pub(super) fn plain(&self, text: &str) -> anyhow::Result<()> {
        self.screen.print(text)
    }

    /// What comes next, in one line.
    pub(super) async fn chapter(&self, title: &str) -> anyhow::Result<()> {
        if self.pace == Pace::Readable {
            tokio::time::sleep(CHAPTER).await;
        }
        self.plain(&format!("\n{}\n", self.paint(Ink::Bold, title)))
    }

    /// One line, broken where the window is narrow, which begins so many steps further in.
    pub(super) fn line(&self, step: usize, ink: Ink, text: &str) -> anyhow::Result<()> {
        let since_ms = SystemClock
            .now_ms()
            .saturating_sub(self.screen.now_ms)
            .max(0);
        let time = format!("{:>3}.{:02}s", since_ms / 1_000, since_ms % 1_000 / 10);
        let time = self.paint(Ink::Dim, &time);
        let indent = "  ".repeat(step);
        let text = visible(text).replace(['\n', '\t'], " ");
        // A narrow window breaks a line and hides none of the story.
        let lines = match self.screen.width() {
            Some(width) => wrapped(&text, width.saturating_sub(MARGIN + indent.len())),
            None => vec![text],
        };
        let below = " ".repeat(MARGIN);
        let lines = lines.iter().enumerate().map(|(at, line)| {
            let margin = if at == 0 {
                format!("{time}  ")
            } else {
                below.clone()
            };
            format!("{margin}{indent}{}\n", self.paint(ink, line))
        });
        self.plain(&lines.collect::<String>())
    }
}

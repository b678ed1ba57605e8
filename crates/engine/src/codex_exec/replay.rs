//! The reader of the engine without a process: bytes of `codex exec --json` in, a count of events out.
//!
//! It runs the same code over the bytes as a turn does, from the split into lines to the items of the
//! protocol. `bench/engines` measures its speed. What a turn does with the events is left out.

use super::lines::LineSplitter;
use super::transcript::Transcript;

/// Reads the standard output of one `codex exec --json` process, in pieces.
#[derive(Debug)]
pub struct Replay {
    transcript: Transcript,
    splitter: LineSplitter,
    events: usize,
}

impl Replay {
    /// A reader of a new thread's first turn.
    pub fn new() -> Self {
        Self {
            transcript: Transcript::new("turn".to_owned(), "/".to_owned(), None),
            splitter: LineSplitter::default(),
            events: 0,
        }
    }

    /// Reads the next bytes. The events are built, counted and dropped.
    pub fn push(&mut self, bytes: &[u8]) {
        let (transcript, mut steps) = (&mut self.transcript, Vec::new());
        self.splitter
            .push(bytes, |line| transcript.read_line(line, 0, &mut steps));
        self.events += steps.len();
    }

    /// Reads a last line without a newline and ends the items that are open; returns the number of
    /// events in the whole stream.
    pub fn finish(mut self) -> usize {
        let (transcript, mut steps) = (&mut self.transcript, Vec::new());
        self.splitter
            .finish(|line| transcript.read_line(line, 0, &mut steps));
        transcript.close_items(0, &mut steps);
        self.events + steps.len()
    }
}

impl Default for Replay {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_in_pieces_has_all_its_events() {
        let stream = concat!(
            r#"{"type":"thread.started","thread_id":"01a1e099-a4bd-7e00-8ac9-0161f278d518"}"#,
            "\n",
            r#"{"type":"turn.started"}"#,
            "\n",
            r#"{"type":"item.started","item":{"id":"item_0","type":"command_execution","command":"ls"}}"#,
            "\n",
            r#"{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"hi"}}"#,
        );
        let mut replay = Replay::new();
        for piece in stream.as_bytes().chunks(7) {
            replay.push(piece);
        }
        // Thread, turn, two items that start, and two that end.
        assert_eq!(replay.finish(), 6);
    }
}

//! Redirections, and the documents that stand in the script itself.
//!
//! The invariant here: a redirection is never taken for an argument, and the body of a here-document
//! never for commands, unless the shell would run what is substituted in it.
//!
//! Whether a program runs what it is given to read is the business of `danger`.

use super::{Draft, Form, Reader, Shape};

/// The operators, longer ones before those they begin with.
const OPERATORS: [&str; 13] = [
    "&>>", "&>", "<<<", "<<-", "<<", "<>", "<&", "<", ">>", ">|", ">&", ">", "",
];

impl Reader<'_> {
    pub(super) fn redirection(&mut self, draft: &mut Draft) {
        draft.start.get_or_insert(self.at);
        if self.eat("<(") || self.eat(">(") {
            self.is_at_least(Shape::Complex);
            draft.words.push("$".to_owned());
            return self.deeper(|reader| reader.list(Some(')')));
        }
        let found = OPERATORS.iter().find(|operator| self.eat(operator));
        let operator = found.copied().unwrap_or_default();
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.bump();
        }
        let start = self.at;
        let word = self.word();
        match operator {
            "<<" | "<<-" => {
                self.is_at_least(Shape::Complex);
                let written = self.text.get(start..self.at).unwrap_or_default();
                let is_quoted = written.contains(['\'', '"', '\\']);
                let body = self.body(&word, operator);
                if !is_quoted {
                    self.inner(&body, Form::Quoted);
                }
                draft.here = Some(body);
            }
            "<<<" => {
                self.is_at_least(Shape::Complex);
                draft.here = Some(word);
            }
            // Output that nobody looks at, and one stream into another.
            ">" | ">>" | "&>" if word == "/dev/null" => {}
            ">&" if word.bytes().all(|byte| byte.is_ascii_digit()) && !word.is_empty() => {}
            _ => self.is_at_least(Shape::Complex),
        }
    }

    /// The lines from the next one, or from the end of the body before, up to the tag.
    fn body(&mut self, tag: &str, operator: &str) -> String {
        let next_line = || self.rest().find('\n').map(|end| self.at + end + 1);
        let start = self.here_end.or_else(next_line);
        let start = start.unwrap_or(self.text.len());
        let mut body = String::new();
        let mut end = start;
        for line in self
            .text
            .get(start..)
            .unwrap_or_default()
            .split_inclusive('\n')
        {
            end += line.len();
            let line = match operator {
                "<<-" => line.trim_start_matches('\t'),
                _ => line,
            };
            if line.trim_end_matches(['\n', '\r']) == tag {
                break;
            }
            body.push_str(line);
        }
        self.here_end = Some(end);
        body
    }
}

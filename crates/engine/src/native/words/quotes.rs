//! Words: quotes, escapes and what stands behind a dollar sign.
//!
//! The invariant here: every call steps over at least one letter, so reading ends; scripts inside of
//! words are read like others, one level deeper.
//!
//! Where words end commands is the business of the parent.

use super::{Form, Reader, Shape};

impl Reader<'_> {
    /// One word, up to a blank or an operator.
    pub(super) fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(letter) = self.peek() {
            match letter {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '\\' => {
                    self.bump();
                    word.extend(self.bump().filter(|letter| *letter != '\n'));
                }
                '\'' => self.single(&mut word),
                '"' => self.double(&mut word),
                '`' => self.backticks(&mut word),
                '$' => self.dollar(&mut word),
                _ => word.extend(self.bump()),
            }
        }
        word
    }

    fn single(&mut self, word: &mut String) {
        self.bump();
        let rest = self.rest();
        let end = rest.find('\'').unwrap_or_else(|| {
            self.found.shape = self.found.shape.max(Shape::Complex);
            rest.len()
        });
        word.push_str(&rest[..end]);
        self.at = (self.at + end + 1).min(self.text.len());
    }

    fn double(&mut self, word: &mut String) {
        self.bump();
        loop {
            match self.peek() {
                None => return self.is_at_least(Shape::Complex),
                Some('"') => {
                    self.bump();
                    return;
                }
                Some(_) => self.quoted_letter(word),
            }
        }
    }

    /// One letter between double quotes, or in a here-document.
    fn quoted_letter(&mut self, word: &mut String) {
        match self.peek() {
            Some('\\') => {
                self.bump();
                match self.bump() {
                    Some('\n') => {}
                    Some(letter @ ('$' | '`' | '"' | '\\')) => word.push(letter),
                    other => {
                        word.push('\\');
                        word.extend(other);
                    }
                }
            }
            Some('`') => self.backticks(word),
            Some('$') => self.dollar(word),
            _ => word.extend(self.bump()),
        }
    }

    /// The whole text as if it stood between double quotes.
    pub(super) fn expanded(&mut self) {
        let mut text = String::new();
        while self.peek().is_some() {
            self.quoted_letter(&mut text);
        }
    }

    fn backticks(&mut self, word: &mut String) {
        self.bump();
        self.is_at_least(Shape::Complex);
        let mut script = String::new();
        while let Some(letter) = self.bump() {
            match letter {
                '`' => break,
                '\\' => {
                    let next = self.bump();
                    if !matches!(next, Some('`' | '\\' | '$')) {
                        script.push('\\');
                    }
                    script.extend(next);
                }
                _ => script.push(letter),
            }
        }
        word.push('$');
        self.inner(&script, Form::Script);
    }

    fn dollar(&mut self, word: &mut String) {
        self.bump();
        match self.peek() {
            Some('(') => {
                self.bump();
                self.is_at_least(Shape::Complex);
                word.push('$');
                self.deeper(|reader| reader.list(Some(')')));
            }
            Some('{') => {
                self.bump();
                self.is_at_least(Shape::Complex);
                word.push('$');
                self.deeper(Self::braces);
            }
            Some('\'') => self.escapes(word),
            Some('"') => {}
            next => {
                if next
                    .is_some_and(|letter| letter.is_alphanumeric() || "_@*#?$!-".contains(letter))
                {
                    self.is_at_least(Shape::Complex);
                }
                word.push('$');
            }
        }
    }

    /// What stands in `${…}`; its words are not kept, its substitutions are.
    fn braces(&mut self) {
        let mut inside = String::new();
        while let Some(letter) = self.peek() {
            match letter {
                '}' => {
                    self.bump();
                    return;
                }
                '\'' => self.single(&mut inside),
                '"' => self.double(&mut inside),
                _ => self.quoted_letter(&mut inside),
            }
        }
    }

    /// `$'…'` with the escapes of C.
    fn escapes(&mut self, word: &mut String) {
        self.bump();
        while let Some(letter) = self.bump() {
            match letter {
                '\'' => return,
                '\\' => match self.bump() {
                    Some('n') => word.push('\n'),
                    Some('t') => word.push('\t'),
                    Some('r') => word.push('\r'),
                    Some('x') => self.number(word, 16, 2),
                    Some('u') => self.number(word, 16, 4),
                    Some('U') => self.number(word, 16, 8),
                    Some(digit @ '0'..='7') => {
                        self.at -= digit.len_utf8();
                        self.number(word, 8, 3);
                    }
                    other => word.extend(other),
                },
                _ => word.push(letter),
            }
        }
        self.is_at_least(Shape::Complex);
    }

    fn number(&mut self, word: &mut String, radix: u32, digits_max: usize) {
        let mut value = 0;
        for _ in 0..digits_max {
            let Some(digit) = self.peek().and_then(|letter| letter.to_digit(radix)) else {
                break;
            };
            value = value * radix + digit;
            self.bump();
        }
        word.extend(char::from_u32(value));
    }
}

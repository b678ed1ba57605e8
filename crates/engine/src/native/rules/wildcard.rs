//! Words that a shell expands before it runs them: variables, globs, braces.
//!
//! The invariant here: a word may match more than a shell would make of it, never less. It is used
//! for decisions that narrow rights only.

/// A word with parts that are not known.
#[derive(Debug)]
pub(super) struct Wildcard {
    /// Two readings of the word: `*` is any text and `?` any letter.
    patterns: [String; 2],
}

impl Wildcard {
    /// None for a word that means itself.
    pub(super) fn of(word: &str) -> Option<Self> {
        if !word.contains(['$', '*', '?', '[', '{']) {
            return None;
        }
        let patterns = [Name::IsText, Name::IsDropped].map(|name| pattern(word, name));
        Some(Self { patterns })
    }

    /// The same for a program, whose directory does not matter.
    pub(super) fn of_program(word: &str) -> Option<Self> {
        let Self { patterns } = Self::of(word)?;
        let patterns = patterns.map(|pattern| super::base_name(&pattern).to_owned());
        Some(Self { patterns })
    }

    /// Whether nothing of the word is known, so that it may become any number of words.
    pub(super) fn is_anything(&self) -> bool {
        self.patterns.iter().any(|pattern| is_blank(pattern))
    }

    /// Whether the known part of the word fits.
    pub(super) fn matches(&self, word: &str) -> bool {
        let mut patterns = self.patterns.iter();
        patterns.any(|pattern| !is_blank(pattern) && glob(pattern, word))
    }
}

fn is_blank(pattern: &str) -> bool {
    pattern.chars().all(|letter| matches!(letter, '*' | '?'))
}

/// The meaning of letters behind a `$`: `words` writes both `${x}name` and `$name` as `$name`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    IsText,
    IsDropped,
}

fn pattern(word: &str, name: Name) -> String {
    let mut pattern = String::new();
    let mut letters = word.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '$' => {
                pattern.push('*');
                let is_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
                while name == Name::IsDropped && letters.next_if(is_name).is_some() {}
            }
            '{' => {
                pattern.push('*');
                if letters.clone().any(|c| c == '}') {
                    letters.by_ref().find(|c| *c == '}');
                }
            }
            '[' if letters.clone().any(|c| c == ']') => {
                pattern.push('?');
                letters.by_ref().find(|c| *c == ']');
            }
            other => pattern.push(other),
        }
    }
    pattern
}

/// Compares a text with a pattern in time that grows with the product of their lengths.
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(letter) if *letter == '?' || *letter == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    p = at + 1;
                    t = from + 1;
                    star = Some((at, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p.min(pattern.len())..]
        .iter()
        .all(|letter| *letter == '*')
}

/// A path without empty and `.` parts, which a shell does not tell apart from the shorter one.
pub(super) fn tidy(path: &str) -> String {
    if !path.contains('/') {
        return path.to_owned();
    }
    let parts = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".");
    let joined = parts.collect::<Vec<_>>().join("/");
    if path.starts_with('/') {
        format!("/{joined}")
    } else {
        format!("./{joined}")
    }
}

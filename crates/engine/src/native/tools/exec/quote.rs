//! A command line in one text.
//!
//! The invariant here: a shell that reads the text gets the words back. A word that needs no quotes
//! has none, one that does has single ones, and only one with a quote in it looks different; so
//! Codex 0.166 writes them too.
//!
//! The other direction, from a line to words, is in [`words`](crate::native::words).

/// Words as one line for a shell.
pub(super) fn quoted<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().map(word).collect();
    words.join(" ")
}

fn word(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "+-./:@]_,%=".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if !word.contains('\'') {
        return format!("'{word}'");
    }
    if !word.contains(['$', '`', '!', '^', '"', '\\']) {
        return format!("\"{word}\"");
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_like_codex_writes_it() {
        let line = |cmd| quoted(["/bin/bash", "-lc", cmd]);
        assert_eq!(line("pwd"), "/bin/bash -lc pwd");
        assert_eq!(line("exit 3"), "/bin/bash -lc 'exit 3'");
        assert_eq!(line("echo \"$X\""), "/bin/bash -lc 'echo \"$X\"'");
        assert_eq!(line("echo 'a b'"), "/bin/bash -lc \"echo 'a b'\"");
        assert_eq!(line("echo '$a'"), r"/bin/bash -lc 'echo '\''$a'\'''");
        assert_eq!(line(""), "/bin/bash -lc ''");
    }
}

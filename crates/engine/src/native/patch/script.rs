//! Patches that models send as shell commands.
//!
//! The invariant here: a script is taken as a patch only if it is nothing else. Whatever stands
//! before or behind, and every word a shell would expand, makes it an ordinary command.
//!
//! No shell is imitated beyond that, and nothing is run or applied here.

/// The answer to a patch that was sent as a command by itself.
pub const BARE_PATCH: &str =
    "this is a patch, not a command: call the tool apply_patch with it as `input`";

/// What a script turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Script {
    /// A patch to be applied.
    Patch {
        /// The folder of a leading `cd`; it starts at the command's own folder.
        cd: Option<String>,
        /// The patch's text.
        text: String,
    },
    /// A patch without the command that applies it; see [`BARE_PATCH`].
    Bare,
    /// Something for a shell.
    Command,
}

/// Tells a patch from a command.
pub fn recognise(script: &str) -> Script {
    let script = script.trim();
    if script
        .lines()
        .next()
        .is_some_and(|line| line.trim() == "*** Begin Patch")
    {
        return Script::Bare;
    }
    let (cd, rest) = match leading_cd(script) {
        Some((folder, rest)) => (Some(folder), rest),
        None => (None, script),
    };
    let text = patch_call(rest);
    text.map_or(Script::Command, |text| Script::Patch { cd, text })
}

fn leading_cd(script: &str) -> Option<(String, &str)> {
    let rest = blank(script.strip_prefix("cd")?)?;
    let (folder, rest) = word(rest)?;
    let rest = rest.trim_start_matches([' ', '\t']).strip_prefix("&&")?;
    Some((folder, rest.trim_start()))
}

/// One word that means itself.
fn word(text: &str) -> Option<(String, &str)> {
    for quote in ['\'', '"'] {
        let Some(quoted) = text.strip_prefix(quote) else {
            continue;
        };
        let (inner, rest) = quoted.split_once(quote)?;
        let expanded = quote == '"' && inner.contains(['$', '`', '\\', '!']);
        let plain = !expanded && !inner.is_empty() && !inner.starts_with('-');
        // Behind the quote the same word may go on.
        let ended = rest.starts_with([' ', '\t', '&']);
        return (plain && ended).then(|| (inner.to_owned(), rest));
    }
    let end = text.find(|letter: char| letter.is_whitespace() || letter == '&')?;
    let (bare, rest) = text.split_at(end);
    let special = |letter: char| "$`\\'\"*?[]{}()<>|;#~!=^".contains(letter);
    let plain = !bare.is_empty() && !bare.starts_with('-') && !bare.contains(special);
    plain.then(|| (bare.to_owned(), rest))
}

fn patch_call(text: &str) -> Option<String> {
    let rest = text
        .strip_prefix("apply_patch")
        .or_else(|| text.strip_prefix("applypatch"))?;
    if let Some(here) = rest.trim_start_matches([' ', '\t']).strip_prefix("<<") {
        return heredoc(here);
    }
    let quoted = blank(rest)?.strip_prefix('\'')?.strip_suffix('\'')?;
    (!quoted.contains('\'')).then(|| quoted.to_owned())
}

/// The body of a here-document that nothing follows.
fn heredoc(text: &str) -> Option<String> {
    let (tag, body) = text.split_once('\n')?;
    let tag = tag.trim_matches([' ', '\t', '\r']);
    let quoted = ['\'', '"'].iter().find_map(|quote| {
        tag.strip_prefix(*quote)
            .and_then(|tag| tag.strip_suffix(*quote))
    });
    let tag = quoted.unwrap_or(tag);
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    if tag.is_empty() || !tag.chars().all(is_name) {
        return None;
    }
    let mut lines = body
        .split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line));
    let inner: Vec<&str> = lines.by_ref().take_while(|line| *line != tag).collect();
    // `take_while` took the tag; without it the here-document is open and all lines are inner.
    let closed = inner.len() < body.split('\n').count();
    (closed && lines.next().is_none()).then(|| inner.join("\n"))
}

/// The text behind at least one blank.
fn blank(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches([' ', '\t']);
    (rest.len() < text.len()).then_some(rest)
}

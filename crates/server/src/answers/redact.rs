//! Takes secrets out of a configuration before it is shown.
//!
//! The invariant here: what may be a secret by its name, or lies below such a name, is replaced, and
//! no address keeps its user, password or query. Too much is replaced rather than too little; names
//! of variables and files are no secrets, and numbers are limits.
//!
//! What of the configuration is shown at all is decided by the caller.

use serde_json::{Map, Value};

/// What stands in place of a secret.
pub(super) const REDACTED: &str = "[redacted]";

/// Words of a name that make its value a secret.
const SECRET_WORDS: [&str; 13] = [
    "apikey",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "credentials",
    "key",
    "keys",
    "passphrase",
    "password",
    "secret",
    "token",
    "tokens",
];

/// Last words of a name whose value only says where a secret is.
const POINTER_WORDS: [&str; 8] = [
    "dir",
    "file",
    "instructions",
    "limit",
    "path",
    "store",
    "url",
    "var",
];

/// Tables whose values may be secrets whatever their names are.
const SECRET_TABLES: [&str; 5] = ["env", "headers", "http_headers", "query_params", "set"];

/// Takes the secrets out of a table.
pub(super) fn table(table: &mut Map<String, Value>) {
    for (name, value) in table {
        if is_secret(name) || SECRET_TABLES.contains(&name.as_str()) {
            hide(value);
        } else {
            look(value);
        }
    }
}

fn look(value: &mut Value) {
    match value {
        Value::Object(members) => table(members),
        Value::Array(parts) => parts.iter_mut().for_each(look),
        Value::String(text) => {
            if let Some(shown) = without_user(text) {
                *text = shown;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Replaces every text below.
fn hide(value: &mut Value) {
    match value {
        Value::Object(members) => members.values_mut().for_each(hide),
        Value::Array(parts) => parts.iter_mut().for_each(hide),
        Value::String(text) if text.is_empty() => {}
        Value::String(text) => REDACTED.clone_into(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_secret(name: &str) -> bool {
    let words = words(name);
    let points = |word: &String| POINTER_WORDS.contains(&word.as_str());
    // `env_key` names a variable, as everything that ends with `_env_var` does.
    let is_pointer = words.last().is_some_and(points) || words == ["env", "key"];
    !is_pointer
        && words
            .iter()
            .any(|word| SECRET_WORDS.contains(&word.as_str()))
}

/// The words of a name in any of the usual spellings, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before_is_lower = false;
    for letter in name.chars() {
        let begins = !letter.is_alphanumeric() || (letter.is_uppercase() && before_is_lower);
        if begins {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut()
            && letter.is_alphanumeric()
        {
            word.extend(letter.to_lowercase());
        }
        before_is_lower = letter.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// An address without user, password, query and fragment; none when it has none of them.
fn without_user(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let kept = rest.find(['?', '#']).map_or(rest, |end| &rest[..end]);
    let host_end = kept.find('/').unwrap_or(kept.len());
    let (host, path) = kept.split_at(host_end);
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let shown = format!("{scheme}://{host}{path}");
    (shown != text).then_some(shown)
}

//! Keys laid over keys.
//!
//! The invariant here: what is laid over wins leaf by leaf; a table below keeps the members that
//! nobody named. A key with dots names a leaf deep inside, as on a command line.

use serde_json::{Map, Value};

/// `below` with the keys of `above` laid over it.
pub(crate) fn laid_over(
    below: &Map<String, Value>,
    above: &Map<String, Value>,
) -> Map<String, Value> {
    let mut joined = below.clone();
    for (key, value) in above {
        lay(&mut joined, &path(key), value);
    }
    joined
}

fn lay(table: &mut Map<String, Value>, path: &[String], value: &Value) {
    let Some((name, inner)) = path.split_first() else {
        return;
    };
    if inner.is_empty() {
        match (table.get_mut(name), value) {
            (Some(Value::Object(below)), Value::Object(above)) => {
                // Names inside a table are names, dots or not.
                for (name, value) in above {
                    lay(below, std::slice::from_ref(name), value);
                }
            }
            _ => {
                table.insert(name.clone(), value.clone());
            }
        }
        return;
    }
    let below = table.entry(name.as_str()).or_insert(Value::Null);
    if !below.is_object() {
        *below = Value::Object(Map::new());
    }
    if let Value::Object(below) = below {
        lay(below, inner, value);
    }
}

/// The names in a key; quotes keep dots together.
fn path(key: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut quote = None;
    for char in key.chars() {
        match (quote, char) {
            (Some(open), _) if open == char => quote = None,
            (None, '"' | '\'') => quote = Some(char),
            (None, '.') => names.push(String::new()),
            (_, _) => names
                .last_mut()
                .into_iter()
                .for_each(|name| name.push(char)),
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn leaves_win_and_neighbours_stay() {
        let below = map(&json!({
            "model": "a", "model_providers": {"x": {"base_url": "u", "name": "X"}}, "flat": 1,
        }));
        let above = map(&json!({
            "model": "b",
            "model_providers.x.base_url": "v",
            "model_providers": {"y": {"base_url": "w"}},
            "projects.\"/a.b\".trust_level": "untrusted",
            "flat.inner": 2,
        }));
        let expected = json!({
            "model": "b",
            "model_providers": {"x": {"base_url": "v", "name": "X"}, "y": {"base_url": "w"}},
            "projects": {"/a.b": {"trust_level": "untrusted"}},
            "flat": {"inner": 2},
        });
        assert_eq!(Value::Object(laid_over(&below, &above)), expected);
    }
}

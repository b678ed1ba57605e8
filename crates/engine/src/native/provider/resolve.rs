//! A provider with its keys: what a turn needs to send requests.
//!
//! The invariant here: every value that came from the environment, and every header and query
//! value, is a [`Secret`]; what is left can be logged.
//!
//! Headers that are the same for all providers, and those new with every try, are the client's.

use std::fmt::Write as _;

use super::super::redact::Redactor;
use super::read::header_value;
use super::{BaseUrl, Environment, Error, Limits, Provider, Secret};

/// Headers whose values are keys wherever they stand.
const KEY_HEADERS: [&str; 5] = [
    "authorization",
    "proxy-authorization",
    "api-key",
    "x-api-key",
    "cookie",
];

/// A header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its name, in lower case.
    pub name: String,
    /// Its value, which can be sent as it is.
    pub value: Secret,
}

/// A pair that is added to the address of every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryParam {
    /// The name, not yet encoded.
    pub name: String,
    /// The value, not yet encoded.
    pub value: Secret,
}

/// A provider with its keys, for one turn.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// Its key in `model_providers`.
    pub id: String,
    /// Its name for messages.
    pub name: String,
    /// Where its requests go, without `/responses`.
    pub base_url: BaseUrl,
    /// The headers of this provider; no name stands twice.
    pub headers: Vec<Header>,
    /// What is added to every address.
    pub query: Vec<QueryParam>,
    /// How often and how long it is tried.
    pub limits: Limits,
    /// What a person should know, once per process; see [`Warned`](super::Warned).
    pub warnings: Vec<String>,
    /// The variables whose values are keys; they are kept from children.
    pub key_variables: Vec<String>,
    /// Takes the keys of this provider, and those of `keys.env`, out of texts.
    pub redactor: Redactor,
}

impl Resolved {
    /// The address of requests as it may be logged.
    pub fn endpoint(&self) -> String {
        format!("{}/responses", self.base_url)
    }

    /// The address of requests with the query.
    pub fn url(&self) -> Secret {
        let mut url = self.endpoint();
        for (nth, pair) in self.query.iter().enumerate() {
            url.push(if nth == 0 { '?' } else { '&' });
            encode(&pair.name, &mut url);
            url.push('=');
            encode(pair.value.expose(), &mut url);
        }
        Secret::new(url)
    }
}

impl Provider {
    /// Adds the keys; called once per turn, so that a changed one counts from the next turn on.
    ///
    /// Fails before any request when the key is missing.
    pub fn resolve(&self, environment: &Environment<'_>) -> Result<Resolved, Error> {
        let mut headers = self.http_headers.clone();
        let mut keys: Vec<Secret> = Vec::new();
        let mut warnings = self.config_warnings();
        for header in &self.http_headers {
            if KEY_HEADERS.contains(&header.name.as_str()) {
                keys.push(header.value.clone());
            }
        }
        for header in &self.env_http_headers {
            let Some(value) = environment.get(&header.variable) else {
                continue;
            };
            sendable(&value, &header.variable)?;
            keys.push(value.clone());
            replace(&mut headers, &header.name, value);
        }
        if let Some(key) = self.key(environment)? {
            let bearer = Secret::new(format!("Bearer {}", key.expose()));
            keys.push(key);
            replace(&mut headers, "authorization", bearer);
        }
        if !keys.is_empty() && self.base_url.is_open() {
            let url = &self.base_url;
            warnings.push(format!(
                "model_providers.{}.base_url: the key is sent unencrypted to {url}; use https",
                self.id
            ));
        }
        let mut key_variables = self.key_variables.clone();
        key_variables.extend(self.env_http_headers.iter().map(|h| h.variable.clone()));
        key_variables.extend(environment.keys.names().map(str::to_owned));
        key_variables.sort();
        key_variables.dedup();
        let in_query = self
            .query_params
            .iter()
            .filter(|pair| is_key_param(&pair.name));
        let values = keys
            .iter()
            .chain(in_query.map(|pair| &pair.value))
            .flat_map(|key| [key.expose(), without_scheme(key.expose())]);
        Ok(Resolved {
            id: self.id.clone(),
            name: self.name.clone(),
            base_url: self.base_url.clone(),
            headers,
            query: self.query_params.clone(),
            limits: self.limits,
            warnings,
            key_variables,
            redactor: Redactor::new(values.chain(environment.keys.values())),
        })
    }

    /// The key; none: the provider needs none.
    fn key(&self, environment: &Environment<'_>) -> Result<Option<Secret>, Error> {
        for variable in &self.key_variables {
            if let Some(key) = environment.get(variable) {
                sendable(&key, variable)?;
                return Ok(Some(key));
            }
        }
        match self.key_variables.last() {
            Some(variable) => Err(Error::MissingKey {
                variable: variable.clone(),
                instructions: self.env_key_instructions.clone(),
            }),
            None => Ok(self.bearer_token.clone()),
        }
    }

    fn config_warnings(&self) -> Vec<String> {
        let id = &self.id;
        let mut warnings = Vec::new();
        if self.bearer_token.is_some() {
            warnings.push(format!(
                "model_providers.{id}.experimental_bearer_token: a key in a configuration file is \
                 easily shared by accident; use env_key"
            ));
        }
        for header in &self.http_headers {
            if KEY_HEADERS.contains(&header.name.as_str()) {
                warnings.push(format!(
                    "model_providers.{id}.http_headers.{}: a key in a configuration file is easily \
                     shared by accident; use env_http_headers",
                    header.name
                ));
            }
        }
        warnings
    }
}

fn sendable(value: &Secret, variable: &str) -> Result<(), Error> {
    let variable = variable.to_owned();
    header_value(value.expose())
        .map(|_| ())
        .ok_or(Error::UnusableKey { variable })
}

/// The last word on a header wins: the environment's over a literal one, the key's over both.
fn replace(headers: &mut Vec<Header>, name: &str, value: Secret) {
    headers.retain(|header| header.name != name);
    headers.push(Header {
        name: name.to_owned(),
        value,
    });
}

/// The key within `Bearer <key>`, which texts may hold without the first word.
fn without_scheme(value: &str) -> &str {
    value.split_once(' ').map_or(value, |(_, key)| key)
}

/// Whether a query value is a key: versions and regions stand there as well.
fn is_key_param(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["key", "token", "secret", "signature", "password"]
        .iter()
        .any(|word| name.contains(word))
}

fn encode(text: &str, url: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(url, "%{byte:02X}");
        }
    }
}

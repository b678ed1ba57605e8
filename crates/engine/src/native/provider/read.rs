//! From the tables of the configuration to a [`Provider`].
//!
//! The invariant here: every complaint names the key with everything above it and never repeats
//! the value. Only the provider that is asked for is read, so a broken neighbour harms nobody.
//!
//! Which file wins over which is decided before; here are the joined tables.

use std::collections::BTreeSet;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::keys::is_variable;
use super::{
    BaseUrl, EnvHeader, Error, Header, Limits, Provider, QueryParam, ReasoningReplay, Secret,
};

/// More tries than these are not made, whatever is configured.
const RETRIES_MAX: u64 = 100;
/// A shorter silence than this is not counted as one.
const IDLE_MS_MIN: u64 = 1000;

impl Provider {
    /// Reads a provider from the joined configuration.
    ///
    /// `config` has `model_providers` and `openai_base_url`; `native` is the table of that name,
    /// which has `providers`. Keys of a built-in provider replace its own one by one.
    pub fn read(
        id: &str,
        config: &Map<String, Value>,
        native: &Map<String, Value>,
    ) -> Result<Self, Error> {
        let shared = Table::find(config, "model_providers", id)?;
        let own = Table::find(native, "providers", id)?.under("native.");
        let mut provider = match built_in(id, config)? {
            Some(provider) => provider,
            None if shared.is_none() => return Err(Error::NotFound { id: id.to_owned() }),
            None => {
                let base_url = shared.base_url("base_url")?;
                let base_url = base_url.ok_or_else(|| shared.wrong("base_url", "is missing"))?;
                blank(id, base_url)
            }
        };
        provider.take_shared(&shared)?;
        provider.take_own(&own)?;
        Ok(provider)
    }

    fn take_shared(&mut self, table: &Table<'_>) -> Result<(), Error> {
        for key in ["auth", "aws"] {
            if table.get(key).is_some() {
                return Err(table.unsupported(key));
            }
        }
        if table.flag("requires_openai_auth")? == Some(true) {
            return Err(table.unsupported("requires_openai_auth"));
        }
        match table.text("wire_api")? {
            None | Some("responses") => {}
            Some("chat") => {
                let problem = "`chat` is not supported; set `responses`";
                return Err(table.wrong("wire_api", problem));
            }
            Some(_) => return Err(table.wrong("wire_api", "must be `responses`")),
        }
        if let Some(name) = table.text("name")? {
            name.clone_into(&mut self.name);
        }
        if let Some(url) = table.base_url("base_url")? {
            self.base_url = url;
        }
        if let Some(token) = table.text("experimental_bearer_token")? {
            header_value(token)
                .ok_or_else(|| table.wrong("experimental_bearer_token", NOT_A_HEADER))?;
            self.bearer_token = Some(Secret::new(token.trim()));
            // A key of the configuration takes the place of the built-in variables.
            self.key_variables.clear();
        }
        if let Some(variable) = table.text("env_key")? {
            if !is_variable(variable) {
                return Err(table.wrong("env_key", "is not the name of a variable"));
            }
            self.key_variables = vec![variable.to_owned()];
        }
        if let Some(text) = table.text("env_key_instructions")? {
            self.env_key_instructions = Some(text.to_owned());
        }
        for (name, value) in table.texts("http_headers")? {
            let key = format!("http_headers.{name}");
            let name = header_name(name).ok_or_else(|| table.wrong(&key, NOT_A_NAME))?;
            header_value(value).ok_or_else(|| table.wrong(&key, NOT_A_HEADER))?;
            let value = Secret::new(value.trim());
            self.http_headers.push(Header { name, value });
        }
        for (name, variable) in table.texts("env_http_headers")? {
            let key = format!("env_http_headers.{name}");
            let name = header_name(name).ok_or_else(|| table.wrong(&key, NOT_A_NAME))?;
            if !is_variable(variable) {
                return Err(table.wrong(&key, "is not the name of a variable"));
            }
            let variable = variable.to_owned();
            self.env_http_headers.push(EnvHeader { name, variable });
        }
        for (name, value) in table.texts("query_params")? {
            self.query_params.push(QueryParam {
                name: name.to_owned(),
                value: Secret::new(value),
            });
        }
        let limits = &mut self.limits;
        table.retries("request_max_retries", &mut limits.request_max_retries)?;
        table.retries("stream_max_retries", &mut limits.stream_max_retries)?;
        if let Some(ms) = table.whole("stream_idle_timeout_ms")? {
            limits.stream_idle_timeout = Duration::from_millis(ms.max(IDLE_MS_MIN));
        }
        Ok(())
    }

    fn take_own(&mut self, table: &Table<'_>) -> Result<(), Error> {
        if let Some(fields) = table.get("drop") {
            let names = fields.as_array().map(|all| all.iter().map(Value::as_str));
            let names: Option<BTreeSet<String>> =
                names.and_then(|all| all.map(|name| name.map(str::to_owned)).collect());
            self.drop = names.ok_or_else(|| table.wrong("drop", "must be a list of strings"))?;
        }
        self.reasoning_replay = match table.text("reasoning_replay")? {
            None | Some("encrypted") => ReasoningReplay::Encrypted,
            Some("none") => ReasoningReplay::None,
            Some(_) => {
                let problem = "must be `encrypted` or `none`";
                return Err(table.wrong("reasoning_replay", problem));
            }
        };
        if let Some(takes) = table.flag("image_input")? {
            self.image_input = takes;
        }
        if let Some(ms) = table.whole("max_retry_wait_ms")? {
            self.limits.max_retry_wait = Duration::from_millis(ms);
        }
        if let Some(ms) = table.whole("connect_timeout_ms")? {
            if ms == 0 {
                return Err(table.wrong("connect_timeout_ms", "must be at least 1"));
            }
            self.limits.connect_timeout = Duration::from_millis(ms);
        }
        Ok(())
    }
}

const NOT_A_NAME: &str = "is not the name of a header";
const NOT_A_HEADER: &str = "cannot be sent as a header";
/// What to do without a key for the provider that nobody chose.
const ANOTHER_PROVIDER: &str = "Set it, or choose another provider with model_provider in config.toml, \
                                such as \"ollama\" for models on this machine.";

/// The providers that need no configuration.
fn built_in(id: &str, config: &Map<String, Value>) -> Result<Option<Provider>, Error> {
    let (url, variables): (&str, &[&str]) = match id {
        "openai" => (
            "https://api.openai.com/v1",
            &["CODEX_API_KEY", "OPENAI_API_KEY"],
        ),
        "ollama" => ("http://localhost:11434/v1", &[]),
        "lmstudio" => ("http://localhost:1234/v1", &[]),
        _ => return Ok(None),
    };
    let top = Table {
        path: String::new(),
        members: Some(config),
    };
    let configured = match id {
        "openai" => top.base_url("openai_base_url")?,
        _ => None,
    };
    let base_url = match configured {
        Some(url) => url,
        None => BaseUrl::parse(url).map_err(|problem| top.wrong("base_url", problem))?,
    };
    let mut provider = blank(id, base_url);
    provider.key_variables = variables.iter().map(|name| (*name).to_owned()).collect();
    if !variables.is_empty() {
        provider.env_key_instructions = Some(ANOTHER_PROVIDER.to_owned());
    }
    Ok(Some(provider))
}

fn blank(id: &str, base_url: BaseUrl) -> Provider {
    Provider {
        id: id.to_owned(),
        name: id.to_owned(),
        base_url,
        key_variables: Vec::new(),
        env_key_instructions: None,
        bearer_token: None,
        http_headers: Vec::new(),
        env_http_headers: Vec::new(),
        query_params: Vec::new(),
        limits: Limits::default(),
        drop: BTreeSet::new(),
        reasoning_replay: ReasoningReplay::default(),
        image_input: true,
    }
}

fn header_name(name: &str) -> Option<String> {
    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
    Some(name.as_str().to_owned())
}

/// A value as it can be sent; none: it cannot.
pub(super) fn header_value(value: &str) -> Option<HeaderValue> {
    let value = value.trim();
    let sendable = value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let value = HeaderValue::from_str(value).ok()?;
    (sendable && !value.is_empty()).then_some(value)
}

/// A table of the configuration with its place in it.
struct Table<'a> {
    path: String,
    /// None: it is not there.
    members: Option<&'a Map<String, Value>>,
}

impl<'a> Table<'a> {
    fn find(root: &'a Map<String, Value>, above: &str, id: &str) -> Result<Self, Error> {
        let not_a_table = |key: String| Error::Invalid {
            key,
            problem: "must be a table".into(),
        };
        let path = format!("{above}.{id}");
        let members = match root.get(above) {
            None | Some(Value::Null) => None,
            Some(Value::Object(tables)) => match tables.get(id) {
                None | Some(Value::Null) => None,
                Some(Value::Object(members)) => Some(members),
                Some(_) => return Err(not_a_table(path)),
            },
            Some(_) => return Err(not_a_table(above.to_owned())),
        };
        let path = format!("{path}.");
        Ok(Self { path, members })
    }

    fn under(self, above: &str) -> Self {
        Self {
            path: format!("{above}{}", self.path),
            ..self
        }
    }

    fn is_none(&self) -> bool {
        self.members.is_none()
    }

    fn wrong(&self, key: &str, problem: &str) -> Error {
        Error::Invalid {
            key: format!("{}{key}", self.path),
            problem: problem.to_owned(),
        }
    }

    fn unsupported(&self, key: &str) -> Error {
        Error::Unsupported {
            key: format!("{}{key}", self.path),
        }
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.members?.get(key).filter(|value| !value.is_null())
    }

    fn text(&self, key: &str) -> Result<Option<&'a str>, Error> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let text = value.as_str();
        text.map(Some)
            .ok_or_else(|| self.wrong(key, "must be a string"))
    }

    fn base_url(&self, key: &str) -> Result<Option<BaseUrl>, Error> {
        let Some(text) = self.text(key)? else {
            return Ok(None);
        };
        let url = BaseUrl::parse(text);
        url.map(Some).map_err(|problem| self.wrong(key, problem))
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let flag = value.as_bool();
        flag.map(Some)
            .ok_or_else(|| self.wrong(key, "must be true or false"))
    }

    fn whole(&self, key: &str) -> Result<Option<u64>, Error> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let number = value.as_u64();
        number
            .map(Some)
            .ok_or_else(|| self.wrong(key, "must be a whole number, 0 or more"))
    }

    fn retries(&self, key: &str, limit: &mut u32) -> Result<(), Error> {
        if let Some(number) = self.whole(key)? {
            *limit = u32::try_from(number.min(RETRIES_MAX)).unwrap_or(u32::MAX);
        }
        Ok(())
    }

    fn texts(&self, key: &str) -> Result<Vec<(&'a str, &'a str)>, Error> {
        let Some(value) = self.get(key) else {
            return Ok(Vec::new());
        };
        let members = value
            .as_object()
            .ok_or_else(|| self.wrong(key, "must be a table of strings"))?;
        members
            .iter()
            .map(|(name, value)| {
                let full = || self.wrong(&format!("{key}.{name}"), "must be a string");
                Ok((name.as_str(), value.as_str().ok_or_else(full)?))
            })
            .collect()
    }
}

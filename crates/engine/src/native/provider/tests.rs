//! Providers from configuration to request, as one reads them in the contract's table.
//!
//! Each test gives tables and an environment and looks at what a turn would send or be told.
//! Addresses and the file of keys have tests of their own beside their code.

use super::*;
use serde_json::{Map, Value, json};

fn table(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("not a table: {other}"),
    }
}

fn read(id: &str, members: &Value) -> Result<Provider, Error> {
    let config = table(json!({"model_providers": {id: members}}));
    Provider::read(id, &config, &Map::new())
}

/// A provider `x` with these members besides its address.
fn custom(members: Value) -> Result<Provider, Error> {
    let mut all = table(json!({"base_url": "https://x.example/v1/"}));
    all.extend(table(members));
    read("x", &Value::Object(all))
}

fn resolve(provider: &Provider, variables: &[(&str, &str)]) -> Result<Resolved, Error> {
    let lookup: Variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    provider.resolve(&Environment {
        variables: &|name| lookup.get(name).cloned(),
        keys: &KeyFile::default(),
    })
}

type Variables = std::collections::BTreeMap<String, String>;

fn sent(resolved: &Resolved) -> Vec<String> {
    let line = |header: &Header| format!("{}: {}", header.name, header.value.expose());
    resolved.headers.iter().map(line).collect()
}

#[test]
fn built_in_providers_need_no_configuration() {
    let none = Map::new();
    let openai = Provider::read("openai", &none, &none).unwrap();
    assert_eq!(openai.base_url.as_str(), "https://api.openai.com/v1");
    assert_eq!(openai.limits, Limits::default());
    let both = [
        ("OPENAI_API_KEY", "second-key"),
        ("CODEX_API_KEY", "first-key"),
    ];
    let resolved = resolve(&openai, &both).unwrap();
    assert_eq!(sent(&resolved), ["authorization: Bearer first-key"]);
    let resolved = resolve(&openai, &both[..1]).unwrap();
    assert_eq!(sent(&resolved), ["authorization: Bearer second-key"]);
    assert_eq!(resolved.key_variables, ["CODEX_API_KEY", "OPENAI_API_KEY"]);
    for (id, url) in [
        ("ollama", "http://localhost:11434/v1/responses"),
        ("lmstudio", "http://localhost:1234/v1/responses"),
    ] {
        let provider = Provider::read(id, &none, &none).unwrap();
        let resolved = resolve(&provider, &[]).unwrap();
        assert_eq!(resolved.endpoint(), url);
        assert!(resolved.headers.is_empty() && resolved.warnings.is_empty());
    }
}

#[test]
fn built_in_providers_may_be_overridden() {
    let config = table(json!({"openai_base_url": "https://a.example/"}));
    let openai = Provider::read("openai", &config, &Map::new()).unwrap();
    assert_eq!(openai.base_url.as_str(), "https://a.example");
    let mut config = config;
    let members = json!({"openai": {"base_url": "https://b.example", "env_key": "MINE"}});
    config.insert("model_providers".into(), members);
    let openai = Provider::read("openai", &config, &Map::new()).unwrap();
    assert_eq!(openai.base_url.as_str(), "https://b.example");
    assert_eq!(openai.key_variables, ["MINE"]);
    let config = table(json!({"openai_base_url": "nowhere"}));
    let error = Provider::read("openai", &config, &Map::new()).unwrap_err();
    assert!(
        error.to_string().starts_with("openai_base_url: "),
        "{error}"
    );
}

#[test]
fn an_unknown_provider_is_named() {
    let error = Provider::read("x", &Map::new(), &Map::new()).unwrap_err();
    assert_eq!(error.to_string(), "Model provider `x` not found");
    // A table of ours alone makes no provider.
    let native = table(json!({"providers": {"x": {}}}));
    let error = Provider::read("x", &Map::new(), &native).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }));
}

#[test]
fn a_missing_key_ends_the_turn_before_a_request() {
    let members = json!({"env_key": "X_KEY", "env_key_instructions": "Get one at x.example."});
    let provider = custom(members).unwrap();
    for variables in [&[][..], &[("X_KEY", " \t")]] {
        let error = resolve(&provider, variables).unwrap_err();
        let text = "Missing environment variable: `X_KEY`. Get one at x.example.";
        assert_eq!(error.to_string(), text);
        let error = error.turn_error();
        assert_eq!(error.message, text);
        assert_eq!(error.codex_error_info, Some(CodexErrorInfo::Unauthorized));
        assert_eq!(error.kind, Some(ErrorKind::Auth));
    }
    let error = resolve(&provider, &[("X_KEY", "sec\nret-key")]).unwrap_err();
    assert!(!error.to_string().contains("ret"), "{error}");
    let resolved = resolve(&provider, &[("X_KEY", " good-key-1\n")]).unwrap();
    assert_eq!(sent(&resolved), ["authorization: Bearer good-key-1"]);
}

#[test]
fn every_wrong_value_is_named_by_its_key_and_not_shown() {
    for (members, key) in [
        (json!({"name": 1}), "name"),
        (
            json!({"base_url": "https://me:hidden@x.example"}),
            "base_url",
        ),
        (json!({"env_key": "hidden key"}), "env_key"),
        (json!({"env_key_instructions": []}), "env_key_instructions"),
        (json!({"wire_api": "hidden"}), "wire_api"),
        (
            json!({"http_headers": {"x-a": "hid\u{1}den"}}),
            "http_headers.x-a",
        ),
        (
            json!({"http_headers": {"x a": "hidden"}}),
            "http_headers.x a",
        ),
        (json!({"http_headers": {"x-a": 1}}), "http_headers.x-a"),
        (json!({"http_headers": "hidden"}), "http_headers"),
        (
            json!({"env_http_headers": {"x-a": "hid-den"}}),
            "env_http_headers.x-a",
        ),
        (json!({"query_params": {"a": 1}}), "query_params.a"),
        (json!({"request_max_retries": -1}), "request_max_retries"),
        (
            json!({"stream_max_retries": "hidden"}),
            "stream_max_retries",
        ),
        (
            json!({"stream_idle_timeout_ms": 1.5}),
            "stream_idle_timeout_ms",
        ),
        (
            json!({"requires_openai_auth": "hidden"}),
            "requires_openai_auth",
        ),
        (
            json!({"experimental_bearer_token": "hid\nden"}),
            "experimental_bearer_token",
        ),
    ] {
        let error = custom(members).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("model_providers.x.{key}: ")),
            "{text}"
        );
        assert!(!text.contains("hid"), "{text}");
        let word = error.turn_error().codex_error_info;
        assert_eq!(word, Some(CodexErrorInfo::BadRequest));
    }
    let missing = read("x", &json!({})).unwrap_err().to_string();
    assert_eq!(missing, "model_providers.x.base_url: is missing");
    let shape = read("x", &json!("hidden")).unwrap_err().to_string();
    assert_eq!(shape, "model_providers.x: must be a table");
}

#[test]
fn what_only_codex_can_do_is_refused_with_its_name() {
    for (members, key) in [
        (
            json!({"requires_openai_auth": true}),
            "requires_openai_auth",
        ),
        (json!({"auth": {"command": "x"}}), "auth"),
        (json!({"aws": {"region": "x"}}), "aws"),
    ] {
        let error = custom(members).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }));
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("model_providers.x.{key}: ")),
            "{text}"
        );
        assert!(text.contains("engine `codex`"), "{text}");
    }
    let chat = custom(json!({"wire_api": "chat"})).unwrap_err().to_string();
    assert!(chat.contains("set `responses`"), "{chat}");
    custom(
        json!({"requires_openai_auth": false, "wire_api": "responses",
        "supports_websockets": true, "websocket_connect_timeout_ms": 5,
        "supports_standalone_web_search": "whatever"}),
    )
    .unwrap();
}

#[test]
fn limits_have_bounds() {
    let provider = custom(json!({"request_max_retries": 1000, "stream_max_retries": 0,
        "stream_idle_timeout_ms": 5}))
    .unwrap();
    assert_eq!(provider.limits.request_max_retries, 100);
    assert_eq!(provider.limits.stream_max_retries, 0);
    assert_eq!(provider.limits.stream_idle_timeout, Duration::from_secs(1));
    assert_eq!(provider.limits.retries().wait_max, Duration::from_mins(1));
}

#[test]
fn our_own_table_adds_to_the_shared_one() {
    let native = table(
        json!({"providers": {"ollama": {"drop": ["store", "include"],
        "reasoning_replay": "none", "image_input": false, "max_retry_wait_ms": 5,
        "connect_timeout_ms": 7}}}),
    );
    let provider = Provider::read("ollama", &Map::new(), &native).unwrap();
    assert!(provider.drop.contains("store") && provider.drop.len() == 2);
    assert_eq!(provider.reasoning_replay, ReasoningReplay::None);
    assert!(!provider.image_input);
    assert_eq!(provider.limits.max_retry_wait, Duration::from_millis(5));
    assert_eq!(provider.limits.connect_timeout, Duration::from_millis(7));
    for (key, value) in [
        ("drop", json!([1])),
        ("reasoning_replay", json!("plain")),
        ("connect_timeout_ms", json!(0)),
    ] {
        let native = table(json!({"providers": {"ollama": {key: value}}}));
        let error = Provider::read("ollama", &Map::new(), &native).unwrap_err();
        let start = format!("native.providers.ollama.{key}: ");
        assert!(error.to_string().starts_with(&start), "{error}");
    }
}

#[test]
fn headers_come_from_the_file_the_environment_and_the_key() {
    let provider = custom(json!({"env_key": "KEY",
        "http_headers": {"X-Plain": "turnlane-test", "Authorization": "Basic literal-1"},
        "env_http_headers": {"X-Team": "TEAM", "X-Unset": "UNSET", "X-Blank": "BLANK"}}))
    .unwrap();
    let variables = [
        ("KEY", "key-123456"),
        ("TEAM", "team-secret"),
        ("BLANK", " "),
    ];
    let resolved = resolve(&provider, &variables).unwrap();
    let expected = [
        "x-plain: turnlane-test",
        "x-team: team-secret",
        "authorization: Bearer key-123456",
    ];
    assert_eq!(sent(&resolved), expected);
    assert_eq!(resolved.warnings.len(), 1);
    assert!(resolved.warnings[0].contains("env_http_headers"));
    let text = "turnlane-test team-secret key-123456 literal-1";
    let clean = "turnlane-test [redacted] [redacted] [redacted]";
    assert_eq!(resolved.redactor.text(text), clean);
    let shown = format!("{provider:?} {resolved:?}");
    for secret in ["literal-1", "team-secret", "key-123456", "turnlane-test"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}

#[test]
fn a_query_is_encoded_and_not_shown() {
    let members = json!({"query_params": {"api-version": "2025 04&ü", "code key": "hidden-key/1"}});
    let resolved = resolve(&custom(members).unwrap(), &[]).unwrap();
    assert_eq!(resolved.endpoint(), "https://x.example/v1/responses");
    let url =
        "https://x.example/v1/responses?api-version=2025%2004%26%C3%BC&code%20key=hidden-key%2F1";
    assert_eq!(resolved.url().expose(), url);
    assert!(!format!("{resolved:?} {:?}", resolved.url()).contains("hidden"));
    let text = resolved
        .redactor
        .text("2025 04&ü hidden-key/1")
        .into_owned();
    assert_eq!(text, "2025 04&ü [redacted]");
}

#[test]
fn a_token_in_the_configuration_works_and_is_warned_of_once() {
    let members = json!({"experimental_bearer_token": "token-123456"});
    let resolved = resolve(&custom(members.clone()).unwrap(), &[]).unwrap();
    assert_eq!(sent(&resolved), ["authorization: Bearer token-123456"]);
    let openai = read("openai", &members).unwrap();
    assert_eq!(sent(&resolve(&openai, &[]).unwrap()), sent(&resolved));
    let warned = Warned::default();
    let fresh = warned.fresh(&resolved.warnings);
    assert!(
        fresh.len() == 1 && fresh[0].contains("env_key"),
        "{fresh:?}"
    );
    assert!(!fresh[0].contains("token-123456"));
    assert!(warned.fresh(&resolved.warnings).is_empty());
}

#[test]
fn a_key_over_plain_http_is_warned_of_unless_it_stays_here() {
    for (url, variables, warnings) in [
        ("http://x.example", &[("KEY", "key-123456")][..], 1),
        ("https://x.example", &[("KEY", "key-123456")], 0),
        ("http://127.0.0.1:8", &[("KEY", "key-123456")], 0),
        ("http://x.example", &[], 0),
    ] {
        let mut members = json!({"base_url": url});
        if !variables.is_empty() {
            members["env_key"] = "KEY".into();
        }
        let resolved = resolve(&read("x", &members).unwrap(), variables).unwrap();
        assert_eq!(resolved.warnings.len(), warnings, "{url}");
    }
}

#[test]
fn keys_of_the_file_serve_and_are_taken_out_of_texts() {
    let provider = custom(json!({"env_key": "KEY"})).unwrap();
    let keys = KeyFile::parse("keys.env", "KEY=from-the-file\nOTHER=other-secret\n").unwrap();
    let environment = Environment {
        variables: &|_| None,
        keys: &keys,
    };
    let resolved = provider.resolve(&environment).unwrap();
    assert_eq!(sent(&resolved), ["authorization: Bearer from-the-file"]);
    let clean = resolved
        .redactor
        .text("from-the-file other-secret")
        .into_owned();
    assert_eq!(clean, "[redacted] [redacted]");
    assert_eq!(resolved.key_variables, ["KEY", "OTHER"]);
}

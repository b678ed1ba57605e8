//! The table of requests and answers, row by row over TCP.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use turnlane_rpc::auth::{
    AuthMode, AuthOptions, CapabilityToken, Clock, Secret, SignedBearerToken, WsAuth,
};
use turnlane_rpc::connect;
use turnlane_rpc::listen::{AdmittedBy, Listener, Options};

use crate::support::{BEARER, Log, Served, TOKEN, UPGRADE, independent, loopback};

const MISSING: &str = "401 missing websocket bearer token";
const WRONG: &str = "401 invalid websocket bearer token";
const MALFORMED: &str = "401 invalid authorization header";
const HOST: &str = "403 host not allowed";
const ORIGIN: &str = "403 origin not allowed";

/// Request line, headers, answer. A `Host:` alone means no Host header at all.
const ROWS: &[(&str, &[&str], &str)] = &[
    ("GET /readyz", &[], "200 ok"),
    ("GET /healthz", &[], "200 ok"),
    ("HEAD /healthz", &[], "200"),
    ("GET /healthz", &["Host: localhost"], "200 ok"),
    ("GET /healthz", &["Host: [::1]:1"], "200 ok"),
    ("GET /healthz", &["Host: evil.example"], HOST),
    ("GET /healthz", &["Host: 127.0.0.1.nip.io"], HOST),
    ("GET /healthz", &["Host:"], HOST),
    (
        "GET /healthz",
        &["Host: localhost", "Host: localhost"],
        HOST,
    ),
    ("GET http://evil.example/healthz", &[], HOST),
    ("GET /healthz", &["Origin: http://evil.example"], ORIGIN),
    ("GET /readyz", &["Origin: null"], ORIGIN),
    (
        "GET /readyz",
        &["Host: localhost:1", "Origin: http://localhost:1"],
        "200 ok",
    ),
    ("GET /", &[UPGRADE, BEARER], "101"),
    ("GET /any/path?q", &[UPGRADE, BEARER], "101"),
    ("GET /", &[UPGRADE], MISSING),
    (
        "GET /?token=tok-3f9c1b-long-enough-recognisable",
        &[UPGRADE],
        MISSING,
    ),
    (
        "GET /",
        &[
            UPGRADE,
            "Authorization: Bearer tok-3f9c1b-long-enough-recognisabl",
        ],
        WRONG,
    ),
    (
        "GET /",
        &[
            UPGRADE,
            "Authorization: Bearer tok-3f9c1b-long-enough-recognisable2",
        ],
        WRONG,
    ),
    (
        "GET /",
        &[
            UPGRADE,
            "Authorization: Basic tok-3f9c1b-long-enough-recognisable",
        ],
        MALFORMED,
    ),
    ("GET /", &[UPGRADE, "Authorization: Basic x"], MALFORMED),
    ("GET /", &[UPGRADE, "Authorization: Bearer"], MALFORMED),
    ("GET /", &[UPGRADE, BEARER, BEARER], MALFORMED),
    (
        "GET /",
        &[UPGRADE, BEARER, "Host: rebound.evil.example:80"],
        HOST,
    ),
    (
        "GET /",
        &[UPGRADE, BEARER, "Origin: http://evil.example"],
        ORIGIN,
    ),
    (
        "GET /",
        &[UPGRADE, "Host: evil.example", "Origin: http://evil.example"],
        HOST,
    ),
    (
        "GET /",
        &[
            UPGRADE,
            "Sec-WebSocket-Protocol: turnlane.v1, turnlane.token.tok-3f9c1b-long-enough-recognisable",
        ],
        "101",
    ),
    (
        "GET /",
        &[
            UPGRADE,
            "Sec-WebSocket-Protocol: turnlane.v1, turnlane.token.tok-3f9c1b-long-enough-recognisablE",
        ],
        WRONG,
    ),
    (
        "GET /",
        &[
            UPGRADE,
            "Authorization: Bearer other",
            "Sec-WebSocket-Protocol: turnlane.v1, turnlane.token.tok-3f9c1b-long-enough-recognisable",
        ],
        WRONG,
    ),
    ("GET /metrics", &[], MISSING),
    (
        "GET /metrics",
        &[BEARER],
        "400 expected a websocket handshake",
    ),
    ("POST /readyz", &[], MISSING),
    (
        "GET /",
        &[
            BEARER,
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 8",
        ],
        "426 websocket version 13 is required",
    ),
    (
        "GET /",
        &[
            BEARER,
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
        ],
        "400 Sec-WebSocket-Key must be 16 bytes in base64",
    ),
];

#[tokio::test]
async fn every_row_of_the_table_is_answered() {
    let served = Served::with_token(Options::default());
    for (line, headers, expected) in ROWS {
        let answer = served.ask(line, headers).await;
        assert_eq!(answer.line(), *expected, "{line} {headers:?}");
        let echoed = answer.head.contains(TOKEN) || answer.body.contains(TOKEN);
        assert!(!echoed, "a token is never sent back");
    }
    let refused = ROWS.iter().filter(|row| row.2.starts_with("401")).count();
    assert_eq!(served.handle.auth_failures(), refused as u64);
}

#[tokio::test]
async fn a_browser_gets_the_subprotocol_but_not_its_token_back() {
    let mut served = Served::with_token(Options::default());
    let offered = format!("Sec-WebSocket-Protocol: turnlane.v1, turnlane.token.{TOKEN}");
    let origin = format!("Origin: http://{}", served.addr());
    let answer = served.ask("GET /", &[UPGRADE, &offered, &origin]).await;
    assert_eq!(answer.status, 101);
    let selected = "sec-websocket-protocol: turnlane.v1";
    assert!(
        answer.head.lines().any(|line| line == selected),
        "{answer:?}"
    );
    assert_eq!(served.next().await.admitted_by, AdmittedBy::CapabilityToken);
}

#[tokio::test]
async fn an_independent_client_is_judged_the_same() {
    let mut served = Served::with_token(Options::default());
    let bearer = |token: &str| vec![("authorization", format!("Bearer {token}"))];
    let own_origin = format!("http://{}", served.addr());
    let with = |name, value: &str| {
        let mut headers = bearer(TOKEN);
        headers.push((name, value.to_owned()));
        headers
    };
    let rows = [
        (bearer(TOKEN), "101"),
        (bearer("other"), WRONG),
        (vec![], MISSING),
        (vec![("authorization", "Basic x".to_owned())], MALFORMED),
        (with("origin", "http://evil.example"), ORIGIN),
        (with("origin", "null"), ORIGIN),
        (with("origin", &own_origin), "101"),
        (with("host", "evil.example"), HOST),
        (
            vec![(
                "sec-websocket-protocol",
                format!("turnlane.v1, turnlane.token.{TOKEN}"),
            )],
            "101",
        ),
    ];
    for (headers, expected) in rows {
        let answer = independent(served.addr(), &headers).await;
        assert_eq!(answer.line(), expected, "{headers:?}");
        if expected == "101" {
            served.next().await;
        }
    }
}

#[tokio::test]
async fn configured_hosts_and_origins_are_let_in() {
    let served = Served::with_token(Options {
        allowed_hosts: vec!["lane.example".to_owned()],
        allowed_origins: vec!["https://board.example".to_owned()],
        ..Options::default()
    });
    let host = "Host: lane.example:8443";
    let origin = "Origin: https://board.example";
    let answer = served.ask("GET /", &[UPGRADE, BEARER, host, origin]).await;
    assert_eq!(answer.status, 101);
}

const SECRET: &str = "shared-secret-of-at-least-32-bytes";
const NOW: i64 = 1_700_000_000;

fn signed(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(header), part(claims));
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(signed.as_bytes());
    let signature = BASE64_URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
    format!("{signed}.{signature}")
}

#[tokio::test]
async fn signed_tokens_are_checked_over_the_wire() {
    let policy = SignedBearerToken::new(Secret::from(SECRET))
        .unwrap()
        .issuer("ci")
        .audience("lane")
        .clock(Clock::new(|| NOW));
    let auth = WsAuth::SignedBearerToken(policy);
    let listener = Listener::bind_tcp(loopback(), auth, Options::default()).unwrap();
    let mut served = Served::start(listener);
    let hs256 = json!({"alg": "HS256", "typ": "JWT"});
    let good = json!({"exp": NOW + 60, "iss": "ci", "aud": "lane"});
    let but = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        signed(&hs256, &claims)
    };
    let whole = signed(&hs256, &good);
    let (intact, _) = whole.rsplit_once('.').unwrap();
    let rows = [
        (signed(&hs256, &good), "101"),
        (but("exp", json!(NOW - 31)), WRONG),
        (but("exp", Value::Null), WRONG),
        (but("nbf", json!(NOW + 31)), WRONG),
        (but("aud", json!("other")), WRONG),
        (but("iss", json!("other")), WRONG),
        (signed(&json!({"alg": "none"}), &good), WRONG),
        (signed(&json!({"alg": "RS256"}), &good), WRONG),
        (format!("{intact}."), WRONG),
        (format!("{intact}.c2lnbmF0dXJl"), WRONG),
        (SECRET.to_owned(), WRONG),
    ];
    for (token, expected) in rows {
        let headers = [("authorization", format!("Bearer {token}"))];
        let answer = independent(served.addr(), &headers).await;
        assert_eq!(answer.line(), expected, "{token}");
    }
    assert_eq!(
        served.next().await.admitted_by,
        AdmittedBy::SignedBearerToken
    );
}

#[test]
fn the_flags_decide_what_is_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let default_file = home.path().join("token");
    let load = |options: &AuthOptions| options.load(&default_file);

    let made = load(&AuthOptions::default()).unwrap();
    assert_eq!(made.mode(), AuthMode::CapabilityToken);
    assert!(default_file.exists(), "made on first start");
    let none = AuthOptions {
        mode: Some(AuthMode::None),
        ..AuthOptions::default()
    };
    assert_eq!(load(&none).unwrap().mode(), AuthMode::None);
    let signed = AuthOptions {
        mode: Some(AuthMode::SignedBearerToken),
        shared_secret_file: Some(default_file.clone()),
        issuer: Some("ci".to_owned()),
        clock_skew: Some(Duration::from_secs(5)),
        ..AuthOptions::default()
    };
    assert_eq!(load(&signed).unwrap().mode(), AuthMode::SignedBearerToken);

    let named = |file: &str| AuthOptions {
        token_file: Some(home.path().join(file)),
        ..AuthOptions::default()
    };
    assert!(load(&named("missing")).is_err(), "a named file is not made");
    let both = AuthOptions {
        token_sha256: Some("00".repeat(32)),
        ..named("token")
    };
    let mixed = AuthOptions {
        issuer: Some("ci".to_owned()),
        ..AuthOptions::default()
    };
    let incomplete = AuthOptions {
        mode: Some(AuthMode::SignedBearerToken),
        ..AuthOptions::default()
    };
    let useless = AuthOptions {
        mode: Some(AuthMode::None),
        ..named("token")
    };
    for wrong in [both, mixed, incomplete, useless] {
        let text = load(&wrong).unwrap_err().to_string();
        assert!(text.contains("--ws-"), "{text}");
    }
}

// One thread, so that the subscriber of this thread hears every task.
#[tokio::test(flavor = "current_thread")]
async fn no_log_line_and_no_debug_output_holds_a_token() {
    let (log, guard) = Log::capture(tracing::Level::TRACE);

    let mut served = Served::with_token(Options::default());
    for (line, headers, _) in ROWS {
        served.ask(line, headers).await;
    }
    let options = connect::Options {
        token: Some(Secret::from(TOKEN)),
        headers: [("x-also".parse().unwrap(), TOKEN.parse().unwrap())]
            .into_iter()
            .collect(),
        ..connect::Options::default()
    };
    let url = format!("ws://{}", served.addr());
    let client = connect::connect_ws(&url, &options).await.unwrap();
    let refused = connect::connect_ws(&url, &connect::Options::default()).await;
    let accepted = served.next().await;
    drop(guard);

    let secret = Secret::from(TOKEN);
    let auth = WsAuth::CapabilityToken(CapabilityToken::new(&secret).unwrap());
    let long = Secret::from(TOKEN.repeat(2));
    let signed = WsAuth::SignedBearerToken(SignedBearerToken::new(long).unwrap());
    let listener = Listener::bind_tcp(loopback(), auth.clone(), Options::default()).unwrap();
    let shown = format!(
        "{secret:?} {auth:?} {signed:?} {options:?} {client:?} {refused:?} {accepted:?} \
         {listener:?} {:?}",
        served.handle
    );
    let logged = log.text();
    assert!(
        logged.contains("wrong token"),
        "the log was captured: {logged}"
    );
    for text in [logged, shown] {
        let text = text.to_lowercase();
        assert!(!text.contains("tok-3f9c1b"), "{text}");
    }
}

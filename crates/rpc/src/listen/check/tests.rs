//! The table of requests and answers, row by row, without sockets.

use hyper::Request;

use super::*;
use crate::auth::{CapabilityToken, Secret};

const TOKEN: &str = "recognisable-token-that-is-longer";

fn policy() -> Policy {
    Policy {
        auth: WsAuth::CapabilityToken(CapabilityToken::new(&Secret::from(TOKEN)).unwrap()),
        ..Policy::loopback_without_token()
    }
}

const UPGRADE: [&str; 4] = [
    "upgrade: websocket",
    "connection: upgrade",
    "sec-websocket-version: 13",
    "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
];
const BEARER: &str = "authorization: Bearer recognisable-token-that-is-longer";
const HOST: &str = "host: localhost:4500";

fn decide(policy: &Policy, method_and_uri: &str, headers: &[&str]) -> Verdict {
    let (method, uri) = method_and_uri.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(uri);
    for header in headers {
        let (name, value) = header.split_once(": ").unwrap();
        request = request.header(name, value);
    }
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let head = RequestHead {
        method: &parts.method,
        uri: &parts.uri,
        version: parts.version,
        headers: &parts.headers,
    };
    check(&head, policy)
}

/// A status and text, or a word for what is allowed.
fn answer(policy: &Policy, method_and_uri: &str, headers: &[&str]) -> String {
    match decide(policy, method_and_uri, headers) {
        Verdict::Refuse { status, body, .. } => format!("{} {body}", status.as_u16()),
        Verdict::Live => "live".to_owned(),
        Verdict::Ready => "ready".to_owned(),
        Verdict::Plain => "plain".to_owned(),
        Verdict::WebSocket {
            subprotocol: None, ..
        } => "websocket".to_owned(),
        Verdict::WebSocket {
            subprotocol: Some(name),
            ..
        } => format!("websocket {name}"),
    }
}

fn opened(more: &[&str]) -> String {
    let headers: Vec<_> = UPGRADE.iter().chain(&[HOST]).chain(more).copied().collect();
    answer(&policy(), "GET /any/path", &headers)
}

#[test]
fn the_token_decides_about_a_websocket() {
    let missing = "401 missing websocket bearer token";
    let wrong = "401 invalid websocket bearer token";
    let malformed = "401 invalid authorization header";
    let rows: [(&[&str], &str); 22] = [
        (&[BEARER], "websocket"),
        (
            &["authorization: bearer recognisable-token-that-is-longer"],
            "websocket",
        ),
        (
            &["authorization: BEARER  recognisable-token-that-is-longer"],
            "websocket",
        ),
        (&[], missing),
        (&["authorization: Bearer other"], wrong),
        (&["authorization: Bearer recognisable-toke"], wrong),
        (
            &["authorization: Bearer recognisable-token-that-is-longer."],
            wrong,
        ),
        (&["authorization: Bearer Recognisable-token"], wrong),
        (&["authorization: Basic x"], malformed),
        (&["authorization: Bearer"], malformed),
        (&["authorization: Bearer "], malformed),
        (
            &["authorization: recognisable-token-that-is-longer"],
            malformed,
        ),
        (
            &["authorization: Bearer recognisable-token-that-is-longer x"],
            malformed,
        ),
        (&[BEARER, BEARER], malformed),
        (&["authorization: Bearer tök"], malformed),
        (
            &[
                "sec-websocket-protocol: turnlane.v1, turnlane.token.recognisable-token-that-is-longer",
            ],
            "websocket turnlane.v1",
        ),
        (
            &["sec-websocket-protocol: turnlane.token.recognisable-token-that-is-longer"],
            "websocket",
        ),
        (
            &["sec-websocket-protocol: turnlane.v1, turnlane.token.other"],
            wrong,
        ),
        (&["sec-websocket-protocol: turnlane.v1"], missing),
        (
            &["sec-websocket-protocol: turnlane.v1, turnlane.token."],
            wrong,
        ),
        (
            &[
                "sec-websocket-protocol: turnlane.token.recognisable-token-that-is-longer, turnlane.token.other",
            ],
            wrong,
        ),
        (
            &["cookie: token=recognisable-token-that-is-longer"],
            missing,
        ),
    ];
    for (headers, expected) in rows {
        assert_eq!(opened(headers), expected, "{headers:?}");
    }
}

#[test]
fn a_header_wins_over_a_subprotocol() {
    let good =
        "sec-websocket-protocol: turnlane.v1, turnlane.token.recognisable-token-that-is-longer";
    let bad = "sec-websocket-protocol: turnlane.v1, turnlane.token.other";
    assert_eq!(opened(&[BEARER, bad]), "websocket turnlane.v1");
    assert_eq!(
        opened(&["authorization: Bearer other", good]),
        "401 invalid websocket bearer token"
    );
    assert_eq!(
        opened(&["authorization: Basic x", good]),
        "401 invalid authorization header"
    );
}

#[test]
fn a_token_in_the_url_is_not_looked_at() {
    for uri in [
        "GET /?token=recognisable-token-that-is-longer",
        "GET /recognisable-token-that-is-longer",
    ] {
        let headers: Vec<_> = UPGRADE.iter().chain(&[HOST]).copied().collect();
        assert_eq!(
            answer(&policy(), uri, &headers),
            "401 missing websocket bearer token"
        );
    }
}

#[test]
fn checks_come_in_the_order_of_the_contract() {
    let (evil_host, evil_origin) = ("host: evil.example", "origin: http://evil.example");
    let rows: [(&str, &[&str], &str); 16] = [
        // Host first, even for health and with a token.
        (
            "GET /readyz",
            &[evil_host, evil_origin, BEARER],
            "403 host not allowed",
        ),
        ("GET /readyz", &[], "403 host not allowed"),
        ("GET /", &[HOST, HOST, BEARER], "403 host not allowed"),
        (
            "GET http://evil.example/",
            &[HOST, BEARER],
            "403 host not allowed",
        ),
        ("GET http://localhost/", &[HOST, BEARER], "plain"),
        // Origin second.
        (
            "GET /healthz",
            &[HOST, evil_origin],
            "403 origin not allowed",
        ),
        (
            "GET /",
            &[HOST, "origin: null", BEARER],
            "403 origin not allowed",
        ),
        (
            "GET /",
            &[HOST, "origin: http://localhost:4500", BEARER],
            "plain",
        ),
        // Health without a token, before anything about websockets.
        ("GET /healthz", &[HOST], "live"),
        ("HEAD /readyz?verbose", &[HOST], "ready"),
        (
            "GET /readyz",
            &[HOST, UPGRADE[0], UPGRADE[1], UPGRADE[2], UPGRADE[3]],
            "ready",
        ),
        (
            "POST /readyz",
            &[HOST],
            "401 missing websocket bearer token",
        ),
        // The token before the upgrade.
        (
            "GET /",
            &[HOST, "upgrade: websocket"],
            "401 missing websocket bearer token",
        ),
        (
            "GET /metrics",
            &[HOST],
            "401 missing websocket bearer token",
        ),
        (
            "GET /",
            &[
                HOST,
                BEARER,
                UPGRADE[0],
                UPGRADE[1],
                "sec-websocket-version: 12",
            ],
            "426 websocket version 13 is required",
        ),
        ("GET /metrics", &[HOST, BEARER], "plain"),
    ];
    for (request, headers, expected) in rows {
        assert_eq!(
            answer(&policy(), request, headers),
            expected,
            "{request} {headers:?}"
        );
    }
}

#[test]
fn a_server_with_known_paths_hides_the_rest() {
    let policy = Policy {
        own_origin: OwnOrigin::Refused,
        paths: Paths::Only(vec!["/metrics".to_owned()]),
        ..policy()
    };
    let get = |uri, headers: &[&str]| answer(&policy, uri, headers);
    assert_eq!(get("GET /other", &[HOST]), "404 not found");
    assert_eq!(
        get("GET /metrics", &[HOST]),
        "401 missing websocket bearer token"
    );
    assert_eq!(get("GET /metrics", &[HOST, BEARER]), "plain");
    let mut upgraded = vec![HOST, BEARER];
    upgraded.extend(UPGRADE);
    assert_eq!(get("GET /", &upgraded), "websocket");
    assert_eq!(get("GET /metrics", &upgraded), "404 no websocket here");
    upgraded.push("origin: http://localhost:4500");
    assert_eq!(get("GET /", &upgraded), "403 origin not allowed");
}

#[test]
fn a_unix_socket_takes_any_host_but_no_page() {
    let policy = Policy {
        host: HostRule::Any,
        own_origin: OwnOrigin::Refused,
        ..Policy::loopback_without_token()
    };
    for host in [&["host: anything"][..], &[], &[HOST, HOST]] {
        let mut headers = host.to_vec();
        headers.extend(UPGRADE);
        assert_eq!(answer(&policy, "GET /", &headers), "websocket");
        headers.push("origin: http://localhost:4500");
        assert_eq!(answer(&policy, "GET /", &headers), "403 origin not allowed");
    }
}

//! Good tokens, and every way in which one is not.

use serde_json::{Value, json};

use super::*;

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const NOW: i64 = 1_700_000_000;

fn signed() -> SignedBearerToken {
    SignedBearerToken::new(Secret::from(SECRET))
        .unwrap()
        .clock(Clock::new(|| NOW))
}

fn part(value: &Value) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(value.to_string())
}

fn signature(signed: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(signed.as_bytes());
    BASE64_URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
}

fn token_with(header: &Value, claims: &Value) -> String {
    let signed = format!("{}.{}", part(header), part(claims));
    format!("{signed}.{}", signature(&signed))
}

fn token(claims: &Value) -> String {
    token_with(&json!({"alg": "HS256", "typ": "JWT"}), claims)
}

// RFC 7515, appendix A.1: an HS256 token by "joe" that ended in March 2011.
#[test]
fn the_example_of_the_rfc_is_good_until_it_ends() {
    let key =
        "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
    let token = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.\
                 eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.\
                 dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    let at = |seconds| {
        let secret = Secret::new(BASE64_URL_SAFE_NO_PAD.decode(key).unwrap());
        SignedBearerToken::new(secret)
            .unwrap()
            .issuer("joe")
            .clock(Clock::new(move || seconds))
    };
    let ends = 1_300_819_380;

    assert_eq!(at(ends - 1).check(token), Ok(()));
    assert_eq!(
        at(ends + 29).check(token),
        Ok(()),
        "clocks may differ by 30 s"
    );
    assert_eq!(at(ends + 30).check(token), Err("expired"));
    assert_eq!(at(NOW).check(token), Err("expired"));
    let other_key = signed().clock(Clock::new(move || ends - 1));
    assert_eq!(other_key.check(token), Err("wrong signature"));
}

#[test]
fn claims_decide_by_the_clock_and_the_configuration() {
    let end = NOW + 60;
    let plain = signed();
    let strict = signed().issuer("ci").audience("lane");
    let rows = [
        (&plain, json!({"exp": end}), Ok(())),
        (&plain, json!({"exp": 1_700_000_060.5}), Ok(())),
        (&plain, json!({"exp": NOW - 31}), Err("expired")),
        (&plain, json!({}), Err("unreadable claims")),
        (&plain, json!({"exp": "soon"}), Err("unreadable claims")),
        (&plain, json!({"exp": null}), Err("unreadable claims")),
        (&plain, json!({"exp": end, "nbf": NOW + 30}), Ok(())),
        (
            &plain,
            json!({"exp": end, "nbf": NOW + 31}),
            Err("not valid yet"),
        ),
        (
            &plain,
            json!({"exp": end, "nbf": "later"}),
            Err("unreadable claims"),
        ),
        (
            &plain,
            json!({"exp": end, "iss": "x", "aud": ["y"]}),
            Ok(()),
        ),
        (
            &strict,
            json!({"exp": end, "iss": "ci", "aud": "lane"}),
            Ok(()),
        ),
        (
            &strict,
            json!({"exp": end, "iss": "ci", "aud": ["x", "lane"]}),
            Ok(()),
        ),
        (
            &strict,
            json!({"exp": end, "iss": "me", "aud": "lane"}),
            Err("wrong issuer"),
        ),
        (
            &strict,
            json!({"exp": end, "aud": "lane"}),
            Err("wrong issuer"),
        ),
        (
            &strict,
            json!({"exp": end, "iss": "ci", "aud": "lanes"}),
            Err("wrong audience"),
        ),
        (
            &strict,
            json!({"exp": end, "iss": "ci", "aud": []}),
            Err("wrong audience"),
        ),
        (
            &strict,
            json!({"exp": end, "iss": "ci"}),
            Err("wrong audience"),
        ),
        (
            &strict,
            json!({"exp": end, "iss": "ci", "aud": 7}),
            Err("unreadable claims"),
        ),
    ];
    for (policy, claims, expected) in rows {
        assert_eq!(policy.check(&token(&claims)), expected, "{claims}");
    }
}

#[test]
fn only_hs256_is_an_algorithm() {
    let claims = json!({"exp": NOW + 60});
    for alg in ["none", "None", "RS256", "HS384", "hs256", ""] {
        let forged = token_with(&json!({"alg": alg}), &claims);
        assert_eq!(
            signed().check(&forged),
            Err("algorithm is not HS256"),
            "{alg}"
        );
    }
    let unsigned = format!("{}.{}.", part(&json!({"alg": "none"})), part(&claims));
    assert_eq!(signed().check(&unsigned), Err("algorithm is not HS256"));
    let critical = token_with(&json!({"alg": "HS256", "crit": ["b64"]}), &claims);
    assert!(signed().check(&critical).is_err());
}

#[test]
fn a_changed_token_is_refused() {
    let good = token(&json!({"exp": NOW + 60, "sub": "a"}));
    assert_eq!(signed().check(&good), Ok(()));
    let other = token(&json!({"exp": NOW + 61, "sub": "a"}));
    let (signed_part, _) = good.rsplit_once('.').unwrap();
    let (_, other_signature) = other.rsplit_once('.').unwrap();
    let twice = BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"none","alg":"HS256"}"#);
    let twice = format!("{twice}.{}", part(&json!({"exp": NOW + 60})));
    let wrong = [
        format!("{signed_part}.{other_signature}"),
        format!("{signed_part}."),
        format!(
            "{signed_part}.{}",
            &good[signed_part.len() + 1..good.len() - 2]
        ),
        format!("{good}."),
        format!("{good}=="),
        format!("{twice}.{}", signature(&twice)),
        signed_part.to_owned(),
        good.replace('.', " "),
        String::new(),
        "..".to_owned(),
        "not-a-token".to_owned(),
    ];
    for token in wrong {
        assert!(signed().check(&token).is_err(), "{token}");
    }
}

#[test]
fn a_short_secret_is_refused() {
    let error = SignedBearerToken::new(Secret::from(&SECRET[1..])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the shared secret has 31 bytes and at least 32 are needed; \
         make one with: openssl rand -hex 32"
    );
}

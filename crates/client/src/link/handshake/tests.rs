//! Who a server is, told from its answer.

use super::*;
use crate::endpoint::Endpoint;
use crate::limits::Limits;

fn options(min_version: Option<Version>) -> LinkOptions {
    let (near, _far) = turnlane_rpc::Duplex::memory();
    LinkOptions {
        endpoint: Endpoint::io(near),
        reconnect: None,
        limits: Limits::default(),
        client_name: "turnlane".to_owned(),
        client_version: "1.2.3".to_owned(),
        experimental_api: true,
        opt_out: Vec::new(),
        min_version,
    }
}

fn answered(result: &Value, min: Option<Version>) -> Result<ServerInfo, ConnectError> {
    server_of(result.to_string().as_bytes(), &options(min))
}

#[test]
fn a_version_is_read_whatever_the_product_is_called() {
    let rows = [
        (
            "codex_cli_rs/0.166.0 (Linux 6.1.0; x86_64)",
            Some((0, 166, 0)),
        ),
        ("Codex Desktop/0.166.0-alpha.1 (x)", Some((0, 166, 0))),
        (
            "turnlane/0.166.0 (Linux; x) unknown (t; 1.2.0)",
            Some((0, 166, 0)),
        ),
        ("a b c/v12.34.56", Some((12, 34, 56))),
        ("x/dev (Linux 6.1; x) y (t; 1.2.0)", Some((1, 2, 0))),
        ("no slash 1.2.3", None),
        ("x/1.2", None),
        ("x/99999999999.1.2", None),
        ("", None),
    ];
    for (user_agent, expected) in rows {
        let expected = expected.map(|(major, minor, patch)| Version::new(major, minor, patch));
        assert_eq!(version_of(user_agent), expected, "{user_agent}");
    }
}

#[test]
fn the_product_is_told_by_its_extension_and_then_by_its_version() {
    let ours = json!({
        "userAgent": "turnlane/0.166.0 (Linux)", "codexHome": "/h",
        "turnlane": {"version": "0.1.0", "protocol": 1, "features": ["queue", 3, "hook"]},
    });
    let server = answered(&ours, None).unwrap();
    assert_eq!(server.kind, ServerKind::Turnlane);
    assert_eq!(server.product_version.as_deref(), Some("0.1.0"));
    assert_eq!(server.features, ["queue", "hook"]);
    assert_eq!((&*server.codex_home, &*server.endpoint), ("/h", "io"));

    let codex = json!({"userAgent": "turnlane/0.166.0 (Linux)", "turnlane": {"version": "9"}});
    let server = answered(&codex, None).unwrap();
    assert_eq!(server.kind, ServerKind::Codex);
    assert_eq!(server.product_version, None);

    let other = json!({"userAgent": "something"});
    assert_eq!(answered(&other, None).unwrap().kind, ServerKind::Unknown);
}

#[test]
fn an_old_or_unreadable_version_is_refused_where_one_is_wanted() {
    let required = Version::new(0, 166, 0);
    let old = json!({"userAgent": "x/0.165.9"});
    assert!(matches!(
        answered(&old, Some(required)),
        Err(ConnectError::VersionTooOld { found, required: wanted })
            if found == Version::new(0, 165, 9) && wanted == required
    ));
    let same = json!({"userAgent": "x/0.166.0"});
    assert!(answered(&same, Some(required)).is_ok());
    let none = json!({"userAgent": "x"});
    assert!(matches!(
        answered(&none, Some(required)),
        Err(ConnectError::VersionUnknown { user_agent }) if user_agent == "x"
    ));
}

#[test]
fn what_is_no_answer_to_initialize_is_refused() {
    for result in [json!(null), json!({}), json!([1]), json!({"userAgent": 7})] {
        assert!(matches!(
            answered(&result, None),
            Err(ConnectError::Protocol { .. })
        ));
    }
}

#[test]
fn the_request_says_who_we_are_and_what_not_to_send() {
    let mut options = options(None);
    let bare = json!({
        "clientInfo": {"name": "turnlane", "title": null, "version": "1.2.3"},
        "capabilities": {"experimentalApi": true, "turnlane": {"version": 1, "events": 1}},
    });
    assert_eq!(params(&options), bare);
    options.experimental_api = false;
    options.opt_out = vec!["item/fileChange/requestApproval".to_owned()];
    let capabilities = &params(&options)["capabilities"];
    assert_eq!(capabilities["experimentalApi"], json!(false));
    assert_eq!(
        capabilities["optOutNotificationMethods"],
        json!(["item/fileChange/requestApproval"])
    );
}

//! Whether a request was meant for us (Host), and by whom it was made (Origin).
//!
//! A browser lets any page open a websocket to any address and says in `Origin` which page it was.
//! A page whose own name was made to resolve to our address (DNS rebinding) looks like ours, except
//! that `Host` carries that name. So names are what is dangerous in `Host`: addresses cannot be
//! rebound. Spellings are taken narrowly; whatever only some resolver would understand (decimal
//! addresses, a trailing dot, IPv4 in IPv6) is refused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hyper::HeaderMap;
use hyper::header::{HOST, HeaderName, ORIGIN};

use super::check::{HostRule, OwnOrigin, Policy};

/// The Host of a request that is allowed, as the client wrote it.
pub(super) fn allowed_host<'h>(policy: &Policy, headers: &'h HeaderMap) -> Option<&'h str> {
    let value = only(headers, HOST)?;
    host_is_ours(policy, value).then_some(value)
}

/// Whether `authority` (`host` or `host:port`) names this server.
pub(super) fn host_is_ours(policy: &Policy, authority: &str) -> bool {
    let HostRule::Ours { local } = policy.host else {
        return true;
    };
    let Some(host) = host_of(authority) else {
        return false;
    };
    let known = match literal(host) {
        Some(ip) => ip.is_loopback() || ip == local.to_canonical(),
        None => host.eq_ignore_ascii_case("localhost"),
    };
    // An entry without a port stands for every port.
    let is_this =
        |entry: &str| entry.eq_ignore_ascii_case(authority) || entry.eq_ignore_ascii_case(host);
    known || policy.allowed_hosts.iter().any(|entry| is_this(entry))
}

/// Whether the page that made the request, if a page did, may talk to us.
pub(super) fn origin_is_allowed(policy: &Policy, headers: &HeaderMap, host: Option<&str>) -> bool {
    if !headers.contains_key(ORIGIN) {
        return true;
    }
    let Some(origin) = only(headers, ORIGIN) else {
        return false;
    };
    if policy.allowed_origins.iter().any(|entry| entry == origin) {
        return true;
    }
    // Browsers write both in lower case, and a default port in neither.
    policy.own_origin == OwnOrigin::Allowed
        && origin
            .strip_prefix("http://")
            .zip(host)
            .is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host))
}

/// The value of a header that is there exactly once. Of two, a proxy and we might each take
/// another one.
pub(super) fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// The host of `host` or `host:port`, if both are well formed; the brackets of an IPv6 address stay.
fn host_of(authority: &str) -> Option<&str> {
    let host_bytes = if authority.starts_with('[') {
        authority.find(']')? + 1
    } else {
        authority.find(':').unwrap_or(authority.len())
    };
    let (host, rest) = authority.split_at(host_bytes);
    let name_like = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    if host.is_empty() || !host.bytes().all(name_like) {
        return None;
    }
    let port_is_good = match rest.strip_prefix(':') {
        // `parse` alone would take a sign.
        Some(port) => port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok(),
        None => rest.is_empty(),
    };
    port_is_good.then_some(host)
}

fn literal(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[') {
        Some(rest) => rest
            .strip_suffix(']')?
            .parse::<Ipv6Addr>()
            .ok()
            .map(Into::into),
        None => host.parse::<Ipv4Addr>().ok().map(Into::into),
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn policy() -> Policy {
        Policy {
            host: HostRule::Ours {
                local: IpAddr::from([192, 0, 2, 7]),
            },
            allowed_hosts: vec!["lane.example".into(), "[2001:db8::1]:80".into()],
            allowed_origins: vec!["https://board.example".into()],
            ..Policy::loopback_without_token()
        }
    }

    #[test]
    fn only_our_own_names_are_hosts() {
        let ours = [
            "localhost",
            "localhost:4500",
            "LOCALHOST:4500",
            "127.0.0.1",
            "127.0.0.1:4500",
            "127.9.9.9:1",
            "[::1]:4500",
            "[0:0:0:0:0:0:0:1]",
            "192.0.2.7:9",
            "lane.example",
            "Lane.Example:81",
            "[2001:db8::1]:80",
        ];
        for host in ours {
            assert!(host_is_ours(&policy(), host), "{host}");
        }
        let foreign = [
            "",
            ":4500",
            "evil.example",
            "localhost.evil.example",
            "localhost.",
            "localhost:",
            "localhost:http",
            "localhost:+80",
            "localhost:65536",
            "localhost:80:80",
            "localhost/",
            "localhost, localhost",
            "local host",
            "user@localhost",
            "localhost@evil.example",
            "127.0.0.1.nip.io",
            "127.0.0.1.",
            "127.1",
            "127.0.0.01",
            "0127.0.0.1",
            "2130706433",
            "0x7f000001",
            "0x7f.0.0.1",
            "0.0.0.0",
            "0",
            "::1",
            "[::1",
            "::1]",
            "[::1]4500",
            "[::]",
            "[127.0.0.1]",
            "[localhost]",
            "[::ffff:127.0.0.1]:4500",
            "[::1%25lo]",
            "192.0.2.8",
            "www.lane.example",
            "[2001:db8::1]:81",
            "[2001:db8::1]",
        ];
        for host in foreign {
            assert!(!host_is_ours(&policy(), host), "{host}");
        }
    }

    #[test]
    fn a_dual_stack_socket_is_known_by_its_ipv4_address() {
        let local = "::ffff:192.0.2.7".parse().unwrap();
        let policy = Policy {
            host: HostRule::Ours { local },
            ..policy()
        };
        assert!(host_is_ours(&policy, "192.0.2.7:4500"));
    }

    #[test]
    fn pages_of_others_are_refused() {
        let allowed = |host: &str, origins: &[&str]| {
            let mut headers = HeaderMap::new();
            for origin in origins {
                headers.append(ORIGIN, HeaderValue::from_str(origin).unwrap());
            }
            origin_is_allowed(&policy(), &headers, Some(host))
        };
        let host = "localhost:4500";
        assert!(allowed(host, &[]), "programs send none");
        assert!(allowed(host, &["http://localhost:4500"]));
        assert!(allowed(host, &["https://board.example"]));
        for origin in [
            "",
            "null",
            "http://localhost",
            "http://localhost:3000",
            "https://localhost:4500",
            "http://127.0.0.1:4500",
            "http://localhost:4500/",
            "http://localhost:4500.evil.example",
            "http://evil.example",
            "https://board.example:444",
            "https://BOARD.example",
            "file://",
        ] {
            assert!(!allowed(host, &[origin]), "{origin}");
        }
        assert!(!allowed(
            host,
            &["http://localhost:4500", "http://localhost:4500"]
        ));
    }
}

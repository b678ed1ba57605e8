//! Where a connection broke, read from what the library says.
//!
//! The invariant here: types decide, not texts, wherever there is a type; the text is the chain of
//! causes without the address, which may hold a key in its query. Who cannot be reached at all is
//! named by scheme, host and port.
//!
//! Which faults are worth another try is decided by the error table.

use std::error::Error;
use std::io;

use super::Broken;
use crate::native::failure::Fault;

/// What a request without an answer means.
pub(super) fn of_request(error: reqwest::Error) -> Broken {
    let origin = error.url().map(|url| url.origin().ascii_serialization());
    let error = error.without_url();
    let fault = match tls(&error) {
        Some(fault) => fault,
        None if error.is_dns() => Fault::Dns,
        None if error.is_connect() && error.is_timeout() => Fault::ConnectTimeout,
        None if error.is_connect() && is_tunnel(&error) => Fault::Proxy,
        None if error.is_connect() || error.is_builder() => Fault::Connect,
        None => Fault::BeforeHeaders,
    };
    match origin {
        Some(origin) if fault != Fault::BeforeHeaders => {
            Broken::new(fault, format!("cannot reach {origin}: {}", words(&error)))
        }
        Some(_) | None => Broken::new(fault, words(&error)),
    }
}

/// What a body without an end means.
pub(super) fn of_body(error: reqwest::Error) -> Broken {
    let error = error.without_url();
    let framing = chain(&error).any(|cause| {
        let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        matches!(
            io,
            Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData)
        )
    });
    let fault = if framing { Fault::Framing } else { Fault::Cut };
    Broken::new(fault, words(&error))
}

pub(super) fn tls(error: &(dyn Error + 'static)) -> Option<Fault> {
    let found = chain(error).find_map(|cause| cause.downcast_ref::<rustls::Error>())?;
    Some(match found {
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => {
            Fault::Certificate
        }
        _ => Fault::Tls,
    })
}

/// The type of a proxy's refusal is not public; its words are.
fn is_tunnel(error: &(dyn Error + 'static)) -> bool {
    chain(error).any(|cause| {
        let text = cause.to_string();
        text.contains("tunnel") || text.contains("proxy")
    })
}

/// The causes in one line, outermost first, each said once.
fn words(error: &(dyn Error + 'static)) -> String {
    let mut words = String::new();
    for cause in chain(error) {
        let cause = cause.to_string();
        if words.ends_with(&cause) {
            continue;
        }
        if !words.is_empty() {
            words.push_str(": ");
        }
        words.push_str(&cause);
    }
    words
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        // An io error leaves what it wraps out of its sources.
        let wrapped = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        match wrapped {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        }
    })
}

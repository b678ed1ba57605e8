//! Whose certificates are believed.
//!
//! The invariant here: those of the system, as every other program on the machine does it, checked
//! by one TLS provider that is chosen here and not by a process-wide default. A provider that is
//! reached without TLS costs no look at the system's certificates.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;

use super::Broken;
use crate::native::failure::Fault;
use crate::native::provider::BaseUrl;

/// Variables that may name a proxy.
const PROXY_VARIABLES: [&str; 6] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
];

/// Who may be spoken to over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Trust {
    /// Those whom the system trusts.
    System,
    /// Nobody: the connection is not encrypted.
    Nobody,
}

impl Trust {
    /// What a provider at this address needs.
    pub(super) fn for_address(address: &BaseUrl) -> Self {
        let is_https = |text: &str| {
            let scheme = text.trim_start().get(..6);
            scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"))
        };
        let by_proxy = || {
            PROXY_VARIABLES
                .iter()
                .any(|name| std::env::var(name).is_ok_and(|proxy| is_https(&proxy)))
        };
        if is_https(address.as_str()) || by_proxy() {
            Self::System
        } else {
            Self::Nobody
        }
    }

    /// The settings of connections; reads the system's certificates where they are needed.
    pub(super) fn config(self) -> Result<ClientConfig, Broken> {
        let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
        // Another try would find the same certificates.
        let broken = |error: rustls::Error| Broken::new(Fault::Certificate, error.to_string());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(broken)?;
        let builder = match self {
            Self::System => builder.with_platform_verifier().map_err(broken)?,
            Self::Nobody => builder.with_root_certificates(RootCertStore::empty()),
        };
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

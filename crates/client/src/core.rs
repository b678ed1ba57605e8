//! What all handles of one client share.
//!
//! The invariant here: handles own the client, its tasks do not. Every public handle holds an
//! [`Owner`]; when the last one is dropped the link is closed, whatever runs. Tasks hold a [`Core`]
//! and end with the link.

use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde::de::DeserializeOwned;
use turnlane_rpc::{Notification, Request};

use crate::call::{CallOptions, Method, Validation};
use crate::error::{CallError, TransportError};
use crate::event::Event;
use crate::feed::Router;
use crate::hooks::{HookSet, Registrations};
use crate::limits::Limits;
use crate::link::{Inbound, Link, Repeat, ServerInfo, ServerKind};
use crate::profile::Profile;
use crate::review::Reviews;
use crate::thread::Registry;

/// What all handles and tasks of a client share.
#[derive(Debug)]
pub(crate) struct Core {
    /// Set once, when the link is open.
    link: OnceLock<Link>,
    pub(crate) router: Arc<Router>,
    pub(crate) registry: Registry,
    pub(crate) reviews: Reviews,
    /// What threads and turns get where their callers are silent.
    pub(crate) profile: Profile,
    pub(crate) hooks: HookSet,
    /// The hooks that the server asks.
    pub(crate) registrations: Registrations,
    pub(crate) limits: Limits,
    pub(crate) validation: Validation,
}

/// Closes the link when the last handle is gone.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) core: Arc<Core>,
    pub(crate) link: Link,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.link.close();
    }
}

impl std::ops::Deref for Owner {
    type Target = Arc<Core>;

    fn deref(&self) -> &Arc<Core> {
        &self.core
    }
}

impl Core {
    pub(crate) fn new(
        profile: Profile,
        hooks: HookSet,
        reviews: Reviews,
        limits: Limits,
        validation: Validation,
    ) -> Self {
        Self {
            link: OnceLock::new(),
            router: Arc::new(Router::new(&limits)),
            registry: Registry::default(),
            reviews,
            profile,
            hooks,
            registrations: Registrations::default(),
            limits,
            validation,
        }
    }

    pub(crate) fn set_link(&self, link: Link) {
        // Opened once, by the builder.
        let _ = self.link.set(link);
    }

    pub(crate) fn link(&self) -> Result<&Link, CallError> {
        self.link.get().ok_or(CallError::Closed)
    }

    pub(crate) fn server(&self) -> Result<ServerInfo, CallError> {
        Ok(self.link()?.server())
    }

    pub(crate) fn is_turnlane(&self) -> bool {
        self.server()
            .is_ok_and(|server| server.kind == ServerKind::Turnlane)
    }

    /// One typed call with the client's own validation and timeout.
    pub(crate) async fn call<M: Method>(&self, params: &M::Params) -> Result<M::Output, CallError> {
        let repeat = if M::READS {
            Repeat::Harmless
        } else {
            Repeat::Never
        };
        self.call_as(M::NAME, params, repeat, CallOptions::default())
            .await
    }

    /// One call of any method: checked, sent, checked, decoded.
    pub(crate) async fn call_as<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
        repeat: Repeat,
        options: CallOptions,
    ) -> Result<R, CallError> {
        crate::call::send(self, method, params, repeat, options).await
    }
}

impl Inbound for Arc<Core> {
    fn notification(&self, notification: Notification) {
        let seq = notification.stamp.seq;
        let event = Event::decode(notification.method, notification.params.raw(), seq);
        self.registry.observe(&event);
        self.reviews.observe(&event);
        self.router.deliver(event);
    }

    fn request(&self, request: Request) {
        self.reviews.take(self, request);
    }

    fn lost(&self) {
        self.reviews.lost();
        self.router.lost();
    }

    fn reconnected(&self, generation: u64) {
        crate::hooks::register_again(self);
        // Threads are resumed first, then the turns' tasks look for their turns.
        crate::thread::resume_all(self, generation);
    }

    fn closed(&self, why: &TransportError) {
        self.reviews.lost();
        self.router.close(why);
    }
}

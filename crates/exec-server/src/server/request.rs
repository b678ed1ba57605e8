//! One request of a connection: which method, what it needs, who answers it.
//!
//! The table of methods is [`Connection::v1`]; what each does is in `process_v1`, `v0` and
//! `crate::fs`.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::exec_server::environment::{Roots, StatusAnswer};
use turnlane_protocol::exec_server::{
    InitializeAnswer, InitializeParams, PROCESS_V1, SessionEndAnswer, v0 as wire_v0,
};

use super::calls::Kind;
use super::connection::Connection;
use super::dialect::{Dialect, Method, Route, V0Method, V1Method};
use super::message::params;
use super::outbox::{Farewell, Responder};
use super::session::Session;
use super::sessions::ResumeError;
use super::{process_v1, v0};
use crate::failure;

/// Params of a request, raw.
type Raw<'a> = Option<&'a RawValue>;

impl Connection {
    /// Answers a request, now or later.
    pub(super) fn request(&mut self, responder: &Responder, name: &str, raw: Raw<'_>) {
        self.shared.metrics.request(name);
        let outcome = match self.handshake.route(name) {
            Err(error) => Err(error),
            Ok(Route { method, too_early }) => match method {
                Method::Initialize => self.initialize(responder, raw, too_early),
                Method::V0(method) => self.v0(method, responder, raw, too_early),
                Method::V1(method) => match too_early {
                    Some(error) => Err(error),
                    None => self.v1(method, name, responder, raw),
                },
            },
        };
        if let Err(error) = outcome {
            responder.fail(&error);
        }
    }

    fn initialize(
        &mut self,
        responder: &Responder,
        raw: Raw<'_>,
        again: Option<ErrorObject>,
    ) -> Result<(), ErrorObject> {
        let asked: InitializeParams = params(raw)?;
        if let Some(error) = again {
            return Err(error);
        }
        let dialect = self.handshake.chosen(&asked)?;
        let session = match dialect {
            Dialect::V0 => self.open_v0(),
            Dialect::ProcessV1 => self.open_v1(&asked)?,
        };
        self.outbox.attach(Arc::clone(&session));
        self.handshake.greeted(dialect);
        self.connected.speaks(dialect);
        match dialect {
            Dialect::V0 => responder.respond(Ok(wire_v0::InitializeAnswer {
                protocol_version: wire_v0::VERSION.to_owned(),
            })),
            Dialect::ProcessV1 => responder.respond(Ok(InitializeAnswer {
                session_id: session.id.clone(),
                protocol_version: Some(PROCESS_V1.to_owned()),
                environment_info: Some(self.shared.environment.clone()),
            })),
        }
        tracing::debug!(peer = %self.peer, ?dialect, client = asked.client_name, "initialised");
        self.session = Some(session);
        Ok(())
    }

    fn open_v0(&self) -> Arc<Session> {
        let session = Session::new(String::new(), Dialect::V0, self.shared.surroundings());
        let wake = Arc::clone(&self.outbox.wake);
        session.ready.join(self.outbox.connection, wake);
        session
    }

    fn open_v1(&self, asked: &InitializeParams) -> Result<Arc<Session>, ErrorObject> {
        let ttl_max = self.shared.options.detached_session_ttl;
        let ttl = asked
            .detached_ttl_ms
            .map_or(ttl_max, |ms| Duration::from_millis(ms).min(ttl_max));
        let sessions = &self.shared.sessions;
        let Some(id) = asked.resume_session_id.as_ref().and_then(Option::as_deref) else {
            return Ok(sessions.create(self.shared.surroundings(), &self.outbox, ttl));
        };
        sessions
            .resume(id, &self.outbox, ttl)
            .map_err(|error| match error {
                ResumeError::Unknown => failure::unknown_session(id),
                ResumeError::Attached => failure::attached_elsewhere(id),
            })
    }

    /// The session of a connection whose handshake is done.
    fn session(&self) -> Result<Arc<Session>, ErrorObject> {
        let session = self.session.as_ref();
        session
            .map(Arc::clone)
            .ok_or_else(|| failure::before_initialize("exec"))
    }

    /// `exec-server.v0` decodes before it looks at the handshake.
    fn v0(
        &mut self,
        method: V0Method,
        responder: &Responder,
        raw: Raw<'_>,
        too_early: Option<ErrorObject>,
    ) -> Result<(), ErrorObject> {
        let in_time = too_early.map_or(Ok(()), Err);
        match method {
            V0Method::Exec => {
                let params = params(raw)?;
                in_time?;
                let call = v0::exec(&self.shared, &self.session()?, responder.clone(), params)?;
                self.calls.run(Kind::Start, responder, call);
            }
            V0Method::Write => {
                let params = params(raw)?;
                in_time?;
                let call = v0::write(&*self.session()?, responder.clone(), params)?;
                self.calls.run(Kind::Waiting, responder, call);
            }
            V0Method::Terminate => {
                let params = params(raw)?;
                in_time?;
                responder.respond(Ok(v0::terminate(&*self.session()?, &params)));
            }
        }
        Ok(())
    }

    fn v1(
        &mut self,
        method: V1Method,
        name: &str,
        responder: &Responder,
        raw: Raw<'_>,
    ) -> Result<(), ErrorObject> {
        let session = self.session()?;
        let later = responder.clone();
        match method {
            V1Method::Start => {
                let call = process_v1::start(&self.shared, &session, later, params(raw)?)?;
                self.calls.run(Kind::Start, responder, call);
            }
            V1Method::Read => {
                let call = process_v1::read(&session, later, &params(raw)?)?;
                self.calls.run(Kind::Waiting, responder, call);
            }
            V1Method::Write => {
                if let Some(call) = process_v1::write(&session, later, params(raw)?)? {
                    self.calls.run(Kind::Waiting, responder, call);
                }
            }
            V1Method::CloseStdin => {
                if let Some(call) = process_v1::close_stdin(&session, later, &params(raw)?) {
                    self.calls.run(Kind::Waiting, responder, call);
                }
            }
            V1Method::Wait => {
                let call = process_v1::wait(&session, later, &params(raw)?)?;
                self.calls.run(Kind::Waiting, responder, call);
            }
            V1Method::Signal => answer(responder, &process_v1::signal(&session, &params(raw)?)),
            V1Method::Terminate => {
                answer(responder, &process_v1::terminate(&session, &params(raw)?));
            }
            V1Method::Resize => answer(responder, &process_v1::resize(&session, &params(raw)?)?),
            V1Method::Snapshot => {
                answer(responder, &process_v1::snapshot(&session, &params(raw)?)?);
            }
            V1Method::List => answer(responder, &process_v1::list(&session)),
            V1Method::SessionEnd => self.end_session(&session, responder),
            V1Method::EnvironmentInfo => answer(responder, &self.shared.environment),
            V1Method::EnvironmentStatus => answer(
                responder,
                &StatusAnswer {
                    status: "ready".to_owned(),
                },
            ),
            V1Method::Discover => {
                let roots: Roots = params(raw)?;
                if !roots.roots.is_empty() {
                    return Err(failure::unknown_method_v1(name));
                }
                answer(responder, &roots);
            }
            V1Method::File => self.file(name, responder, raw),
        }
        Ok(())
    }

    fn end_session(&self, session: &Session, responder: &Responder) {
        let ended = self.shared.sessions.end(session);
        let ended = u64::try_from(ended).unwrap_or(u64::MAX);
        answer(responder, &SessionEndAnswer { ended });
        self.outbox.close(Farewell::new(1000, "session ended"));
    }

    fn file(&mut self, name: &str, responder: &Responder, raw: Raw<'_>) {
        let (files, name) = (Arc::clone(&self.files), name.to_owned());
        let raw = raw.map(ToOwned::to_owned);
        let later = responder.clone();
        let call = async move {
            // An answer may be long; it is made when there is room for it.
            later.outbox.room().await;
            later.respond(files.call(&name, raw).await);
        };
        self.calls.run(Kind::File, responder, call);
    }
}

fn answer(responder: &Responder, result: &impl Serialize) {
    responder.respond(Ok(result));
}

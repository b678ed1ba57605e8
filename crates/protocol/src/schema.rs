//! JSON Schema of everything we serve, for those who generate clients.
//!
//! The invariant here: the documents are made from the same types that read and write the wire, so
//! they cannot say something else, and the same build always makes the same bytes. They describe
//! what is *read*: a member that we always write, null or not, is optional in them, so that a
//! generated client also understands servers that leave it out.
//!
//! Writing the files is the command line's business.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::approval;
use crate::error::ErrorObject;
use crate::handshake;
use crate::item::ThreadItem;
use crate::method;
use crate::notification::ServerNotification;
use crate::thread::Thread;
use crate::turn::Turn;

/// The file with all definitions in one.
pub const BUNDLE_FILE: &str = "turnlane_app_server_protocol.schemas.json";

/// The dialect of Codex's own documents, which its clients' generators read.
fn generator() -> SchemaGenerator {
    SchemaSettings::draft07().into_generator()
}

/// The self-contained document of one type.
pub fn document<T: JsonSchema>() -> Value {
    generator().into_root_schema_for::<T>().to_value()
}

/// Every document with the name of its file: one per top-level type, then [`BUNDLE_FILE`].
pub fn documents() -> Vec<(String, Value)> {
    let mut documents = Documents {
        files: Vec::new(),
        bundle: generator(),
    };
    documents.add::<ErrorObject>();
    documents.add::<handshake::InitializeParams>();
    documents.add::<handshake::InitializeResult>();
    documents.add::<Thread>();
    documents.add::<Turn>();
    documents.add::<ThreadItem>();
    documents.add::<method::ThreadStartParams>();
    documents.add::<method::StartAnswer>();
    documents.add::<method::ThreadResumeParams>();
    documents.add::<method::ThreadResumeAnswer>();
    documents.add::<method::ThreadForkParams>();
    documents.add::<method::ThreadReadParams>();
    documents.add::<method::ThreadReadAnswer>();
    documents.add::<method::ThreadListParams>();
    documents.add::<method::ThreadListAnswer>();
    documents.add::<method::TurnStartParams>();
    documents.add::<method::TurnStartAnswer>();
    documents.add::<method::TurnSteerParams>();
    documents.add::<method::TurnSteerAnswer>();
    documents.add::<method::TurnInterruptParams>();
    documents.add::<method::TurnInterruptAnswer>();
    documents.add::<approval::CommandApprovalParams>();
    documents.add::<approval::FileChangeApprovalParams>();
    documents.add::<approval::ApprovalAnswer>();
    documents.add::<approval::ApprovalListParams>();
    documents.add::<approval::ApprovalListAnswer>();
    documents.add::<approval::ApprovalRespondParams>();
    documents.add::<ServerNotification>();
    documents.finish()
}

/// The documents so far.
struct Documents {
    files: Vec<(String, Value)>,
    bundle: SchemaGenerator,
}

impl Documents {
    fn add<T: JsonSchema>(&mut self) {
        self.files
            .push((format!("{}.json", T::schema_name()), document::<T>()));
        // The reference is not needed: that it was asked for puts the type among the definitions.
        self.bundle.subschema_for::<T>();
    }

    fn finish(mut self) -> Vec<(String, Value)> {
        // Sorted, whatever map serde_json was built with.
        let mut definitions: Vec<_> = self.bundle.take_definitions(true).into_iter().collect();
        definitions.sort_by(|(one, _), (other, _)| one.cmp(other));
        let bundle = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": "TurnlaneAppServerProtocol",
            "type": "object",
            "definitions": Map::from_iter(definitions),
        });
        self.files.sort_by(|(one, _), (other, _)| one.cmp(other));
        self.files.push((BUNDLE_FILE.to_owned(), bundle));
        self.files
    }
}

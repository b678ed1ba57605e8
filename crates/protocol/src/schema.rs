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
use crate::fanout::{Job, JobItem, JobItemDetail};
use crate::handshake;
use crate::item::ThreadItem;
use crate::method;
use crate::notification::ServerNotification;
use crate::queue::{QueueState, QueuedTurn};
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
    threads(&mut documents);
    offers(&mut documents);
    processes(&mut documents);
    jobs(&mut documents);
    questions(&mut documents);
    documents.add::<ServerNotification>();
    documents.finish()
}

/// `thread/*` and `turn/*`.
fn threads(documents: &mut Documents) {
    documents.add::<method::ThreadStartParams>();
    documents.add::<method::StartAnswer>();
    documents.add::<method::ThreadResumeParams>();
    documents.add::<method::ThreadResumeAnswer>();
    documents.add::<method::ThreadForkParams>();
    documents.add::<method::ThreadArchiveParams>();
    documents.add::<method::ThreadUnarchiveParams>();
    documents.add::<method::ThreadUnarchiveAnswer>();
    documents.add::<method::ThreadDeleteParams>();
    documents.add::<method::ThreadReadParams>();
    documents.add::<method::ThreadReadAnswer>();
    documents.add::<method::ThreadListParams>();
    documents.add::<method::ThreadListAnswer>();
    documents.add::<method::ThreadLoadedListParams>();
    documents.add::<method::ThreadLoadedListAnswer>();
    documents.add::<method::ThreadUnsubscribeParams>();
    documents.add::<method::ThreadUnsubscribeAnswer>();
    documents.add::<method::ThreadNameSetParams>();
    documents.add::<method::ThreadTurnsListParams>();
    documents.add::<method::TurnsPage>();
    documents.add::<method::ThreadItemsListParams>();
    documents.add::<method::ThreadItemsListAnswer>();
    documents.add::<method::ThreadItemsReadParams>();
    documents.add::<method::ThreadItemsReadAnswer>();
    documents.add::<method::ThreadRevertParams>();
    documents.add::<method::ThreadRevertAnswer>();
    documents.add::<method::ThreadRollbackParams>();
    documents.add::<method::ThreadRollbackAnswer>();
    documents.add::<method::ThreadCompactStartParams>();
    documents.add::<method::ThreadSettingsUpdateParams>();
    documents.add::<method::ThreadGoalGetParams>();
    documents.add::<method::ThreadGoalGetAnswer>();
    documents.add::<method::ThreadGoalSetParams>();
    documents.add::<method::ThreadGoalSetAnswer>();
    documents.add::<method::ThreadGoalClearParams>();
    documents.add::<method::ThreadGoalClearAnswer>();
    documents.add::<method::ReadStateUpdateParams>();
    documents.add::<method::ReadStateUpdateAnswer>();
    documents.add::<method::BackgroundTerminalsListParams>();
    documents.add::<method::BackgroundTerminalsListAnswer>();
    documents.add::<method::BackgroundTerminalsTerminateParams>();
    documents.add::<method::BackgroundTerminalsTerminateAnswer>();
    documents.add::<method::BackgroundTerminalsCleanParams>();
    queue(documents);
    documents.add::<method::TurnStartParams>();
    documents.add::<method::TurnStartAnswer>();
    documents.add::<method::TurnSteerParams>();
    documents.add::<method::TurnSteerAnswer>();
    documents.add::<method::TurnInterruptParams>();
    documents.add::<method::TurnInterruptAnswer>();
    documents.add::<method::Done>();
    documents.add::<method::NoParams>();
}

/// `thread/queue/*`.
fn queue(documents: &mut Documents) {
    documents.add::<QueuedTurn>();
    documents.add::<QueueState>();
    documents.add::<method::ThreadQueueAddParams>();
    documents.add::<method::ThreadQueueAddAnswer>();
    documents.add::<method::ThreadQueueListParams>();
    documents.add::<method::ThreadQueueListAnswer>();
    documents.add::<method::ThreadQueueUpdateParams>();
    documents.add::<method::ThreadQueueUpdateAnswer>();
    documents.add::<method::ThreadQueueDeleteParams>();
    documents.add::<method::ThreadQueueDeleteAnswer>();
    documents.add::<method::ThreadQueueReorderParams>();
    documents.add::<method::ThreadQueueReorderAnswer>();
    documents.add::<method::ThreadQueueStartParams>();
    documents.add::<method::ThreadQueueStartAnswer>();
    documents.add::<method::ThreadQueueRetryParams>();
    documents.add::<method::ThreadQueueMoveParams>();
    documents.add::<method::QueuedTurnAnswer>();
    documents.add::<method::ThreadQueuePauseParams>();
    documents.add::<method::ThreadQueueResumeParams>();
}

/// What a server has: account, models, configuration, lists.
fn offers(documents: &mut Documents) {
    documents.add::<method::AccountReadParams>();
    documents.add::<method::ServerStatusParams>();
    documents.add::<method::ServerStatusAnswer>();
    documents.add::<method::AccountReadAnswer>();
    documents.add::<method::RateLimitsReadAnswer>();
    documents.add::<method::GovCloudAnswer>();
    documents.add::<method::ModelListParams>();
    documents.add::<method::ModelListAnswer>();
    documents.add::<method::ConfigReadParams>();
    documents.add::<method::ConfigReadAnswer>();
    documents.add::<method::ConfigRequirementsReadAnswer>();
    documents.add::<method::HooksListParams>();
    documents.add::<method::HooksListAnswer>();
    documents.add::<method::SkillsListParams>();
    documents.add::<method::SkillsListAnswer>();
    documents.add::<method::CollaborationModeListAnswer>();
    documents.add::<method::PluginListParams>();
    documents.add::<method::PluginListAnswer>();
    documents.add::<method::CatalogListParams>();
    documents.add::<method::McpServerStatusListAnswer>();
    documents.add::<method::PermissionProfileListAnswer>();
    documents.add::<method::ExperimentalFeatureListAnswer>();
}

/// `command/exec*` and `process/*`.
fn processes(documents: &mut Documents) {
    documents.add::<method::CommandExecParams>();
    documents.add::<method::CommandExecAnswer>();
    documents.add::<method::CommandExecWriteParams>();
    documents.add::<method::CommandExecResizeParams>();
    documents.add::<method::CommandExecTerminateParams>();
    documents.add::<method::ProcessSpawnParams>();
    documents.add::<method::ProcessWriteStdinParams>();
    documents.add::<method::ProcessResizePtyParams>();
    documents.add::<method::ProcessKillParams>();
}

/// `fanout/*`.
fn jobs(documents: &mut Documents) {
    documents.add::<Job>();
    documents.add::<JobItem>();
    documents.add::<JobItemDetail>();
    documents.add::<method::FanoutCreateParams>();
    documents.add::<method::FanoutJobParams>();
    documents.add::<method::FanoutJobAnswer>();
    documents.add::<method::FanoutImportParams>();
    documents.add::<method::FanoutImportAnswer>();
    documents.add::<method::FanoutImportWriteParams>();
    documents.add::<method::FanoutImportWriteAnswer>();
    documents.add::<method::FanoutItemsAddParams>();
    documents.add::<method::FanoutItemsAddAnswer>();
    documents.add::<method::FanoutPreviewParams>();
    documents.add::<method::FanoutPreviewAnswer>();
    documents.add::<method::FanoutListParams>();
    documents.add::<method::FanoutListAnswer>();
    documents.add::<method::FanoutPauseParams>();
    documents.add::<method::FanoutRetryParams>();
    documents.add::<method::FanoutRetryAnswer>();
    documents.add::<method::FanoutItemsListParams>();
    documents.add::<method::FanoutItemsListAnswer>();
    documents.add::<method::FanoutItemsReadParams>();
    documents.add::<method::FanoutItemsReadAnswer>();
    documents.add::<method::FanoutExportParams>();
    documents.add::<method::FanoutExportAnswer>();
    documents.add::<method::FanoutDeleteParams>();
    documents.add::<method::FanoutSubscribeParams>();
}

/// What clients are asked, and `approval/*`.
fn questions(documents: &mut Documents) {
    documents.add::<approval::CommandApprovalParams>();
    documents.add::<approval::FileChangeApprovalParams>();
    documents.add::<approval::ApprovalAnswer>();
    documents.add::<approval::PermissionsApprovalParams>();
    documents.add::<approval::PermissionsApprovalAnswer>();
    documents.add::<approval::UserInputParams>();
    documents.add::<approval::UserInputAnswers>();
    documents.add::<approval::DynamicToolCallParams>();
    documents.add::<approval::DynamicToolCallAnswer>();
    documents.add::<approval::ApprovalListParams>();
    documents.add::<approval::ApprovalListAnswer>();
    documents.add::<approval::ApprovalRespondParams>();
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

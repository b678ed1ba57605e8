//! `turnlane approvals`: what agents ask before they do it, and what a person says to it.
//!
//! The invariant here: only what was named is decided, in the order it was named; the first refusal
//! ends the command, and what was decided before it is said.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::thread::about;
use crate::args::{
    ApprovalsAccept, ApprovalsArgs, ApprovalsCommand, ApprovalsDecline, ApprovalsList,
};
use crate::session::{Needs, Session, find, with};
use crate::shown::table::{Cell, table};
use crate::shown::{Form, Ink, Screen};

pub(crate) fn run(args: ApprovalsArgs, before: &[String]) -> anyhow::Result<ExitCode> {
    let ApprovalsArgs { reach, command } = args;
    with(
        before,
        &reach,
        Needs::Store,
        async |session| match command {
            ApprovalsCommand::List(args) => list(session, &args).await,
            ApprovalsCommand::Accept(ApprovalsAccept {
                ids,
                for_session,
                answer,
            }) => {
                let decision = if for_session {
                    "acceptForSession"
                } else {
                    "accept"
                };
                decide(session, &Screen::new(answer), &ids, decision).await
            }
            ApprovalsCommand::Decline(ApprovalsDecline { ids, stop, answer }) => {
                let decision = if stop { "cancel" } else { "decline" };
                decide(session, &Screen::new(answer), &ids, decision).await
            }
        },
    )
}

async fn list(session: &Session, args: &ApprovalsList) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let mut params = json!({});
    if let Some(thread) = &args.thread {
        params["threadId"] = json!(find::thread(session, thread).await?);
    }
    let (open, _) = session.list("approval/list", params, None).await?;
    if screen.form == Form::Json {
        for approval in &open {
            screen.json(approval)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let Some(first) = open.first() else {
        screen.hint("no agent waits for a decision; `turnlane thread list` shows what runs");
        return Ok(ExitCode::SUCCESS);
    };
    let rows = open.iter().map(|one| row(&screen, one)).collect();
    let head = ["APPROVAL", "THREAD", "ASKED", "EXPIRES", "WHAT"];
    screen.print(&table(&screen, &head, rows))?;
    let id = first["approvalId"].as_str().unwrap_or("ID");
    screen.hint(&format!(
        "decide with `turnlane approvals accept {id}` or `turnlane approvals decline {id}`"
    ));
    Ok(ExitCode::SUCCESS)
}

fn row(screen: &Screen, approval: &Value) -> Vec<Cell> {
    let text = |key: &str| {
        approval
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let time = |key: &str| approval.get(key).and_then(Value::as_i64);
    let why = match text("reason") {
        "" => String::new(),
        why => format!(" ({why})"),
    };
    let asked = time("requestedAtMs").map(|at| screen.ago(at));
    let expires = time("expiresAtMs").map(|at| screen.until(at));
    vec![
        Cell::new(text("approvalId")),
        Cell::new(text("threadId")),
        Cell::inked(&asked.unwrap_or_default(), Ink::Dim),
        Cell::inked(&expires.unwrap_or_default(), Ink::Yellow),
        Cell::new(&format!("{}{why}", about(approval))),
    ]
}

async fn decide(
    session: &Session,
    screen: &Screen,
    ids: &[String],
    decision: &str,
) -> anyhow::Result<ExitCode> {
    // All are found first: a slip of the pen in the last one decides nothing.
    let mut found = Vec::new();
    for id in ids {
        found.push(find::approval(session, id).await?);
    }
    let done = match decision {
        "decline" => "declined",
        "cancel" => "declined, and its turn stopped:",
        _ => "accepted",
    };
    for id in found {
        let params = json!({"approvalId": id, "decision": decision});
        let _: Value = session.ask("approval/respond", params.clone()).await?;
        match screen.form {
            Form::People => screen.print(&format!("{done} {id}\n"))?,
            Form::Json => screen.json(&params)?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

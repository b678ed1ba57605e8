//! `turnlane approvals`: what agents ask before they do it, and what a person says to it.
//!
//! The invariant here: only what was named is decided, in the order it was named; the first refusal
//! ends the command, and what was decided before it is said.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use super::thread::about;
use crate::args::{
    ApprovalsAccept, ApprovalsArgs, ApprovalsCommand, ApprovalsDecline, ApprovalsList,
    ApprovalsShow,
};
use crate::session::{Needs, Session, find, with};
use crate::shown::ids::{short, shorts};
use crate::shown::table::{Cell, Column, facts, table};
use crate::shown::text::visible;
use crate::shown::{Form, Ink, Screen};

pub(crate) fn run(args: ApprovalsArgs) -> anyhow::Result<ExitCode> {
    let ApprovalsArgs { reach, command } = args;
    with(&reach, Needs::Store, async |session| match command {
        ApprovalsCommand::List(args) => list(session, &args).await,
        ApprovalsCommand::Show(args) => show(session, &args).await,
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
    })
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
    if open.is_empty() {
        screen.hint("no agent waits for a decision; `turnlane thread list` shows what runs");
        return Ok(ExitCode::SUCCESS);
    }
    let mut names: HashMap<&str, String> = HashMap::new();
    for one in &open {
        let thread = text(one, "threadId");
        if !names.contains_key(thread) {
            let name = find::name(session, thread).await.unwrap_or_default();
            names.insert(thread, name);
        }
    }
    let ids = shorts(open.iter().map(|one| text(one, "approvalId")));
    let row = |(one, id): (&Value, &String)| {
        let name = names.get(text(one, "threadId"));
        row(
            &screen,
            one,
            id,
            name.map(String::as_str).unwrap_or_default(),
        )
    };
    let rows = open.iter().zip(&ids).map(row).collect();
    screen.print(&table(&screen, &COLUMNS, rows))?;
    let id = ids.first().map_or("ID", String::as_str);
    screen.hint(&format!(
        "look with `turnlane approvals show {id}`, decide with `turnlane approvals accept {id}` or \
         `turnlane approvals decline {id}`"
    ));
    Ok(ExitCode::SUCCESS)
}

const COLUMNS: [Column; 6] = [
    Column::whole("APPROVAL"),
    Column::whole("THREAD").leaves(2),
    Column::cut("NAME", 10).leaves(1),
    Column::whole("ASKED").leaves(4),
    Column::whole("EXPIRES").leaves(3),
    Column::cut("WHAT", 24),
];

fn text<'a>(approval: &'a Value, key: &str) -> &'a str {
    let text = approval.get(key).and_then(Value::as_str);
    text.unwrap_or_default()
}

fn row(screen: &Screen, approval: &Value, id: &str, name: &str) -> Vec<Cell> {
    let time = |key: &str| approval.get(key).and_then(Value::as_i64);
    let why = match text(approval, "reason") {
        "" => String::new(),
        why => format!(" ({why})"),
    };
    let asked = time("requestedAtMs").map(|at| screen.ago(at));
    let expires = time("expiresAtMs").map(|at| screen.until(at));
    vec![
        Cell::new(id),
        Cell::new(&short(text(approval, "threadId"))),
        Cell::new(name),
        Cell::inked(&asked.unwrap_or_default(), Ink::Dim),
        Cell::inked(&expires.unwrap_or_default(), Ink::Yellow),
        Cell::new(&format!("{}{why}", about(approval))),
    ]
}

/// Shows one approval whole: the command, or the changes as a diff.
async fn show(session: &Session, args: &ApprovalsShow) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let id = find::approval(session, &args.id).await?;
    let (open, _) = session.list("approval/list", json!({}), None).await?;
    let Some(approval) = open.iter().find(|one| text(one, "approvalId") == id) else {
        bail!(
            "approval {} is not open\n  \
             it was decided, or its turn has ended; `turnlane approvals list` shows what is open",
            short(&id)
        );
    };
    if screen.form == Form::Json {
        screen.json(approval)?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = find::name(session, text(approval, "threadId")).await;
    screen.print(&whole(&screen, approval, name))?;
    let id = short(&id);
    screen.hint(&format!(
        "decide with `turnlane approvals accept {id}` or `turnlane approvals decline {id}`"
    ));
    Ok(ExitCode::SUCCESS)
}

fn whole(screen: &Screen, approval: &Value, name: Option<String>) -> String {
    let given = |key: &str| Some(text(approval, key).to_owned()).filter(|text| !text.is_empty());
    let time = |key: &str| approval.get(key).and_then(Value::as_i64);
    let mut shown = facts(
        screen,
        &[
            ("approval", given("approvalId")),
            ("thread", given("threadId")),
            ("name", name),
            ("kind", given("kind")),
            ("asked", time("requestedAtMs").map(|at| screen.ago(at))),
            ("expires", time("expiresAtMs").map(|at| screen.until(at))),
            ("reason", given("reason")),
            ("directory", given("cwd")),
        ],
    );
    // Line by line as it is: what is accepted has to be read whole.
    if let Some(command) = given("command") {
        let command = screen.paint(Ink::Bold, &visible(&command));
        // Writing into a string cannot fail.
        let _ = write!(shown, "\n{command}\n");
    }
    let changes = approval.get("changes").and_then(Value::as_array);
    for change in changes.into_iter().flatten() {
        let path = visible(text(change, "path"));
        let kind = match &change["kind"] {
            Value::String(word) => word.clone(),
            kind => text(kind, "type").to_owned(),
        };
        let title = screen.paint(Ink::Bold, format!("{kind} {path}").trim_start());
        let _ = write!(shown, "\n{title}\n");
        for line in text(change, "diff").lines() {
            let ink = match line.as_bytes().first() {
                Some(b'+') => Ink::Green,
                Some(b'-') => Ink::Red,
                _ => Ink::Plain,
            };
            let _ = writeln!(shown, "{}", screen.paint(ink, &visible(line)));
        }
    }
    shown
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
            Form::People => screen.print(&format!("{done} {}\n", short(&id)))?,
            Form::Json => screen.json(&params)?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

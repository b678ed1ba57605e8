//! Messages: how long acceptance takes, and how many are accepted in a second.

use anyhow::ensure;
use serde_json::json;
use turnlane_benchkit::{Disk, Figures, InstantModel, goal, is_quick, now, per_second, println};
use turnlane_testkit::wait::{DEADLINE, within};

use crate::member::{self, Member, message};
use crate::table;

/// Message to first event with the reference design, in milliseconds.
const REFERENCE_MS: f64 = 216.0;
/// Messages under way at once in the section `rate`.
const IN_FLIGHT: usize = 32;

/// `SendMessage` to accepted on a paused lane, each beside an fdatasync on the same disk.
pub(crate) async fn run() -> anyhow::Result<()> {
    let rounds = if is_quick() { 20 } else { 1_000 };
    let model = InstantModel::start().await?;
    let home = member::home(&model)?;
    let native = member::engine("native")?.unwrap_or_default();
    let mut member = Member::start(&home, "bench", &native).await?;
    member.call("Pause").await?;
    let mut disk = Disk::in_folder(home.path())?;
    let (mut accepted, mut synced) = (Figures::default(), Figures::default());
    for number in 0..rounds {
        synced.add_time(disk.once()?);
        let sent = now();
        member.send(&message(number)).await?;
        member.event("Ok").await?;
        accepted.add_time(sent.elapsed());
    }
    holds(&mut member, rounds).await?;
    table::head("ms", &["p50", "p99"]);
    for (what, figures) in [
        ("fdatasync of 4 KiB on the same disk", &synced),
        ("`SendMessage` to accepted, on disk", &accepted),
    ] {
        table::row(what, &[50, 99].map(|percent| figures.percentile(percent)));
    }
    goal::head();
    let [p50, p99] = [50, 99].map(|percent| accepted.percentile(percent));
    let ratio = |percent| accepted.percentile(percent) / synced.percentile(percent);
    goal::at_most("accepted p99 ÷ fdatasync p99", ratio(99), 2.0);
    goal::at_most("accepted p99, ms", p99, 10.0);
    println(&format!(
        "\nWithout a goal: accepted p50 {} ms, {} × fdatasync p50.",
        goal::shown(p50),
        goal::shown(ratio(50))
    ));
    Ok(())
}

/// Acceptance of many messages with several under way.
pub(crate) async fn rate() -> anyhow::Result<()> {
    let messages = if is_quick() { 500 } else { 10_000 };
    let model = InstantModel::start().await?;
    let home = member::home(&model)?;
    let native = member::engine("native")?.unwrap_or_default();
    let mut member = Member::start(&home, "bench", &native).await?;
    member.call("Pause").await?;
    let (mut sent, mut accepted) = (0, 0);
    let began = now();
    while accepted < messages {
        while sent < messages && sent - accepted < IN_FLIGHT {
            member.send(&message(sent)).await?;
            sent += 1;
        }
        member.event("Ok").await?;
        accepted += 1;
    }
    let elapsed = began.elapsed();
    holds(&mut member, messages).await?;
    println(&format!(
        "{messages} messages, {IN_FLIGHT} in flight, lane paused; all of them wait in the lane after a restart."
    ));
    drop(member);
    let mut member = Member::start(&home, "bench", &native).await?;
    holds(&mut member, messages).await?;
    goal::head();
    let rate = per_second(messages, elapsed);
    goal::at_least("accepted per second", rate, 1_000.0);
    Ok(())
}

/// Fails unless so many messages wait. A shim is told of the depth of its lane after the acceptance.
async fn holds(member: &mut Member, messages: usize) -> anyhow::Result<()> {
    let holds = async {
        loop {
            member.send(&json!({"cmd": "GetState"})).await?;
            if member.event("State").await?["queue_depth"] == messages {
                return Ok(());
            }
        }
    };
    within(&format!("{messages} waiting messages"), DEADLINE, holds).await?
}

/// Accepted to `MessageDelivered` with an idle lane.
pub(crate) async fn delivered() -> anyhow::Result<()> {
    let rounds = if is_quick() { 20 } else { 500 };
    let model = InstantModel::start().await?;
    let home = member::home(&model)?;
    let native = member::engine("native")?.unwrap_or_default();
    let mut member = Member::start(&home, "bench", &native).await?;
    let [mut delivered, mut first, mut completed] = [(); 3].map(|()| Figures::default());
    for number in 0..rounds {
        let sent = now();
        member.send(&message(number)).await?;
        let (mut accepted_at, mut delivered_at) = (None, None);
        loop {
            let event = member.next().await?;
            match event["event"].as_str().unwrap_or_default() {
                "Ok" => accepted_at = Some(sent.elapsed()),
                "MessageDelivered" => {
                    ensure!(event["id"] == member::id(number), "{event}");
                    delivered_at = Some(sent.elapsed());
                }
                "Completion" => {
                    ensure!(event["message_id"] == member::id(number), "{event}");
                    completed.add_time(sent.elapsed());
                    break;
                }
                _ => {}
            }
        }
        let (Some(accepted_at), Some(delivered_at)) = (accepted_at, delivered_at) else {
            anyhow::bail!("a completion before the receipts of message {number}");
        };
        delivered.add_time(delivered_at.saturating_sub(accepted_at));
        first.add_time(accepted_at.min(delivered_at));
    }
    ensure!(model.asked() == rounds, "{} model calls", model.asked());
    table::head("ms", &["p50", "p99"]);
    for (what, figures) in [
        ("accepted to `MessageDelivered`", &delivered),
        ("`SendMessage` to the first event", &first),
        ("`SendMessage` to `Completion`", &completed),
    ] {
        table::row(what, &[50, 99].map(|percent| figures.percentile(percent)));
    }
    goal::head();
    let limit = REFERENCE_MS / 10.0;
    let p50 = delivered.percentile(50);
    goal::at_most("accepted to `MessageDelivered`, p50, ms", p50, limit);
    let p50 = first.percentile(50);
    goal::at_most("`SendMessage` to the first event, p50, ms", p50, limit);
    Ok(())
}

//! Result files: columns, order, states, cells; chunks and lines.

use std::sync::Arc;

use turnlane_runtime::fanout::export::{ExportFormat, ExportOptions, Exports, Overwrite};
use turnlane_store::fanout::{
    AttemptOutcome, ChangedJob, ClaimItems, Company, ItemAttempt, ItemError, ItemReport, ItemStart,
    ItemToStart, ItemUsage, JobChange, JobOwner, JobRow, JobTo, Making, SettleTo, Settlement,
};
use turnlane_store::queue::{NewRow, Policies};
use turnlane_store::thread::{Listed, NewThread};
use turnlane_store::turn::Accept;
use turnlane_store::{Json, ThreadId};
use uuid::Uuid;

use super::{Desk, new_job};
use crate::support::NOW_MS;

/// The thread of an item, which a test can name.
fn thread(seq: i64) -> ThreadId {
    Uuid::from_u128((0x11 << 120) | u128::try_from(seq).unwrap()).into()
}

fn begin(item: ItemToStart<'_>) -> ItemStart {
    let id = |kind: u128| Uuid::from_u128((kind << 120) | u128::try_from(item.seq).unwrap());
    let thread = NewThread {
        id: thread(item.seq),
        engine: "scripted".to_owned(),
        settings: Json::new("{}"),
        facts: Json::new("{}"),
        name: None,
        cwd: "/".to_owned(),
        source: "subAgentOther".to_owned(),
        provider: "none".to_owned(),
        parent: None,
        binding: None,
        listed: Listed::Yes,
        max_depth: 10,
        at_ms: NOW_MS,
    };
    let row = NewRow {
        id: id(0x13).into(),
        turn: id(0x12).into(),
        source: "fanout".to_owned(),
        params: Json::new("{}"),
        client_id: item.seq.to_string(),
        key: None,
        content_hash: [0; 32],
        not_before_ms: 0,
        policies: Policies::default(),
        bound: None,
    };
    let accept = Accept {
        item: None,
        settings: None,
        cwd: None,
        preview: None,
    };
    ItemStart::Begin {
        thread: Some(Box::new(thread)),
        row: Box::new(row),
        accept: Box::new(accept),
        branch: None,
    }
}

impl Desk {
    pub(super) fn exports(&self) -> Exports {
        let clock = Arc::new(self.home.clock.clone());
        Exports::new(Arc::clone(&self.store), clock)
    }

    async fn change(&self, job: &JobRow, to: JobTo) -> JobRow {
        let change = JobChange {
            job: job.no,
            version: self.job(&job.made.id).await.version,
            to,
            at_ms: NOW_MS,
        };
        match self.store.change_job(change).await.unwrap() {
            ChangedJob::Changed(job) => *job,
            ChangedJob::Unchanged(job) => panic!("unchanged: {:?}", job.state),
        }
    }

    /// Starts a ready job and claims so many of its items.
    async fn claim(&self, job: &JobRow, max: u32) {
        let running = JobTo::Running {
            owner: JobOwner::Detached,
            owner_worker: None,
        };
        self.change(job, running).await;
        let claim = ClaimItems {
            job: job.no,
            max,
            company: Company::Others,
            making: Making::new(begin),
            at_ms: NOW_MS + 1_000,
        };
        self.store.claim_items(claim).await.unwrap();
    }

    async fn report(&self, job: &JobRow, seq: i64, result: &str) {
        let report = ItemReport {
            item: attempt(job, seq),
            result: Json::new(result),
            digest: [1; 32],
            usage: ItemUsage {
                input_tokens: 10,
                output_tokens: 5,
                total_tokens: 15,
                ..ItemUsage::default()
            },
            stop: false,
            at_ms: NOW_MS + 2_500,
        };
        self.store.report_item(report).await.unwrap();
    }

    async fn fail(&self, job: &JobRow, seq: i64, message: &str) {
        let settlement = Settlement {
            item: attempt(job, seq),
            outcome: AttemptOutcome::Failed,
            error: Some(ItemError {
                kind: "server_error".to_owned(),
                message: message.to_owned(),
            }),
            usage: ItemUsage::default(),
            to: SettleTo::Failed,
        };
        let settled = self
            .store
            .settle_items(vec![settlement], NOW_MS + 3_000)
            .await;
        assert!(settled.unwrap()[0].changed);
    }

    /// The whole export, from the chunks.
    async fn exported(&self, job: &JobRow, options: ExportOptions) -> String {
        let exports = self.exports();
        let (mut text, mut cursor) = (String::new(), None);
        loop {
            let chunk = exports.export_chunk(job, options, cursor.as_deref());
            let chunk = chunk.await.unwrap();
            assert!(chunk.data.len() <= 1 << 20);
            text.push_str(&chunk.data);
            cursor = chunk.next_cursor;
            if cursor.is_none() {
                return text;
            }
        }
    }
}

fn attempt(job: &JobRow, seq: i64) -> ItemAttempt {
    ItemAttempt {
        job: job.no,
        seq,
        attempt: 1,
    }
}

const RAW: ExportOptions = ExportOptions {
    format: ExportFormat::Csv,
    wide: false,
    flatten: false,
    raw: true,
};

const JSONL: ExportOptions = ExportOptions {
    format: ExportFormat::Jsonl,
    wide: false,
    flatten: false,
    raw: false,
};

#[tokio::test]
async fn every_row_is_there_in_input_order_with_its_state() {
    let desk = Desk::new();
    let options = r#"{"idColumn":"status","onDuplicate":"skip"}"#;
    let input = "status,job_id,fanout_job_id\na,1,x\nb,2,x\na,3,x\n,,\nc,4,x\n ,5,x\ne,6,x\n";
    let job = desk
        .import(new_job("J", "{job_id}", options), "in.csv", input)
        .await
        .unwrap();
    desk.claim(&job, 4).await;
    desk.report(&job, 5, "{\"ok\": [1, 2.0]}").await;
    desk.fail(&job, 4, "said \"no\"").await;
    desk.report(&job, 0, "{ }").await;
    let text = desk.exported(&job, ExportOptions::default()).await;
    let meta = "item_id,row_index,source_id,fanout_status,attempt_count,last_error,result_json,reported_at,completed_at";
    let at = "2027-01-15T08:00:02.500Z";
    let expected = [
        format!("status,job_id,fanout_job_id,fanout_fanout_job_id,{meta}"),
        format!("a,1,x,J,a,0,a,completed,1,,{{}},{at},{at}"),
        "b,2,x,J,b,1,b,running,1,,,,".to_owned(),
        "a,3,x,J,a-2,2,a,skipped,0,\"duplicate_id: row 1 has the id \"\"a\"\"\",,,2027-01-15T08:00:00.000Z".to_owned(),
        "c,4,x,J,c,4,c,failed,1,\"server_error: said \"\"no\"\"\",,,2027-01-15T08:00:03.000Z".to_owned(),
        format!(" ,5,x,J,row-6,5,,completed,1,,\"{{\"\"ok\"\":[1,2.0]}}\",{at},{at}"),
        "e,6,x,J,e,6,e,pending,0,,,,".to_owned(),
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    assert!(text.ends_with('\n') && !text.contains('\r'));
    desk.change(&job, JobTo::Cancelling { message: None }).await;
    let text = desk.exported(&job, ExportOptions::default()).await;
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("e,6,x,J,e,6,e,cancelled,0,"), "{last}");
}

#[tokio::test]
async fn json_lines_are_unaltered() {
    let desk = Desk::new();
    let input = "{\"n\": 1.50, \"t\": \"=cmd\"}\n{\"t\": null, \"o\": {\"k\": [1, 2]}}\n";
    let job = desk
        .import(new_job("J", "x", "{}"), "in.jsonl", input)
        .await
        .unwrap();
    desk.claim(&job, 1).await;
    desk.report(&job, 0, "{\"a\": \"=x\", \"n\": 1.0}").await;
    let text = desk.exported(&job, JSONL).await;
    let lines: Vec<&str> = text.lines().collect();
    let id = thread(0);
    let first = format!(
        "{{\"seq\":0,\"itemId\":\"row-1\",\"sourceId\":null,\"row\":{{\"n\":1.50,\"t\":\"=cmd\"}},\
         \"state\":\"succeeded\",\"attempts\":1,\"result\":{{\"a\":\"=x\",\"n\":1.0}},\"error\":null,\
         \"threadId\":\"{id}\",\"usage\":{{\"inputTokens\":10,\"cachedInputTokens\":0,\
         \"outputTokens\":5,\"reasoningOutputTokens\":0,\"totalTokens\":15}},\
         \"startedAtMs\":1800000001000,\"reportedAtMs\":1800000002500,\"endedAtMs\":1800000002500}}"
    );
    assert_eq!(lines[0], first);
    assert!(lines[1].contains(
        r#""row":{"t":null,"o":{"k":[1,2]}},"state":"pending","attempts":0,"result":null"#
    ));
    let csv = desk.exported(&job, RAW).await;
    assert!(csv.starts_with("n,t,o,job_id,"));
    assert!(csv.contains("\n,,\"{\"\"k\"\":[1,2]}\",J,row-2,"));
}

#[tokio::test]
async fn formulas_are_guarded_unless_the_export_is_raw() {
    let desk = Desk::new();
    let cells = [
        "=1+1", "-1", "+1.5e3", "-1+1", "@x", "\"\tx\"", "\"\nx\"", "'=x", " =x", "＝x",
    ];
    let input = format!("=h,b\n{},z\n", cells.join(",z\n"));
    let job = desk
        .import(new_job("J", "x", "{}"), "in.csv", input)
        .await
        .unwrap();
    let first_cells = |text: &str| -> Vec<String> {
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .from_reader(text.as_bytes());
        let records = reader.records().map(|record| record.unwrap()[0].to_owned());
        records.collect()
    };
    let guarded = first_cells(&desk.exported(&job, ExportOptions::default()).await);
    let expected = [
        "'=h", "'=1+1", "-1", "+1.5e3", "'-1+1", "'@x", "'\tx", "'\nx", "'=x", "' =x", "'＝x",
    ];
    assert_eq!(guarded, expected);
    let raw = first_cells(&desk.exported(&job, RAW).await);
    let expected = [
        "=h", "=1+1", "-1", "+1.5e3", "-1+1", "@x", "\tx", "\nx", "'=x", " =x", "＝x",
    ];
    assert_eq!(raw, expected);
}

#[tokio::test]
async fn a_table_comes_back_byte_for_byte() {
    let desk = Desk::new();
    let rows = [
        ["plain", "a\r\nb", "\"q\""],
        ["", "é🦀\u{feff}", " padded "],
        ["=x", ",,", "\n"],
        ["'", "\t", "l\rm"],
    ];
    let mut input = csv::Writer::from_writer(Vec::new());
    input.write_record(["a", "b\n", "c\""]).unwrap();
    for row in rows {
        input.write_record(row).unwrap();
    }
    let input = input.into_inner().unwrap();
    let job = desk
        .import(new_job("J", "x", "{}"), "in.csv", input)
        .await
        .unwrap();
    let text = desk.exported(&job, RAW).await;
    let mut output = csv::Reader::from_reader(text.as_bytes());
    let header = output.headers().unwrap();
    assert_eq!(
        header.iter().take(3).collect::<Vec<_>>(),
        ["a", "b\n", "c\""]
    );
    let records = output.records().map(|record| {
        let record = record.unwrap();
        [0, 1, 2].map(|at| record[at].to_owned())
    });
    assert_eq!(
        records.collect::<Vec<_>>(),
        rows.map(|row| row.map(str::to_owned))
    );
}

#[tokio::test]
async fn wide_and_flat_exports_have_more_columns() {
    let desk = Desk::new();
    let input = "a,result.b\n1,x\n2,y\n";
    let job = desk
        .import(new_job("J", "x", "{}"), "in.csv", input)
        .await
        .unwrap();
    desk.claim(&job, 2).await;
    desk.report(&job, 0, "{\"c\":null,\"b\":{\"d\":1}}").await;
    desk.fail(&job, 1, "no").await;
    let options = ExportOptions {
        wide: true,
        flatten: true,
        ..ExportOptions::default()
    };
    let text = desk.exported(&job, options).await;
    let behind = |line: &str| {
        line.split_once("completed_at")
            .map(|(_, rest)| rest.to_owned())
    };
    let lines: Vec<&str> = text.lines().collect();
    let expected = ",error_kind,thread_id,input_tokens,output_tokens,cost_usd,duration_ms,branch,fanout_result.b,result.c";
    assert_eq!(behind(lines[0]).as_deref(), Some(expected));
    let first = format!(",,{},10,5,,1500,,\"{{\"\"d\"\":1}}\",", thread(0));
    assert!(lines[1].ends_with(&first), "{}", lines[1]);
    let second = format!(",server_error,{},0,0,,2000,,,", thread(1));
    assert!(lines[2].ends_with(&second), "{}", lines[2]);
}

#[tokio::test]
async fn chunks_are_bounded_and_make_the_whole_file() {
    let desk = Desk::new();
    let rows: Vec<String> = (0..3_000)
        .map(|row| format!("{row},{}", "x".repeat(row % 2_000)))
        .collect();
    let input = format!("n,t\n{}\n", rows.join("\n"));
    let job = desk
        .import(new_job("J", "x", "{}"), "in.csv", input)
        .await
        .unwrap();
    let path = desk.files.path().join("out.csv");
    let exports = desk.exports();
    let written = exports.export_to(&job, &path, ExportOptions::default(), Overwrite::Refused);
    let written = written.await.unwrap();
    assert_eq!(written.rows, 3_000);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 3_001);
    let chunks = desk.exported(&job, ExportOptions::default()).await;
    assert!(chunks.len() > 2 << 20);
    assert_eq!(chunks, text);
}

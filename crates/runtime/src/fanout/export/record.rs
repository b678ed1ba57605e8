//! The lines of an export: CSV cells and their guard against formulas, JSON lines.
//!
//! The invariant here: JSONL shows values as they are. Only a CSV cell that a spreadsheet would take for
//! a formula is changed, by a quote in front of it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use turnlane_store::fanout::{FanoutItem, ItemDetail, ItemState, JobRow};

use super::{ExportError, ExportFormat, ExportOptions};
use crate::fanout::import::InputOptions;
use crate::fanout::row::{Columns, Members, Row, compact_json, quote};

/// The columns behind those of the input.
const META: [&str; 10] = [
    "job_id",
    "item_id",
    "row_index",
    "source_id",
    "status",
    "attempt_count",
    "last_error",
    "result_json",
    "reported_at",
    "completed_at",
];

/// The columns of a wide export.
const WIDE: [&str; 7] = [
    "error_kind",
    "thread_id",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "duration_ms",
    "branch",
];

/// Makes the lines of one job's export.
pub(super) struct Records {
    job_id: String,
    columns: Columns,
    id_column: Option<String>,
    options: ExportOptions,
    fields: BTreeSet<String>,
}

impl Records {
    pub(super) fn new(
        job: &JobRow,
        options: ExportOptions,
        fields: BTreeSet<String>,
    ) -> Result<Self, ExportError> {
        let stored = |error: String| ExportError::Stored(error);
        let columns = match job.columns.as_str() {
            "" => Columns::default(),
            _ => Columns::from_stored(&job.columns).map_err(|error| stored(error.to_string()))?,
        };
        let input = InputOptions::of_job(job).map_err(|error| stored(error.to_string()))?;
        Ok(Self {
            job_id: job.made.id.clone(),
            columns,
            id_column: input.id_column,
            options,
            fields,
        })
    }

    /// The first line; empty for JSONL.
    pub(super) fn header(&self) -> String {
        let mut line = Line::new(self.options.raw);
        if self.options.format == ExportFormat::Jsonl {
            return String::new();
        }
        let mut used: BTreeSet<String> = self.columns.names().iter().cloned().collect();
        for name in self.columns.names() {
            line.cell(name);
        }
        let wide: &[&str] = if self.options.wide { &WIDE } else { &[] };
        let meta = META.iter().chain(wide).map(|name| (*name).to_owned());
        let fields = self.fields.iter().map(|field| format!("result.{field}"));
        for mut name in meta.chain(fields) {
            while used.contains(&name) {
                name.insert_str(0, "fanout_");
            }
            line.cell(&name);
            used.insert(name);
        }
        line.end()
    }

    /// Adds the line of one row.
    pub(super) fn push(
        &mut self,
        text: &mut String,
        detail: &ItemDetail,
    ) -> Result<(), ExportError> {
        let row = Row::from_stored(&detail.cells);
        let row = row.map_err(|error| ExportError::Stored(error.to_string()))?;
        match self.options.format {
            ExportFormat::Csv => text.push_str(&self.csv(&row, detail)),
            ExportFormat::Jsonl => text.push_str(&self.json(&row, detail)),
        }
        Ok(())
    }

    /// The id cell as it was; none where it is blank.
    fn source_id<'a>(&self, row: &'a Row) -> Option<Cow<'a, str>> {
        let cell = row.value(&self.columns, self.id_column.as_deref()?)?;
        (!cell.trim().is_empty()).then_some(cell)
    }

    fn csv(&self, row: &Row, detail: &ItemDetail) -> String {
        let item = &detail.item;
        let mut line = Line::new(self.options.raw);
        for name in self.columns.names() {
            line.cell(&row.value(&self.columns, name).unwrap_or_default());
        }
        let error = shown_error(item);
        let result = detail.result.as_ref();
        line.cell(&self.job_id);
        line.cell(&item.item_id);
        line.cell(&item.seq.to_string());
        line.cell(&self.source_id(row).unwrap_or_default());
        line.cell(status(item.state));
        line.cell(&item.attempt.to_string());
        let message = error.map(|error| format!("{}: {}", error.kind, error.message));
        line.cell(&message.unwrap_or_default());
        let compact = result.map(|result| compact_json(result.as_str()));
        line.cell(&compact.unwrap_or_default());
        line.cell(&item.reported_ms.map(rfc3339).unwrap_or_default());
        line.cell(&item.ended_ms.map(rfc3339).unwrap_or_default());
        if self.options.wide {
            line.cell(error.map_or("", |error| &error.kind));
            line.cell(&item.thread.map(|id| id.to_string()).unwrap_or_default());
            line.cell(&item.usage.input_tokens.to_string());
            line.cell(&item.usage.output_tokens.to_string());
            // Unknown is not zero: the runtime has no prices.
            line.cell("");
            let duration = item.started_ms.zip(item.ended_ms);
            let duration = duration.map(|(start, end)| (end - start).to_string());
            line.cell(&duration.unwrap_or_default());
            line.cell(&branch(item));
        }
        if !self.fields.is_empty() {
            let members = result.and_then(|result| Members::parse(result.as_str()).ok());
            let members = Row::Object(members.unwrap_or_default());
            for field in &self.fields {
                line.cell(&members.value(&self.columns, field).unwrap_or_default());
            }
        }
        line.end()
    }

    fn json(&self, row: &Row, detail: &ItemDetail) -> String {
        let item = &detail.item;
        let number =
            |value: Option<i64>| value.map_or_else(|| "null".to_owned(), |value| value.to_string());
        let error = shown_error(item).map_or_else(
            || "null".to_owned(),
            |error| {
                let (kind, message) = (quote(&error.kind), quote(&error.message));
                format!("{{\"kind\":{kind},\"message\":{message}}}")
            },
        );
        let source_id = self.source_id(row).map(|id| quote(&id));
        let result = detail.result.as_ref();
        let result = result.map(|result| compact_json(result.as_str()));
        let thread = item.thread.map(|id| quote(&id.to_string()));
        let usage = item.usage;
        let null = || "null".to_owned();
        format!(
            "{{\"seq\":{},\"itemId\":{},\"sourceId\":{},\"row\":{},\"state\":\"{}\",\
             \"attempts\":{},\"result\":{},\"error\":{error},\"threadId\":{},\
             \"usage\":{{\"inputTokens\":{},\"cachedInputTokens\":{},\"outputTokens\":{},\
             \"reasoningOutputTokens\":{},\"totalTokens\":{}}},\
             \"startedAtMs\":{},\"reportedAtMs\":{},\"endedAtMs\":{}}}\n",
            item.seq,
            quote(&item.item_id),
            source_id.unwrap_or_else(null),
            row.to_json(&self.columns),
            state(item.state),
            item.attempt,
            result.unwrap_or_else(null),
            thread.unwrap_or_else(null),
            usage.input_tokens,
            usage.cached_input_tokens,
            usage.output_tokens,
            usage.reasoning_output_tokens,
            usage.total_tokens,
            number(item.started_ms),
            number(item.reported_ms),
            number(item.ended_ms),
        )
    }
}

/// The error of an item that has not succeeded.
fn shown_error(item: &FanoutItem) -> Option<&turnlane_store::fanout::ItemError> {
    match item.state {
        ItemState::Succeeded => None,
        _ => item.error.as_ref(),
    }
}

/// The name of the branch that holds an item's work.
fn branch(item: &FanoutItem) -> String {
    let stored = item.branch.as_ref().map_or("", |branch| branch.as_str());
    match serde_json::from_str(stored) {
        Ok(serde_json::Value::String(name)) => name,
        Ok(value) => value["branch"].as_str().unwrap_or_default().to_owned(),
        Err(_) => String::new(),
    }
}

/// The word of a state in JSONL and on the wire.
const fn state(state: ItemState) -> &'static str {
    match state {
        ItemState::Pending => "pending",
        ItemState::Running => "running",
        ItemState::Succeeded => "succeeded",
        ItemState::Failed => "failed",
        ItemState::Skipped => "skipped",
        ItemState::Cancelled => "cancelled",
    }
}

/// The word of a state in CSV.
const fn status(item: ItemState) -> &'static str {
    match item {
        ItemState::Succeeded => "completed",
        other => state(other),
    }
}

/// A CSV line under construction.
struct Line {
    text: String,
    cells: usize,
    raw: bool,
}

impl Line {
    fn new(raw: bool) -> Self {
        Self {
            text: String::new(),
            cells: 0,
            raw,
        }
    }

    fn cell(&mut self, cell: &str) {
        if self.cells > 0 {
            self.text.push(',');
        }
        self.cells += 1;
        let cell = if self.raw {
            Cow::Borrowed(cell)
        } else {
            guarded(cell)
        };
        if cell.contains([',', '"', '\r', '\n']) {
            self.text.push('"');
            self.text.push_str(&cell.replace('"', "\"\""));
            self.text.push('"');
        } else {
            self.text.push_str(&cell);
        }
    }

    fn end(mut self) -> String {
        self.text.push('\n');
        self.text
    }
}

/// A cell that no spreadsheet takes for a formula.
pub fn guarded(cell: &str) -> Cow<'_, str> {
    let first = cell.trim_start_matches(' ').chars().next();
    let formula = first.is_some_and(|c| "=+-@\t\r\n＝＋－＠".contains(c));
    if formula && !is_plain_number(cell) {
        Cow::Owned(format!("'{cell}"))
    } else {
        Cow::Borrowed(cell)
    }
}

/// Returns true for a sign, digits, an optional fraction and an optional exponent.
pub fn is_plain_number(cell: &str) -> bool {
    let unsigned = |text: &str| text.strip_prefix(['+', '-']).unwrap_or(text).to_owned();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = match cell.split_once(['e', 'E']) {
        None => (cell, None),
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
    };
    let mantissa = unsigned(mantissa);
    let fits = match mantissa.split_once('.') {
        None => digits(&mantissa),
        Some((whole, fraction)) => digits(whole) && digits(fraction),
    };
    fits && exponent.is_none_or(|exponent| digits(&unsigned(exponent)))
}

/// A time as `2030-01-01T09:05:00.000Z`.
fn rfc3339(unix_ms: i64) -> String {
    let (days, ms) = (
        unix_ms.div_euclid(86_400_000),
        unix_ms.rem_euclid(86_400_000),
    );
    // Days are counted from 1 March of year 0, so that a leap day is the last day of its year; an era
    // of 400 years has 146,097 days.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let (hour, minute) = (ms / 3_600_000, ms / 60_000 % 60);
    let (second, ms) = (ms / 1_000 % 60, ms % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_look_like_formulas_get_a_quote() {
        let guarded_ones = [
            "=cmd", "  =cmd", "+x", "-1+1", "@x", "\tx", "\rx", "\nx", "＝1", "＋1", "－1", "＠x",
            "-", "+", "--1", " -1", "-1.", "-.5", "-1e", "=1", "-1,5", "+1 ",
        ];
        for cell in guarded_ones {
            assert_eq!(guarded(cell), format!("'{cell}"), "{cell:?}");
        }
        let kept = [
            "",
            "x",
            "-1",
            "+1.5e3",
            "-0.5E-7",
            "1",
            "'=x",
            "a=b",
            " x",
            "{\"a\":1}",
            "é",
            "+1e+2",
        ];
        for cell in kept {
            assert_eq!(guarded(cell), cell, "{cell:?}");
        }
    }

    #[test]
    fn cells_are_quoted_only_where_they_must_be() {
        let mut line = Line::new(true);
        for cell in ["", "a b", "a,b", "a\"b", "a\nb", "=x", "", "'"] {
            line.cell(cell);
        }
        assert_eq!(line.end(), ",a b,\"a,b\",\"a\"\"b\",\"a\nb\",=x,,'\n");
    }

    #[test]
    fn times_are_utc_with_milliseconds() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_800_000_000_123, "2027-01-15T08:00:00.123Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(ms), text);
        }
    }
}

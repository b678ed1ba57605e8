//! Imports: from a file of the server, or from bytes that this client sends.

use serde::Serialize;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use turnlane_protocol::exec_server::Blob;
use turnlane_protocol::fanout::{ImportFormat, Job as JobView};
use turnlane_protocol::method::fanout::{CHUNK_BYTES_MAX, IMPORT, IMPORT_WRITE};
use turnlane_protocol::method::{
    FanoutImportAnswer, FanoutImportParams, FanoutImportWriteAnswer, ImportSource,
};

use super::job::{Job, LONG_CALL};
use crate::call::CallOptions;
use crate::error::CallError;
use crate::link::Repeat;

/// The bytes of one call: a quarter of what a server takes, so that progress is seen.
const CHUNK_BYTES: usize = CHUNK_BYTES_MAX / 4;

/// The form of an input, and the rows that are wanted of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// The format; by the suffix of a path, else CSV.
    pub format: Option<ImportFormat>,
    /// The separator of cells, one byte.
    pub delimiter: Option<char>,
    /// The encoding of a text that is not UTF-8.
    pub encoding: Option<String>,
    /// Skip so many rows.
    pub offset: Option<u64>,
    /// Import at most so many rows.
    pub limit: Option<u64>,
    /// Import only rows whose cell in each of these columns has the value beside it.
    pub filters: Vec<(String, String)>,
    /// Import so many of those rows, at most 10,000: the ones with the smallest hash of their id, or of
    /// their cells, and `sample_key`.
    pub sample: Option<u64>,
    /// Another key gives another sample.
    pub sample_key: Option<String>,
}

/// An import that failed.
#[derive(Debug, thiserror::Error)]
pub enum JobImportError {
    /// The server refused it or cannot be reached.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The bytes could not be read; the job stays in state `importing`.
    #[error("the input could not be read")]
    Read(#[source] std::io::Error),
}

/// One call of `fanout/import/write`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Write<'a> {
    job_id: &'a str,
    offset: u64,
    data_base64: Blob,
    end: bool,
}

impl Job {
    /// Imports a file of the server and seals the job. Returns when all rows are stored; the server
    /// refuses an input with a problem, and nothing of it is imported.
    pub async fn import_path(
        &self,
        path: impl Into<String>,
        options: ImportOptions,
    ) -> Result<JobView, CallError> {
        let source = ImportSource::Path { path: path.into() };
        Ok(self.begin_import(source, options).await?.job)
    }

    /// Imports bytes and seals the job. An import that was cut off is continued: the reader must bring
    /// the same bytes from their start, and those that the server has are passed over.
    pub async fn import_stream(
        &self,
        mut reader: impl AsyncRead + Unpin,
        options: ImportOptions,
    ) -> Result<JobView, JobImportError> {
        let begun = self.begin_import(ImportSource::Stream, options).await?;
        let mut wanted = begun.next_offset;
        let mut offset = 0_u64;
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        loop {
            chunk.clear();
            let end = fill(&mut reader, &mut chunk)
                .await
                .map_err(JobImportError::Read)?;
            let next = offset + chunk.len() as u64;
            if next > wanted || end {
                // Bytes below the wanted offset are not sent twice.
                let known = usize::try_from(wanted.saturating_sub(offset)).unwrap_or(usize::MAX);
                let known = known.min(chunk.len());
                let bytes = chunk.split_off(known);
                wanted = self.write(offset + known as u64, bytes, end).await?;
            }
            offset = next;
            if end {
                return Ok(self.status().await?);
            }
        }
    }

    async fn begin_import(
        &self,
        source: ImportSource,
        options: ImportOptions,
    ) -> Result<FanoutImportAnswer, CallError> {
        let params = FanoutImportParams {
            job_id: self.id.clone(),
            source,
            format: options.format,
            delimiter: options.delimiter.map(String::from),
            encoding: options.encoding,
            offset: options.offset,
            limit: options.limit,
            filters: (!options.filters.is_empty()).then_some(options.filters),
            sample: options.sample,
            sample_key: options.sample_key,
        };
        let call = CallOptions {
            timeout: Some(LONG_CALL),
            ..CallOptions::default()
        };
        self.owner
            .call_as(IMPORT, &params, Repeat::Harmless, call)
            .await
    }

    async fn write(&self, offset: u64, bytes: Vec<u8>, end: bool) -> Result<u64, CallError> {
        let params = Write {
            job_id: &self.id,
            offset,
            data_base64: Blob::from(bytes),
            end,
        };
        let call = CallOptions {
            timeout: Some(LONG_CALL),
            ..CallOptions::default()
        };
        let answer: FanoutImportWriteAnswer = self
            .owner
            .call_as(IMPORT_WRITE, &params, Repeat::Harmless, call)
            .await?;
        Ok(answer.next_offset)
    }
}

/// Reads until the chunk is full or the input ends; true at the end.
async fn fill(
    reader: &mut (impl AsyncRead + Unpin),
    chunk: &mut Vec<u8>,
) -> Result<bool, std::io::Error> {
    let mut limited = reader.take(CHUNK_BYTES as u64);
    limited.read_to_end(chunk).await?;
    Ok(chunk.len() < CHUNK_BYTES)
}

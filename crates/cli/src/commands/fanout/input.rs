//! The input and the key of a job: what makes a second `fanout run` the same run.
//!
//! The invariant here: the key is a hash of the bytes of the input, the rows that are chosen of it, the
//! template, the schema, the id column, engine, model, directory and name. Another content of the same
//! file, or another template, is another job.

use std::fs::File;
use std::io::{self, Seek as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use turnlane::{FanoutCreateParams, ImportOptions};

use crate::args::InputArgs;

/// The bytes that are read at once.
const CHUNK: usize = 64 * 1024;

/// The input of a job.
pub(super) enum Input {
    /// A regular file.
    File(PathBuf),
    /// Standard input or a FIFO, kept in a temporary file that has no name.
    Spooled(File),
}

/// An input with the hash of its bytes.
pub(super) struct ReadInput {
    pub(super) input: Input,
    digest: String,
}

impl ReadInput {
    /// Reads an input once to its end. The text of an error is the contract's.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let read = || -> io::Result<Self> {
            if path == Path::new("-") {
                return spooled(&mut io::stdin().lock());
            }
            let kind = path.metadata()?.file_type();
            if kind.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            let mut file = File::open(path)?;
            if !kind.is_file() {
                return spooled(&mut file);
            }
            let digest = hashed(&mut file, &mut io::sink())?;
            let input = Input::File(std::path::absolute(path)?);
            Ok(Self { input, digest })
        };
        read().with_context(|| format!("failed to read csv input {}", path.display()))
    }

    /// The key under which the same run finds its job.
    pub(super) fn key(
        &self,
        params: &FanoutCreateParams,
        options: &ImportOptions,
    ) -> anyhow::Result<String> {
        let settings = params.settings.as_ref();
        // Everything else may differ: the job keeps what it was made with, and the caller names it. The
        // directory is part of the key, since the same table beside other files is another task.
        let choices = serde_json::json!([
            self.digest,
            params.name,
            params.instruction,
            params.output_schema,
            params.id_column,
            settings.and_then(|settings| settings.engine.as_ref()),
            settings.and_then(|settings| settings.model.as_ref()),
            settings.and_then(|settings| settings.model_column.as_ref()),
            settings.and_then(|settings| settings.effort_column.as_ref()),
            settings.and_then(|settings| settings.cwd.as_ref()),
            settings.and_then(|settings| settings.worktree),
            format!("{options:?}"),
        ]);
        let choices = serde_json::to_vec(&choices)?;
        Ok(format!("run-{}", turnlane_runtime::digest(&choices)))
    }
}

fn spooled(from: &mut impl io::Read) -> io::Result<ReadInput> {
    let mut file = tempfile::tempfile()?;
    let digest = hashed(from, &mut file)?;
    file.rewind()?;
    Ok(ReadInput {
        input: Input::Spooled(file),
        digest,
    })
}

/// Copies everything, and hashes it on the way.
fn hashed(from: &mut impl io::Read, to: &mut impl io::Write) -> io::Result<String> {
    let mut chain = String::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        let mut filled = 0;
        while filled < CHUNK {
            match from.read(&mut chunk[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        to.write_all(&chunk[..filled])?;
        // A chain of hashes: the runtime hashes whole texts only.
        let mut link = chain.into_bytes();
        link.extend_from_slice(&chunk[..filled]);
        chain = turnlane_runtime::digest(&link);
        if filled < CHUNK {
            return Ok(chain);
        }
    }
}

/// The options of an import.
pub(super) fn options(args: &InputArgs) -> ImportOptions {
    ImportOptions {
        format: args.format.map(Into::into),
        delimiter: args.delimiter,
        encoding: args.encoding.clone(),
        offset: args.offset,
        limit: args.limit,
        filters: args.filters.clone(),
        sample: args.sample,
        sample_key: args.sample_key.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn read(bytes: &[u8]) -> ReadInput {
        spooled(&mut io::Cursor::new(bytes)).unwrap()
    }

    fn key(bytes: &[u8], instruction: &str, options: &ImportOptions) -> String {
        let params = FanoutCreateParams {
            instruction: instruction.to_owned(),
            ..FanoutCreateParams::default()
        };
        read(bytes).key(&params, options).unwrap()
    }

    #[test]
    fn the_same_bytes_and_choices_have_the_same_key_and_others_have_another() {
        let options = ImportOptions::default();
        let long = vec![b'x'; 3 * CHUNK];
        assert_eq!(key(&long, "i", &options), key(&long, "i", &options));
        let mut other = long.clone();
        other[2 * CHUNK] = b'y';
        assert_ne!(key(&long, "i", &options), key(&other, "i", &options));
        assert_ne!(key(b"a", "i", &options), key(b"a", "j", &options));
        let limited = ImportOptions {
            limit: Some(1),
            ..ImportOptions::default()
        };
        assert_ne!(key(b"a", "i", &options), key(b"a", "i", &limited));
    }

    #[test]
    fn standard_input_is_kept_whole() {
        let ReadInput { input, .. } = read(b"name\na\n");
        let Input::Spooled(mut file) = input else {
            panic!("not spooled");
        };
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "name\na\n");
    }

    #[test]
    fn an_input_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = ReadInput::open(folder.path()).err().unwrap();
        let told = format!("{error:#}");
        let start = format!("failed to read csv input {}: ", folder.path().display());
        assert!(told.starts_with(&start), "{told}");
        assert!(ReadInput::open(&folder.path().join("none")).is_err());
    }
}

//! `turnlane app-server generate-json-schema`.

use std::fs;

use anyhow::Context as _;
use turnlane_protocol::schema;

use crate::args::GenerateJsonSchema;
use crate::shown::{self, Colour};

/// Writes the documents; says where on standard output.
pub(crate) fn generate(options: &GenerateJsonSchema) -> anyhow::Result<()> {
    let GenerateJsonSchema {
        out,
        experimental: _,
    } = options;
    fs::create_dir_all(out).with_context(|| format!("cannot make the folder {}", out.display()))?;
    let documents = schema::documents();
    for (name, document) in &documents {
        let path = out.join(name);
        let text = format!("{document:#}\n");
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        tracing::debug!(path = %path.display(), "wrote a schema");
    }
    let count = documents.len();
    let said = format!("wrote {count} files to {}\n", out.display());
    shown::out::print(&said, Colour::Off)
}

//! The output file of `spawn_agents_on_csv`: whether the sandbox of the calling turn allows it.
//!
//! The invariants here: the check comes before any worker starts; a sandbox that lets nothing be
//! written lets one new table file be made below the working directory, and nothing else.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use turnlane_engine::TurnSettings;
use turnlane_protocol::policy::SandboxPolicy;

/// Directories that agents write to only with full access.
const PROTECTED: [&str; 4] = [".git", ".codex", ".agents", ".turnlane"];
/// The suffixes of files that a read-only turn may make.
const SUFFIXES: [&str; 3] = ["csv", "tsv", "jsonl"];
/// Characters of the job's id in the name of its file: its end, since its beginning is a clock.
const ID_CHARS: usize = 8;

/// The output file of a call that names none.
pub(super) fn default_output(input: &Path, job_id: &str) -> PathBuf {
    let stem = input.file_stem().unwrap_or_else(|| OsStr::new("input"));
    let stem = stem.to_string_lossy();
    let id: String = job_id.chars().filter(|c| *c != '-').collect();
    let end = &id[id.len().saturating_sub(ID_CHARS)..];
    input.with_file_name(format!("{stem}.agent-job-{end}.csv"))
}

/// Refuses an output file that the turn may not write.
pub(super) fn check_output(
    settings: &TurnSettings,
    input: &Path,
    output: &Path,
) -> Result<(), String> {
    let refused = |why: &str| Err(format!("cannot write {}: {why}", output.display()));
    let Some(real) = real_path(output) else {
        return refused("its directory does not exist");
    };
    if real_path(input).as_deref() == Some(real.as_path()) || is_same_file(input, output) {
        return refused("it is the input file");
    }
    let existing = std::fs::metadata(&real).ok();
    if existing.as_ref().is_some_and(|found| !found.is_file()) {
        return refused("it is not a regular file");
    }
    let allowed = match &settings.sandbox_policy {
        SandboxPolicy::DangerFullAccess | SandboxPolicy::ExternalSandbox { .. } => true,
        SandboxPolicy::WorkspaceWrite(limits) => {
            let roots = std::iter::once(&settings.cwd).chain(&limits.writable_roots);
            let mut roots = roots.filter_map(|root| std::fs::canonicalize(root).ok());
            roots.any(|root| is_below(&real, &root))
        }
        SandboxPolicy::ReadOnly { .. } => {
            let cwd = std::fs::canonicalize(&settings.cwd).ok();
            let below = cwd.is_some_and(|cwd| is_below(&real, &cwd));
            let suffix = real.extension().and_then(OsStr::to_str);
            let is_table = suffix.is_some_and(|suffix| SUFFIXES.contains(&suffix));
            // A symlink below the working directory could lead elsewhere when the file is written.
            let is_plain = has_no_links(&settings.cwd, output);
            below && is_table && is_plain && std::fs::symlink_metadata(output).is_err()
        }
    };
    if allowed {
        Ok(())
    } else {
        refused("not allowed by the sandbox")
    }
}

/// The path with every link resolved, of a file that need not exist in a directory that does.
fn real_path(path: &Path) -> Option<PathBuf> {
    if let Ok(real) = std::fs::canonicalize(path) {
        return Some(real);
    }
    let directory = std::fs::canonicalize(path.parent()?).ok()?;
    Some(directory.join(path.file_name()?))
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let key = |path: &Path| std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
    key(one).is_some() && key(one) == key(other)
}

/// Returns true if a path is below a directory and in none of its protected directories.
fn is_below(path: &Path, root: &Path) -> bool {
    let Ok(rest) = path.strip_prefix(root) else {
        return false;
    };
    let is_protected = |part: Component<'_>| {
        let name = part.as_os_str();
        PROTECTED.iter().any(|protected| name == *protected)
    };
    !rest.components().any(is_protected)
}

/// Returns true if no directory between the working directory and the file is a link.
fn has_no_links(cwd: &str, output: &Path) -> bool {
    let cwd_as_named = Path::new(cwd);
    let Ok(rest) = output.strip_prefix(cwd_as_named) else {
        // Named by another way: only the resolved form of the directory itself will do.
        let parent = output.parent().map(std::fs::canonicalize);
        return matches!((parent, output.parent()), (Some(Ok(real)), Some(named)) if real == named);
    };
    let mut at = cwd_as_named.to_path_buf();
    let directories = rest.parent().into_iter().flat_map(Path::components);
    for part in directories {
        if !matches!(part, Component::Normal(_)) {
            return false;
        }
        at.push(part);
        let is_link = std::fs::symlink_metadata(&at).is_ok_and(|found| found.is_symlink());
        if is_link {
            return false;
        }
    }
    true
}

//! From Codex's `sandbox` object to a policy that is enforced or refused.
//!
//! The invariant here: what is not understood is refused, never dropped. An unknown key or kind
//! inside `permissions`, a path that is no local path, `..`, a glob that allows or matches too much
//! all end in an [`IntentError`]. Which rule wins where two meet, and whether this machine can enforce
//! them, is decided by the process service; here are only rules.
//!
//! Reading an intent may look at the file system (globs that deny), so it blocks.

mod glob;
mod permissions;
#[cfg(test)]
mod tests;

use std::path::{Component, Path, PathBuf};

use turnlane_process::{Access, MissingPath, PathRule, Sandbox};
use turnlane_protocol::exec_server::file_uri;
use turnlane_protocol::exec_server::sandbox::SandboxIntent;

use permissions::{Entry, EntryPath, FileSystem, Network, Permissions, Special};

/// How deep a glob looks if the intent does not say.
const GLOB_DEPTH_DEFAULT: usize = 8;

/// What `minimal` makes readable; what of it does not exist is skipped.
const MINIMAL: [&str; 8] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/dev", "/proc",
];

/// Why an intent cannot become a policy. Its text ends the sentence `sandbox intent cannot be
/// enforced on this executor: …`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct IntentError(pub(crate) String);

impl IntentError {
    fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// The policy an intent means for a process that starts in `cwd` with `tmpdir` as its `TMPDIR`.
///
/// Blocks while globs are expanded; without globs it only reads what it was given.
pub(crate) fn to_sandbox(
    intent: Option<&SandboxIntent>,
    cwd: &Path,
    tmpdir: Option<&Path>,
) -> Result<Sandbox, IntentError> {
    let Some(intent) = intent else {
        return Ok(Sandbox::DangerFullAccess);
    };
    let Some(permissions) = &intent.permissions else {
        return Ok(Sandbox::DangerFullAccess);
    };
    match Permissions::read(permissions)? {
        Permissions::Disabled {} => Ok(Sandbox::DangerFullAccess),
        Permissions::External { network } => Ok(Sandbox::ExternalSandbox {
            network: network == Network::Enabled,
        }),
        Permissions::Managed {
            file_system: FileSystem::Unrestricted {},
            network,
        } => Ok(match network {
            Network::Enabled => Sandbox::DangerFullAccess,
            // No rules about files, and the network taken away: what this policy enforces.
            Network::Restricted => Sandbox::ExternalSandbox { network: false },
        }),
        Permissions::Managed {
            file_system:
                FileSystem::Restricted {
                    entries,
                    glob_scan_max_depth,
                },
            network,
        } => {
            let scene = Scene::of(intent, cwd, tmpdir, glob_scan_max_depth)?;
            let mut rules = Vec::with_capacity(entries.len());
            let mut matches_left = glob::MATCHES_MAX;
            for entry in &entries {
                scene.add(entry, &mut rules, &mut matches_left)?;
            }
            Ok(Sandbox::Custom {
                rules,
                network: network == Network::Enabled,
            })
        }
    }
}

/// What the kinds of paths stand for in one start.
struct Scene<'a> {
    cwd: PathBuf,
    project_roots: Vec<PathBuf>,
    tmpdir: Option<&'a Path>,
    glob_depth: usize,
}

impl<'a> Scene<'a> {
    fn of(
        intent: &SandboxIntent,
        cwd: &Path,
        tmpdir: Option<&'a Path>,
        glob_depth: Option<u64>,
    ) -> Result<Self, IntentError> {
        let cwd = match &intent.cwd {
            Some(uri) => local(uri)?,
            None => cwd.to_owned(),
        };
        let roots = intent.workspace_roots.as_deref().unwrap_or_default();
        let project_roots = match roots {
            [] => vec![cwd.clone()],
            roots => roots
                .iter()
                .map(|uri| local(uri))
                .collect::<Result<_, _>>()?,
        };
        Ok(Self {
            cwd,
            project_roots,
            // A relative one is relative to wherever the child goes: nothing to make a rule of.
            tmpdir: tmpdir.filter(|path| path.is_absolute()),
            glob_depth: glob_depth.map_or(GLOB_DEPTH_DEFAULT, |depth| {
                usize::try_from(depth).unwrap_or(usize::MAX)
            }),
        })
    }

    fn add(
        &self,
        entry: &Entry,
        rules: &mut Vec<PathRule>,
        matches_left: &mut usize,
    ) -> Result<(), IntentError> {
        let access = Access::from(entry.access);
        let missing = match entry.missing_path_behavior {
            Some(permissions::MissingPathBehavior::Skip) => MissingPath::Skip,
            None => MissingPath::Refuse,
        };
        let mut rule = |path: PathBuf, missing| {
            rules.push(PathRule {
                path,
                access,
                missing,
            });
        };
        match &entry.path {
            EntryPath::Path { path } => rule(local(path)?, missing),
            EntryPath::Special { value } => match value {
                Special::Root {} => rule(PathBuf::from("/"), missing),
                // Both may be absent on a machine where the policy still means something.
                Special::SlashTmp {} => rule(PathBuf::from("/tmp"), MissingPath::Skip),
                Special::Tmpdir {} => {
                    if let Some(tmpdir) = self.tmpdir {
                        rule(tmpdir.to_owned(), MissingPath::Skip);
                    }
                }
                Special::ProjectRoots { subpath } => {
                    for root in &self.project_roots {
                        rule(below(root, subpath.as_deref())?, missing);
                    }
                }
                Special::Minimal {} => {
                    if access == Access::Write {
                        return Err(IntentError::new("minimal cannot be writable"));
                    }
                    for path in MINIMAL {
                        rule(PathBuf::from(path), MissingPath::Skip);
                    }
                }
            },
            EntryPath::GlobPattern { pattern } => {
                if access != Access::Deny {
                    return Err(IntentError::new(format!(
                        "glob pattern `{}` may only deny",
                        permissions::shown(pattern)
                    )));
                }
                for path in self.expand(pattern, matches_left)? {
                    rule(path, MissingPath::Skip);
                }
            }
        }
        Ok(())
    }

    /// What a pattern matches now. A relative one is looked for below the policy's directory and
    /// below every root: one place too many denies too much, one too few would deny nothing.
    fn expand(&self, pattern: &str, matches_left: &mut usize) -> Result<Vec<PathBuf>, IntentError> {
        let pattern = glob::Pattern::read(pattern)?;
        let mut bases: Vec<&Path> = vec![&self.cwd];
        if pattern.is_absolute() {
            bases = vec![Path::new("/")];
        } else {
            bases.extend(self.project_roots.iter().map(PathBuf::as_path));
            bases.sort_unstable();
            bases.dedup();
        }
        let mut found = Vec::new();
        for base in bases {
            found.extend(pattern.expand(base, self.glob_depth, matches_left)?);
        }
        Ok(found)
    }
}

/// A path of an intent. Codex sends URIs; its own policies also write plain absolute paths.
fn local(uri: &str) -> Result<PathBuf, IntentError> {
    let path = if uri.starts_with('/') {
        PathBuf::from(uri)
    } else {
        file_uri::to_path(uri).map_err(|error| IntentError(error.to_string()))?
    };
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(IntentError::new("`..` in a path"));
    }
    Ok(path)
}

/// `subpath` below `root`, and never beside it.
fn below(root: &Path, subpath: Option<&str>) -> Result<PathBuf, IntentError> {
    let Some(subpath) = subpath else {
        return Ok(root.to_owned());
    };
    let inside = Path::new(subpath)
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !inside {
        return Err(IntentError::new("a subpath must be relative without `..`"));
    }
    if subpath.contains('\0') {
        return Err(IntentError::new("nul byte in a subpath"));
    }
    Ok(root.join(subpath))
}

//! The documents in which users and projects tell agents how to work: `AGENTS.md` and its kin.
//!
//! The invariant here: what a project contributes lies inside the project, is a regular file, is
//! read only if the project is trusted, and is never longer than its limit. What is left out for
//! any other reason than being absent is said in a warning.
//!
//! How documents are put into instructions is not known here.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// The document of a folder.
const NAME: &str = "AGENTS.md";
/// The document that takes its place.
const OVERRIDE: &str = "AGENTS.override.md";
/// How many bytes of the user's own document are read.
const HOME_BYTES_MAX: usize = 1024 * 1024;

/// Where documents are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// `$TURNLANE_HOME`.
    pub turnlane_home: Option<PathBuf>,
    /// `$CODEX_HOME`.
    pub codex_home: Option<PathBuf>,
    /// The working directory; absolute.
    pub cwd: PathBuf,
    /// `project_root_markers`: what a project's root contains.
    pub markers: Vec<String>,
    /// `project_doc_fallback_filenames`: names that are tried last.
    pub fallback_names: Vec<String>,
    /// `project_doc_max_bytes`: how much the project may say in all; 0: nothing is read.
    pub bytes_max: usize,
    /// Whether the project may say anything.
    pub trust: Trust,
}

/// Whether a project's documents are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// They are.
    Trusted,
    /// They are not; the user's own still is.
    Untrusted,
}

/// One document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Where it was found; one of the `instructionSources`.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The documents, the most general first.
    pub documents: Vec<Document>,
    /// What was left out or cut.
    pub warnings: Vec<String>,
}

/// Remembers what was found and reads again only when a file came, went or changed.
///
/// Blocking: every look asks the file system once per possible name.
#[derive(Debug, Default)]
pub struct Reader {
    last: Option<Seen>,
}

#[derive(Debug)]
struct Seen {
    places: Places,
    stamps: Vec<Option<Stamp>>,
    found: Arc<Found>,
}

/// What changes when a file does.
type Stamp = (u64, Option<SystemTime>, PathBuf);

impl Reader {
    /// The documents as they are now; the same [`Found`] as before when nothing changed.
    pub fn look(&mut self, places: &Places) -> Arc<Found> {
        // Stamps are taken before reading: a change in between is seen by the next look.
        let stamps = stamps(places);
        if let Some(seen) = &self.last
            && seen.places == *places
            && seen.stamps == stamps
        {
            return Arc::clone(&seen.found);
        }
        let found = Arc::new(read(places));
        self.last = Some(Seen {
            places: places.clone(),
            stamps,
            found: Arc::clone(&found),
        });
        found
    }
}

/// Reads all documents.
pub fn read(places: &Places) -> Found {
    let mut found = Found::default();
    for path in home_candidates(places) {
        if let Some((text, _)) = found.take(&path, read_regular(&path, HOME_BYTES_MAX)) {
            found.documents.push(Document { path, text });
            break;
        }
    }
    read_project(places, &mut found);
    found
}

impl Found {
    fn take<T>(&mut self, path: &Path, read: io::Result<T>) -> Option<T> {
        match read {
            Ok(read) => Some(read),
            Err(error) if is_absent(&error) => None,
            Err(error) => {
                let warning = format!("{} is not read: {error}", path.display());
                self.warnings.push(warning);
                None
            }
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn read_project(places: &Places, found: &mut Found) {
    let folders = project_folders(places);
    let Some(root) = folders.first().and_then(|root| root.canonicalize().ok()) else {
        return;
    };
    let mut left = places.bytes_max;
    for folder in &folders {
        for path in candidates(places, folder) {
            let read = inside(&path, &root).and_then(|path| read_regular(&path, left));
            let Some((text, whole)) = found.take(&path, read) else {
                continue;
            };
            left -= text.len().min(left);
            if whole == Whole::No {
                found.warnings.push(format!(
                    "{} is cut: project documents are limited to {} bytes (project_doc_max_bytes)",
                    path.display(),
                    places.bytes_max
                ));
            }
            if !text.is_empty() {
                found.documents.push(Document { path, text });
            }
            if whole == Whole::No {
                return;
            }
            break;
        }
    }
}

/// The folders whose documents count, the project's root first; none when nothing is read.
fn project_folders(places: &Places) -> Vec<PathBuf> {
    if places.trust == Trust::Untrusted || places.bytes_max == 0 {
        return vec![];
    }
    project_directories(&places.cwd, &places.markers)
}

/// The directories from the project's root down to `cwd`; only `cwd` where nothing marks a root.
pub(crate) fn project_directories(cwd: &Path, markers: &[String]) -> Vec<PathBuf> {
    let marked = |folder: &Path| {
        let mut markers = markers.iter().filter(|marker| !marker.is_empty());
        markers.any(|marker| folder.join(marker).symlink_metadata().is_ok())
    };
    let upwards: Vec<&Path> = cwd.ancestors().collect();
    let root = upwards.iter().position(|folder| marked(folder));
    let below = upwards.into_iter().take(root.unwrap_or(0) + 1);
    let mut folders: Vec<PathBuf> = below.map(Path::to_owned).collect();
    folders.reverse();
    folders
}

fn candidates<'a>(places: &'a Places, folder: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
    let names = [OVERRIDE, NAME].into_iter();
    let fallbacks = places.fallback_names.iter().map(String::as_str);
    let names = names.chain(fallbacks.filter(|name| !name.is_empty()));
    names.map(|name| folder.join(name))
}

fn home_candidates(places: &Places) -> Vec<PathBuf> {
    let ours = places.turnlane_home.iter().map(|home| home.join(NAME));
    let theirs = places.codex_home.iter();
    let theirs = theirs.flat_map(|home| [home.join(OVERRIDE), home.join(NAME)]);
    ours.chain(theirs).collect()
}

/// Where a path really leads, if that is inside the root.
fn inside(path: &Path, root: &Path) -> io::Result<PathBuf> {
    let real = path.canonicalize()?;
    if real.starts_with(root) {
        return Ok(real);
    }
    Err(io::Error::other("it leads out of the project"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whole {
    Yes,
    No,
}

/// The text of a regular file up to a limit, cut between characters.
fn read_regular(path: &Path, bytes_max: usize) -> io::Result<(String, Whole)> {
    // Looked at before it is opened: opening a pipe would wait for its writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    let most = (bytes_max as u64).saturating_add(1);
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    let whole = if bytes.len() > bytes_max {
        Whole::No
    } else {
        Whole::Yes
    };
    // The byte over the limit tells whether a character was cut in two.
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    text.truncate(text.floor_char_boundary(bytes_max));
    Ok((text, whole))
}

fn stamps(places: &Places) -> Vec<Option<Stamp>> {
    let folders = project_folders(places);
    let project = folders.iter().flat_map(|folder| candidates(places, folder));
    let paths = home_candidates(places).into_iter().chain(project);
    paths.map(|path| stamp(&path)).collect()
}

fn stamp(path: &Path) -> Option<Stamp> {
    // The real path is part of it: a link that was turned elsewhere may keep size and time.
    let real = path.canonicalize().ok()?;
    let metadata = real.metadata().ok()?;
    Some((metadata.len(), metadata.modified().ok(), real))
}

#[cfg(test)]
mod tests;

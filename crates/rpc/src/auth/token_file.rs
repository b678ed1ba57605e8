//! Files that hold one secret line: read with care, made on first start.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::{AuthError, Secret};
use crate::private_path::{create_private_dir, folder_of, random_name, random_text};

const TOKEN_BYTES: usize = 32;
/// A longer file is no token and no secret but a mistaken path.
const FILE_BYTES_MAX: u64 = 4096;
/// Reading it is knowing it; writing it is choosing it.
const OPEN_TO_OTHERS: u32 = 0o066;

/// Reads the one line of a token or shared-secret file that nobody else may read or write.
///
/// White space around the line is not part of it. Nothing is written. The file must be a regular one
/// that belongs to this user or to root; opening a pipe or a device does not wait.
pub fn read_token_file(path: &Path) -> Result<Secret, AuthError> {
    let fail = |source| AuthError::File {
        doing: "read",
        path: path.to_owned(),
        source,
    };
    let file = open(path).map_err(fail)?;
    // Asked of the open file: a path could lead elsewhere the second time.
    let metadata = file.metadata().map_err(fail)?;
    if !metadata.is_file() {
        return Err(AuthError::NotAFile {
            path: path.to_owned(),
        });
    }
    let uid = metadata.uid();
    if !is_trusted_owner(uid) {
        return Err(AuthError::ForeignOwner {
            path: path.to_owned(),
            uid,
        });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & OPEN_TO_OTHERS != 0 {
        return Err(AuthError::OpenToOthers {
            path: path.to_owned(),
            mode,
        });
    }
    let mut content = Vec::new();
    let mut bounded = file.take(FILE_BYTES_MAX + 1);
    bounded.read_to_end(&mut content).map_err(fail)?;
    let malformed = |reason| AuthError::Malformed {
        path: path.to_owned(),
        reason,
    };
    if content.len() as u64 > FILE_BYTES_MAX {
        return Err(malformed("the file is longer than 4 KiB"));
    }
    let line = content.trim_ascii();
    if line.is_empty() {
        return Err(malformed("the file is empty"));
    }
    // Anything else could not be sent in a header, and so never match.
    if !line.iter().all(u8::is_ascii_graphic) {
        return Err(malformed("only visible ASCII characters are allowed"));
    }
    Ok(Secret::new(line))
}

/// Opens for reading without waiting: for the writer of a pipe, or for a device.
fn open(path: &Path) -> io::Result<fs::File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::RDONLY;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Root may read and change every file anyway.
fn is_trusted_owner(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Reads the token file, and makes it with a random token first if there is none.
///
/// Two processes that start at once end up with the same token: the file appears whole, with its
/// mode, under a name that is taken only once. Calling it again reads the file again.
pub fn ensure_token_file(path: &Path) -> Result<Secret, AuthError> {
    match read_token_file(path) {
        Err(AuthError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
        found => return found,
    }
    match create(path) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => Err(AuthError::File {
            doing: "create",
            path: path.to_owned(),
            source,
        }),
        // Also when another process was first: its token is the token.
        _ => read_token_file(path),
    }
}

/// Fails with `AlreadyExists` when the file is there.
fn create(path: &Path) -> io::Result<()> {
    let directory = folder_of(path);
    create_private_dir(directory)?;
    let draft = directory.join(random_name()?);
    let result = write_new(&draft, &random_text::<TOKEN_BYTES>()?)
        // A link, not a rename: a rename would replace the token of a process that was faster.
        .and_then(|()| fs::hard_link(&draft, path));
    let cleaned = fs::remove_file(&draft);
    result.and(cleaned)
}

fn write_new(path: &Path, token: &str) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(token.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;
    use std::collections::HashSet;
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    fn written(content: &[u8], mode: u32) -> (tempfile::TempDir, std::path::PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("token");
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        (home, path)
    }

    #[test]
    fn a_first_start_makes_a_private_file_that_later_starts_read() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("new").join("token");

        let first = ensure_token_file(&path).unwrap();
        let second = ensure_token_file(&path).unwrap();

        assert_eq!(first.expose(), second.expose());
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(first.expose()).unwrap();
        assert_eq!(bytes.len(), TOKEN_BYTES);
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "the draft is gone");
    }

    #[test]
    fn starts_at_the_same_moment_agree_on_one_token() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("token");
        let line = Barrier::new(8);
        let tokens: HashSet<Vec<u8>> = thread::scope(|scope| {
            let start = || {
                line.wait();
                ensure_token_file(&path).unwrap().expose().to_vec()
            };
            let starts: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
            starts
                .into_iter()
                .map(|start| start.join().unwrap())
                .collect()
        });
        assert_eq!(tokens.len(), 1);
    }

    #[test]
    fn a_file_open_to_others_is_refused_with_what_to_do() {
        for mode in [0o644, 0o640, 0o604, 0o620] {
            let (_home, path) = written(b"a-token\n", mode);
            let error = ensure_token_file(&path).unwrap_err();
            assert!(matches!(error, AuthError::OpenToOthers { .. }));
            let text = error.to_string();
            assert!(text.contains(&format!("mode {mode:04o}")), "{text}");
            assert!(
                text.ends_with(&format!("chmod 600 {}", path.display())),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_regular_file_is_refused_without_waiting() {
        let home = tempfile::tempdir().unwrap();
        let pipe = home.path().join("token");
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        // Nobody ever writes into the pipe, so an open that waited would hang this test.
        for path in [pipe.as_path(), &link, Path::new("/dev/null"), home.path()] {
            let error = ensure_token_file(path).unwrap_err();
            assert!(matches!(error, AuthError::NotAFile { .. }), "{error}");
        }
    }

    #[test]
    fn only_our_own_files_and_those_of_root_are_trusted() {
        let own = rustix::process::geteuid().as_raw();
        assert!(is_trusted_owner(own) && is_trusted_owner(0));
        assert!(!is_trusted_owner(own + 1));
        if own != 0 {
            // Only root can make a file of somebody else.
            return;
        }
        let (_home, path) = written(b"a-token\n", 0o600);
        std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
        let error = read_token_file(&path).unwrap_err();
        let is_foreign = matches!(error, AuthError::ForeignOwner { uid: 12_345, .. });
        assert!(is_foreign, "{error}");
    }

    #[test]
    fn only_one_line_of_visible_characters_is_a_token() {
        let (_home, path) = written(b" a-token\r\n", 0o400);
        assert_eq!(read_token_file(&path).unwrap().expose(), b"a-token");

        let long = vec![b'x'; 5000];
        let wrong: [&[u8]; 6] = [
            b"",
            b"\n",
            b"two\nlines",
            b"two words",
            b"t\xc3\xb6ken",
            &long,
        ];
        for content in wrong {
            let (_home, path) = written(content, 0o600);
            let error = read_token_file(&path).unwrap_err();
            assert!(matches!(error, AuthError::Malformed { .. }), "{error}");
        }
    }
}

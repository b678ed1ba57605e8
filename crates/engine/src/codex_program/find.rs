//! The search for the program in `PATH`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::CodexProgramError;

/// Directories that are searched when the child has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The file to execute for `program`. A name without a slash is looked for in `path`.
///
/// A native binary anywhere in `path` is preferred to a script before it: the script of the npm
/// package starts an interpreter first, which costs time and memory in every turn.
pub(super) fn program(program: &Path, path: Option<&OsStr>) -> Result<PathBuf, CodexProgramError> {
    if program.components().count() > 1 {
        let program = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
        return match form(&program) {
            Some(_) => Ok(program),
            None if program.exists() => Err(CodexProgramError::NotExecutable { program }),
            None => Err(CodexProgramError::NotFound { program }),
        };
    }
    let mut script = None;
    for directory in std::env::split_paths(path.unwrap_or(OsStr::new(DEFAULT_PATH))) {
        // An empty or relative entry would mean another program in every directory.
        if !directory.is_absolute() {
            continue;
        }
        let file = directory.join(program);
        match form(&file) {
            Some(Form::Binary) => return Ok(file),
            Some(Form::Script) => script = script.or(Some(file)),
            None => {}
        }
    }
    script.ok_or_else(|| CodexProgramError::NotFound {
        program: program.to_owned(),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Binary,
    Script,
}

/// The form of an executable regular file; none for everything else.
fn form(file: &Path) -> Option<Form> {
    let is_regular = std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file());
    if !is_regular || access(file, Access::EXEC_OK).is_err() {
        return None;
    }
    let mut head = [0; 2];
    // An executable that we may not read is no script: its interpreter could not read it either.
    let is_script = File::open(file)
        .and_then(|mut file| file.read_exact(&mut head))
        .is_ok_and(|()| &head == b"#!");
    Some(if is_script {
        Form::Script
    } else {
        Form::Binary
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn file(directory: &Path, name: &str, content: &[u8], mode: u32) -> PathBuf {
        std::fs::create_dir_all(directory).unwrap();
        let path = directory.join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_binary_is_preferred_to_a_script_before_it() {
        let home = tempfile::tempdir().unwrap();
        let [first, second, third] = ["a b", "b", "c"].map(|name| home.path().join(name));
        let path = std::env::join_paths([&first, &second, &third]).unwrap();
        let find = || program(Path::new("codex"), Some(&path));
        assert!(matches!(find(), Err(CodexProgramError::NotFound { .. })));
        file(&first, "codex", b"\x7fELF", 0o600);
        assert!(find().is_err(), "not executable");
        let script = file(&second, "codex", b"#!/bin/sh\n", 0o755);
        assert_eq!(find().unwrap(), script);
        let binary = file(&third, "codex", b"\x7fELF", 0o755);
        assert_eq!(find().unwrap(), binary);
    }

    #[test]
    fn a_path_is_taken_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        let script = file(home.path(), "codex", b"#!/bin/sh\n", 0o755);
        assert_eq!(program(&script, None).unwrap(), script);
        let text = file(home.path(), "text", b"", 0o600);
        let refused = program(&text, None).unwrap_err();
        assert!(matches!(refused, CodexProgramError::NotExecutable { .. }));
        let refused = program(&home.path().join("absent"), None).unwrap_err();
        assert!(matches!(refused, CodexProgramError::NotFound { .. }));
    }
}

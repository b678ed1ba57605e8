//! What the store needs to know about the disk under it.
//!
//! The invariant here: the database file is never opened, only named. SQLite's locks on a file
//! belong to the process, and closing any descriptor of that file would drop them all.
//!
//! Which file systems are refused: those on which locks or shared memory of two machines do not
//! meet. FUSE is many things; of it only the programs known to reach over a network are refused,
//! since containers commonly run on a FUSE that is local.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::Access;
use rustix::io::Errno;

use crate::error::StoreError;

/// Held while a missing file is made: no connection of this process may exist at the moment when
/// the descriptor that made it is closed.
static MAKING: Mutex<()> = Mutex::new(());

/// Less than this is nothing: one growth of SQLite's shared memory and a commit need more.
const OUT_OF_ROOM_BYTES: u64 = 64 << 10;

/// The one name of the database, whatever links lead to it: all processes must lock the same files.
pub(super) fn settle(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        settled => return settled,
    }
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    Ok(fs::canonicalize(folder(path))?.join(name))
}

/// The folder a file lies in.
pub(super) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// `<path><suffix>`.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Makes an empty file that only its owner can read, unless there is one.
///
/// SQLite gives the files it makes beside the database the same rights.
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map(drop),
    }
}

/// The files that SQLite keeps beside the database.
const BESIDE: [&str; 2] = ["-wal", "-shm"];

/// Gives the owner back the right to read and write the files beside a database that it may write.
///
/// SQLite gives them the rights that the database has when it makes them. A database that was
/// read-only at that moment leaves files which stop every later writer.
pub(super) fn mend_rights(database: &Path) {
    const OWNER: u32 = 0o600;
    if rustix::fs::access(database, Access::READ_OK | Access::WRITE_OK).is_err() {
        return;
    }
    let me = rustix::process::geteuid().as_raw();
    for path in BESIDE.map(|suffix| beside(database, suffix)) {
        let Ok(file) = fs::symlink_metadata(&path) else {
            continue;
        };
        let mode = file.mode() & 0o7777;
        if !file.is_file() || file.uid() != me || mode & OWNER == OWNER {
            continue;
        }
        match fs::set_permissions(&path, fs::Permissions::from_mode(mode | OWNER)) {
            Ok(()) => tracing::info!("{} is writable for its owner again", path.display()),
            Err(error) => tracing::warn!(%error, "cannot make {} writable", path.display()),
        }
    }
}

/// The first of the directory and the files of a database that this process may not read and write,
/// and what the system says about it.
pub(super) fn unwritable(database: &Path) -> Option<(PathBuf, io::Error)> {
    let files = [database.to_owned()]
        .into_iter()
        .chain(BESIDE.map(|suffix| beside(database, suffix)));
    let directory = std::iter::once(folder(database).to_owned());
    directory.chain(files).find_map(|path| {
        match rustix::fs::access(&path, Access::READ_OK | Access::WRITE_OK) {
            Ok(()) | Err(Errno::NOENT) => None,
            Err(error) => Some((path, error.into())),
        }
    })
}

/// The error of a system call on a file of the database: one about rights names the file.
pub(super) fn refused(error: io::Error, path: &Path, doing: &'static str) -> StoreError {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            let (path, error) = unwritable(path).unwrap_or_else(|| (path.to_owned(), error));
            let source = Arc::new(error);
            StoreError::NotWritable { path, source }
        }
        io::ErrorKind::StorageFull => StoreError::DiskFull {
            source: Arc::new(error),
        },
        _ => StoreError::failed(doing)(error),
    }
}

/// How many bytes we may still use on the disk of this file.
pub(super) fn free_bytes(path: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder(path))?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Whether so little is free that an error of the disk may be taken for a full one.
///
/// SQLite says "full" where it writes, but only "failed" where it syncs or maps memory.
pub(super) fn is_out_of_room(path: &Path) -> bool {
    free_bytes(path).is_ok_and(|free| free < OUT_OF_ROOM_BYTES)
}

/// Refuses a database on a file system that other machines may share.
///
/// On systems other than Linux the kind is not looked at.
pub(super) fn refuse_network(path: &Path) -> Result<(), StoreError> {
    let kind = network_kind(folder(path)).map_err(StoreError::failed("look at the file system"))?;
    match kind {
        None => Ok(()),
        Some(kind) => Err(StoreError::NetworkFileSystem {
            path: path.to_owned(),
            kind,
        }),
    }
}

#[cfg(not(target_os = "linux"))]
fn network_kind(_folder: &Path) -> io::Result<Option<String>> {
    Ok(None)
}

#[cfg(target_os = "linux")]
fn network_kind(folder: &Path) -> io::Result<Option<String>> {
    // The system's word is signed or not and of 32 or 64 bits; a magic number is always 32 bits.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the low 32 bits are the magic number"
    )]
    let magic = rustix::fs::statfs(folder)?.f_type as u32;
    if magic != FUSE {
        let known = NETWORK.iter().find(|(number, _)| *number == magic);
        return Ok(known.map(|(_, name)| (*name).to_owned()));
    }
    // Without a readable list of mounts a FUSE is taken for a local one.
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    Ok(remote_fuse(&mounts, folder))
}

/// "FUSE" in `statfs`: `FUSE_SUPER_MAGIC`.
#[cfg(target_os = "linux")]
const FUSE: u32 = 0x6573_5546;

/// `statfs` numbers of file systems that machines share, with the names people know.
///
/// The names on the right are those of the kernel's headers: `linux/magic.h`, and
/// `linux/gfs2_ondisk.h` for GFS2. The last three come from modules outside the kernel and are in
/// no header of it.
#[cfg(target_os = "linux")]
const NETWORK: &[(u32, &str)] = &[
    (0x0000_6969, "nfs"),    // NFS_SUPER_MAGIC
    (0x0000_517b, "smb"),    // SMB_SUPER_MAGIC
    (0xff53_4d42, "cifs"),   // CIFS_SUPER_MAGIC
    (0xfe53_4d42, "smb2"),   // SMB2_SUPER_MAGIC
    (0x0000_564c, "ncp"),    // NCP_SUPER_MAGIC
    (0x0102_1997, "9p"),     // V9FS_MAGIC
    (0x5346_414f, "afs"),    // AFS_SUPER_MAGIC
    (0x6b41_4653, "afs"),    // AFS_FS_MAGIC
    (0x7375_7245, "coda"),   // CODA_SUPER_MAGIC
    (0x00c3_6400, "ceph"),   // CEPH_SUPER_MAGIC
    (0x7461_636f, "ocfs2"),  // OCFS2_SUPER_MAGIC
    (0x0116_1970, "gfs2"),   // GFS2_MAGIC
    (0x0bd0_0bd0, "lustre"), // LUSTRE_SUPER_MAGIC
    (0x4750_4653, "gpfs"),   // "GPFS"
    (0x1983_0326, "beegfs"),
];

/// Programs behind a FUSE that reach over a network.
#[cfg(target_os = "linux")]
const REMOTE_FUSES: &[&str] = &[
    "sshfs",
    "glusterfs",
    "ceph",
    "ceph-fuse",
    "s3fs",
    "gcsfuse",
    "goofys",
    "rclone",
    "davfs",
    "curlftpfs",
    "cifs",
    "smbnetfs",
    "juicefs",
    "JuiceFS",
    "mfs",
    "moosefs",
    "gvfsd-fuse",
];

/// The kind of the mount a folder lies in, if it is a FUSE that reaches over a network.
#[cfg(target_os = "linux")]
fn remote_fuse(mountinfo: &str, folder: &Path) -> Option<String> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let point = PathBuf::from(mount.split(' ').nth(4)?.replace("\\040", " "));
        let kind = kind.split(' ').next()?;
        folder.starts_with(&point).then_some((point, kind))
    });
    // Later mounts hide earlier ones at the same place; `max_by_key` prefers the later one.
    let (_, kind) = mounts.max_by_key(|(point, _)| point.components().count())?;
    let program = kind.strip_prefix("fuse.")?;
    REMOTE_FUSES.contains(&program).then(|| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fuse_is_refused_only_when_its_program_reaches_over_a_network() {
        let mounts = "\
            22 1 0:20 / / rw - ext4 /dev/sda rw\n\
            36 22 0:30 / /far\\040away rw shared:1 - fuse.sshfs host:/ rw\n\
            37 36 0:31 / /far\\040away/near rw - fuse.fuse-overlayfs overlay rw\n";
        let kind = |folder: &str| remote_fuse(mounts, Path::new(folder));
        assert_eq!(kind("/home"), None);
        assert_eq!(kind("/far away/x"), Some("fuse.sshfs".to_owned()));
        assert_eq!(kind("/far away/near/x"), None);
        assert_eq!(kind("/far awayness"), None);
    }

    #[test]
    fn a_temporary_folder_is_local_and_has_room() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("db");
        refuse_network(&file).unwrap();
        assert!(free_bytes(&file).unwrap() > 0);
    }

    #[test]
    fn all_links_to_a_database_lead_to_one_name() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap().join("real.db");
        let link = folder.path().join("link.db");
        assert_eq!(settle(&folder.path().join("real.db")).unwrap(), real);
        make_private(&real).unwrap();
        make_private(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert_eq!(settle(&link).unwrap(), real);
        assert_eq!(
            beside(&real, ".ballast").file_name().unwrap(),
            "real.db.ballast"
        );
    }
}

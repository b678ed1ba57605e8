//! The mounts a child makes in its own namespace before anything else is given up.
//!
//! Runs in the child, so the rules of `child` hold: system calls only, on what was prepared. Which
//! paths are mounted how is decided by `sandbox`; the order of the steps is kept.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;

use super::child::{Step, at_index};
use super::syscall::{address, call, fd, word};
use super::{MountStep, Mounts, Stage};

/// The argument of `mount_setattr`, in the kernel's layout.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    userns_fd: u64,
}

const MOUNT_ATTR_RDONLY: u64 = 1;
const MOUNT_ATTR_NOSUID: u64 = 2;
const MOUNT_ATTR_NODEV: u64 = 4;

/// How far down a change of attributes reaches.
#[derive(Clone, Copy)]
enum Reach {
    This,
    AllBelow,
}

/// Makes all of it in order.
///
/// `trees` has a place for every step; they keep what is to be restored. Their descriptors are closed
/// with all others before the exec.
pub(super) fn make(mounts: &Mounts, trees: &[AtomicI32]) -> Step {
    // Else what is mounted here would appear outside.
    let private = mount(None, c"/", None, libc::MS_REC | libc::MS_PRIVATE, None);
    at_index(Stage::Mount, u32::MAX, private)?;
    for ((index, step), tree) in (0_u32..).zip(&mounts.steps).zip(trees) {
        if let MountStep::Restore(path) | MountStep::Instead(path, _) = step {
            let copied = copy(path).inspect(|fd| {
                tree.store(i32::try_from(*fd).unwrap_or(-1), Relaxed);
            });
            at_index(Stage::Mount, index, copied)?;
        }
    }
    for ((index, step), tree) in (0_u32..).zip(&mounts.steps).zip(trees) {
        at_index(Stage::Mount, index, make_one(step, fd(tree.load(Relaxed))))?;
    }
    Ok(())
}

fn make_one(step: &MountStep, tree: usize) -> Result<usize, i32> {
    match step {
        MountStep::BindSelf(path) => {
            let tree = copy(path)?;
            let put = put(tree, path);
            // SAFETY: made above and used nowhere else.
            unsafe { call(libc::SYS_close, [tree, 0, 0, 0, 0, 0]) }.and(put)
        }
        MountStep::Restore(path) | MountStep::Instead(_, path) => {
            put(tree, path)?;
            // Neither can be used under the other restrictions; this is the second fence.
            let devices = if is_device(path) { 0 } else { MOUNT_ATTR_NODEV };
            add_attributes(path, MOUNT_ATTR_NOSUID | devices, Reach::This)
        }
        MountStep::Freeze(path) => add_attributes(path, MOUNT_ATTR_RDONLY, Reach::AllBelow),
        MountStep::ReadOnly(path) => {
            bind(path, path, libc::MS_REC)?;
            add_attributes(path, MOUNT_ATTR_RDONLY, Reach::AllBelow)
        }
        MountStep::MaskDirectory(path) => empty(path, c"size=4k,mode=000"),
        MountStep::EmptyDirectory(path) => empty(path, c"size=4k,mode=555"),
        MountStep::MaskFile(path) => {
            bind(c"/dev/null", path, 0)?;
            // A device that is none cannot be opened, else whatever is written would seem to be kept.
            add_attributes(path, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, Reach::This)
        }
    }
}

/// Whether the path is a device that a policy opens, or a directory of such.
fn is_device(path: &CStr) -> bool {
    path.to_bytes().starts_with(b"/dev/") && path.to_bytes() != b"/dev/shm"
}

/// Mounts an empty directory over the path.
fn empty(path: &CStr, options: &CStr) -> Result<usize, i32> {
    let flags = libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount(Some(c"tmpfs"), path, Some(c"tmpfs"), flags, Some(options))
}

/// A copy of the mounts from the path on, not yet anywhere; of a link too, which the older call would
/// follow.
fn copy(path: &CStr) -> Result<usize, i32> {
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC;
    let flags = flags as usize | word(libc::AT_RECURSIVE | libc::AT_SYMLINK_NOFOLLOW);
    // SAFETY: the path ends with NUL.
    unsafe {
        call(
            libc::SYS_open_tree,
            [fd(libc::AT_FDCWD), address(path.as_ptr()), flags, 0, 0, 0],
        )
    }
}

/// Mounts a copy over the path.
fn put(tree: usize, path: &CStr) -> Result<usize, i32> {
    // SAFETY: both paths end with NUL; the mount is seen in this process's own namespace only.
    unsafe {
        call(
            libc::SYS_move_mount,
            [
                tree,
                address(c"".as_ptr()),
                fd(libc::AT_FDCWD),
                address(path.as_ptr()),
                libc::MOVE_MOUNT_F_EMPTY_PATH as usize,
                0,
            ],
        )
    }
}

fn bind(from: &CStr, over: &CStr, more: libc::c_ulong) -> Result<usize, i32> {
    mount(Some(from), over, None, libc::MS_BIND | more, None)
}

fn mount(
    source: Option<&CStr>,
    target: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
    options: Option<&CStr>,
) -> Result<usize, i32> {
    let pointer = |text: Option<&CStr>| address(text.map_or(ptr::null(), CStr::as_ptr));
    // SAFETY: every string ends with NUL or is absent, which the kernel allows for each but the
    // target; the mounts are seen in this process's own namespace only.
    unsafe {
        call(
            libc::SYS_mount,
            [
                pointer(source),
                address(target.as_ptr()),
                pointer(kind),
                usize::try_from(flags).unwrap_or(0),
                pointer(options),
                0,
            ],
        )
    }
}

fn add_attributes(path: &CStr, set: u64, reach: Reach) -> Result<usize, i32> {
    let attributes = Attributes {
        set,
        ..Attributes::default()
    };
    let flags = match reach {
        Reach::This => 0,
        Reach::AllBelow => word(libc::AT_RECURSIVE),
    };
    // SAFETY: the path ends with NUL, the attributes live here and have the size that is given.
    unsafe {
        call(
            libc::SYS_mount_setattr,
            [
                fd(libc::AT_FDCWD),
                address(path.as_ptr()),
                flags,
                address(&raw const attributes),
                size_of::<Attributes>(),
                0,
            ],
        )
    }
}

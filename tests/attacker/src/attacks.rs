//! All attacks by name. Each is one function that aims at what the scene names.

mod devices;
mod files;
mod home;
mod inodes;
mod ipc;
mod kernel;
mod own;
mod processes;
mod sockets;

use crate::scene::Scene;
use crate::tries::Verdict;

/// Tries one attack.
pub(crate) type Attack = fn(&Scene) -> Verdict;

/// Every attack. Tests print their table in this order.
pub(crate) const ALL: &[(&str, Attack)] = &[
    ("write-outside", files::write_outside),
    ("write-through-links", files::write_through_links),
    ("change-metadata-outside", files::change_metadata_outside),
    ("change-inode-flags", inodes::change_flags),
    ("make-protected-names", files::make_protected_names),
    ("leave-setuid-programs", inodes::leave_setuid_programs),
    ("make-devices", inodes::make_devices),
    ("read-home", home::read),
    ("list-home", home::list),
    ("write-home", home::write),
    ("lock-home", home::lock),
    ("limits-of-others", processes::limits),
    ("scheduling-of-others", processes::scheduling),
    ("signal-others", processes::signals),
    ("memory-of-others", processes::memory),
    ("proc-of-others", processes::proc_files),
    ("leave-cgroup", processes::leave_cgroup),
    ("clone3", kernel::clone3),
    ("openat2", kernel::openat2),
    ("namespaces", kernel::namespaces),
    ("mounts", kernel::mounts),
    ("kernel-doors", kernel::doors),
    ("kernel-settings", kernel::settings),
    ("foreign-calls", kernel::foreign_calls),
    ("unix-sockets", sockets::unix),
    ("network-sockets", sockets::network),
    ("raw-sockets", sockets::raw),
    ("own-server", sockets::own_server),
    ("sysv-ipc", ipc::sysv),
    ("posix-ipc", ipc::posix),
    ("keyring", ipc::keyring),
    ("terminals", devices::terminals),
    ("consoles", devices::consoles),
    ("block-devices", devices::block),
    ("device-control", devices::control),
    ("secrets-in-environment", own::environment),
    ("umask", own::umask),
    ("own-rights", own::rights),
];

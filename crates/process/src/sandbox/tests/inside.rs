//! What a confined child attempts. Not a test of its own: the others run it in a sandbox.
//!
//! Prints `@ NAME ERRNO` for each attempt, 0 for one that succeeded.

use std::ffi::{CStr, CString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

struct Child {
    root: PathBuf,
    outside: PathBuf,
    service: i32,
}

/// Has nothing to do unless another test asks for a list.
#[test]
fn attempts() {
    let Some(list) = std::env::var_os("TRY_LIST") else {
        return;
    };
    let path = |name| PathBuf::from(std::env::var_os(name).unwrap());
    let child = Child {
        root: path("TRY_ROOT"),
        outside: path("TRY_OUTSIDE"),
        service: std::env::var("TRY_SERVICE").unwrap().parse().unwrap(),
    };
    match list.to_str().unwrap() {
        "files" => child.files(),
        "git" => child.git(),
        "mounts" => child.mounts(),
        "service" => child.service(),
        "network" => child.network(),
        "metadata" => child.metadata(),
        "x32" => child.other_numbers(),
        list => panic!("no list {list}"),
    }
}

fn told<T>(name: &str, result: io::Result<T>) -> Option<T> {
    let errno = match &result {
        Ok(_) => 0,
        Err(error) => error.raw_os_error().unwrap_or(-1),
    };
    let mut out = io::stdout().lock();
    // One write: a descendant may print at the same time.
    out.write_all(format!("\n@ {name} {errno}\n").as_bytes())
        .unwrap();
    out.flush().unwrap();
    result.ok()
}

fn c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn writable(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).open(path)
}

fn truncate(path: &Path) -> io::Result<libc::c_long> {
    // SAFETY: the path ends with NUL.
    checked(libc::c_long::from(unsafe {
        libc::truncate(c(path).as_ptr(), 0)
    }))
}

fn mknod(path: &Path, mode: libc::mode_t, device: libc::dev_t) -> io::Result<libc::c_long> {
    // SAFETY: the path ends with NUL.
    checked(libc::c_long::from(unsafe {
        libc::mknod(c(path).as_ptr(), mode | 0o666, device)
    }))
}

fn mount(from: &Path, to: &Path, flags: libc::c_ulong) -> io::Result<libc::c_long> {
    let (from, to) = (c(from), c(to));
    let (kind, data) = (std::ptr::null(), std::ptr::null());
    // SAFETY: both paths end with NUL, the rest is absent.
    checked(libc::c_long::from(unsafe {
        libc::mount(from.as_ptr(), to.as_ptr(), kind, flags, data)
    }))
}

fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers and gives a new descriptor.
    let fd = checked(libc::c_long::from(unsafe {
        libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol)
    }))?;
    // SAFETY: just made, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).unwrap()) })
}

fn exchange(one: &Path, other: &Path) -> io::Result<libc::c_long> {
    let (one, other) = (c(one), c(other));
    // SAFETY: both paths end with NUL.
    checked(unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            libc::AT_FDCWD,
            one.as_ptr(),
            libc::AT_FDCWD,
            other.as_ptr(),
            libc::RENAME_EXCHANGE,
        )
    })
}

fn raw(number: libc::c_long, arguments: [usize; 5]) -> io::Result<libc::c_long> {
    let [one, two, three, four, five] = arguments;
    // SAFETY: used for calls that are refused before they look at memory, or that get null pointers.
    checked(unsafe { libc::syscall(number, one, two, three, four, five) })
}

impl Child {
    fn files(&self) {
        let (root, out) = (&self.root, &self.outside);
        let id = std::process::id();
        told("read_outside", fs::read(out.join("file")));
        told("list_outside", fs::read_dir(out));
        told(
            "create_in_root",
            fs::write(root.join(format!("new-{id}")), ""),
        );
        told("write_in_root", writable(&root.join("file")));
        let via = PathBuf::from(format!("/proc/{}/root", self.service));
        let file = out.join("file");
        told(
            "write_by_proc_root",
            writable(&via.join(file.strip_prefix("/").unwrap())),
        );
        told("create_outside", fs::write(out.join("new"), ""));
        told("write_outside", writable(&out.join("file")));
        told("truncate_outside", truncate(&out.join("file")));
        told("mkdir_outside", fs::create_dir(out.join("new")));
        told("rmdir_outside", fs::remove_dir(out.join("dir")));
        told("unlink_outside", fs::remove_file(out.join("file")));
        told(
            "rename_outside",
            fs::rename(out.join("file"), out.join("moved")),
        );
        told(
            "symlink_outside",
            std::os::unix::fs::symlink("x", out.join("new")),
        );
        told("fifo_outside", mknod(&out.join("new"), libc::S_IFIFO, 0));
        told("socket_outside", mknod(&out.join("new"), libc::S_IFSOCK, 0));
        told(
            "link_from_outside",
            fs::hard_link(out.join("file"), root.join(format!("h-{id}"))),
        );
        told(
            "move_from_outside",
            fs::rename(out.join("file"), root.join(format!("m-{id}"))),
        );
        told(
            "link_to_outside",
            fs::hard_link(root.join("file"), out.join("new")),
        );
        told(
            "char_device_in_root",
            mknod(&root.join("c"), libc::S_IFCHR, libc::makedev(1, 3)),
        );
        told(
            "block_device_in_root",
            mknod(&root.join("b"), libc::S_IFBLK, libc::makedev(254, 0)),
        );
        for device in ["null", "zero", "full"] {
            let opened = writable(&Path::new("/dev").join(device));
            told(&format!("open_{device}"), opened);
        }
        let dir = root.join(format!("d-{id}"));
        told("mkdir_in_root", fs::create_dir(&dir));
        told("rename_in_root", {
            fs::write(root.join(format!("r-{id}")), "")
                .and_then(|()| fs::rename(root.join(format!("r-{id}")), dir.join("r")))
        });
    }

    fn git(&self) {
        let (root, git) = (&self.root, self.root.join(".git"));
        let config = git.join("config");
        told("read_config", fs::read(&config));
        for (name, dir) in [("root", &git), ("cwd", &git)] {
            let via = PathBuf::from(format!("/proc/{}/{name}", self.service));
            let inside = dir.join("config");
            let via = via.join(inside.strip_prefix("/").unwrap());
            told(&format!("write_by_proc_{name}"), writable(&via));
        }
        let by_self = PathBuf::from("/proc/self/root").join(config.strip_prefix("/").unwrap());
        told("write_by_own_proc_root", writable(&by_self));
        told("create", fs::write(git.join("new"), ""));
        told("create_deep", fs::write(git.join("hooks/pre-commit"), ""));
        told("write", writable(&config));
        told("truncate", truncate(&config));
        told("unlink", fs::remove_file(&config));
        told(
            "chmod",
            fs::set_permissions(&config, fs::Permissions::from_mode(0o777)),
        );
        told(
            "device",
            mknod(&git.join("dev"), libc::S_IFCHR, libc::makedev(1, 3)),
        );
        told("rename_out", fs::rename(&config, root.join("config")));
        told("rename_in", fs::rename(root.join("file"), git.join("file")));
        told("link_out", fs::hard_link(&config, root.join("config")));
        told(
            "link_in",
            fs::hard_link(root.join("file"), git.join("file")),
        );
        told("rename_away", fs::rename(&git, root.join("git2")));
        told("remove", fs::remove_dir_all(&git));
        let _ = fs::create_dir(root.join("evil"));
        told("exchange", exchange(&git, &root.join("evil")));
        let above = root.parent().unwrap();
        told("rename_root", fs::rename(root, above.join("project2")));
        told(
            "rename_above_root",
            fs::rename(above, above.with_file_name("a2")),
        );
        told("still_writable", fs::write(root.join("still"), ""));
    }

    /// Everything that could show what is below a mount, here and in namespaces of its own.
    fn mounts(&self) {
        self.mount_attempts("");
        let namespaces = libc::CLONE_NEWUSER | libc::CLONE_NEWNS;
        // A thread cannot leave its user namespace while it has company, a forked process can. This
        // one is alone: the other thread of the test program only waits.
        // SAFETY: the forked process only makes system calls and prints; the lock of standard output
        // is not held here.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: takes a number.
            let left = checked(libc::c_long::from(unsafe { libc::unshare(namespaces) }));
            if told("new_namespaces", left).is_some() {
                self.mount_attempts("nested_");
            }
            // SAFETY: ends the process without running anything of the parent's.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: a null pointer means that the status is not wanted.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    }

    fn mount_attempts(&self, prefix: &str) {
        let git = self.root.join(".git");
        let told = |name: &str, result| told(&format!("{prefix}{name}"), result);
        let remount = libc::MS_REMOUNT | libc::MS_BIND;
        told(
            "bind_root",
            mount(&self.root, &self.root.join("evil"), libc::MS_BIND),
        );
        told(
            "bind_above",
            mount(Path::new("/"), &self.root.join("evil"), libc::MS_BIND),
        );
        told("remount", mount(Path::new("none"), &git, remount));
        told("move", mount(&git, &self.root.join("evil"), libc::MS_MOVE));
        let path = c(&git);
        // SAFETY: the path ends with NUL.
        let unmounted = unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
        told("umount", checked(libc::c_long::from(unmounted)));
        let at = usize::MAX - 99;
        let root = c(&self.root);
        told(
            "open_tree",
            raw(libc::SYS_open_tree, [at, root.as_ptr() as usize, 1, 0, 0]),
        );
        let clear: [u64; 4] = [0, 1, 0, 0];
        let clear = (&raw const clear) as usize;
        told(
            "setattr",
            raw(
                libc::SYS_mount_setattr,
                [at, path.as_ptr() as usize, 0, clear, 32],
            ),
        );
        told(
            "fsopen",
            raw(libc::SYS_fsopen, [c"tmpfs".as_ptr() as usize, 0, 0, 0, 0]),
        );
        told(
            "pivot",
            raw(libc::SYS_pivot_root, [root.as_ptr() as usize; 5]),
        );
        told("write", writable(&git.join("config")).map(|_| 0));
        told(
            "rename",
            fs::rename(&git, self.root.join("git2")).map(|()| 0),
        );
    }

    fn service(&self) {
        let service = self.service;
        let pid = usize::try_from(service).unwrap();
        told("ptrace", raw(libc::SYS_ptrace, [0x4206, pid, 0, 0, 0]));
        told(
            "read_memory",
            raw(libc::SYS_process_vm_readv, [pid, 0, 0, 0, 0]),
        );
        told(
            "write_memory",
            raw(libc::SYS_process_vm_writev, [pid, 0, 0, 0, 0]),
        );
        told("open_memory", File::open(format!("/proc/{service}/mem")));
        told("open_root", File::open(format!("/proc/{service}/root/etc")));
        told("open_cwd", fs::read_dir(format!("/proc/{service}/cwd/")));
        told(
            "open_descriptor",
            File::open(format!("/proc/{service}/fd/0")),
        );
        told("environment", fs::read(format!("/proc/{service}/environ")));
        told(
            "enter_mounts",
            File::open(format!("/proc/{service}/ns/mnt")),
        );
        told("io_uring", raw(libc::SYS_io_uring_setup, [1, 0, 0, 0, 0]));
        told("by_handle", raw(libc::SYS_open_by_handle_at, [0; 5]));
        told("take_descriptor", raw(libc::SYS_pidfd_getfd, [0; 5]));
        // SAFETY: signal 0 only asks.
        let signalled = unsafe { libc::kill(service, 0) };
        told("signal_service", checked(libc::c_long::from(signalled)));
        // SAFETY: as above.
        let signalled = unsafe { libc::kill(libc::getpid(), 0) };
        told("signal_self", checked(libc::c_long::from(signalled)));
        let status = fs::read_to_string("/proc/self/status").unwrap();
        for line in status
            .lines()
            .filter(|line| line.starts_with("Cap") || line.starts_with("NoNew"))
        {
            let (name, value) = line.split_once(":\t").unwrap();
            let value = u64::from_str_radix(value, 16).unwrap();
            told(
                name,
                Err::<(), _>(io::Error::from_raw_os_error(
                    i32::try_from(value & 0xffff).unwrap(),
                )),
            );
        }
    }

    fn network(&self) {
        let inet = libc::AF_INET;
        told("tcp", socket(inet, libc::SOCK_STREAM, 0));
        told("udp", socket(inet, libc::SOCK_DGRAM, 0));
        told("tcp6", socket(libc::AF_INET6, libc::SOCK_STREAM, 0));
        told("netlink", socket(libc::AF_NETLINK, libc::SOCK_RAW, 0));
        told("vsock", socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0));
        told("unix", socket(libc::AF_UNIX, libc::SOCK_STREAM, 0));
        told("unix_datagram", socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0));
        told(
            "unix_connect",
            UnixStream::connect(self.outside.join("socket")),
        );
        let port = std::env::var("TRY_PORT").ok();
        let port: u16 = port.and_then(|port| port.parse().ok()).unwrap_or(9);
        told(
            "tcp_connect",
            std::net::TcpStream::connect(("127.0.0.1", port)),
        );
        told("tcp_listen", std::net::TcpListener::bind(("127.0.0.1", 0)));
        let path = self.root.join(format!("s-{}", std::process::id()));
        told("unix_listen", UnixListener::bind(path));
        told("pair", UnixStream::pair());
        told("datagram_pair", UnixDatagram::pair());
        if let Ok((mut one, other)) = UnixStream::pair() {
            told("pair_write", one.write_all(b"x"));
            let fd = usize::try_from(other.as_raw_fd()).unwrap();
            let address: [u8; 16] = [1; 16];
            let address = (&raw const address) as usize;
            // SAFETY: an absent buffer of no length and an address as long as said.
            let sent = unsafe { libc::syscall(libc::SYS_sendto, fd, 0, 0, 0, address, 16) };
            told("send_to", checked(sent));
        }
    }

    fn metadata(&self) {
        let file = self.outside.join("file");
        told(
            "chmod",
            fs::set_permissions(&file, fs::Permissions::from_mode(0o777)),
        );
        let opened = File::open(&file).unwrap();
        told(
            "fchmod",
            opened.set_permissions(fs::Permissions::from_mode(0o777)),
        );
        told("times", opened.set_modified(std::time::UNIX_EPOCH));
        let path = c(&file);
        // SAFETY: the path ends with NUL; -1 changes nothing.
        let owned = unsafe { libc::chown(path.as_ptr(), u32::MAX, u32::MAX) };
        told("chown", checked(libc::c_long::from(owned)));
        let name: &CStr = c"user.x";
        // SAFETY: name and path end with NUL, the value has no length.
        let set = unsafe { libc::setxattr(path.as_ptr(), name.as_ptr(), std::ptr::null(), 0, 0) };
        told("attribute", checked(libc::c_long::from(set)));
    }

    /// Ends the process unless the kernel has no such numbers at all.
    fn other_numbers(&self) {
        let _ = &self.root;
        told("x32", raw(0x4000_0000 | libc::SYS_getpid, [0; 5]));
    }
}

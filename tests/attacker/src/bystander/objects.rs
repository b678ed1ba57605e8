//! The bystander's objects: how they are made, where they are, and what became of them.

use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixDatagram, UnixListener};

use super::MARK;
use crate::sys::{Answer, at, c, checked, close, cstring, errno_name, into, signed, sys};

/// `KEY_SPEC_USER_KEYRING`.
const USER_KEYRING: i64 = -4;

/// One object of each kind. Those that the machine cannot give are errors, and never change.
pub(super) struct Objects {
    directory: String,
    name: String,
    shm: Answer,
    shm_address: Option<usize>,
    msg: Answer,
    sem: Answer,
    queue: Answer,
    key: Answer,
    terminal: Option<Terminal>,
    stream: UnixListener,
    datagrams: UnixDatagram,
    packets: i64,
    hidden: UnixListener,
    tcp: std::net::TcpListener,
    memory: Box<[u8; 32]>,
}

struct Terminal {
    controller: i64,
    line: fs::File,
    path: String,
}

impl Objects {
    pub(super) fn make(directory: &str) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{directory}: {error}");
        let name = format!("turnlane-bystander-{}", std::process::id());
        for file in ["file", "spare"] {
            fs::write(format!("{directory}/{file}"), MARK).map_err(failed)?;
        }
        fs::create_dir(format!("{directory}/dir")).map_err(failed)?;
        fs::write(format!("/dev/shm/{name}"), MARK).map_err(failed)?;
        let private = libc::IPC_PRIVATE as usize;
        let shm = sys(libc::SYS_shmget, &[private, 4096, 0o600]);
        let msg = sys(libc::SYS_msgget, &[private, 0o600]);
        let sem = sys(libc::SYS_semget, &[private, 1, 0o600]);
        let message = [1_i64, 0x78];
        let _ = msg.map(|id| sys(libc::SYS_msgsnd, &[id as usize, at(&message), 1, 0]));
        let set = |id: i64| {
            sys(
                libc::SYS_semctl,
                &[id as usize, 0, libc::SETVAL as usize, 1],
            )
        };
        let _ = sem.map(set);
        let queue_name = cstring(name.as_str());
        let flags = (libc::O_RDWR | libc::O_CREAT | libc::O_NONBLOCK | libc::O_CLOEXEC) as usize;
        let queue = sys(libc::SYS_mq_open, &[c(&queue_name), flags, 0o600, 0]);
        let ring = signed(USER_KEYRING);
        let mark = MARK.as_ptr() as usize;
        let add = [c(c"user"), c(&queue_name), mark, MARK.len(), ring];
        let key = sys(libc::SYS_add_key, &add);
        let hidden = {
            use std::os::linux::net::SocketAddrExt;
            let address = std::os::unix::net::SocketAddr::from_abstract_name(&name);
            address.and_then(|address| UnixListener::bind_addr(&address))
        };
        let hidden = hidden.map_err(failed)?;
        let mut memory = Box::new([0; 32]);
        memory[..MARK.len()].copy_from_slice(MARK.as_bytes());
        let objects = Self {
            shm,
            shm_address: shm.ok().and_then(attach),
            msg,
            sem,
            queue,
            key,
            terminal: Terminal::open(),
            stream: UnixListener::bind(format!("{directory}/stream")).map_err(failed)?,
            datagrams: UnixDatagram::bind(format!("{directory}/datagrams")).map_err(failed)?,
            packets: listen_for_packets(&format!("{directory}/packets"))
                .map_err(|errno| format!("packets: {}", errno_name(errno)))?,
            hidden,
            tcp: std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?,
            memory,
            directory: directory.to_owned(),
            name,
        };
        let _ = objects.stream.set_nonblocking(true);
        let _ = objects.datagrams.set_nonblocking(true);
        let _ = objects.hidden.set_nonblocking(true);
        let _ = objects.tcp.set_nonblocking(true);
        objects.leave_to_janitor()?;
        Ok(objects)
    }

    /// Keys of the scene and their values.
    pub(super) fn places(&self) -> Vec<(String, String)> {
        let directory = &self.directory;
        let id = |answer: Answer| answer.unwrap_or(-1).to_string();
        let port = self.tcp.local_addr().map_or(0, |address| address.port());
        let queue = self.queue.map_or(String::new(), |_| self.name.clone());
        let namespace = fs::read_link("/proc/self/ns/ipc").unwrap_or_default();
        let terminal = self.terminal.as_ref();
        let pts = terminal.map_or(String::new(), |terminal| terminal.path.clone());
        let pts_fd = terminal.map_or(-1, |terminal| terminal.line.as_raw_fd());
        let places = [
            ("bystander", std::process::id().to_string()),
            ("outside", directory.clone()),
            ("ipc-namespace", namespace.to_string_lossy().into_owned()),
            ("shm", id(self.shm)),
            ("msg", id(self.msg)),
            ("sem", id(self.sem)),
            ("mq", queue),
            ("key", id(self.key)),
            ("key-name", self.name.clone()),
            ("posix-shm", self.name.clone()),
            ("pts", pts),
            ("pts-fd", pts_fd.to_string()),
            ("unix-stream", format!("{directory}/stream")),
            ("unix-datagrams", format!("{directory}/datagrams")),
            ("unix-packets", format!("{directory}/packets")),
            ("unix-abstract", format!("@{}", self.name)),
            ("tcp-port", port.to_string()),
            ("mark-address", (self.memory.as_ptr() as usize).to_string()),
        ];
        places.map(|(key, value)| (key.to_owned(), value)).into()
    }

    /// The state of each object.
    pub(super) fn state(&self) -> Vec<(String, String)> {
        let text = |address: usize| {
            // SAFETY: the segment is a page of this process until its end.
            let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, 64) };
            format!("{:?}", String::from_utf8_lossy(bytes))
        };
        let look = |call: libc::c_long, id: Answer, words: std::ops::Range<usize>| {
            let mut state = [0_u64; 32];
            let id = id.unwrap_or(-1) as usize;
            let answer = sys(call, &[id, libc::IPC_STAT as usize, into(&mut state)]);
            // The first words are the owner and the mode; times of looking are left out.
            format!("{answer:?} {:x?}", &state[words])
        };
        let semaphore = [self.sem.unwrap_or(-1) as usize, 0, libc::GETVAL as usize];
        let key = self.key.unwrap_or(-1) as usize;
        let mut value = [0_u8; 64];
        let read = sys(libc::SYS_keyctl, &[11, key, into(&mut value), 64]);
        let mut described = [0_u8; 128];
        let _ = sys(libc::SYS_keyctl, &[6, key, into(&mut described), 128]);
        let shared = fs::read_to_string(format!("/dev/shm/{}", self.name)).unwrap_or_default();
        let state = [
            (
                "shared memory",
                self.shm_address.map_or_else(String::new, text),
            ),
            // Three words of permissions, then times, then counts of bytes and messages.
            (
                "queue",
                look(libc::SYS_msgctl, self.msg, 2..3) + &self.messages(),
            ),
            (
                "semaphore",
                format!("{:?}", sys(libc::SYS_semctl, &semaphore)),
            ),
            (
                "key",
                format!(
                    "{read:?} {value:?} {}",
                    String::from_utf8_lossy(&described).trim_end_matches('\0')
                ),
            ),
            ("posix queue", self.posix_messages()),
            ("posix memory", shared),
            ("memory", format!("{:?}", self.memory)),
            (
                "terminal",
                self.terminal
                    .as_ref()
                    .map_or_else(String::new, Terminal::state),
            ),
            (
                "stream connections",
                self.stream.accept().is_ok().to_string(),
            ),
            (
                "datagrams",
                self.datagrams.recv(&mut [0; 16]).is_ok().to_string(),
            ),
            ("packet connections", accepts(self.packets).to_string()),
            (
                "abstract connections",
                self.hidden.accept().is_ok().to_string(),
            ),
            ("tcp connections", self.tcp.accept().is_ok().to_string()),
        ];
        state.map(|(key, value)| (key.to_owned(), value)).into()
    }

    /// Messages in the System V queue, counted without taking one.
    fn messages(&self) -> String {
        // SAFETY: all zero is a valid value, and the kernel fills it in.
        let mut state: libc::msqid_ds = unsafe { std::mem::zeroed() };
        let id = self.msg.unwrap_or(-1) as i32;
        // SAFETY: the structure lives here.
        let result = unsafe { libc::msgctl(id, libc::IPC_STAT, &raw mut state) };
        format!(" {result} {} messages", state.msg_qnum)
    }

    fn posix_messages(&self) -> String {
        let mut attributes = [0_i64; 8];
        let queue = self.queue.unwrap_or(-1) as usize;
        let answer = sys(libc::SYS_mq_getsetattr, &[queue, 0, into(&mut attributes)]);
        format!("{answer:?} {attributes:?}")
    }

    /// Starts the child that removes what outlives this process.
    fn leave_to_janitor(&self) -> Result<(), String> {
        let mut ends = [0_i32; 2];
        let failed = |errno| format!("no janitor: {}", errno_name(errno));
        sys(
            libc::SYS_pipe2,
            &[into(&mut ends), libc::O_CLOEXEC as usize],
        )
        .map_err(failed)?;
        // SAFETY: this process has one thread.
        let pid = checked(unsafe { libc::fork() }).map_err(failed)?;
        if pid != 0 {
            close(ends[0].into());
            return Ok(());
        }
        // Out of the group that a test kills, and away from its pipes.
        let _ = sys(libc::SYS_setsid, &[]);
        for fd in [0, 1, 2, i64::from(ends[1])] {
            close(fd);
        }
        let mut byte = 0_u8;
        let _ = sys(libc::SYS_read, &[ends[0] as usize, into(&mut byte), 1]);
        let remove = libc::IPC_RMID as usize;
        let _ = self
            .msg
            .map(|id| sys(libc::SYS_msgctl, &[id as usize, remove, 0]));
        let _ = self
            .sem
            .map(|id| sys(libc::SYS_semctl, &[id as usize, 0, remove]));
        let name = cstring(self.name.as_str());
        let _ = sys(libc::SYS_mq_unlink, &[c(&name)]);
        let unlink = |key: i64| sys(libc::SYS_keyctl, &[9, key as usize, signed(USER_KEYRING)]);
        let _ = self.key.map(unlink);
        let _ = fs::remove_file(format!("/dev/shm/{}", self.name));
        // SAFETY: nothing of the bystander runs in the janitor.
        unsafe { libc::_exit(0) }
    }
}

/// Attaches a segment and marks it for removal at its last detachment.
fn attach(id: i64) -> Option<usize> {
    let address = sys(libc::SYS_shmat, &[id as usize, 0, 0]).ok()? as usize;
    // SAFETY: the segment is a page.
    unsafe { std::ptr::copy_nonoverlapping(MARK.as_ptr(), address as *mut u8, MARK.len()) };
    let _ = sys(libc::SYS_shmctl, &[id as usize, libc::IPC_RMID as usize, 0]);
    Some(address)
}

/// A listener of the kind that the standard library does not have.
fn listen_for_packets(path: &str) -> Answer {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let fd = sys(
        libc::SYS_socket,
        &[libc::AF_UNIX as usize, kind as usize, 0],
    )?;
    let mut address = [0_u8; 110];
    address[..2].copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
    let length = path.len().min(107);
    address[2..2 + length].copy_from_slice(&path.as_bytes()[..length]);
    sys(libc::SYS_bind, &[fd as usize, at(&address), 3 + length])?;
    sys(libc::SYS_listen, &[fd as usize, 8])?;
    Ok(fd)
}

fn accepts(fd: i64) -> bool {
    sys(
        libc::SYS_accept4,
        &[fd as usize, 0, 0, libc::SOCK_CLOEXEC as usize],
    )
    .is_ok()
}

impl Terminal {
    /// A terminal with something typed into it. `None` where no terminal can be had.
    fn open() -> Option<Self> {
        // SAFETY: takes flags.
        let controller = unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY) };
        let mut path = [0_u8; 64];
        // SAFETY: the descriptor is the controller's, or an invalid one; the buffer is as long as said.
        let made = unsafe {
            libc::grantpt(controller) == 0
                && libc::unlockpt(controller) == 0
                && libc::ptsname_r(controller, path.as_mut_ptr().cast(), path.len()) == 0
        };
        if !made {
            return None;
        }
        let path = CString::new(path.split(|byte| *byte == 0).next()?).ok()?;
        let path = path.to_str().ok()?.to_owned();
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NOCTTY);
        let line = options.open(&path).ok()?;
        let typed = b"secret\n";
        let controller = i64::from(controller);
        let typed = [controller as usize, typed.as_ptr() as usize, typed.len()];
        sys(libc::SYS_write, &typed).ok()?;
        let terminal = Self {
            controller,
            line,
            path,
        };
        terminal.settle();
        Some(terminal)
    }

    /// Waits, for a second at most, until the kernel has passed on and echoed what was typed.
    fn settle(&self) {
        let pause = libc::timespec {
            tv_sec: 0,
            tv_nsec: 1_000_000,
        };
        for _ in 0..1_000 {
            if self.state().starts_with("7 unread, 8 shown") {
                return;
            }
            let _ = sys(libc::SYS_nanosleep, &[at(&pause), 0]);
        }
    }

    /// Unread bytes in both directions and the settings.
    fn state(&self) -> String {
        let line = self.line.as_raw_fd() as usize;
        let (mut unread, mut shown) = (0_i32, 0_i32);
        let _ = sys(
            libc::SYS_ioctl,
            &[line, libc::FIONREAD as usize, into(&mut unread)],
        );
        let controller = self.controller as usize;
        let _ = sys(
            libc::SYS_ioctl,
            &[controller, libc::FIONREAD as usize, into(&mut shown)],
        );
        let (mut settings, mut size) = ([0_u32; 16], [0_u16; 4]);
        let _ = sys(
            libc::SYS_ioctl,
            &[line, libc::TCGETS as usize, into(&mut settings)],
        );
        let _ = sys(
            libc::SYS_ioctl,
            &[line, libc::TIOCGWINSZ as usize, into(&mut size)],
        );
        format!("{unread} unread, {shown} shown, {settings:?} {size:?}")
    }
}

//! Shared memory, queues, semaphores and keys of the bystander.

use crate::bystander::MARK;
use crate::scene::Scene;
use crate::sys::{at, c, cstring, into, opens, signed, sys};
use crate::tries::{Tries, Verdict};

/// `KEY_SPEC_USER_KEYRING` and `KEY_SPEC_SESSION_KEYRING`.
const KEYRINGS: [i64; 2] = [-4, -3];

pub(super) fn sysv(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    let number = |key: &str| scene.number(key) as usize;
    let (shm, msg, sem) = (number("shm"), number("msg"), number("sem"));
    if let Ok(address) = sys(libc::SYS_shmat, &[shm, 0, 0]) {
        // SAFETY: the segment of the bystander is a page; a private namespace has no such id.
        let text = unsafe { std::slice::from_raw_parts(address as *const u8, MARK.len()) };
        tries.must_not("attach shared memory", text == MARK.as_bytes());
    } else {
        tries.must_not("attach shared memory", false);
    }
    // `struct msgbuf` with one byte of text.
    let message = [1_i64, 0x78];
    let sent = sys(
        libc::SYS_msgsnd,
        &[msg, at(&message), 1, libc::IPC_NOWAIT as usize],
    );
    tries.must_fail("send a message", sent);
    let mut received = [0_i64; 8];
    let flags = libc::IPC_NOWAIT as usize;
    let received = sys(libc::SYS_msgrcv, &[msg, into(&mut received), 32, 0, flags]);
    tries.must_fail("receive a message", received);
    // `struct sembuf` that adds one.
    let operation = [0_i16, 1, libc::IPC_NOWAIT as i16];
    tries.must_fail("semaphore", sys(libc::SYS_semop, &[sem, at(&operation), 1]));
    let set = [sem, 0, libc::SETVAL as usize, 5];
    tries.must_fail("set a semaphore", sys(libc::SYS_semctl, &set));
    for (what, call, id) in [
        ("shared memory", libc::SYS_shmctl, shm),
        ("queue", libc::SYS_msgctl, msg),
    ] {
        let mut state = [0_u64; 32];
        let looked = sys(call, &[id, libc::IPC_STAT as usize, into(&mut state)]);
        tries.must_fail(format!("state of the {what}"), looked);
        let removed = sys(call, &[id, libc::IPC_RMID as usize, 0]);
        tries.must_fail(format!("remove the {what}"), removed);
    }
    tries.verdict()
}

pub(super) fn posix(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    let memory = cstring(format!("/dev/shm/{}", scene.text("posix-shm")));
    tries.must_fail("write shared memory", opens(&memory, libc::O_RDWR));
    let unlinked = sys(libc::SYS_unlinkat, &[crate::sys::CWD, c(&memory), 0]);
    tries.must_fail("unlink shared memory", unlinked);
    let queue = scene.text("mq");
    if queue.is_empty() {
        tries.skip("message queues");
        return tries.verdict();
    }
    let name = cstring(queue);
    for (what, flags) in [("read", libc::O_RDONLY), ("write", libc::O_WRONLY)] {
        let flags = (flags | libc::O_NONBLOCK) as usize;
        let opened = sys(libc::SYS_mq_open, &[c(&name), flags, 0, 0]);
        tries.must_fail(format!("{what} a queue"), opened);
    }
    tries.must_fail("unlink a queue", sys(libc::SYS_mq_unlink, &[c(&name)]));
    tries.verdict()
}

pub(super) fn keyring(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    let key = scene.number("key");
    let value = [b'x'];
    let (kind, name) = (c(c"user"), cstring(scene.text("key-name")));
    let mut buffer = [0_u8; 64];
    if key > 0 {
        let id = key as usize;
        for (what, arguments) in [
            ("read", vec![11, id, into(&mut buffer), 64]),
            ("update", vec![2, id, at(&value), 1]),
            ("describe", vec![6, id, into(&mut buffer), 64]),
            ("link", vec![8, id, signed(-2)]),
            ("permissions", vec![5, id, 0x3f3f_0000]),
            ("timeout", vec![15, id, 3600]),
        ] {
            tries.must_fail(what, sys(libc::SYS_keyctl, &arguments));
        }
    } else {
        tries.skip("the kernel has no keys");
    }
    for ring in KEYRINGS.map(signed) {
        let found = sys(libc::SYS_keyctl, &[10, ring, kind, c(&name), 0]);
        tries.must_fail("search", found);
        let added = sys(
            libc::SYS_add_key,
            &[kind, c(c"turnlane-attack"), at(&value), 1, ring],
        );
        tries.must_fail("add", added);
    }
    let requested = sys(libc::SYS_request_key, &[kind, c(&name), 0, 0]);
    tries.must_fail("request", requested);
    tries.verdict()
}

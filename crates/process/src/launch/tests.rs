//! Launches of real children: the state they start with, and what is left of those that fail.

use std::io::Read;

use rustix::process::WaitIdStatus;

use super::*;
use crate::error::{SpawnError, SpawnErrorKind};
use crate::spec::{Delivery, Io, Spec, Stdin, TerminalSize};

#[test]
fn a_child_says_hello() {
    let mut slots = Slots::reserve().unwrap();
    let spec = Spec::new(["sh", "-c", "echo hello; echo $PATH; exit 3"], "/");
    let plan = prepare(&spec, vec![]).unwrap();
    let (ends, ours) = open_ends(spec.io, spec.delivery).unwrap();
    let launched = launch(&mut slots, &plan, &ends, None, None).unwrap();
    drop(ends);
    let status =
        rustix::process::waitid(WaitId::PidFd(launched.pidfd.as_fd()), WaitIdOptions::EXITED)
            .unwrap()
            .unwrap();
    assert_eq!(status.exit_status(), Some(3));
    let mut text = String::new();
    std::fs::File::from(ours.stdout.unwrap())
        .read_to_string(&mut text)
        .unwrap();
    assert!(text.starts_with("hello\n"));
}

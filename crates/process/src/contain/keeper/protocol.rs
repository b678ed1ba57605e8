//! The messages between service, keeper and holder, as bytes.
//!
//! Both sides are the same program or were refused by the handshake, so there is one version and no
//! negotiation. Whatever does not decode is treated as the end of its sender. Descriptors travel
//! beside the bytes, in the order given here.

use std::time::Duration;

use super::HolderMessage;
use crate::contain::{Ended, How};
use crate::launch::LaunchError;
use crate::status::Rusage;

/// What both sides of the handshake begin with; the last digits are the version of all messages.
pub(super) const MAGIC: [u8; 12] = *b"tl-keeper-01";

/// A plan up to this size is in the request itself, a larger one in a file of memory.
pub(super) const INLINE_MAX: usize = 4 * 1024;

/// The longest packet there is: a request with its plan, or a path of at most 4 KiB.
pub(super) const PACKET_MAX: usize = INLINE_MAX + 16;

/// Pids in one report of survivors; more than a reader needs to know what is wrong.
pub(super) const SURVIVORS_MAX: usize = 256;

/// Service to keeper, before anything else but the last.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ToKeeper<'a> {
    /// With descriptors to hold open.
    Hold,
    /// Begin as the starter of holders; with the socket that requests come from.
    BeginHolding,
    /// Begin as the one who ends this cgroup.
    BeginCgroup(&'a [u8]),
    /// To the second keeper of a keeper that died: the next keeper is in office.
    Dismiss,
}

impl<'a> ToKeeper<'a> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let (tag, path): (u8, &[u8]) = match self {
            Self::Hold => (b'H', &[]),
            Self::BeginHolding => (b'B', &[]),
            Self::BeginCgroup(path) => (b'C', path),
            Self::Dismiss => (b'D', &[]),
        };
        let mut bytes = MAGIC.to_vec();
        bytes.push(tag);
        bytes.extend_from_slice(path);
        bytes
    }

    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (tag, path) = bytes.strip_prefix(&MAGIC)?.split_first()?;
        match tag {
            b'H' => Some(Self::Hold),
            b'B' => Some(Self::BeginHolding),
            b'C' => Some(Self::BeginCgroup(path)),
            b'D' => Some(Self::Dismiss),
            _ => None,
        }
    }
}

/// Keeper to service: ready, or why it cannot be.
pub(super) fn encode_hello(refusal: Option<&str>) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(refusal.unwrap_or_default().as_bytes());
    bytes
}

/// `None`: not a keeper of our version. `Some(Err)`: one that refuses.
pub(super) fn decode_hello(bytes: &[u8]) -> Option<Result<(), String>> {
    let refusal = bytes.strip_prefix(&MAGIC)?;
    if refusal.is_empty() {
        return Some(Ok(()));
    }
    Some(Err(String::from_utf8_lossy(refusal).into_owned()))
}

/// Head of a request for a process. Its descriptors: the holder's end of the socket to the service,
/// the three streams, then what is announced here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestHead {
    /// A Landlock ruleset follows.
    pub(super) ruleset: bool,
    /// A file with the plan follows; otherwise the plan is behind the head.
    pub(super) file: bool,
}

impl RequestHead {
    pub(super) fn encode(self) -> [u8; 2] {
        [b'P', u8::from(self.ruleset) | u8::from(self.file) << 1]
    }

    /// The head and the plan behind it.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (head, plan) = bytes.split_first_chunk::<2>()?;
        let &[b'P', flags @ 0..=3] = head else {
            return None;
        };
        let head = Self {
            ruleset: flags & 1 != 0,
            file: flags & 2 != 0,
        };
        Some((head, plan))
    }
}

/// Holder to service, first: what became of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Started { leader: i32, holder: i32 },
    Failed(LaunchError),
}

impl Outcome {
    pub(super) fn encode(self) -> [u8; 13] {
        let mut bytes = [0; 13];
        match self {
            Self::Started { leader, holder } => {
                bytes[0] = b'S';
                bytes[1..5].copy_from_slice(&leader.to_le_bytes());
                bytes[5..9].copy_from_slice(&holder.to_le_bytes());
            }
            Self::Failed(error) => {
                bytes[0] = b'F';
                bytes[1..].copy_from_slice(&error.encode());
            }
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        match reader.take::<1>()? {
            [b'S'] => Some(Self::Started {
                leader: reader.i32()?,
                holder: reader.i32()?,
            }),
            [b'F'] => LaunchError::decode(reader.0).map(Self::Failed),
            _ => None,
        }
    }
}

/// The leader was reaped with this status of `wait`; `b'E'` alone says that nobody is left.
pub(super) fn encode_exited(status: i32, rusage: Rusage, empty: bool) -> [u8; 30] {
    let mut bytes = [0; 30];
    bytes[0] = b'X';
    bytes[1] = u8::from(empty);
    bytes[2..6].copy_from_slice(&status.to_le_bytes());
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    bytes[6..14].copy_from_slice(&micros(rusage.user).to_le_bytes());
    bytes[14..22].copy_from_slice(&micros(rusage.system).to_le_bytes());
    bytes[22..30].copy_from_slice(&rusage.max_resident_bytes.to_le_bytes());
    bytes
}

pub(super) const EMPTY: [u8; 1] = [b'E'];

/// The first [`SURVIVORS_MAX`] of them.
pub(super) fn encode_survivors(pids: &[i32]) -> Vec<u8> {
    let mut bytes = vec![b'V'];
    let pids = pids.iter().take(SURVIVORS_MAX);
    bytes.extend(pids.flat_map(|pid| pid.to_le_bytes()));
    bytes
}

/// The longest of what [`decode_holder`] takes.
pub(super) const HOLDER_PACKET_MAX: usize = 1 + 4 * SURVIVORS_MAX;

pub(super) fn decode_holder(bytes: &[u8]) -> Option<HolderMessage> {
    let mut reader = Reader(bytes);
    match reader.take::<1>()? {
        [b'X'] => {
            let [empty] = reader.take::<1>()?;
            let how = how_of(reader.i32()?);
            let rusage = Rusage {
                user: Duration::from_micros(reader.u64()?),
                system: Duration::from_micros(reader.u64()?),
                max_resident_bytes: reader.u64()?,
            };
            let ended = Ended { how, rusage };
            let empty = empty != 0;
            Some(HolderMessage::Exited { ended, empty })
        }
        [b'E'] => Some(HolderMessage::Empty),
        [b'V'] => {
            let pids = reader.0.as_chunks::<4>().0.iter();
            let pids = pids.map(|pid| i32::from_le_bytes(*pid)).collect();
            Some(HolderMessage::Survivors(pids))
        }
        _ => None,
    }
}

/// The meaning of a status of `wait` for a process that has ended.
fn how_of(status: i32) -> How {
    if libc::WIFSIGNALED(status) {
        How::Signal(libc::WTERMSIG(status))
    } else {
        How::Code(libc::WEXITSTATUS(status))
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn i32(&mut self) -> Option<i32> {
        self.take().map(i32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Stage;

    #[test]
    fn a_start_and_its_failure_survive_the_way_to_the_service() {
        let failed = Outcome::Failed(LaunchError {
            stage: Stage::Cwd,
            errno: libc::ENOENT,
            index: 7,
        });
        let started = Outcome::Started {
            leader: 4_194_303,
            holder: 2,
        };
        for outcome in [failed, started] {
            assert_eq!(Outcome::decode(&outcome.encode()), Some(outcome));
        }
    }

    #[test]
    fn an_exit_keeps_its_status_and_what_the_leader_used() {
        let rusage = Rusage {
            user: Duration::from_micros(1_500_001),
            system: Duration::from_micros(7),
            max_resident_bytes: 123 << 30,
        };
        for (status, how) in [(3 << 8, How::Code(3)), (9, How::Signal(9))] {
            let decoded = decode_holder(&encode_exited(status, rusage, true)).unwrap();
            let HolderMessage::Exited { ended, empty } = decoded else {
                panic!("not an exit");
            };
            assert_eq!((ended.how, ended.rusage, empty), (how, rusage, true));
        }
    }

    #[test]
    fn what_is_cut_short_or_from_somebody_else_is_not_decoded() {
        let started = Outcome::Started {
            leader: 1,
            holder: 2,
        };
        assert_eq!(Outcome::decode(&started.encode()[..8]), None);
        let exited = encode_exited(0, Rusage::default(), false);
        assert!(decode_holder(&exited[..29]).is_none());
        assert_eq!(RequestHead::decode(b"P"), None);
        assert_eq!(RequestHead::decode(b"P\x04"), None);
        assert_eq!(ToKeeper::decode(b"tl-keeper-00H"), None);
        assert_eq!(decode_hello(b"Usage: true"), None);
    }
}

//! A plan as bytes for the keeper, and back; a launch error likewise.
//!
//! Numbers are little-endian, strings and lists carry their length first. The invariant here:
//! decoding is total. Bytes that are no plan give `None`, never a panic, never a large allocation.
//! Both sides are one program, so there is no version to negotiate, only one to recognise.

use std::ffi::CString;

use super::{LaunchError, MountStep, Mounts, Plan, Restrictions, Stage, Terminal};

/// First byte of a plan. Changes with the layout.
const LAYOUT: u8 = 2;

/// Bytes of an encoded launch error.
pub(crate) const LAUNCH_ERROR_BYTES: usize = 12;

impl Plan {
    /// As bytes for the keeper.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(4096));
        out.byte(LAYOUT);
        out.string(&self.program);
        out.list(&self.programs, Writer::string);
        out.list(&self.argv, Writer::string);
        out.list(&self.envp, Writer::string);
        out.string(&self.cwd);
        out.byte(match self.terminal {
            Terminal::None => 0,
            Terminal::Controlling => 1,
        });
        out.list(&self.rlimits, |out, (resource, soft, hard)| {
            out.word(*resource);
            out.long(*soft);
            out.long(*hard);
        });
        out.option(self.restrictions.as_ref(), Writer::restrictions);
        out.0
    }

    /// From bytes of [`Plan::encode`]; `None` if they are none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        if from.byte()? != LAYOUT {
            return None;
        }
        let plan = Self {
            program: from.string()?,
            programs: from.list(Reader::string)?,
            argv: from.list(Reader::string)?,
            envp: from.list(Reader::string)?,
            cwd: from.string()?,
            terminal: match from.byte()? {
                0 => Terminal::None,
                1 => Terminal::Controlling,
                _ => return None,
            },
            rlimits: from.list(|from| Some((from.word()?, from.long()?, from.long()?)))?,
            restrictions: from.option(Reader::restrictions)?,
        };
        from.0.is_empty().then_some(plan)
    }
}

impl LaunchError {
    /// As bytes from a holder.
    pub(crate) fn encode(self) -> [u8; LAUNCH_ERROR_BYTES] {
        let mut bytes = [0; LAUNCH_ERROR_BYTES];
        let words = [self.stage as u32, self.errno.cast_unsigned(), self.index];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// From bytes of [`LaunchError::encode`]; `None` if they are none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let error = Self {
            stage: Stage::from_number(from.word()?)?,
            errno: from.word()?.cast_signed(),
            index: from.word()?,
        };
        from.0.is_empty().then_some(error)
    }
}

impl Stage {
    const ALL: [Self; 11] = [
        Self::Clone,
        Self::Session,
        Self::Limit,
        Self::Stdio,
        Self::Namespace,
        Self::Mount,
        Self::Cwd,
        Self::Capabilities,
        Self::Landlock,
        Self::Seccomp,
        Self::Exec,
    ];

    fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| *stage as u32 == number)
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn word(&mut self, word: u32) {
        self.0.extend_from_slice(&word.to_le_bytes());
    }

    fn long(&mut self, long: u64) {
        self.0.extend_from_slice(&long.to_le_bytes());
    }

    fn string(&mut self, string: &CString) {
        let bytes = string.to_bytes();
        self.long(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn list<T>(&mut self, list: &[T], each: impl Fn(&mut Self, &T)) {
        self.long(list.len() as u64);
        for one in list {
            each(self, one);
        }
    }

    fn option<T>(&mut self, value: Option<&T>, write: impl Fn(&mut Self, &T)) {
        match value {
            None => self.byte(0),
            Some(value) => {
                self.byte(1);
                write(self, value);
            }
        }
    }

    fn restrictions(&mut self, restrictions: &Restrictions) {
        self.option(restrictions.mounts.as_ref(), |out, mounts| {
            out.option(mounts.user_namespace.as_ref(), |out, (uid, gid)| {
                out.word(*uid);
                out.word(*gid);
            });
            out.list(&mounts.steps, Self::mount_step);
        });
        self.long(restrictions.capabilities_kept);
        self.list(&restrictions.filter, |out, entry| {
            out.0.extend_from_slice(entry);
        });
    }

    fn mount_step(&mut self, step: &MountStep) {
        let (kind, path, other) = match step {
            MountStep::BindSelf(path) => (0, path, None),
            MountStep::ReadOnly(path) => (1, path, None),
            MountStep::MaskDirectory(path) => (2, path, None),
            MountStep::MaskFile(path) => (3, path, None),
            MountStep::Freeze(path) => (4, path, None),
            MountStep::Restore(path) => (5, path, None),
            MountStep::EmptyDirectory(path) => (6, path, None),
            MountStep::Instead(other, path) => (7, path, Some(other)),
        };
        self.byte(kind);
        self.string(path);
        if let Some(other) = other {
            self.string(other);
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn word(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn len(&mut self) -> Option<usize> {
        usize::try_from(self.long()?).ok()
    }

    fn string(&mut self) -> Option<CString> {
        let len = self.len()?;
        CString::new(self.take(len)?).ok()
    }

    /// Grows as entries are found, so a wrong length costs nothing.
    fn list<T>(&mut self, each: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let len = self.len()?;
        let mut list = Vec::new();
        for _ in 0..len {
            list.push(each(self)?);
        }
        Some(list)
    }

    #[expect(
        clippy::option_option,
        reason = "outside: whether the bytes are right; inside: the value"
    )]
    fn option<T>(&mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            1 => Some(Some(read(self)?)),
            _ => None,
        }
    }

    fn restrictions(&mut self) -> Option<Restrictions> {
        Some(Restrictions {
            mounts: self.option(|from| {
                Some(Mounts {
                    user_namespace: from.option(|from| Some((from.word()?, from.word()?)))?,
                    steps: from.list(Self::mount_step)?,
                })
            })?,
            capabilities_kept: self.long()?,
            filter: self.list(Self::array)?,
        })
    }

    fn mount_step(&mut self) -> Option<MountStep> {
        let kind = self.byte()?;
        let path = self.string()?;
        match kind {
            0 => Some(MountStep::BindSelf(path)),
            1 => Some(MountStep::ReadOnly(path)),
            2 => Some(MountStep::MaskDirectory(path)),
            3 => Some(MountStep::MaskFile(path)),
            4 => Some(MountStep::Freeze(path)),
            5 => Some(MountStep::Restore(path)),
            6 => Some(MountStep::EmptyDirectory(path)),
            7 => Some(MountStep::Instead(self.string()?, path)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;

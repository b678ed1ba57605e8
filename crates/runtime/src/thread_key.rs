//! Threads that are named by a key: the id follows from the key.
//!
//! The invariant here: the same key gives the same id in every process, so the primary key of the
//! store decides which of two processes makes the thread. No lock and no lookup is needed, and a crash
//! at any point leaves the thread or does not.
//!
//! Such an id is no time: lists are ordered by stored times and never by ids.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use turnlane_protocol::ids::ThreadId;

/// Separates these hashes from others of the same text.
const DOMAIN: &[u8] = b"turnlane thread key\0";

/// The id of the thread that this key names.
pub fn thread_of_key(key: &str) -> ThreadId {
    let hash = Sha256::new().chain_update(DOMAIN).chain_update(key);
    let hash: [u8; 32] = hash.finalize().into();
    let mut random = [0; 10];
    random.copy_from_slice(&hash[6..16]);
    let time = hash[..6]
        .iter()
        .fold(0, |time, byte| time << 8 | u64::from(*byte));
    ThreadId::at(time, random)
}

/// A short text that tells contents apart.
pub fn digest(content: &[u8]) -> String {
    let hash = Sha256::digest(content);
    hash.iter().fold(String::new(), |mut text, byte| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_one_thread_and_keys_name_different_ones() {
        assert_eq!(thread_of_key("a"), thread_of_key("a"));
        assert_ne!(thread_of_key("a"), thread_of_key("b"));
        // The id is part of what is stored: it must not change with a version.
        let id = thread_of_key("a").to_string();
        assert_eq!(id.parse(), Ok(thread_of_key("a")));
        assert_eq!(&id[14..15], "7", "{id}");
    }
}

//! More input for a turn that runs.
//!
//! The invariant here: a place is taken before a steer is written to disk and given back when the
//! engine takes the steer, so [`SteerSender::waiting`] counts exactly the steers that are accepted
//! and not taken. That number is the answer to `close_steer`, and no steer falls between the two.
//!
//! Bounds: [`MESSAGES_MAX`] messages and [`BYTES_MAX`] bytes of text, whichever is reached first;
//! then a steer is refused, never kept waiting. The engine never closes this channel.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use turnlane_protocol::ids::ItemId;
use turnlane_protocol::input::UserInput;

/// How many messages may wait for an engine.
pub const MESSAGES_MAX: usize = 1024;
/// How many bytes of text they may have together.
pub const BYTES_MAX: usize = 16 * 1024 * 1024;

/// Something that joins a running turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Steer {
    /// Somebody said more. Its userMessage item is durable and not yet announced: the engine emits
    /// its start and completion when the model is given it.
    Input {
        /// What was said.
        input: Vec<UserInput>,
        /// Its item.
        item_id: ItemId,
        /// The client's own id for it.
        client_id: Option<String>,
    },
    /// Context of a hook that was not waited for; goes to the model as a note.
    Note(String),
}

impl Steer {
    fn bytes(&self) -> usize {
        match self {
            Self::Input { input, .. } => input.iter().map(part_bytes).sum(),
            Self::Note(text) => text.len(),
        }
    }
}

/// What a part of an input weighs; pictures and sound are text too while they wait.
fn part_bytes(part: &UserInput) -> usize {
    use turnlane_protocol::input::ImageSource;
    match part {
        UserInput::Text { text, .. } => text.len(),
        UserInput::Image(image) => match &image.source {
            ImageSource::Url(text) | ImageSource::FileId(text) => text.len(),
        },
        UserInput::Audio { url } => url.len(),
        UserInput::LocalImage { path, .. } | UserInput::LocalAudio { path } => path.len(),
        UserInput::Skill { name, path } | UserInput::Mention { name, path } => {
            name.len() + path.len()
        }
    }
}

/// Why a steer is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SteerRefused {
    /// Too much waits already; later there may be room.
    #[error("{MESSAGES_MAX} messages or {BYTES_MAX} bytes wait for the engine")]
    Full,
    /// The engine has ended.
    #[error("the engine takes no more input")]
    Gone,
}

#[derive(Debug, Default)]
struct Load {
    steers: AtomicUsize,
    bytes: AtomicUsize,
}

/// One steer's share of the load; given back when dropped, wherever the steer ended up.
#[derive(Debug)]
struct Weight {
    load: Arc<Load>,
    steers: usize,
    bytes: usize,
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.load.steers.fetch_sub(self.steers, Ordering::AcqRel);
        self.load.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[derive(Debug)]
struct Weighed {
    steer: Steer,
    weight: Weight,
}

/// The lane's side.
#[derive(Clone, Debug)]
pub struct SteerSender {
    queue: mpsc::Sender<Weighed>,
    load: Arc<Load>,
}

impl SteerSender {
    /// Takes a place for a steer that is about to be written, or refuses it.
    ///
    /// From here on the steer counts as accepted. Dropping the place gives it back.
    pub fn reserve(&self, steer: Steer) -> Result<AcceptedSteer, SteerRefused> {
        let place = self.queue.clone().try_reserve_owned();
        let place = place.map_err(|refused| match refused {
            TrySendError::Full(_) => SteerRefused::Full,
            TrySendError::Closed(_) => SteerRefused::Gone,
        })?;
        let weight = Weight {
            load: Arc::clone(&self.load),
            steers: usize::from(matches!(steer, Steer::Input { .. })),
            bytes: steer.bytes(),
        };
        self.load.steers.fetch_add(weight.steers, Ordering::AcqRel);
        let before = self.load.bytes.fetch_add(weight.bytes, Ordering::AcqRel);
        // A steer alone always fits: how long an input may be is checked where it comes in.
        if before > 0 && before + weight.bytes > BYTES_MAX {
            return Err(SteerRefused::Full);
        }
        Ok(AcceptedSteer {
            place,
            weighed: Weighed { steer, weight },
        })
    }

    /// How many steers are accepted and not yet taken by the engine; notes do not count.
    pub fn waiting(&self) -> usize {
        self.load.steers.load(Ordering::Acquire)
    }
}

/// A steer that has its place and is not handed over yet.
#[derive(Debug)]
pub struct AcceptedSteer {
    place: mpsc::OwnedPermit<Weighed>,
    weighed: Weighed,
}

impl AcceptedSteer {
    /// What it says.
    pub fn steer(&self) -> &Steer {
        &self.weighed.steer
    }

    /// Hands it to the engine; called when it is durable. Never waits.
    pub fn hand_over(self) {
        self.place.send(self.weighed);
    }
}

/// The engine's side.
#[derive(Debug)]
pub struct SteerReceiver {
    queue: mpsc::Receiver<Weighed>,
    load: Arc<Load>,
}

impl SteerReceiver {
    /// The next steer, in the order they were handed over; none when the lane has gone.
    ///
    /// Dropped while it waits, nothing is lost.
    pub async fn recv(&mut self) -> Option<Steer> {
        self.queue.recv().await.map(taken)
    }

    /// The next steer if one is there already.
    pub fn try_recv(&mut self) -> Option<Steer> {
        self.queue.try_recv().ok().map(taken)
    }

    /// How many steers are accepted and not yet taken; see [`SteerSender::waiting`].
    pub fn waiting(&self) -> usize {
        self.load.steers.load(Ordering::Acquire)
    }
}

fn taken(weighed: Weighed) -> Steer {
    drop(weighed.weight);
    weighed.steer
}

pub(crate) fn channel() -> (SteerSender, SteerReceiver) {
    let (sender, queue) = mpsc::channel(MESSAGES_MAX);
    let load = Arc::new(Load::default());
    let sender = SteerSender {
        queue: sender,
        load: Arc::clone(&load),
    };
    (sender, SteerReceiver { queue, load })
}

//! Frames in the cores: those of one flow leave in order of arrival, whichever core finishes first.

use std::collections::VecDeque;

/// A frame in the interface's input buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
pub(crate) struct Frame {
    /// The hash of receive-side scaling: frames with the same hash belong to one flow.
    pub hash: u32,
    pub bytes: Vec<u8>,
    /// Bytes of the input buffer that it occupies: its received length.
    pub room: u32,
    /// Words for the host's listener when it is delivered.
    pub notes: Vec<u64>,
}

/// The fate of a frame.
#[derive(Clone, Debug, PartialEq, Eq, state::State, state::Plain)]
pub(crate) enum Fate {
    /// It is dropped.
    Dropped,
    /// It goes into this receive ring.
    Delivered(u64),
    /// This number of its bytes is sent to the network.
    Sent(u64),
}

/// The state of a frame that a core has taken.
#[derive(Clone, Debug, state::State, state::Plain)]
enum Place {
    /// In its core.
    Core,
    /// Finished, but waiting for older frames of its flow.
    Behind(Fate, Frame),
    Gone,
}

#[derive(Clone, Debug, state::State, state::Plain)]
struct Taken {
    hash: u32,
    place: Place,
}

#[derive(Clone, Debug, Default, state::State)]
pub(super) struct Frames {
    /// Frames that no core has taken, oldest first.
    waiting: VecDeque<Frame>,
    /// Frames that cores have taken, in order of arrival.
    taken: VecDeque<Taken>,
    /// The number of the first of those.
    first: u64,
}

impl Frames {
    /// Adds a frame that has arrived.
    pub fn give(&mut self, frame: Frame) {
        self.waiting.push_back(frame);
    }

    /// Number of frames that no core has taken.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes the oldest frame that no core has taken; returns it with its number.
    pub fn take(&mut self) -> Option<(u64, Frame)> {
        let frame = self.waiting.pop_front()?;
        let number = self.first + self.taken.len() as u64;
        self.taken.push_back(Taken {
            hash: frame.hash,
            place: Place::Core,
        });
        Some((number, frame))
    }

    /// Handles a core's completion of frame `number`. Frames that may now leave do so, in order.
    pub fn finish(
        &mut self,
        number: u64,
        fate: Fate,
        frame: Frame,
        mut leaves: impl FnMut(Fate, Frame),
    ) {
        let place = (number - self.first) as usize;
        if let Some(taken) = self.taken.get_mut(place) {
            taken.place = Place::Behind(fate, frame);
        }
        for place in place..self.taken.len() {
            let hash = self.taken[place].hash;
            let mut older = self.taken.range(..place);
            let is_first = !older.any(|one| one.hash == hash && !matches!(one.place, Place::Gone));
            let one = &mut self.taken[place].place;
            if is_first && matches!(one, Place::Behind(..)) {
                let Place::Behind(fate, frame) = std::mem::replace(one, Place::Gone) else {
                    continue;
                };
                leaves(fate, frame);
            }
        }
        while self
            .taken
            .pop_front_if(|one| matches!(one.place, Place::Gone))
            .is_some()
        {
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the order in which cores finish, every frame leaves once, those of a flow in
        /// order, without waiting for those of other flows.
        #[test]
        fn flows_stay_in_order(hashes in prop::collection::vec(0u32..4, 1..40), picks in prop::collection::vec(any::<prop::sample::Index>(), 80)) {
            let mut frames = Frames::default();
            for (number, &hash) in hashes.iter().enumerate() {
                frames.give(Frame { hash, bytes: vec![number as u8], room: 1, notes: Vec::new() });
            }
            let (mut held, mut left) = (Vec::new(), Vec::new());
            for pick in picks {
                if held.len() < 6 && let Some(taken) = frames.take() {
                    held.push(taken);
                    continue;
                }
                if held.is_empty() {
                    break;
                }
                let (number, frame) = held.remove(pick.index(held.len()));
                let hash = frame.hash;
                let is_oldest = !held.iter().any(|(other, of)| of.hash == hash && *other < number);
                let before = left.len();
                frames.finish(number, Fate::Dropped, frame, |_, frame| left.push(frame));
                prop_assert_eq!(left.len() > before, is_oldest);
            }
            while let Some(taken) = frames.take() {
                held.push(taken);
            }
            for (number, frame) in held {
                frames.finish(number, Fate::Dropped, frame, |_, frame| left.push(frame));
            }
            prop_assert_eq!(left.len(), hashes.len());
            for hash in 0..4 {
                let of_flow: Vec<u8> = left.iter().filter(|one| one.hash == hash).map(|one| one.bytes[0]).collect();
                prop_assert!(of_flow.is_sorted());
            }
            prop_assert!(frames.taken.is_empty());
        }
    }
}

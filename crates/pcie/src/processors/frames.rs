//! Frames on their way through the cores: those of one flow leave in the order in which they came,
//! whichever core is done first.

use std::collections::VecDeque;

/// A frame in the interface's input buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
pub(crate) struct Frame {
    /// Receive-side scaling's hash: frames with the same one are of one flow.
    pub hash: u32,
    pub bytes: Vec<u8>,
    /// Bytes of the input buffer that it takes: those that came.
    pub room: u32,
    /// Words that go to the host's listener when it is delivered.
    pub notes: Vec<u64>,
}

/// What becomes of a frame.
#[derive(Clone, Debug, PartialEq, Eq, state::State, state::Plain)]
pub(crate) enum Fate {
    /// It is dropped.
    Dropped,
    /// It goes into this receive ring.
    Delivered(u64),
    /// So many of its bytes go out to the network.
    Sent(u64),
}

/// Where a frame is that a core has taken.
#[derive(Clone, Debug, state::State, state::Plain)]
enum Place {
    /// With its core.
    Core,
    /// Behind older frames of its flow.
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
    /// Those that no core has taken, the oldest first.
    waiting: VecDeque<Frame>,
    /// Those that cores have taken, in the order in which they came.
    taken: VecDeque<Taken>,
    /// The number of the first of those.
    first: u64,
}

impl Frames {
    /// A frame has come.
    pub fn give(&mut self, frame: Frame) {
        self.waiting.push_back(frame);
    }

    /// How many no core has taken.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The oldest frame that no core has taken, and its number.
    pub fn take(&mut self) -> Option<(u64, Frame)> {
        let frame = self.waiting.pop_front()?;
        let number = self.first + self.taken.len() as u64;
        self.taken.push_back(Taken {
            hash: frame.hash,
            place: Place::Core,
        });
        Some((number, frame))
    }

    /// A core is done with the frame `number`. What may leave now does, in order.
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
        /// Whatever the order in which cores are done: every frame leaves once, those of a flow in
        /// order, and one does not wait for those of other flows.
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

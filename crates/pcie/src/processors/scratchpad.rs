//! The scratchpad in its banks, and the crossbar in front of it.

use riscv::elf::Image;

/// Bytes of a word, which a bank and a core's crossbar port transfer in a cycle.
pub(super) const WORD_BYTES: u64 = 8;

/// The scratchpad behind the crossbar.
#[derive(Clone, Debug, state::State)]
pub(super) struct Scratchpad {
    #[state(octets)]
    bytes: Vec<u8>,
    /// The first cycle in which each bank can be accessed.
    #[state(slice)]
    free: Vec<u64>,
    /// The word that each core has reserved for its `sc`.
    #[state(slice)]
    reserved: Vec<Option<u64>>,
    /// Number of words read or written.
    #[state(count)]
    pub words: u64,
    /// Number of cycles that accesses have waited for a bank.
    #[state(count)]
    pub conflicts: u64,
}

impl Scratchpad {
    pub fn new(bytes: u32, banks: u32, cores: u32) -> Scratchpad {
        Scratchpad {
            bytes: vec![0; bytes as usize],
            free: vec![0; banks as usize],
            reserved: vec![None; cores as usize],
            words: 0,
            conflicts: 0,
        }
    }

    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Loads firmware that is linked for `start`; false if it does not fit below `end`.
    pub fn load(&mut self, image: &Image, start: u64, end: u64) -> bool {
        image.segments.iter().all(|segment| {
            let Some(offset) = segment.address.checked_sub(start) else {
                return false;
            };
            let fits = offset.checked_add(segment.memory_bytes);
            let place = offset as usize..offset.wrapping_add(segment.bytes.len() as u64) as usize;
            match self.bytes.get_mut(place) {
                Some(bytes) if fits.is_some_and(|last| last <= end) => {
                    bytes.copy_from_slice(&segment.bytes);
                    true
                }
                _ => false,
            }
        })
    }

    /// The cycle, `cycle` or later, in which the bank of the word at `offset` accepts an access of
    /// `cycles` cycles.
    pub fn access(&mut self, offset: u64, cycle: u64, cycles: u64) -> u64 {
        let bank = (offset / WORD_BYTES) as usize % self.free.len();
        let at = cycle.max(self.free[bank]);
        self.free[bank] = at + cycles;
        self.words += cycles;
        self.conflicts += at - cycle;
        at
    }

    /// 1 to 8 bytes at `offset`, if they exist.
    pub fn read(&self, offset: u64, bytes: u8) -> Option<u64> {
        let place = self.bytes.get(range(offset, bytes)?)?;
        let digits = place.iter().rev();
        Some(digits.fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    /// Writes the low bytes of a value; false if they do not exist. Reservations of the words end.
    pub fn write(&mut self, offset: u64, bytes: u8, value: u64) -> bool {
        let place = range(offset, bytes).and_then(|range| self.bytes.get_mut(range));
        let Some(place) = place else {
            return false;
        };
        place.copy_from_slice(&value.to_le_bytes()[..usize::from(bytes)]);
        let words = offset / WORD_BYTES..=(offset + u64::from(bytes) - 1) / WORD_BYTES;
        for reserved in &mut self.reserved {
            reserved.take_if(|word| words.contains(word));
        }
        true
    }

    /// Reserves the word at `offset` for a core.
    pub fn reserve(&mut self, core: usize, offset: u64) {
        self.reserved[core] = Some(offset / WORD_BYTES);
    }

    /// Whether the core holds a reservation of the word at `offset`, with no write since. The
    /// reservation ends.
    pub fn take_reservation(&mut self, core: usize, offset: u64) -> bool {
        self.reserved[core].take() == Some(offset / WORD_BYTES)
    }
}

fn range(offset: u64, bytes: u8) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(offset).ok()?;
    Some(start..start.checked_add(usize::from(bytes))?)
}

//! Calls about memory. Protection is accepted and not enforced: what is mapped can be read, written
//! and executed.

use crate::errno::Errno;
use crate::kernel::{Call, Effect, Kernel};
use crate::layout::{PAGE_BYTES, page_up};
use crate::space::{Place, Remap};
use crate::user::Outcome;

const PROT_WRITE: u64 = 2;
const MAP_SHARED: u64 = 1;
const MAP_PRIVATE: u64 = 2;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
const MREMAP_MAYMOVE: u64 = 1;
const MADV_DONTNEED: u64 = 4;

impl Kernel {
    /// `mmap`: address, length, protection, flags, file, offset.
    pub fn mmap(
        &mut self,
        call: &mut Call,
        [address, length, protection, flags, file, offset]: [u64; 6],
    ) -> Outcome {
        // MAP_SHARED_VALIDATE is both.
        if flags & (MAP_SHARED | MAP_PRIVATE) == 0 || !offset.is_multiple_of(PAGE_BYTES) {
            return Err(Errno::INVAL.into());
        }
        let place = if flags & MAP_FIXED_NOREPLACE != 0 {
            Place::AtFree(address)
        } else if flags & MAP_FIXED != 0 {
            Place::At(address)
        } else {
            Place::Near(address)
        };
        let accessible = protection & 7 != 0;
        let content = if flags & MAP_ANONYMOUS != 0 {
            Vec::new()
        } else {
            if flags & MAP_PRIVATE == 0 && protection & PROT_WRITE != 0 {
                self.tell_once(
                    "the program wants to write to a file by writing to memory (mmap with \
                     MAP_SHARED), which is not there; the call answers ENODEV"
                        .to_string(),
                );
                return Err(Errno::NODEV.into());
            }
            // What does not fit is not read.
            self.space.place(place, length, accessible)?;
            let wanted = if accessible { length } else { 0 };
            self.file_content(file, offset, wanted)?
        };
        let (start, dirty) = self.space.map(place, length, accessible)?;
        call.user.clear_ranges(&dirty);
        if accessible {
            call.user.write(start, content)?;
        }
        Ok(start)
    }

    pub fn mremap(
        &mut self,
        call: &mut Call,
        start: u64,
        old_length: u64,
        new_length: u64,
        flags: u64,
    ) -> Outcome {
        if flags & !MREMAP_MAYMOVE != 0 {
            return Err(Errno::INVAL.into());
        }
        let may_move = flags & MREMAP_MAYMOVE != 0;
        match self.space.remap(start, old_length, new_length, may_move)? {
            Remap::InPlace(dirty) => {
                call.user.clear_ranges(&dirty);
                Ok(start)
            }
            Remap::Moved { to, dirty, copied } => {
                call.user.clear_ranges(&dirty);
                for &(from, end) in &copied {
                    call.user.copy_lines((from, end), from - start + to);
                }
                // Until then nobody else is given these addresses.
                let end = start + page_up(old_length);
                self.effects.push(Effect::Unmap { start, end });
                Ok(to)
            }
        }
    }

    pub fn madvise(&mut self, call: &mut Call, start: u64, length: u64, advice: u64) -> Outcome {
        if advice == MADV_DONTNEED {
            let dirty = self.space.discard(start, length)?;
            call.user.clear_ranges(&dirty);
        }
        Ok(0)
    }
}

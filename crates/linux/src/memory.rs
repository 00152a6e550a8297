//! Memory-mapping calls.

use crate::errno::Errno;
use crate::kernel::{Call, Kernel};
use crate::layout::PAGE_BYTES;
use crate::space::{PROT_WRITE, Place};
use crate::user::Outcome;

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
        // MAP_SHARED_VALIDATE has both bits.
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
                     MAP_SHARED), which is not implemented; the call returns ENODEV"
                        .to_string(),
                );
                return Err(Errno::NODEV.into());
            }
            // A file is not read if the mapping does not fit.
            let space = self.process.space.clone();
            space.borrow().place(place, length, accessible)?;
            let wanted = if accessible { length } else { 0 };
            self.file_content(file, offset, wanted)?
        };
        let shared = flags & MAP_PRIVATE == 0;
        let mut space = self.process.space.borrow_mut();
        let start = space.map(place, length, protection, shared)?;
        drop(space);
        if accessible {
            call.user.fill(start, &content);
        }
        Ok(start)
    }

    pub fn mremap(&mut self, start: u64, old_length: u64, new_length: u64, flags: u64) -> Outcome {
        if flags & !MREMAP_MAYMOVE != 0 {
            return Err(Errno::INVAL.into());
        }
        let may_move = flags & MREMAP_MAYMOVE != 0;
        let mut space = self.process.space.borrow_mut();
        Ok(space.remap(start, old_length, new_length, may_move)?)
    }

    pub fn madvise(&mut self, start: u64, length: u64, advice: u64) -> Outcome {
        if advice == MADV_DONTNEED {
            self.process.space.borrow_mut().discard(start, length)?;
        }
        Ok(0)
    }
}

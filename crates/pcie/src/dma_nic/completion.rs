//! Completion queues: where queues report received frames, several to the same one.

use super::ring::DONE;
use super::{DmaNic, register};
use crate::frames::is_memory;
use fabric::AgentContext;

pub(super) const COMPLETION_BYTES: u64 = 16;

/// A ring of completions.
#[derive(Clone, Copy, Debug, Default, state::State, state::Plain)]
pub(super) struct CompletionQueue {
    start: u64,
    /// Number of entries; 0 until it is started.
    entries: u32,
    /// Number of completions that have been written.
    written: u32,
    /// Number of buffers of the rings that report to it.
    buffers: u32,
}

impl CompletionQueue {
    /// The next completion, of a queue's descriptor whose upper half would be `half`: its address
    /// and bytes.
    pub(super) fn report(&mut self, half: Vec<u8>, queue: u32, number: u32) -> (u64, Vec<u8>) {
        let place = self.written & self.entries.wrapping_sub(1);
        let is_odd_pass = self.written & self.entries != 0;
        self.written = self.written.wrapping_add(1);
        let mut entry = half;
        if let (true, Some(status)) = (is_odd_pass, entry.get_mut(2)) {
            *status ^= DONE as u8;
        }
        entry.extend(queue.to_le_bytes());
        entry.extend(number.to_le_bytes());
        (self.start + u64::from(place) * COMPLETION_BYTES, entry)
    }
}

impl DmaNic {
    /// Handles a write to a register of completions in the page of `queue`; `None` if there is no
    /// such page.
    pub(super) fn set_completions(
        &mut self,
        context: &mut AgentContext<'_>,
        queue: usize,
        place: u64,
        value: u64,
    ) -> Option<Result<(), String>> {
        let completions = self.completions.get_mut(queue)?;
        let has_begun = completions.entries > 0;
        Some(match place {
            register::COMPLETIONS => {
                let to = usize::try_from(value).ok();
                let to = to.and_then(|to| self.completions.get(to));
                let ring = self.rings.get(2 * queue)?;
                if ring.entries > 0 || to.is_none_or(|to| to.entries == 0) {
                    Err(format!(
                        "queue {queue} was to report its frames to completion queue {value}; that \
                         must have begun, and the ring of buffers of the queue must not"
                    ))
                } else {
                    self.reports_to[queue] = Some(value as u32);
                    Ok(())
                }
            }
            register::COMPLETION_RING | register::COMPLETION_ENTRIES if has_begun => Err(format!(
                "completion queue {queue} was changed after it had begun"
            )),
            register::COMPLETION_RING => {
                completions.start = value;
                Ok(())
            }
            register::COMPLETION_ENTRIES => {
                let start = completions.start;
                let is_possible = (4..=65536).contains(&value) && value.is_power_of_two();
                let bytes = (value.min(65536) * COMPLETION_BYTES) as usize;
                let is_there = start.is_multiple_of(64) && is_memory(context, start, bytes);
                if is_possible && is_there {
                    completions.entries = value as u32;
                    Ok(())
                } else {
                    Err(format!(
                        "completion queue {queue} was to have {value} entries at {start:#x}; they \
                         must be a power of two from 4 to 65536, begin at a multiple of 64 and be \
                         in memory"
                    ))
                }
            }
            _ => return None,
        })
    }

    /// Adds the buffers of a ring that begins to those of its queue's completion queue.
    pub(super) fn promise_completions(&mut self, queue: usize, more: u32) -> Result<(), String> {
        let to = self.reports_to.get(queue).copied().flatten();
        let Some((to, completions)) =
            to.and_then(|to| Some((to, self.completions.get_mut(to as usize)?)))
        else {
            return Ok(());
        };
        completions.buffers += more;
        if completions.buffers > completions.entries {
            return Err(format!(
                "completion queue {to} has {} entries, and the rings that report to it have {} \
                 buffers; it needs an entry for each",
                completions.entries, completions.buffers
            ));
        }
        Ok(())
    }
}

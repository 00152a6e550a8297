//! The agent at the root port: it sends regions to the interface, and receives the results of user
//! routines.

use crate::executable::executable;
use crate::observer::SharedObserver;
use crate::offload::{Unsent, code};
use crate::region::Region;
use crate::spec::OffloadSpec;
use crate::system::OffloadStatistics;
use fabric::{Agent, AgentContext, AgentId, AgentMessage, LINE_BYTES, LineData, Time};
use state::Walker;
use std::collections::VecDeque;
use std::rc::Rc;

// The firmware's layout of regions, guest/firmware/critical-regions.c: for each core of the host a
// block and pieces of code. The block's first word is the list of regions: their number, and then
// the number of each one's piece, a byte each. The second word is the budget of instructions.

/// Bytes of a piece of code: `REGION_CODE_BYTES` of the firmware.
const CODE_BYTES: u64 = 512;
/// Pieces for a core of the host: `REGION_PIECES` of the firmware. Pieces outside of the list are
/// written in turn, so that the interface may still run one that has left the list.
const PIECES: u8 = 16;
/// Bytes for a core of the host.
const SLOT_BYTES: u64 = LINE_BYTES as u64 + PIECES as u64 * CODE_BYTES;

/// The regions of a core that the interface has: procedures and their pieces, the most recently
/// sent first.
#[derive(Clone, Debug, Default)]
struct List {
    entries: VecDeque<(Option<u64>, u8)>,
    /// The piece that was written last.
    last: u8,
}

impl List {
    /// Inserts a region of this procedure at the front, in place of its previous one; the list
    /// holds at most `most`. Returns the region's piece.
    fn push(&mut self, procedure: Option<u64>, most: usize) -> u8 {
        self.entries.retain(|(other, _)| *other != procedure);
        self.entries.truncate(most - 1);
        let is_taken = |piece| self.entries.iter().any(|(_, other)| *other == piece);
        let mut piece = (self.last + 1) % PIECES;
        while is_taken(piece) {
            piece = (piece + 1) % PIECES;
        }
        self.last = piece;
        self.entries.push_front((procedure, piece));
        piece
    }

    /// Removes the region of a procedure whose last epoch had none worth sending. Returns whether
    /// there was one.
    fn remove(&mut self, procedure: Option<u64>) -> bool {
        let before = self.entries.len();
        self.entries.retain(|(other, _)| *other != procedure);
        self.entries.len() < before
    }

    fn word(&self) -> u64 {
        let pieces = self.entries.iter().rev();
        let pieces = pieces.fold(0, |word, &(_, piece)| word << 8 | u64::from(piece));
        pieces << 8 | self.entries.len() as u64
    }
}

/// The agent.
///
/// Its path to the hardware at the cores, across the chip, takes at least as long as a message to a
/// core ([`AgentContext::minimum_delivery_latency`]). A region waits for the next packet that the
/// interface announces.
pub struct Listener {
    cores: Vec<SharedObserver>,
    offload: OffloadSpec,
    lists: Vec<List>,
    statistics: OffloadStatistics,
}

impl Listener {
    /// The agent of these cores.
    pub fn new(cores: &[SharedObserver], offload: &OffloadSpec) -> Listener {
        Listener {
            cores: cores.iter().map(Rc::clone).collect(),
            offload: offload.clone(),
            lists: vec![List::default(); cores.len()],
            statistics: OffloadStatistics::default(),
        }
    }

    /// Its counters.
    pub fn statistics(&self) -> OffloadStatistics {
        self.statistics
    }

    /// Sends the regions of ended epochs.
    fn send_regions(&mut self, context: &mut AgentContext<'_>, interface: AgentId) {
        // Cores are simulated ahead of the chip by less than this, or behind it.
        let by = context
            .now()
            .saturating_sub(context.minimum_delivery_latency());
        let counts = &mut self.statistics;
        let cores = self.cores.iter().zip(&mut self.lists);
        for (start, (core, list)) in (0..).step_by(SLOT_BYTES as usize).zip(cores) {
            while let Some(region) = core.borrow_mut().take_region(by) {
                let code = prepare(&region, counts);
                if code.is_none() && !list.remove(region.procedure) {
                    continue;
                }
                let Some(bytes) = code else {
                    send_list(context, interface, start, list, self.offload.budget);
                    continue;
                };
                let piece = list.push(region.procedure, self.offload.regions);
                let place = start + LINE_BYTES as u64 + u64::from(piece) * CODE_BYTES;
                let lines = bytes.chunks(LINE_BYTES);
                for (header, line) in (place..).step_by(LINE_BYTES).zip(lines) {
                    let mut data = LineData::ZERO;
                    data.0[..line.len()].copy_from_slice(line);
                    let message = AgentMessage { header, data };
                    context.send_over_wires(interface, Time::ZERO, message);
                }
                send_list(context, interface, start, list, self.offload.budget);
            }
        }
    }
}

/// Sends the block in front of a core's pieces of code.
fn send_list(
    context: &mut AgentContext<'_>,
    interface: AgentId,
    header: u64,
    list: &List,
    budget: u64,
) {
    let mut data = LineData::ZERO;
    data.write(0, 8, list.word());
    data.write(8, 8, budget);
    let message = AgentMessage { header, data };
    context.send_over_wires(interface, Time::ZERO, message);
}

/// The code of a region, if it is useful and can be sent; counts the outcome.
fn prepare(region: &Region, counts: &mut OffloadStatistics) -> Option<Vec<u8>> {
    let executable = executable(region);
    if !region.fetches(&executable) {
        counts.regions_without_load += 1;
        return None;
    }
    match code(region, &executable, CODE_BYTES as usize) {
        Ok(bytes) => {
            counts.regions_sent += 1;
            counts.code_bytes += bytes.len() as u64;
            counts.instructions_sent += executable.len() as u64;
            counts.instructions_failed += executable.iter().filter(|can| !**can).count() as u64;
            Some(bytes)
        }
        Err(Unsent::TooLarge) => {
            counts.regions_too_large += 1;
            None
        }
        Err(Unsent::NoRegister) => {
            counts.regions_without_register += 1;
            None
        }
    }
}

/// Servers with CARGO have no checkpoints, because the observations of probes are not saved.
impl state::State for Listener {
    fn walk(&mut self, _walker: &mut dyn Walker) {}
}

impl Agent for Listener {
    fn name(&self) -> String {
        "the listener of critical regions".to_string()
    }

    fn message(&mut self, context: &mut AgentContext<'_>, from: AgentId, message: AgentMessage) {
        let mut words = (0..LINE_BYTES)
            .step_by(8)
            .map(|at| message.data.read(at, 8));
        let (size, core) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
        let (bytes, notes) = (size & 0xffff_ffff, size >> 32);
        if let Some(core) = self.cores.get(core as usize) {
            let values = words.take((notes as usize).saturating_sub(1)).collect();
            let at = context.now() + context.minimum_delivery_latency();
            core.borrow_mut().tell(at, message.header, bytes, values);
        }
        self.send_regions(context, from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_firmware_keeps_regions_where_they_are_written() {
        let firmware = include_str!("../../../guest/firmware/critical-regions.c");
        for constant in [
            format!("REGION_CODE_BYTES = {CODE_BYTES},"),
            format!("REGION_PIECES = {PIECES},"),
        ] {
            assert!(firmware.contains(&constant), "{constant}");
        }
        // The words in front of the code fill a line.
        let words = ["uint64_t list;", "uint64_t budget;", "uint64_t unused[6];"];
        assert_eq!(8 * (1 + 1 + 6), LINE_BYTES);
        let places = words.map(|word| firmware.find(word).expect(word));
        assert!(places.is_sorted());
        assert!(firmware.contains("uint8_t code[REGION_PIECES][REGION_CODE_BYTES];"));
    }

    #[test]
    fn a_procedure_has_one_region_in_the_list() {
        let mut list = List::default();
        let pieces: Vec<u8> = [1, 2, 1, 3, 4, 5]
            .map(|procedure| list.push(Some(procedure), 3))
            .to_vec();
        assert_eq!(pieces, [1, 2, 3, 4, 5, 6]);
        // Three regions: the last ones of 5, 4 and 3.
        assert_eq!(list.word(), 0x0405_0603);
        // The next piece is never one of the list.
        for procedure in 10..30 {
            let before = list.entries.clone();
            let piece = list.push(Some(procedure), 3);
            assert!(before.iter().take(2).all(|&(_, other)| other != piece));
        }
    }
}

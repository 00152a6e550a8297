//! At the root port: regions go to the interface, and what user routines return comes from there.

use crate::executable::executable;
use crate::observer::SharedObserver;
use crate::offload::{Unsent, code};
use crate::system::OffloadStatistics;
use fabric::{Agent, AgentContext, AgentId, AgentMessage, LINE_BYTES, LineData, Time};
use state::Walker;
use std::rc::Rc;

// As the firmware keeps regions, guest/firmware/critical-regions.c: for each core of the host a
// block and two pieces of code, which are written alternately. The block's first word tells which
// of them counts, from 1 on, and its second word is the budget of instructions.

/// Bytes of a piece of code: `REGION_CODE_BYTES` of the firmware.
const CODE_BYTES: u64 = 4096;
/// Bytes for a core of the host.
const SLOT_BYTES: u64 = LINE_BYTES as u64 + 2 * CODE_BYTES;

/// The agent.
///
/// Its way to the hardware beside the cores, over the chip, takes as long as a message to a core at
/// least ([`AgentContext::minimum_delivery_latency`]). A region waits for the next packet of which
/// the interface tells.
pub struct Listener {
    cores: Vec<SharedObserver>,
    budget: u64,
    /// Which of its two pieces of code each core has written last; 0: none.
    written: Vec<u64>,
    statistics: OffloadStatistics,
}

impl Listener {
    /// That of these cores. A region may have so many instructions executed for a packet.
    pub fn new(cores: &[SharedObserver], budget: u64) -> Listener {
        Listener {
            cores: cores.iter().map(Rc::clone).collect(),
            budget,
            written: vec![0; cores.len()],
            statistics: OffloadStatistics::default(),
        }
    }

    /// What it has sent.
    pub fn statistics(&self) -> OffloadStatistics {
        self.statistics
    }

    /// Sends the regions with which epochs have ended.
    fn send_regions(&mut self, context: &mut AgentContext<'_>, interface: AgentId) {
        // Cores are simulated ahead of the chip by less than this, or behind it.
        let by = context
            .now()
            .saturating_sub(context.minimum_delivery_latency());
        let counts = &mut self.statistics;
        let cores = self.cores.iter().zip(&mut self.written);
        for (start, (core, written)) in (0..).step_by(SLOT_BYTES as usize).zip(cores) {
            let Some(region) = core.borrow_mut().take_region(by) else {
                continue;
            };
            let executable = executable(&region);
            let bytes = match code(&region, &executable, CODE_BYTES as usize) {
                Ok(bytes) => bytes,
                Err(Unsent::TooLarge) => {
                    counts.regions_too_large += 1;
                    continue;
                }
                Err(Unsent::NoRegister) => {
                    counts.regions_without_register += 1;
                    continue;
                }
            };
            counts.regions_sent += 1;
            counts.code_bytes += bytes.len() as u64;
            counts.instructions_sent += executable.len() as u64;
            counts.instructions_failed += executable.iter().filter(|can| !**can).count() as u64;
            // The interface may still run the other one.
            *written = 3 - (*written).max(1);
            let place = start + LINE_BYTES as u64 + (*written - 1) * CODE_BYTES;
            let lines = bytes.chunks(LINE_BYTES);
            for (header, line) in (place..).step_by(LINE_BYTES).zip(lines) {
                let mut data = LineData::ZERO;
                data.0[..line.len()].copy_from_slice(line);
                let message = AgentMessage { header, data };
                context.send_over_wires(interface, Time::ZERO, message);
            }
            let mut data = LineData::ZERO;
            data.write(0, 8, *written);
            data.write(8, 8, self.budget);
            let message = AgentMessage {
                header: start,
                data,
            };
            context.send_over_wires(interface, Time::ZERO, message);
        }
    }
}

/// Servers with it have no checkpoints, because nobody saves what probes have seen.
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
        let bytes = format!("REGION_CODE_BYTES = {CODE_BYTES},");
        assert!(firmware.contains(&bytes), "{bytes}");
        // The words in front of the code are a line.
        let words = [
            "uint64_t current;",
            "uint64_t budget;",
            "uint64_t unused[6];",
        ];
        assert_eq!(8 * (1 + 1 + 6), LINE_BYTES);
        let places = words.map(|word| firmware.find(word).expect(word));
        assert!(places.is_sorted());
        assert!(firmware.contains("uint8_t code[2][REGION_CODE_BYTES];"));
    }
}

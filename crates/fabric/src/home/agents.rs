//! Reads and writes of agents at the home.

use super::*;

/// A write of an agent at the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, state::State, state::Plain)]
pub(crate) struct HomeWrite {
    pub(crate) agent: AgentId,
    /// The offset of the bytes in the line, and their number.
    pub(crate) offset: u8,
    pub(crate) bytes: u8,
    /// Whether it allocates in the last-level cache; otherwise the bytes go to memory, and the
    /// last-level cache drops the line.
    pub(crate) allocate: bool,
    /// The data, of which the first `bytes` are valid.
    pub(crate) data: LineData,
}

impl HomeWrite {
    pub(super) fn is_whole_line(&self) -> bool {
        usize::from(self.bytes) == LINE_BYTES
    }

    /// Whether it allocates a line of which only a part is new.
    pub(super) fn needs_old_data(&self) -> bool {
        self.allocate && !self.is_whole_line()
    }
}

impl Bank {
    /// Handles an agent's request to read a line here.
    pub(crate) fn read_at_home(
        &mut self,
        agent: AgentId,
        line: LineAddress,
        ram: &mut Ram,
        out: &mut Vec<HomeAction>,
    ) {
        self.footprint.fail();
        self.statistics.reads_at_home += 1;
        cell!(self.note("ReadAtHome", line));
        self.request(line, Request::ReadAtHome { agent }, ram, out);
    }

    /// Handles an agent's request to write a line here.
    pub(crate) fn write_at_home(
        &mut self,
        line: LineAddress,
        write: HomeWrite,
        ram: &mut Ram,
        out: &mut Vec<HomeAction>,
    ) {
        self.footprint.fail();
        self.statistics.writes_at_home += 1;
        cell!(self.note_write(line, &write));
        self.request(line, Request::WriteAtHome(write), ram, out);
    }

    /// Performs an agent's write; no private cache holds the line. It is reported like a grant of
    /// ownership, because snoopers of grants must observe every write.
    pub(super) fn perform_write(
        &mut self,
        slot: Option<usize>,
        line: LineAddress,
        write: &HomeWrite,
        ram: &mut Ram,
        out: &mut Vec<HomeAction>,
    ) {
        out.push(HomeAction::Granted(line));
        let mut data = ram.read_line(line);
        let (start, bytes) = (usize::from(write.offset), usize::from(write.bytes));
        data.0[start..start + bytes].copy_from_slice(&write.data.0[..bytes]);
        ram.write_line(line, &data);
        if write.allocate {
            self.install(slot, line, true, Origin::Io, out);
        } else {
            // The unwritten part comes from here, or stays unchanged in memory.
            out.push(HomeAction::WriteToMemory(line));
            if let Some(lines) = &mut self.lines {
                lines.remove(self.banks.divide(line.0), line);
            } else if let Some(slot) = slot {
                self.entries[slot].present = false;
                self.entries[slot].dirty = false;
            }
        }
        out.push(HomeAction::Written(write.agent, line, data));
    }

    /// Continues after an agent has received its line.
    pub(crate) fn read_out_done(
        &mut self,
        transaction: TransactionId,
        ram: &mut Ram,
        out: &mut Vec<HomeAction>,
    ) {
        self.footprint.fail();
        let slot = self.transactions[transaction as usize].slot;
        self.next_request(slot, transaction, ram, out);
    }
}

//! The interface of a core of any model to the rest of a server.

use crate::core::{Core, Crash};
use crate::debug::Debuggable;
use crate::extension::Extension;
use crate::kind::{Active, CoreKind, InOrder, Multithreaded, OutOfOrder};
use crate::probe::Probe;
use crate::spec::{CoreSpec, Model};
use crate::spin::Periodic;
use crate::statistics::CoreStatistics;
use crate::supply::Supplier;
use fabric::{
    AddressRange, Clock, CoreId, Inbox, LineAddress, LineData, MemoryMap, NewerLines, Observation,
    Outbox, State,
};
use riscv::{Hart, Names, Trap};

/// A core of any model.
pub trait CoreModel: Periodic + Debuggable + state::State {
    /// See [`Core::run`].
    fn run(&mut self, limit: u64, feedback: u64, inbox: &mut Inbox, outbox: &mut Outbox);
    /// See [`Core::catch_up`].
    fn catch_up(&mut self, cycle: u64);
    /// See [`Core::next_cycle`].
    fn next_cycle(&self, inbox: &Inbox) -> u64;
    /// See [`Core::statistics`].
    fn statistics(&self, cycle: u64) -> CoreStatistics;
    /// See [`Core::instructions`].
    fn instructions(&self) -> u64;
    /// See [`Core::hart_statistics`].
    fn hart_statistics(&self, thread: u8, cycle: u64) -> CoreStatistics;
    /// See [`Core::skipped_cycles`].
    fn skipped_cycles(&self) -> u64;
    /// Set when the guest has crashed; the core then stops.
    fn crash(&self) -> Option<&Crash>;
    /// Stores performed to watched addresses, to be taken.
    fn observations(&mut self) -> &mut Vec<Observation>;
    /// See [`Core::explain`].
    fn explain(&self, trap: &Trap) -> Option<String>;
    /// The extension's names in assembly language.
    fn names(&self) -> &'static Names;
    /// See [`Core::is_halted`].
    fn is_halted(&self) -> bool;
    /// See [`Core::waiting_for`].
    fn waiting_for(&mut self, thread: u8) -> Option<String>;
    /// See [`Core::pc`].
    fn pc(&self, thread: u8) -> u64;
    /// See [`Core::set_register`].
    fn set_register(&mut self, register: usize, value: u64);
    /// See [`Core::begin`].
    fn begin(&mut self, hart: &Hart, pc: u64, registers: &[u64; 64]);
    /// See [`Core::set_page_tables`].
    fn set_page_tables(&mut self, root: u64);
    /// See [`Core::watch`].
    fn watch(&mut self, range: AddressRange);
    /// See [`Core::set_skip_spinning`].
    fn set_skip_spinning(&mut self, on: bool);
    /// See [`Core::set_probe`].
    fn set_probe(&mut self, thread: u8, probe: Box<dyn Probe>);
    /// See [`Core::set_supplier`].
    fn set_supplier(&mut self, supplier: Box<dyn Supplier>);
    /// See [`Core::remove_probes`].
    fn remove_probes(&mut self, cycle: u64);
    /// See [`Core::copy_of`].
    fn copy_of(&self, line: LineAddress) -> Option<(State, LineData)>;
    /// See [`Core::data_lines`].
    fn data_lines(&self) -> u64;
    /// See [`Core::add_newer_lines`].
    fn add_newer_lines(&self, lines: &mut NewerLines);
}

impl<K: CoreKind> CoreModel for Core<K> {
    fn run(&mut self, limit: u64, feedback: u64, inbox: &mut Inbox, outbox: &mut Outbox) {
        Core::run(self, limit, feedback, inbox, outbox);
    }

    fn catch_up(&mut self, cycle: u64) {
        Core::catch_up(self, cycle);
    }

    fn next_cycle(&self, inbox: &Inbox) -> u64 {
        Core::next_cycle(self, inbox)
    }

    fn statistics(&self, cycle: u64) -> CoreStatistics {
        Core::statistics(self, cycle)
    }

    fn instructions(&self) -> u64 {
        Core::instructions(self)
    }

    fn hart_statistics(&self, thread: u8, cycle: u64) -> CoreStatistics {
        Core::hart_statistics(self, thread, cycle)
    }

    fn skipped_cycles(&self) -> u64 {
        Core::skipped_cycles(self)
    }

    fn crash(&self) -> Option<&Crash> {
        self.shared.crash.as_ref()
    }

    fn observations(&mut self) -> &mut Vec<Observation> {
        &mut self.shared.observations
    }

    fn explain(&self, trap: &Trap) -> Option<String> {
        Core::explain(self, trap)
    }

    fn names(&self) -> &'static Names {
        self.hart.extension.names()
    }

    fn is_halted(&self) -> bool {
        Core::is_halted(self)
    }

    fn waiting_for(&mut self, thread: u8) -> Option<String> {
        self.with_hart(thread, |core| Core::waiting_for(core))
    }

    fn pc(&self, thread: u8) -> u64 {
        Core::pc(self, thread)
    }

    fn set_register(&mut self, register: usize, value: u64) {
        Core::set_register(self, register, value);
    }

    fn begin(&mut self, hart: &Hart, pc: u64, registers: &[u64; 64]) {
        Core::begin(self, hart, pc, registers);
    }

    fn set_page_tables(&mut self, root: u64) {
        Core::set_page_tables(self, root);
    }

    fn watch(&mut self, range: AddressRange) {
        Core::watch(self, range);
    }

    fn set_skip_spinning(&mut self, on: bool) {
        Core::set_skip_spinning(self, on);
    }

    fn set_probe(&mut self, thread: u8, probe: Box<dyn Probe>) {
        Core::set_probe(self, thread, probe);
    }

    fn set_supplier(&mut self, supplier: Box<dyn Supplier>) {
        Core::set_supplier(self, supplier);
    }

    fn remove_probes(&mut self, cycle: u64) {
        Core::remove_probes(self, cycle);
    }

    fn copy_of(&self, line: LineAddress) -> Option<(State, LineData)> {
        Core::copy_of(self, line)
    }

    fn data_lines(&self) -> u64 {
        Core::data_lines(self)
    }

    fn add_newer_lines(&self, lines: &mut NewerLines) {
        Core::add_newer_lines(self, lines);
    }
}

/// Builds the core that `spec` describes, with harts of these numbers. Each hart gets a copy of the
/// extension.
pub fn build_core(
    spec: &CoreSpec,
    id: CoreId,
    clock: Clock,
    memory_map: MemoryMap,
    extension: &dyn Extension,
    harts: &[u64],
    entry: u64,
) -> Box<dyn CoreModel> {
    fn build<K: CoreKind>(
        spec: &CoreSpec,
        id: CoreId,
        clock: Clock,
        memory_map: MemoryMap,
        extension: &dyn Extension,
        harts: &[u64],
        entry: u64,
    ) -> Box<dyn CoreModel> {
        let core = Core::<K>::new(spec, id, clock, memory_map, extension, harts, entry);
        Box::new(core)
    }
    let build = match (spec.model, spec.threads, extension.is_active()) {
        (Model::InOrder, _, false) => build::<InOrder>,
        (Model::InOrder, _, true) => build::<Active<InOrder>>,
        (Model::OutOfOrder, 1, false) => build::<OutOfOrder>,
        (Model::OutOfOrder, 1, true) => build::<Active<OutOfOrder>>,
        (Model::OutOfOrder, _, false) => build::<Multithreaded>,
        (Model::OutOfOrder, _, true) => build::<Active<Multithreaded>>,
    };
    build(spec, id, clock, memory_map, extension, harts, entry)
}

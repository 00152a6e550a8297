//! A debugger on a socket: GDB's remote protocol, for the program of one server.
//!
//! Harts are threads, numbered from 1. When one of those that run stops, the others stop before
//! their next instruction, or at the end of their wait. Meanwhile simulated time stands still, in a
//! rack for all servers. The debugger can access the harts' registers, the server's memory through
//! the page tables of a hart, and the program's ELF file, the only file, at the path [`ELF_PATH`];
//! it has no access to the host.
//!
//! A Linux program is shown in user mode: a hart in the trap handler, which waits for the result of
//! a system call, shows the registers that the handler has saved of its thread.

use crate::error::RunError;
use crate::limits::Guard;
use crate::machine::Machine;
use crate::prepared::Prepared;
use fabric::{LINE_BYTES, LineAddress, NewerLines};
use gdbstub::common::{Pid, Signal, Tid};
use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{DisconnectReason, GdbStub, GdbStubError, MultiThreadStopReason};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadResume, MultiThreadResumeOps, MultiThreadSchedulerLocking,
    MultiThreadSchedulerLockingOps, MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::single_register_access::{
    SingleRegisterAccess, SingleRegisterAccessOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwWatchpoint, HwWatchpointOps, SwBreakpoint, SwBreakpointOps,
    WatchKind,
};
use gdbstub::target::ext::exec_file::{ExecFile, ExecFileOps};
use gdbstub::target::ext::host_io::{
    HostIo, HostIoClose, HostIoCloseOps, HostIoErrno, HostIoError, HostIoFstat, HostIoFstatOps,
    HostIoOpen, HostIoOpenFlags, HostIoOpenMode, HostIoOpenOps, HostIoOps, HostIoPread,
    HostIoPreadOps, HostIoResult, HostIoStat,
};
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, MonitorCmdOps, outputln};
use gdbstub::target::ext::target_description_xml_override::{
    TargetDescriptionXmlOverride, TargetDescriptionXmlOverrideOps,
};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};
use gdbstub_arch::riscv::Riscv64;
use gdbstub_arch::riscv::reg::RiscvCoreRegs;
use gdbstub_arch::riscv::reg::id::RiscvRegId;
use linux::{Fault, Saved};
use pipeline::{Halt, NEVER, StopCause, Stops, Watch};
use riscv::paging::Access;
use riscv::{Cause, Hart, Privilege};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

/// The longest wait for the debugger between two checks of whether the run may continue.
const WAIT: Duration = Duration::from_millis(20);
/// Steps of the engine between two checks for bytes from the debugger.
const STEPS: u32 = 64;
/// The most steps for which a write by the debugger is retried while a cache is evicting the line.
const PATCH_STEPS: u32 = 10_000;
/// The path of the program's ELF file; there is no other file.
const ELF_PATH: &str = "/program.elf";
/// The descriptor of that file when it is open.
const ELF_FILE: u32 = 1;
/// GDB's number of the first CSR (`RISCV_FIRST_CSR_REGNUM` in `riscv-tdep.h`).
const FIRST_CSR: usize = 65;

/// CSRs that are shown in addition to those of floating point.
const CSRS: &[(&str, u16)] = &[
    ("sstatus", 0x100),
    ("stvec", 0x105),
    ("sscratch", 0x140),
    ("sepc", 0x141),
    ("scause", 0x142),
    ("stval", 0x143),
    ("satp", 0x180),
    ("mstatus", 0x300),
    ("misa", 0x301),
    ("mie", 0x304),
    ("mtvec", 0x305),
    ("mscratch", 0x340),
    ("mepc", 0x341),
    ("mcause", 0x342),
    ("mtval", 0x343),
    ("mip", 0x344),
    ("mhartid", 0xf14),
    ("cycle", 0xc00),
    ("time", 0xc01),
    ("instret", 0xc02),
];

/// The target description: features "org.gnu.gdb.riscv.cpu", ".fpu" and ".csr" of GDB's manual,
/// "RISC-V Features".
fn registers_xml() -> String {
    let mut xml = "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\">\
                   <target version=\"1.0\"><architecture>riscv:rv64</architecture>\
                   <feature name=\"org.gnu.gdb.riscv.cpu\">"
        .to_string();
    let register = |name: &str, number: usize, kind: &str| {
        format!("<reg name=\"{name}\" bitsize=\"64\" regnum=\"{number}\" type=\"{kind}\"/>")
    };
    for number in 0..32u8 {
        let kind = match number {
            1 => "code_ptr",
            2..=4 | 8 => "data_ptr",
            _ => "int",
        };
        // GDB's name of this register; `s0` is an alias.
        let name = match number {
            8 => "fp",
            _ => riscv::register_name(number),
        };
        xml += &register(name, number.into(), kind);
    }
    xml += &register("pc", 32, "code_ptr");
    xml += "</feature><feature name=\"org.gnu.gdb.riscv.fpu\">\
            <union id=\"riscv_double\"><field name=\"float\" type=\"ieee_single\"/>\
            <field name=\"double\" type=\"ieee_double\"/></union>";
    for number in 0..32u8 {
        let name = riscv::register_name(32 + number);
        xml += &register(name, 33 + usize::from(number), "riscv_double");
    }
    for (name, csr) in [("fflags", 1), ("frm", 2), ("fcsr", 3)] {
        xml += &register(name, FIRST_CSR + csr, "int");
    }
    xml += "</feature><feature name=\"org.gnu.gdb.riscv.csr\">";
    for (name, csr) in CSRS {
        xml += &register(name, FIRST_CSR + usize::from(*csr), "int");
    }
    xml + "</feature></target>"
}

/// The debugged program.
pub(crate) struct Debuggee<'e> {
    /// The number of its server.
    pub server: usize,
    /// The ELF file.
    pub elf: &'e [u8],
}

/// Waits for a debugger at `port` of 127.0.0.1 and lets it control the program, which has not
/// started, until it detaches or the run ends.
///
/// # Errors
///
/// The port cannot be used, the caller stops the run, the debugger kills the program, or the run
/// fails.
pub(crate) fn debug(
    prepared: &mut Prepared<'_>,
    debuggee: Debuggee<'_>,
    port: u16,
    guard: &mut Guard<'_>,
) -> Result<(), RunError> {
    let connection = wait_for_debugger(prepared, port, guard)?;
    let mut session = Session::new(prepared, debuggee, guard)?;
    let reason = converse(&mut session, connection);
    let error = session.end()?;
    match (reason, error) {
        (_, Some(error)) => Err(error),
        (Ok(DisconnectReason::Kill), None) => {
            Err(RunError::Guest("the debugger has ended the program".into()))
        }
        (Ok(_), None) => Ok(()),
        // A lost connection counts as a detach.
        (Err(Failure::Connection), None) => {
            print_message("the debugger has disconnected; the program continues without it");
            Ok(())
        }
        (Err(Failure::Protocol(sentence)), None) => Err(RunError::Output(format!(
            "the debugger has sent an invalid request: {sentence}"
        ))),
    }
}

/// Why a session has ended other than by a request of the debugger or the end of the run.
enum Failure {
    Connection,
    Protocol(String),
}

impl From<io::Error> for Failure {
    fn from(_: io::Error) -> Failure {
        Failure::Connection
    }
}

impl From<GdbStubError<String, io::Error>> for Failure {
    fn from(error: GdbStubError<String, io::Error>) -> Failure {
        match error.is_connection_error() {
            true => Failure::Connection,
            false => Failure::Protocol(error.to_string()),
        }
    }
}

/// The next byte from the debugger, if there is one; with `waits`, one that arrives within [`WAIT`]
/// counts.
fn next_byte(connection: &mut TcpStream, waits: bool) -> io::Result<Option<u8>> {
    connection.set_nonblocking(!waits)?;
    connection.set_read_timeout(Some(WAIT))?;
    let mut byte = [0];
    match connection.read(&mut byte) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(_) => Ok(Some(byte[0])),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => {
                Ok(None)
            }
            _ => Err(error),
        },
    }
}

/// Serves the debugger's requests until the debugger or the run ends the session.
fn converse(
    session: &mut Session<'_, '_, '_, '_>,
    connection: TcpStream,
) -> Result<DisconnectReason, Failure> {
    let mut stub = GdbStub::new(connection).run_state_machine(session)?;
    loop {
        stub = match stub {
            GdbStubStateMachine::Idle(mut idle) => match next_byte(idle.borrow_conn(), true)? {
                Some(byte) => idle.incoming_data(session, byte)?,
                None if session.may_go_on() => idle.into(),
                None => return Err(Failure::Connection),
            },
            GdbStubStateMachine::Running(mut running) => match session.run() {
                Some(stop) => running.report_stop(session, stop)?,
                None => {
                    let connection = running.borrow_conn();
                    let byte = next_byte(connection, false)?;
                    connection.set_nonblocking(false)?;
                    match byte {
                        Some(byte) => running.incoming_data(session, byte)?,
                        None => running.into(),
                    }
                }
            },
            GdbStubStateMachine::CtrlCInterrupt(interrupted) => {
                let stop = session.interrupt();
                interrupted.interrupt_handled(session, Some(stop))?
            }
            GdbStubStateMachine::Disconnected(over) => return Ok(over.get_reason()),
        };
    }
}

/// Prints a message on standard error.
fn print_message(sentence: &str) {
    // If standard error is closed, the message is lost.
    let _ = writeln!(io::stderr(), "nanoplane: {sentence}");
}

fn wait_for_debugger(
    prepared: &mut Prepared<'_>,
    port: u16,
    guard: &mut Guard<'_>,
) -> Result<TcpStream, RunError> {
    let unusable = |error: io::Error| {
        let why = match error.kind() {
            io::ErrorKind::AddrInUse => "another program uses it; --gdb 0 takes a free one",
            io::ErrorKind::PermissionDenied => "only the administrator may use it",
            _ => return RunError::Description(format!("--gdb {port}: {error}")),
        };
        RunError::Description(format!("--gdb {port}: port {port} cannot be used: {why}"))
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(unusable)?;
    listener.set_nonblocking(true).map_err(unusable)?;
    let port = listener.local_addr().map_err(unusable)?.port();
    print_message(&format!(
        "waiting for a debugger at 127.0.0.1:{port}; in gdb: target remote :{port}"
    ));
    loop {
        match listener.accept() {
            Ok((connection, _)) => {
                connection.set_nonblocking(false).map_err(unusable)?;
                return Ok(connection);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(WAIT);
                prepared.check_guard(guard)?;
            }
            Err(error) => return Err(unusable(error)),
        }
    }
}

/// The action of a hart when the debugger resumes the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Stay,
    Continue,
    Step,
}

/// A program and its debugger.
struct Session<'s, 'p, 'g, 'e> {
    prepared: &'s mut Prepared<'p>,
    guard: &'s mut Guard<'g>,
    server: usize,
    elf: &'e [u8],
    harts: usize,
    cores: usize,
    is_linux: bool,
    stops: Stops,
    /// By hart: its current or next action. `None`: the debugger has not chosen one.
    actions: Vec<Option<Action>>,
    /// Harts without a chosen action stay stopped.
    others_stay: bool,
    /// Harts that have stopped besides the one reported last.
    unreported: Vec<usize>,
    /// Lines that are newer in caches than in memory, if nothing has been simulated since.
    newer: Option<NewerLines>,
    xml: String,
    /// The error, if the run has failed.
    error: Option<RunError>,
    /// The fault that caused it, if any.
    fault: Option<Fault>,
    /// The exit status, if the program has ended without an error.
    exited: Option<u8>,
}

type Stop = MultiThreadStopReason<u64>;

fn tid(hart: usize) -> Tid {
    Tid::new(hart + 1).unwrap_or(Tid::MIN)
}

impl<'s, 'p, 'g, 'e> Session<'s, 'p, 'g, 'e> {
    /// All harts are stopped before their first instruction.
    fn new(
        prepared: &'s mut Prepared<'p>,
        Debuggee { server, elf }: Debuggee<'e>,
        guard: &'s mut Guard<'g>,
    ) -> Result<Session<'s, 'p, 'g, 'e>, RunError> {
        let machine = prepared.machine(server)?;
        let cores = machine.engine.cores.len();
        let harts = cores * usize::from(machine.threads());
        let is_linux = machine.is_linux();
        for core in 0..cores {
            machine.engine.cores[core].debug(Some(is_linux));
            machine.engine.update_next(core);
        }
        machine.engine.is_debugged = true;
        prepared.refresh(server);
        let mut session = Session {
            prepared,
            guard,
            server,
            elf,
            harts,
            cores,
            is_linux,
            stops: Stops::default(),
            actions: vec![Some(Action::Continue); harts],
            others_stay: false,
            unreported: Vec::new(),
            newer: None,
            xml: registers_xml(),
            error: None,
            fault: None,
            exited: None,
        };
        session.stop_all(None);
        session.unreported.clear();
        Ok(session)
    }

    /// Detaches the debugger; returns the error, if any, that has ended the run.
    fn end(mut self) -> Result<Option<RunError>, RunError> {
        let cycle = self.now();
        let machine = self.prepared.machine(self.server)?;
        machine.engine.is_debugged = false;
        for hart in 0..self.harts {
            let (core, thread) = (hart % self.cores, (hart / self.cores) as u8);
            machine.engine.cores[core].go_on(thread, false, cycle);
        }
        for core in 0..self.cores {
            machine.engine.cores[core].debug(None);
            machine.engine.update_next(core);
        }
        self.prepared.refresh(self.server);
        Ok(self.error.take())
    }

    fn machine(&self) -> Option<&Machine> {
        self.prepared.machine_seen(self.server)
    }

    /// The cycle at which stopped harts resume: the server's, as all are stopped.
    fn now(&self) -> u64 {
        let Some(machine) = self.machine() else {
            return 0;
        };
        let engine = &machine.engine;
        let cores = engine.cores.iter().map(|core| core.reached());
        cores.max().unwrap_or_default().max(engine.reached)
    }

    fn halt(&self, hart: usize) -> Halt {
        self.machine().map_or(Halt::Waits, |machine| {
            machine.engine.cores[hart % self.cores].halt((hart / self.cores) as u8)
        })
    }

    /// Applies a change to the core of a hart.
    fn change(
        &mut self,
        hart: usize,
        change: impl FnOnce(&mut dyn pipeline::CoreModel, u8),
    ) -> bool {
        let (cores, core) = (self.cores, hart % self.cores);
        let Ok(machine) = self.prepared.machine(self.server) else {
            return false;
        };
        change(&mut *machine.engine.cores[core], (hart / cores) as u8);
        machine.engine.update_next(core);
        self.prepared.refresh(self.server);
        true
    }

    fn set_stops(&mut self) {
        let stops = self.stops.clone();
        for core in 0..self.cores {
            self.change(core, |core, _| core.set_stops(&stops));
        }
    }

    /// Advances the engine by one step; returns whether the run continues. With `in_cycles`, for a
    /// hart that single-steps or is to stop, time advances cycle by cycle, so that no hart runs
    /// ahead of it.
    fn advance(&mut self, in_cycles: bool) -> bool {
        self.newer = None;
        let pause = match (in_cycles, self.machine()) {
            (true, Some(machine)) => machine.engine.now().saturating_add(1),
            _ => NEVER,
        };
        match self
            .prepared
            .advance_by_step(self.server, pause, self.guard)
        {
            Ok(true) => true,
            Ok(false) => {
                let status = match self.prepared.machine(self.server) {
                    Ok(machine) => machine.exit().map_or(0, |(_, status)| status),
                    Err(_) => 0,
                };
                // As the command's own status.
                self.exited = Some(match status as u8 {
                    0 => status.min(1) as u8,
                    low => low,
                });
                false
            }
            Err(error) => {
                if let Ok(machine) = self.prepared.machine(self.server) {
                    self.fault = machine.fault();
                }
                self.error = Some(error);
                false
            }
        }
    }

    /// Whether the caller lets the run continue.
    fn may_go_on(&mut self) -> bool {
        match self.prepared.check_guard(self.guard) {
            Ok(()) => true,
            Err(error) => {
                self.error = Some(error);
                false
            }
        }
    }

    /// Whether no event remains unless a stopped hart resumes.
    fn is_idle(&self) -> bool {
        self.prepared.is_idle()
    }

    /// Stops all harts after one has stopped, or on request.
    fn stop_all(&mut self, first: Option<usize>) {
        for hart in 0..self.harts {
            if self.halt(hart) == Halt::Runs || self.halt(hart) == Halt::Waits {
                self.change(hart, |core, thread| core.stop(thread));
            }
        }
        let mut steps = 0u32;
        while (0..self.harts).any(|hart| self.halt(hart) == Halt::Runs)
            && !self.is_idle()
            && self.advance(true)
        {
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(STEPS) && !self.may_go_on() {
                break;
            }
        }
        self.unreported = (0..self.harts)
            .filter(|&hart| Some(hart) != first)
            .filter(|&hart| {
                let moved = self.actions[hart] != Some(Action::Stay);
                moved && !matches!(self.halt(hart), Halt::Stopped(StopCause::Requested))
            })
            .filter(|&hart| matches!(self.halt(hart), Halt::Stopped(_)))
            .collect();
    }

    /// The stop reply for a hart that has stopped.
    fn report(&self, hart: usize, cause: StopCause) -> Stop {
        let tid = tid(hart);
        match cause {
            StopCause::Requested => Stop::SignalWithThread {
                tid,
                signal: Signal::SIGINT,
            },
            StopCause::Breakpoint => Stop::SwBreak(tid),
            StopCause::Step => Stop::SignalWithThread {
                tid,
                signal: Signal::SIGTRAP,
            },
            StopCause::Watch { watch, address } => Stop::Watch {
                tid,
                kind: match (watch.reads, watch.writes) {
                    (true, true) => WatchKind::ReadWrite,
                    (true, false) => WatchKind::Read,
                    _ => WatchKind::Write,
                },
                addr: address,
            },
        }
    }

    /// The stop reply for the end of the run, if it has ended, without regard to a fault.
    fn end_reply(&mut self) -> Option<Stop> {
        if let Some(status) = self.exited {
            return Some(Stop::Exited(status));
        }
        self.error.as_ref()?;
        let signal = self
            .fault
            .as_ref()
            .map_or(Signal::SIGKILL, |fault| match fault.trap.cause {
                Cause::IllegalInstruction => Signal::SIGILL,
                Cause::Breakpoint => Signal::SIGTRAP,
                Cause::LoadMisaligned | Cause::StoreMisaligned => Signal::SIGBUS,
                _ => Signal::SIGSEGV,
            });
        Some(Stop::Terminated(signal))
    }

    /// Runs the harts until one stops, or for some steps.
    fn run(&mut self) -> Option<Stop> {
        if let Some(over) = self.end_reply() {
            return Some(over);
        }
        let steps = self.actions.contains(&Some(Action::Step));
        for _ in 0..STEPS {
            let mut running =
                (0..self.harts).filter(|&hart| !matches!(self.actions[hart], Some(Action::Stay)));
            let stopped = running.find_map(|hart| match self.halt(hart) {
                Halt::Stopped(cause) => Some((hart, cause)),
                _ => None,
            });
            if let Some((hart, cause)) = stopped {
                self.stop_all(Some(hart));
                return Some(self.report(hart, cause));
            }
            let some_stay = self.actions.contains(&Some(Action::Stay));
            if some_stay && self.is_idle() {
                // The running harts wait for stopped ones.
                let hart = self
                    .actions
                    .iter()
                    .position(|one| *one != Some(Action::Stay));
                self.stop_all(None);
                return Some(self.report(hart.unwrap_or_default(), StopCause::Requested));
            }
            if !self.advance(steps) {
                break;
            }
            if self.exited.is_none() && self.has_exited() {
                self.run_to_end();
            }
        }
        match self.may_go_on() {
            true if self.exited.is_none() && self.error.is_none() => None,
            _ => self.first_end_reply(),
        }
    }

    /// Stops all harts at the debugger's request.
    fn interrupt(&mut self) -> Stop {
        self.stop_all(None);
        let over = self.first_end_reply();
        over.unwrap_or_else(|| self.report(0, StopCause::Requested))
    }

    /// The first stop reply at the end of the run: for a fault its hart, and otherwise
    /// [`Session::end_reply`].
    fn first_end_reply(&mut self) -> Option<Stop> {
        let over = self.end_reply();
        match (&self.fault, over) {
            (Some(fault), Some(Stop::Terminated(signal))) => Some(Stop::SignalWithThread {
                tid: tid(fault.hart),
                signal,
            }),
            (_, over) => over,
        }
    }

    fn has_exited(&mut self) -> bool {
        let machine = self.prepared.machine(self.server);
        machine.is_ok_and(|machine| machine.exit().is_some())
    }

    /// After the program's exit: removes all breakpoints and lets the harts run to the end.
    fn run_to_end(&mut self) {
        let cycle = self.now();
        self.stops = Stops::default();
        self.set_stops();
        for hart in 0..self.harts {
            if let Halt::Stopped(_) = self.halt(hart) {
                self.change(hart, |core, thread| core.go_on(thread, false, cycle));
            }
            self.actions[hart] = Some(Action::Continue);
        }
    }

    /// The index of a hart, if it exists.
    fn hart(&self, tid: Tid) -> Option<usize> {
        let hart = tid.get() - 1;
        (hart < self.harts).then_some(hart)
    }

    fn privileged(&self, hart: usize) -> Option<&Hart> {
        let core = &self.machine()?.engine.cores[hart % self.cores];
        Some(core.privileged((hart / self.cores) as u8))
    }

    /// The registers that the trap handler of a Linux program has saved of its thread, if the hart
    /// is in machine mode.
    fn saved(&self, hart: usize) -> Option<Saved> {
        let privileged = self.privileged(hart)?;
        if !self.is_linux || privileged.privilege != Privilege::Machine {
            return None;
        }
        let newer = self.machine()?.newer_lines();
        Saved::of(privileged.csrs.mscratch, |address| {
            self.read_physical(&newer, address).unwrap_or_default()
        })
    }

    /// Program counter, `x0` to `x31`, and `f0` to `f31`.
    fn registers(&self, hart: usize) -> Option<(u64, [u64; 64])> {
        let core = &self.machine()?.engine.cores[hart % self.cores];
        let thread = (hart / self.cores) as u8;
        let mut registers = core.registers(thread);
        let fault = self.fault.as_ref().filter(|fault| fault.hart == hart);
        let saved = match fault {
            Some(fault) => Some((fault.pc, fault.registers)),
            None => self.saved(hart).map(|saved| (saved.pc, saved.registers)),
        };
        let pc = match saved {
            Some((pc, integers)) => {
                registers[..32].copy_from_slice(&integers);
                pc
            }
            None => core.pc(thread),
        };
        Some((pc, registers))
    }

    /// Eight bytes at a physical address, if it is in memory.
    fn read_physical(&self, newer: &NewerLines, address: u64) -> Option<u64> {
        let ram = self.machine()?.engine.fabric.ram();
        let line = LineAddress::of(address);
        let offset = (address % LINE_BYTES as u64) as usize;
        if !ram.contains(line) || offset > LINE_BYTES - 8 {
            return None;
        }
        let data = newer.get(line).copied();
        Some(data.unwrap_or_else(|| ram.read_line(line)).read(offset, 8))
    }

    /// The physical address of an access by a hart; for a Linux program, of one in user mode.
    fn physical(&self, newer: &NewerLines, hart: usize, address: u64) -> Option<u64> {
        let mut hart = self.privileged(hart)?.clone();
        if self.is_linux {
            hart.privilege = Privilege::User;
        }
        let Some(space) = hart.data_space() else {
            return Some(address);
        };
        let page = space.translate(address, Access::Load, |at| self.read_physical(newer, at));
        page.ok().map(|page| page.physical(address))
    }

    fn read(&mut self, hart: usize, address: u64, data: &mut [u8]) -> usize {
        let newer = match self.newer.take() {
            Some(newer) => newer,
            None => self.machine().map(Machine::newer_lines).unwrap_or_default(),
        };
        let mut done = 0;
        while done < data.len() {
            let at = address.wrapping_add(done as u64);
            let Some((physical, ram)) = self
                .physical(&newer, hart, at)
                .zip(self.machine().map(|machine| machine.engine.fabric.ram()))
            else {
                break;
            };
            let line = LineAddress::of(physical);
            if !ram.contains(line) {
                break;
            }
            let bytes = newer.get(line).copied();
            let bytes = bytes.unwrap_or_else(|| ram.read_line(line)).0;
            let offset = (physical % LINE_BYTES as u64) as usize;
            let part = (LINE_BYTES - offset).min(data.len() - done);
            data[done..done + part].copy_from_slice(&bytes[offset..offset + part]);
            done += part;
        }
        self.newer = Some(newer);
        done
    }

    /// Writes to memory; `None` if the program may not write all of it, or an eviction of a line does
    /// not end.
    fn write(&mut self, hart: usize, address: u64, data: &[u8]) -> Option<()> {
        let protected = match self.is_linux {
            true => linux::protected(),
            false => Vec::new(),
        };
        let newer = self.machine()?.newer_lines();
        let mut parts = Vec::new();
        let mut done = 0;
        while done < data.len() {
            let at = address.wrapping_add(done as u64);
            let physical = self.physical(&newer, hart, at)?;
            let line = LineAddress::of(physical);
            let is_protected = protected.iter().any(|range| range.contains(physical));
            if is_protected || !self.machine()?.engine.fabric.ram().contains(line) {
                return None;
            }
            let offset = (physical % LINE_BYTES as u64) as usize;
            let part = (LINE_BYTES - offset).min(data.len() - done);
            parts.push((line, offset, &data[done..done + part]));
            done += part;
        }
        for (line, offset, bytes) in parts {
            self.patch(line, offset, bytes)?;
        }
        self.newer = None;
        Some(())
    }

    fn patch(&mut self, line: LineAddress, offset: usize, bytes: &[u8]) -> Option<()> {
        for _ in 0..PATCH_STEPS {
            let machine = self.prepared.machine(self.server).ok()?;
            let cores = &mut machine.engine.cores;
            let done = cores.iter_mut().all(|core| core.patch(line, offset, bytes))
                && machine.engine.fabric.patch(line, offset, bytes);
            if done {
                return Some(());
            }
            if !self.advance(true) {
                return None;
            }
        }
        None
    }
}

impl Target for Session<'_, '_, '_, '_> {
    type Arch = Riscv64;
    type Error = String;

    fn base_ops(&mut self) -> BaseOps<'_, Riscv64, String> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_exec_file(&mut self) -> Option<ExecFileOps<'_, Self>> {
        Some(self)
    }

    fn support_host_io(&mut self) -> Option<HostIoOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }

    fn support_target_description_xml_override(
        &mut self,
    ) -> Option<TargetDescriptionXmlOverrideOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Session<'_, '_, '_, '_> {
    fn read_registers(
        &mut self,
        regs: &mut RiscvCoreRegs<u64>,
        tid: Tid,
    ) -> TargetResult<(), Self> {
        let hart = self.hart(tid).ok_or(TargetError::NonFatal)?;
        let (pc, registers) = self.registers(hart).ok_or(TargetError::NonFatal)?;
        regs.x.copy_from_slice(&registers[..32]);
        regs.pc = pc;
        Ok(())
    }

    fn write_registers(&mut self, regs: &RiscvCoreRegs<u64>, tid: Tid) -> TargetResult<(), Self> {
        for (number, value) in regs.x.iter().enumerate() {
            self.write_one(tid, RiscvRegId::Gpr(number as u8), *value)?;
        }
        self.write_one(tid, RiscvRegId::Pc, regs.pc)
    }

    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, Tid, Self>> {
        Some(self)
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], tid: Tid) -> TargetResult<usize, Self> {
        let hart = self.hart(tid).ok_or(TargetError::NonFatal)?;
        match self.read(hart, start, data) {
            0 if !data.is_empty() => Err(TargetError::NonFatal),
            done => Ok(done),
        }
    }

    fn write_addrs(&mut self, start: u64, data: &[u8], tid: Tid) -> TargetResult<(), Self> {
        let hart = self.hart(tid).ok_or(TargetError::NonFatal)?;
        self.write(hart, start, data).ok_or(TargetError::NonFatal)
    }

    fn list_active_threads(&mut self, is_active: &mut dyn FnMut(Tid)) -> Result<(), String> {
        (0..self.harts).for_each(|hart| is_active(tid(hart)));
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl Session<'_, '_, '_, '_> {
    /// Writes a register of a hart that is stopped in the program.
    fn write_one(&mut self, tid: Tid, id: RiscvRegId<u64>, value: u64) -> TargetResult<(), Self> {
        let hart = self.hart(tid).ok_or(TargetError::NonFatal)?;
        let is_stopped = matches!(self.halt(hart), Halt::Stopped(_));
        if !is_stopped || self.saved(hart).is_some() || self.fault.is_some() {
            return Err(TargetError::NonFatal);
        }
        let register = match id {
            RiscvRegId::Gpr(number) => usize::from(number),
            RiscvRegId::Fpr(number) => 32 + usize::from(number),
            RiscvRegId::Pc => {
                self.change(hart, |core, thread| core.set_pc(thread, value));
                return Ok(());
            }
            _ => return Err(TargetError::NonFatal),
        };
        self.change(hart, |core, thread| {
            core.set_debugged_register(thread, register, value);
        });
        Ok(())
    }
}

impl SingleRegisterAccess<Tid> for Session<'_, '_, '_, '_> {
    fn read_register(
        &mut self,
        tid: Tid,
        id: RiscvRegId<u64>,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        let hart = self.hart(tid).ok_or(TargetError::NonFatal)?;
        let (pc, registers) = self.registers(hart).ok_or(TargetError::NonFatal)?;
        let value = match id {
            RiscvRegId::Gpr(number) => registers.get(usize::from(number)).copied(),
            RiscvRegId::Fpr(number) => registers.get(32 + usize::from(number)).copied(),
            RiscvRegId::Pc => Some(pc),
            RiscvRegId::Csr(number) => self.machine().and_then(|machine| {
                let core = &machine.engine.cores[hart % self.cores];
                core.csr((hart / self.cores) as u8, number)
            }),
            _ => return Err(TargetError::NonFatal),
        };
        let (Some(value), Some(place)) = (value, buf.get_mut(..8)) else {
            // The register exists, but has no value now.
            return Ok(0);
        };
        place.copy_from_slice(&value.to_le_bytes());
        Ok(8)
    }

    fn write_register(
        &mut self,
        tid: Tid,
        id: RiscvRegId<u64>,
        val: &[u8],
    ) -> TargetResult<(), Self> {
        let value = val.try_into().map_err(|_| TargetError::NonFatal)?;
        self.write_one(tid, id, u64::from_le_bytes(value))
    }
}

impl MultiThreadResume for Session<'_, '_, '_, '_> {
    fn resume(&mut self) -> Result<(), String> {
        let default = match self.others_stay {
            true => Action::Stay,
            false => Action::Continue,
        };
        let cycle = self.now();
        for hart in 0..self.harts {
            let action = *self.actions[hart].get_or_insert(default);
            // A stop that has not been reported yet is reported now.
            let is_unreported =
                self.unreported.contains(&hart) && self.is_still_stopped_for_cause(hart);
            if action != Action::Stay && !is_unreported {
                let steps = action == Action::Step;
                self.change(hart, |core, thread| core.go_on(thread, steps, cycle));
            }
        }
        self.unreported.clear();
        self.newer = None;
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), String> {
        self.actions.fill(None);
        self.others_stay = false;
        Ok(())
    }

    fn set_resume_action_continue(&mut self, tid: Tid, _: Option<Signal>) -> Result<(), String> {
        // GDB's signals are not delivered to the guest.
        if let Some(hart) = self.hart(tid) {
            self.actions[hart] = Some(Action::Continue);
        }
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl Session<'_, '_, '_, '_> {
    /// Whether the cause of a hart's stop still holds.
    fn is_still_stopped_for_cause(&self, hart: usize) -> bool {
        match self.halt(hart) {
            Halt::Stopped(StopCause::Breakpoint) => self
                .registers(hart)
                .is_some_and(|(pc, _)| self.stops.breakpoints.contains(&pc)),
            Halt::Stopped(StopCause::Watch { watch, .. }) => self.stops.watches.contains(&watch),
            Halt::Stopped(StopCause::Step) => false,
            _ => false,
        }
    }
}

impl MultiThreadSingleStep for Session<'_, '_, '_, '_> {
    fn set_resume_action_step(&mut self, tid: Tid, _: Option<Signal>) -> Result<(), String> {
        if let Some(hart) = self.hart(tid) {
            self.actions[hart] = Some(Action::Step);
        }
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for Session<'_, '_, '_, '_> {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), String> {
        self.others_stay = true;
        Ok(())
    }
}

impl ThreadExtraInfo for Session<'_, '_, '_, '_> {
    fn thread_extra_info(&self, tid: Tid, buf: &mut [u8]) -> Result<usize, String> {
        let Some(hart) = self.hart(tid) else {
            return Ok(0);
        };
        let state = match self.halt(hart) {
            Halt::Waits => ", waits",
            Halt::Runs | Halt::Stopped(_) => "",
        };
        let text = format!("hart {hart}{state}");
        let bytes = text.as_bytes();
        let length = bytes.len().min(buf.len());
        buf[..length].copy_from_slice(&bytes[..length]);
        Ok(length)
    }
}

impl Breakpoints for Session<'_, '_, '_, '_> {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Session<'_, '_, '_, '_> {
    fn add_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        self.stops.breakpoints.insert(address);
        self.set_stops();
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        let is_there = self.stops.breakpoints.remove(&address);
        self.set_stops();
        Ok(is_there)
    }
}

fn watch(address: u64, bytes: u64, kind: WatchKind) -> Watch {
    Watch {
        address,
        bytes,
        reads: kind != WatchKind::Write,
        writes: kind != WatchKind::Read,
    }
}

impl HwWatchpoint for Session<'_, '_, '_, '_> {
    fn add_hw_watchpoint(
        &mut self,
        address: u64,
        bytes: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        self.stops.watches.push(watch(address, bytes, kind));
        self.set_stops();
        Ok(true)
    }

    fn remove_hw_watchpoint(
        &mut self,
        address: u64,
        bytes: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        let gone = watch(address, bytes, kind);
        let place = self.stops.watches.iter().position(|one| *one == gone);
        if let Some(place) = place {
            self.stops.watches.swap_remove(place);
        }
        self.set_stops();
        Ok(place.is_some())
    }
}

impl MonitorCmd for Session<'_, '_, '_, '_> {
    fn handle_monitor_cmd(
        &mut self,
        command: &[u8],
        mut out: ConsoleOutput<'_>,
    ) -> Result<(), String> {
        match String::from_utf8_lossy(command).trim() {
            "cycles" => {
                let cycle = self.now();
                let clock = self.machine().map(|machine| machine.engine.clock());
                let time = clock.map_or(0.0, |clock| clock.time(cycle).as_fs() as f64 / 1e6);
                outputln!(out, "cycle {cycle}, {time:.3} ns of simulated time");
            }
            "" | "help" => outputln!(out, "monitor cycles: the simulated cycle and time"),
            other => outputln!(
                out,
                "there is no command \"{other}\"; monitor help lists them"
            ),
        }
        Ok(())
    }
}

impl TargetDescriptionXmlOverride for Session<'_, '_, '_, '_> {
    fn target_description_xml(
        &self,
        annex: &[u8],
        offset: u64,
        length: usize,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        if annex != b"target.xml" {
            return Err(TargetError::NonFatal);
        }
        Ok(part(self.xml.as_bytes(), offset, length, buf))
    }
}

/// Copies the bytes at an offset, and returns how many.
fn part(bytes: &[u8], offset: u64, length: usize, buf: &mut [u8]) -> usize {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let rest = bytes.get(start..).unwrap_or_default();
    let length = length.min(rest.len()).min(buf.len());
    buf[..length].copy_from_slice(&rest[..length]);
    length
}

impl ExecFile for Session<'_, '_, '_, '_> {
    fn get_exec_file(
        &self,
        _: Option<Pid>,
        offset: u64,
        length: usize,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        Ok(part(ELF_PATH.as_bytes(), offset, length, buf))
    }
}

impl HostIo for Session<'_, '_, '_, '_> {
    fn support_open(&mut self) -> Option<HostIoOpenOps<'_, Self>> {
        Some(self)
    }

    fn support_close(&mut self) -> Option<HostIoCloseOps<'_, Self>> {
        Some(self)
    }

    fn support_pread(&mut self) -> Option<HostIoPreadOps<'_, Self>> {
        Some(self)
    }

    fn support_fstat(&mut self) -> Option<HostIoFstatOps<'_, Self>> {
        Some(self)
    }
}

fn no_file<T>(errno: HostIoErrno) -> Result<T, HostIoError<String>> {
    Err(HostIoError::Errno(errno))
}

impl HostIoOpen for Session<'_, '_, '_, '_> {
    fn open(
        &mut self,
        filename: &[u8],
        flags: HostIoOpenFlags,
        _: HostIoOpenMode,
    ) -> HostIoResult<u32, Self> {
        let writes = HostIoOpenFlags::O_WRONLY
            | HostIoOpenFlags::O_RDWR
            | HostIoOpenFlags::O_CREAT
            | HostIoOpenFlags::O_TRUNC;
        match filename == ELF_PATH.as_bytes() {
            false => no_file(HostIoErrno::ENOENT),
            true if flags.intersects(writes) => no_file(HostIoErrno::EROFS),
            true => Ok(ELF_FILE),
        }
    }
}

impl HostIoClose for Session<'_, '_, '_, '_> {
    fn close(&mut self, fd: u32) -> HostIoResult<(), Self> {
        match fd {
            ELF_FILE => Ok(()),
            _ => no_file(HostIoErrno::EBADF),
        }
    }
}

impl HostIoPread for Session<'_, '_, '_, '_> {
    fn pread(
        &mut self,
        fd: u32,
        count: usize,
        offset: u64,
        buf: &mut [u8],
    ) -> HostIoResult<usize, Self> {
        match fd {
            ELF_FILE => Ok(part(self.elf, offset, count, buf)),
            _ => no_file(HostIoErrno::EBADF),
        }
    }
}

impl HostIoFstat for Session<'_, '_, '_, '_> {
    fn fstat(&mut self, fd: u32) -> HostIoResult<HostIoStat, Self> {
        match fd {
            ELF_FILE => Ok(HostIoStat {
                st_dev: 0,
                st_ino: 1,
                st_mode: HostIoOpenMode::S_IFREG | HostIoOpenMode::S_IRUSR,
                st_nlink: 1,
                st_uid: 0,
                st_gid: 0,
                st_rdev: 0,
                st_size: self.elf.len() as u64,
                st_blksize: LINE_BYTES as u64,
                st_blocks: 0,
                st_atime: 0,
                st_mtime: 0,
                st_ctime: 0,
            }),
            _ => no_file(HostIoErrno::EBADF),
        }
    }
}

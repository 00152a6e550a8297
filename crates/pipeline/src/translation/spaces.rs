//! Harts with their own page tables.

use super::Translation;
use super::frame::{Fault, Frame};
use super::tlb::SpaceTag;
use super::walker::{Ended, Waiter, Wanted};
use crate::core::Core;
use crate::hart::HartState;
use crate::kind::CoreKind;
use crate::ports::Unit;
use crate::serializing::Serializing;
use crate::stack::Stall;
use crate::window::UNKNOWN;
use fabric::Outbox;
use riscv::paging::{Access, Accessor, Mode, Page, Space};
use riscv::{Class, Instruction, Privilege};
use state::{State, Walker};

/// The tables that translate an access.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tables {
    pub mode: Mode,
    pub root: u64,
    pub space: SpaceTag,
    /// The privilege of the access; `None` if every access is allowed.
    pub accessor: Option<Accessor>,
}

impl Tables {
    /// The frame of `address` in `page`, or the fault.
    pub fn frame(&self, page: Page, access: Access, address: u64) -> Frame {
        match self.accessor {
            Some(accessor) if !page.entry.allows(access, accessor) => Frame::fault(Fault::Page),
            _ => Frame::of(page.physical(address)),
        }
    }
}

/// The state of the page of a load, store or atomic at dispatch.
pub(crate) enum PageAtDispatch {
    /// Its physical address, and the first cycle in which its page may be used; 0: immediately.
    Known { physical: u64, from: u64 },
    /// It waits for a page walk.
    Walk,
    /// It is executed alone: it traps, or crosses a line.
    Alone,
}

/// The kind of access of a load, a store or an atomic.
pub(crate) fn access_of(i: &Instruction) -> Access {
    match i.class {
        Class::Load | Class::LoadReserved => Access::Load,
        _ => Access::Store,
    }
}

impl HartState {
    /// Whether an access must be executed alone whatever its page is.
    fn is_awkward(&self, i: &Instruction, address: u64) -> bool {
        let bytes = i.access_bytes();
        !self.is_in_one_piece(address, bytes)
            || i.is_atomic() && !address.is_multiple_of(bytes.into())
    }

    /// Whether the hart's data accesses are translated by its own page tables.
    #[inline]
    pub fn has_page_tables(&self) -> bool {
        self.privileged.data_space().is_some()
    }
}

impl<K: CoreKind> Core<K> {
    #[inline]
    pub(crate) fn has_page_tables(&self) -> bool {
        self.hart.has_page_tables()
    }

    /// Whether any accesses of the hart are translated.
    pub(crate) fn translates(&self) -> bool {
        let Some(one) = &self.shared.translation else {
            return false;
        };
        let hart = &self.hart.privileged;
        one.identity.is_some() || hart.fetch_space().is_some() || hart.data_space().is_some()
    }

    /// The hart's mode or its CSRs have changed.
    pub(crate) fn translation_may_change(&mut self) {
        const BARE: u64 = 0;
        if self.hart.privileged.csrs.satp >> 60 != BARE && self.shared.translation.is_none() {
            self.add_translation();
        }
        self.look_for_observers();
    }

    #[cold]
    fn add_translation(&mut self) {
        let spec = self.shared.spec.translation.unwrap_or_default();
        self.shared.translation = Some(Box::new(Translation::new(spec)));
    }

    /// Saves whether a core without TLBs in its description has got them for a hart's page tables.
    pub(crate) fn walk_whether_translated(&mut self, walker: &mut dyn Walker) {
        let mut is_there = self.shared.translation.is_some();
        is_there.walk(walker);
        if is_there && self.shared.translation.is_none() {
            self.add_translation();
        }
    }

    /// The tables that translate the hart's access, if any.
    pub(super) fn tables(&self, access: Access) -> Option<Tables> {
        let hart = &self.hart.privileged;
        let space = match access {
            Access::Fetch => hart.fetch_space(),
            Access::Load | Access::Store => hart.data_space(),
        };
        if let Some(space) = space {
            let Space {
                mode,
                root,
                asid,
                accessor,
            } = space;
            return Some(Tables {
                mode,
                root,
                space: SpaceTag::new(self.hart.thread, asid),
                accessor: Some(accessor),
            });
        }
        let one = self.shared.translation.as_ref()?;
        Some(Tables {
            mode: one.spec.mode.mode(),
            root: one.identity?,
            space: SpaceTag::IDENTITY,
            accessor: None,
        })
    }

    /// Whether the addresses of the hart's instructions are translated.
    pub(crate) fn translates_fetches(&self) -> bool {
        self.tables(Access::Fetch).is_some()
    }

    /// Whether the hart's access is translated by the identity mapping.
    pub(crate) fn is_identity(&self, access: Access) -> bool {
        let tables = self.tables(access);
        tables.is_some_and(|tables| tables.space == SpaceTag::IDENTITY)
    }

    /// A key of the space and the mode in which instructions are fetched.
    pub(super) fn fetch_key(&self) -> u64 {
        let space = self.tables(Access::Fetch).map_or(0, |it| it.space.number());
        let is_user = self.hart.privileged.privilege == Privilege::User;
        match space {
            0 => 0,
            _ => space << 1 | u64::from(is_user),
        }
    }

    /// The page of an access with page tables at dispatch, whose address is ready at `ready`. Must
    /// precede all effects of the access that cannot be undone.
    #[inline(never)]
    pub(crate) fn page_at_dispatch(
        &mut self,
        i: &Instruction,
        address: u64,
        ready: u64,
        outbox: &mut Outbox,
    ) -> PageAtDispatch {
        if self.hart.is_awkward(i, address) {
            return PageAtDispatch::Alone;
        }
        let now = self.hart.dispatch_cycle;
        let earliest = ready.max(now + 1);
        let found = self.look_for_page(access_of(i), address, (earliest, now), outbox);
        let Some((at, frame)) = found else {
            return PageAtDispatch::Walk;
        };
        match frame.physical(address) {
            Ok(physical) => PageAtDispatch::Known {
                physical,
                from: if at <= earliest { 0 } else { at },
            },
            Err(_) => PageAtDispatch::Alone,
        }
    }

    /// The address of the load in slot `index` has become known at `now`.
    #[inline(never)]
    pub(crate) fn wake_translated_load(
        &mut self,
        index: usize,
        address: u64,
        now: u64,
        outbox: &mut Outbox,
    ) {
        if self
            .hart
            .is_awkward(&self.hart.window.deferred(index).instruction, address)
        {
            return self.redo_alone(index, now);
        }
        self.issue_deferred(index, Unit::Load, now);
        let position = self.hart.window.deferred(index).position;
        let issue = self.hart.window.slot(position).issue;
        match self.look_for_page(Access::Load, address, (issue, now), outbox) {
            Some((at, frame)) => self.load_has_page(index, (address, frame), (at, now), outbox),
            None => {
                self.wait_for_walk(Access::Load, address, Wanted::Slot(index as u32), issue);
            }
        }
    }

    /// The page of a load is known, and usable from cycle `at` on.
    fn load_has_page(
        &mut self,
        index: usize,
        (address, frame): (u64, Frame),
        (at, now): (u64, u64),
        outbox: &mut Outbox,
    ) {
        let bytes = self.hart.window.deferred(index).instruction.access_bytes();
        match frame.physical(address) {
            Ok(physical) if self.is_plain(physical, bytes) => {
                let number = self.hart.window.rest(index).queue_number;
                self.hart.loads.set_address(number, physical);
                self.access_load(index, at, outbox);
            }
            _ => self.redo_alone(index, now),
        }
    }

    /// The address of the store or atomic in slot `index` is known at `now`, and its data may be,
    /// too.
    #[inline(never)]
    pub(crate) fn wake_translated_store(
        &mut self,
        index: usize,
        address: u64,
        now: u64,
        outbox: &mut Outbox,
    ) {
        let wanted = Wanted::Slot(index as u32);
        if self.is_waiting_for_walk(wanted) {
            return;
        }
        let deferred = self.hart.window.deferred(index);
        if self.hart.is_awkward(&deferred.instruction, address) {
            return self.redo_alone(index, now);
        }
        let earliest = deferred.earliest.max(now + 1);
        match self.look_for_page(Access::Store, address, (earliest, now), outbox) {
            Some((at, frame)) => {
                self.translated_store_has_page(index, (address, frame), (at, now), outbox);
            }
            None => self.wait_for_walk(Access::Store, address, wanted, earliest),
        }
    }

    /// The page of a store or atomic is known, and usable from cycle `at` on.
    fn translated_store_has_page(
        &mut self,
        index: usize,
        (address, frame): (u64, Frame),
        (at, now): (u64, u64),
        outbox: &mut Outbox,
    ) {
        let bytes = self.hart.window.deferred(index).instruction.access_bytes();
        let physical = match frame.physical(address) {
            Ok(physical) if self.is_plain(physical, bytes) => physical,
            _ => return self.redo_alone(index, now),
        };
        let number = self.hart.window.rest(index).queue_number;
        self.hart.stores.set_address(number, physical);
        let deferred = self.hart.window.deferred_mut(index);
        // It issues when its page is usable.
        deferred.earliest = deferred.earliest.max(at);
        let (position, pending) = (deferred.position, deferred.pending);
        self.check_younger_loads(position, number, physical, bytes, now);
        if self.hart.window.slot(position).issue < UNKNOWN {
            self.store_has_page(index, at);
        } else if pending == 0 {
            self.store_has_data(index, now, outbox);
        }
    }

    /// Squashes the instruction in slot `index`, which traps or accesses a device or two lines, and
    /// all younger ones; it is executed again after all older ones.
    #[inline(never)]
    fn redo_alone(&mut self, index: usize, now: u64) {
        let deferred = self.hart.window.deferred(index);
        let (position, instruction) = (deferred.position, deferred.instruction);
        let pc = self.hart.window.slot(position).tags.pc;
        self.squash(position, now, pc, now + self.front_end());
        self.blame(now, Stall::Serializing);
        self.begin_serial(Serializing::instruction(instruction, pc));
    }

    /// A walk for an access of this hart, with page tables, has ended.
    pub(super) fn serve_translated(
        &mut self,
        waiter: Waiter,
        ended: &Ended,
        now: u64,
        outbox: &mut Outbox,
    ) {
        let at = waiter.issue.max(ended.at);
        let frame = self.frame_of(ended, waiter.access, waiter.address);
        let index = match waiter.wanted {
            Wanted::Slot(index) => index as usize,
            Wanted::Alone => return self.serial_has_page(at, frame),
            Wanted::Fetch(which) => {
                return self.fetch_has_page(which.into(), waiter.address, at, frame);
            }
            Wanted::Prefetch => {
                return match frame.physical(waiter.address) {
                    Ok(physical) => self.prefetch_line(waiter.access, physical, at, outbox),
                    Err(_) => self.drop_prefetch(),
                };
            }
        };
        if !self.hart.window.is_live(index) {
            return;
        }
        let place = (waiter.address, frame);
        match waiter.access {
            Access::Load => self.load_has_page(index, place, (at, now), outbox),
            _ => self.translated_store_has_page(index, place, (at, now), outbox),
        }
    }

    /// The frame or the fault that a finished walk yields for the hart's access.
    pub(super) fn frame_of(&self, ended: &Ended, access: Access, address: u64) -> Frame {
        match (ended.found, self.tables(access)) {
            (Ok(page), Some(tables)) => tables.frame(page, access, address),
            (Ok(page), None) => Frame::of(page.physical(address)),
            (Err(fault), _) => Frame::fault(fault),
        }
    }
}

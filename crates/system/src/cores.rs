//! Cores with an extension that only its system knows.

use fabric::{Clock, CoreId, MemoryMap};
use pipeline::{CoreModel, CoreSpec, Extension, build_core};

/// Builds cores with an extension. Every extension that can be cloned implements this: each core
/// gets a copy.
pub trait Cores {
    /// Builds the core `id` with the harts `harts`, which start at `entry`.
    fn build(
        &self,
        spec: &CoreSpec,
        id: CoreId,
        clock: Clock,
        memory_map: MemoryMap,
        harts: &[u64],
        entry: u64,
    ) -> Box<dyn CoreModel>;
}

impl<X: Extension + Clone + 'static> Cores for X {
    fn build(
        &self,
        spec: &CoreSpec,
        id: CoreId,
        clock: Clock,
        memory_map: MemoryMap,
        harts: &[u64],
        entry: u64,
    ) -> Box<dyn CoreModel> {
        build_core(spec, id, clock, memory_map, self.clone(), harts, entry)
    }
}

impl Cores for Box<dyn Cores> {
    fn build(
        &self,
        spec: &CoreSpec,
        id: CoreId,
        clock: Clock,
        memory_map: MemoryMap,
        harts: &[u64],
        entry: u64,
    ) -> Box<dyn CoreModel> {
        (**self).build(spec, id, clock, memory_map, harts, entry)
    }
}

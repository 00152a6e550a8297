//! Programs on whole servers.
//!
//! One test binary: the code of a server with the minimal extension is compiled once for all.

mod common;
mod conventional_nic;
mod critical_regions;
mod cycle_stack;
mod description;
mod differential;
mod dma_path;
mod enhanced_memory;
mod event_counters;
mod event_counts;
mod exactness;
#[path = "../../../../fuzz/src/lib.rs"]
mod fuzz;
mod fuzz_targets;
mod guest_errors;
mod guest_headers;
mod litmus;
mod nanopu;
mod prefetch_instructions;
mod prefetchers;
mod progress;
mod rack;
#[path = "../../../../tests/rust/random.rs"]
mod random;
#[path = "../../../../tests/rust/selection.rs"]
mod selection;
mod threads;
mod timing;
mod timing_hierarchy;
mod translation;
mod user_interrupts;
mod virtual_memory;
mod wait_on_reservation;

//! Regions of programs, as hardware of the core identifies them.

mod control_flow;
mod laws;
mod offload;
mod procedures;
mod programs;
mod working_example;

//! Guests that need no compiler, and servers to run them on.

// Each test file is its own program and uses only a part of this.
#![allow(dead_code)]

pub mod assembler;
pub mod cases;
pub mod interfaces;
pub mod interrupter;
pub mod servers;

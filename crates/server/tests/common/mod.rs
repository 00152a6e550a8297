//! Guests that need no compiler, and servers to run them on.

// Every test file is a program of its own and uses a part of this.
#![allow(dead_code)]

pub mod assembler;
pub mod cases;
pub mod interrupter;
pub mod servers;

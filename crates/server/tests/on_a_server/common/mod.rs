//! Guests that need no compiler, and servers to run them on.

pub mod assembler;
pub mod cases;
pub mod interfaces;
pub mod interrupter;
pub mod servers;

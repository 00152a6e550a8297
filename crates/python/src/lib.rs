//! The Python bindings.

//! HyperPlane on a real fabric.

mod data_plane;
mod instructions;
mod machine;
#[path = "../../../../tests/rust/random.rs"]
mod random;

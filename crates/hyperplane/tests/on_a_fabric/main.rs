//! HyperPlane on a real fabric.

mod data_plane;
mod instructions;
mod machine;

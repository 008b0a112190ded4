//! Words that every other module uses; knows nothing of specs, steps or devices.

pub mod digest;
pub mod fs;
pub mod glob;
pub mod loc;
pub mod names;
pub mod suggest;

pub use digest::Digest;
pub use loc::Loc;

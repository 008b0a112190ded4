//! Words that every other module uses; knows nothing of specs, steps or devices.

pub mod bug;
pub(crate) mod c_functions;
pub mod digest;
pub mod figures;
pub mod fs;
pub mod glob;
pub mod loc;
pub mod loopback;
pub mod mounts;
pub mod mark;
pub mod named;
pub mod precision;
pub mod process;
pub mod program;
pub mod schema;
pub mod shell;
pub mod size;
pub mod suggest;
pub mod temporary;
pub mod text;
pub mod tree_path;
pub mod variable;
pub(crate) mod words;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use bug::Bug;
pub use digest::{Digest, Hasher, Secret};
pub use loc::Loc;
pub use precision::Precision;
pub use size::Size;

/// An error unless something holds: for what is checked condition by condition.
pub fn ensure<E>(holds: bool, otherwise: impl FnOnce() -> E) -> Result<(), E> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// Whether a value is that of its type's default: such a field is left out of JSON.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Locks. What a thread that panicked has left behind the lock is used all the same.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

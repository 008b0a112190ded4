//! What a step occupies while it executes, as far as its kind knows. Whether that is free is the executor's concern.

/// How much of the machine a step takes for itself. Memory is not in it: no kind knows it, so it is estimated and learnt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Needs {
    /// So many of the cores that `--jobs` gives, beside whatever else shares the machine.
    Shared { cores: u32 },
    /// A device, and one core for the part of the work that the host does. A timed use has the device to itself; others
    /// share it as far as its memory goes.
    Device {
        /// Whose prober knows it: `cuda`
        backend: String,
        /// As the target names it: `cuda`, `cuda:1`, `GPU.0`
        device: String,
        timed: bool,
    },
    /// The whole machine: a timed run on the CPU.
    Exclusive,
}

impl Needs {
    pub const ONE_CORE: Self = Self::Shared { cores: 1 };
}

/// A first guess at the memory that a step takes, for as long as nothing was measured: bytes, whatever it reads, and
/// bytes for each byte of the trees that it reads.
#[derive(Debug, Clone, Copy)]
pub struct MemoryGuess {
    pub base: u64,
    pub factor: u64,
}

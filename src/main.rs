//! The `orch` executable: everything is in the library.

/// Records and pages are of many small pieces. With the system's allocator a third of the time went into these.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    orch::cli::main()
}

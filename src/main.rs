//! The `orch` executable: everything is in the library.

fn main() -> std::process::ExitCode {
    orch::cli::main()
}

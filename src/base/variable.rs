//! Environment variables of this process: their only reader.
//!
//! Clippy forbids [`std::env::var`] everywhere else, so a search for `variable::` finds whatever decides from outside a spec.

#![expect(
    clippy::disallowed_methods,
    reason = "the home of environment variables"
)]

use std::ffi::OsString;

/// The value of a variable as text. None if it is not set or no UTF-8.
pub fn text(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The value of a variable as the system holds it.
pub fn os(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// The names of all variables with their values.
pub fn all() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os()
}

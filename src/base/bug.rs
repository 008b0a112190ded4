//! Errors that only a mistake in orch can cause.

use std::borrow::Cow;

/// A broken assumption of orch's own, reported as an error. Its text begins with `BUG:`.
#[derive(Debug, thiserror::Error)]
#[error("BUG: {0}")]
pub struct Bug(Cow<'static, str>);

impl Bug {
    pub fn new(what: impl Into<Cow<'static, str>>) -> Self {
        Self(what.into())
    }

    /// Whether an error is a bug, or has one among its causes.
    pub fn is_in(error: &anyhow::Error) -> bool {
        // `downcast_ref` looks into contexts, which are no causes of their own type.
        error.downcast_ref::<Self>().is_some() || error.chain().any(|cause| cause.is::<Self>())
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_bug_is_known_by_its_type_and_not_by_its_text() {
        let bug = || anyhow::Error::new(Bug::new("no such thing"));
        assert_eq!(bug().to_string(), "BUG: no such thing");
        let below: anyhow::Result<()> = Err(bug()).context("failed to do it");
        let above: anyhow::Result<()> =
            Err(std::io::Error::other("cut")).context(Bug::new("it was whole"));
        let both = above.context("failed to read");
        for error in [bug(), below.unwrap_err(), both.unwrap_err()] {
            assert!(Bug::is_in(&error), "{error:#}");
        }
        // A vendor's library may say so.
        assert!(!Bug::is_in(&anyhow::anyhow!("BUG: of somebody else's")));
    }
}

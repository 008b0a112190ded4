//! A verdict held against its own figures: all that can be found out by whoever has the figures and not the tensors.
//!
//! Two things leave no figure: a mask's value at another place, and a tensor that is missing or of another type. So
//! figures within their bounds may belong to wrong outputs, and figures beyond a bound never belong to right ones.

use super::tensor::beyond;
use super::tokens::too_few;
use super::{Numerics, Rows, TensorNumerics, Verdict};
use crate::spec::Tolerance;

/// What sums in another order may be off by, as a share.
const ROUNDING: f64 = 1e-9;
/// Decibels that no figure is beyond.
const MOST_DB: f64 = 200.0;

/// A figure that does not go with the others, or with the verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contradiction {
    /// Its place in [`Numerics`]: `tensors.logits.cosine`.
    pub field: String,
    pub value: String,
    pub why: String,
}

type Found = Result<(), Contradiction>;

fn no(
    field: impl Into<String>,
    value: impl std::fmt::Debug,
    why: impl Into<String>,
) -> Contradiction {
    Contradiction {
        field: field.into(),
        value: format!("{value:?}"),
        why: why.into(),
    }
}

impl Numerics {
    /// Whether these figures can belong to a verdict; the first of them that cannot.
    pub fn allows(&self, verdict: Verdict) -> Found {
        let Some(tolerance) = &self.tolerance else {
            return Err(no("tolerance", (), "there are no bounds to hold it to"));
        };
        bounds(tolerance)?;
        for (name, tensor) in &self.tensors {
            let at = |field: &str| format!("tensors.{name}{field}");
            tensor.is_consistent(tolerance, &at)?;
        }
        self.totals()?;
        match verdict {
            Verdict::Numerics => self.is_wrong(),
            Verdict::Pass => self.is_right(tolerance).and_then(|()| self.decides()),
            Verdict::Indecisive => self.is_right(tolerance).and_then(|()| self.is_undecided()),
        }
    }

    /// The worst over all tensors is the worst of one of them.
    fn totals(&self) -> Found {
        let most = |pick: fn(&TensorNumerics) -> f64| {
            Some(self.tensors.values().map(pick).fold(0.0, f64::max))
        };
        let least = |pick: fn(&TensorNumerics) -> Option<f64>| {
            self.tensors.values().filter_map(pick).reduce(f64::min)
        };
        let all = [
            ("max_abs", Some(self.max_abs), most(|t| t.max_abs)),
            ("mae", Some(self.mae), most(|t| t.mae)),
            ("worst", Some(self.worst), most(|t| t.worst)),
            ("cosine", self.cosine, least(|t| t.cosine)),
            ("snr_db", self.snr_db, least(|t| t.snr_db)),
            ("tokens", self.tokens, least(|t| t.tokens)),
        ];
        for (field, stated, of_tensors) in all {
            if stated != of_tensors {
                let why = format!("the worst of its tensors is {of_tensors:?}");
                return Err(no(field, stated, why));
            }
        }
        Ok(())
    }

    fn is_wrong(&self) -> Found {
        if self.passed {
            return Err(no("passed", true, "outputs that are wrong do not pass"));
        }
        Ok(())
    }

    /// The outputs agree, as far as figures show.
    fn is_right(&self, tolerance: &Tolerance) -> Found {
        if !self.passed {
            return Err(no(
                "passed",
                false,
                "outputs that do not pass are wrong: the verdict is NUMERICS",
            ));
        }
        if self.tensors.is_empty() {
            return Err(no("tensors", (), "nothing was compared"));
        }
        for (name, tensor) in &self.tensors {
            if let Some(broken) = tensor.broken(tolerance) {
                let field = format!("tensors.{name}");
                return Err(no(
                    field,
                    tensor.worst,
                    format!("{broken}: the verdict is NUMERICS"),
                ));
            }
        }
        let wrong = |(name, axes): (&String, &Vec<super::Slices>)| {
            let found = axes.iter().find(|axis| !axis.wrong.is_empty())?;
            Some((name.clone(), found.wrong.clone()))
        };
        if let Some((name, wrong)) = self.slices.iter().find_map(wrong) {
            return Err(no(
                format!("slices.{name}.wrong"),
                wrong,
                "slices are wrong: the verdict is NUMERICS",
            ));
        }
        let generation = self.generation.as_ref();
        if let Some(wrong) = generation.and_then(|generation| generation.wrong.as_ref()) {
            return Err(no(
                "generation.wrong",
                wrong,
                "generated tokens are wrong: the verdict is NUMERICS",
            ));
        }
        Ok(())
    }

    /// Wrong outputs would have been refused.
    fn decides(&self) -> Found {
        let Some(control) = &self.control else {
            let why = "without the outputs of another input nothing shows that wrong ones would be refused";
            return Err(no("control", self.no_control.as_deref(), why));
        };
        if !is_positive(control.differs_by) || !is_positive(control.worst) {
            return Err(no(
                "control.differs_by",
                control.differs_by,
                "the outputs of another input are the same, so a wrong run could not be told from a right one",
            ));
        }
        if let Some(undecided) = self.all_undecided(&control.undecided) {
            return Err(no(
                "control.undecided",
                undecided,
                "the outputs of another input would pass for all of these: the verdict is INDECISIVE",
            ));
        }
        if let Some(dropped) = &self.dropped
            && (!is_positive(dropped.differs_by) || !is_positive(dropped.worst))
        {
            return Err(no(
                "dropped.differs_by",
                dropped.differs_by,
                "the outputs without a layer are the same: the verdict is INDECISIVE",
            ));
        }
        if let Some((field, value)) = self.undecided_parts() {
            return Err(no(
                field,
                value,
                "something wrong would pass there: the verdict is INDECISIVE",
            ));
        }
        Ok(())
    }

    /// Something wrong would have passed. Of a layer that was left out, figures alone do not show whether it would.
    fn is_undecided(&self) -> Found {
        let by_control = self
            .control
            .as_ref()
            .is_some_and(|control| self.all_undecided(&control.undecided).is_some());
        let decides_nothing = self.tensors.values().all(|tensor| !tensor.decides);
        let is_undecided = by_control
            || decides_nothing
            || self.dropped.is_some()
            || self.undecided_parts().is_some();
        if is_undecided {
            return Ok(());
        }
        Err(no(
            "control",
            self.control.as_ref().map(|control| &control.undecided),
            "nothing wrong would have passed: the verdict is PASS",
        ))
    }

    /// The outputs, where every one that decides is among those for which another answer would pass.
    fn all_undecided<'a>(&self, undecided: &'a [String]) -> Option<&'a [String]> {
        let mut deciding = self.tensors.iter().filter(|(_, tensor)| tensor.decides);
        deciding
            .all(|(name, _)| undecided.contains(name))
            .then_some(undecided)
    }

    fn undecided_parts(&self) -> Option<(String, String)> {
        let slices = self.slices.iter().find_map(|(name, axes)| {
            let axis = axes.iter().find(|axis| !axis.undecided.is_empty())?;
            let field = format!("slices.{name}.undecided");
            Some((field, format!("{:?}", axis.undecided)))
        });
        let generation = self.generation.as_ref();
        let tokens = generation.and_then(|generation| generation.undecided.clone());
        slices.or(tokens.map(|why| ("generation.undecided".to_owned(), why)))
    }
}

fn is_positive(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

fn bounds(tolerance: &Tolerance) -> Found {
    let Tolerance {
        atol,
        rtol,
        budget,
        cosine,
        snr,
        tokens,
    } = *tolerance;
    let all = [
        ("atol", atol, atol >= 0.0),
        ("rtol", rtol, rtol >= 0.0),
        ("budget", budget, (0.0..1.0).contains(&budget)),
        ("cosine", cosine, (-1.0..=1.0).contains(&cosine)),
        ("snr", snr, (-MOST_DB..=MOST_DB).contains(&snr)),
        ("tokens", tokens, (0.0..=1.0).contains(&tokens)),
    ];
    for (name, value, holds) in all {
        if !value.is_finite() || !holds {
            return Err(no(format!("tolerance.{name}"), value, "no bound is such"));
        }
    }
    if atol == 0.0 && rtol == 0.0 {
        return Err(no(
            "tolerance.atol",
            atol,
            "with no bound at all nothing passes",
        ));
    }
    Ok(())
}

impl TensorNumerics {
    fn is_of_floats(&self) -> bool {
        self.dtype.starts_with('F') || self.dtype.starts_with("BF")
    }

    /// Figures that go together, whatever the verdict.
    fn is_consistent(&self, tolerance: &Tolerance, at: &dyn Fn(&str) -> String) -> Found {
        let rows = |name: &'static str, rows: Option<Rows>, least: f64, most: f64| {
            let of = move |figure: &str| format!(".{name}.{figure}");
            rows.map(|rows| {
                [
                    (of("worst"), rows.worst, least, most.min(rows.p01)),
                    (of("p01"), rows.p01, least, most),
                ]
            })
        };
        let own = [
            (".max_abs".to_owned(), self.max_abs, 0.0, f64::MAX),
            (
                ".mae".to_owned(),
                self.mae,
                0.0,
                self.max_abs * (1.0 + ROUNDING),
            ),
            (".scale".to_owned(), self.scale, f64::MIN_POSITIVE, f64::MAX),
            (".over".to_owned(), self.over, 0.0, 1.0),
            (".column_over".to_owned(), self.column_over, 0.0, 1.0),
            (".worst".to_owned(), self.worst, 0.0, f64::MAX),
        ];
        let within = |name: &str, figure: Option<f64>, least: f64, most: f64| {
            figure.map(|figure| (format!(".{name}"), figure, least, most))
        };
        let figures = own
            .into_iter()
            .chain(within("cosine", self.cosine, -1.0, 1.0))
            .chain(within("snr_db", self.snr_db, -MOST_DB, MOST_DB))
            .chain(within("tokens", self.tokens, 0.0, 1.0))
            .chain(
                [
                    rows("row_cosine", self.row_cosine, -1.0, 1.0),
                    rows("row_snr_db", self.row_snr_db, -MOST_DB, MOST_DB),
                    rows("row_tokens", self.row_tokens, 0.0, 1.0),
                ]
                .into_iter()
                .flatten()
                .flatten(),
            );
        for (field, value, least, most) in figures {
            if !value.is_finite() || value < least || value > most {
                let why = format!("it lies between {least:e} and {most:e}");
                return Err(no(at(&field), value, why));
            }
        }
        let no_more = "no value differs, so none is beyond its bound";
        if self.max_abs == 0.0 && self.worst > 0.0 {
            return Err(no(at(".worst"), self.worst, no_more));
        }
        if self.worst == 0.0 && self.over > 0.0 {
            return Err(no(at(".over"), self.over, no_more));
        }
        if self.worst > 1.0 && self.over == 0.0 {
            let why = "a value lies beyond its bound, so the share of such values is above 0";
            return Err(no(at(".over"), self.over, why));
        }
        let least = self.worst * tolerance.atol * self.scale;
        if self.is_of_floats() && self.max_abs * (1.0 + ROUNDING) < least {
            let why = format!(
                "a value at {} times its bound is off by {least:e}",
                self.worst
            );
            return Err(no(at(".max_abs"), self.max_abs, why));
        }
        Ok(())
    }

    /// The bound that these figures break.
    fn broken(&self, tolerance: &Tolerance) -> Option<String> {
        if let (Some(whole), Some(rows)) = (self.tokens, self.row_tokens) {
            let (of, share, bound) = too_few(whole, rows, tolerance.tokens)?;
            return Some(format!("the equal share{of} {share:.6} is below {bound}"));
        }
        if !self.is_of_floats() {
            return (self.worst > 0.0).then(|| "values of whole numbers differ".to_owned());
        }
        let count = self
            .shape
            .iter()
            .product::<u64>()
            .saturating_sub(self.sentinels);
        let over = (self.over * count as f64).round() as usize;
        let far = || "at a place that figures do not show".to_owned();
        beyond(self, tolerance, over, count as usize, far)
    }
}

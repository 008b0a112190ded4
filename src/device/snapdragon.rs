//! Snapdragon chips as the kernel, Android and QNN name them.
//!
//! The numbers come from the Linux kernel and from QNN's users, and were not checked on chips.

/// One chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chip {
    /// The kernel's number (Linux `qcom,ids.h`).
    pub soc_id: u32,
    /// Android's `ro.soc.model`.
    pub soc: &'static str,
    /// What stands on the box, where it differs.
    pub sold_as: Option<&'static str>,
    /// Generation of its HTP, `V73`.
    pub htp: &'static str,
    /// QNN's own number.
    pub soc_model: Option<u32>,
}

pub const CHIPS: &[Chip] = &[
    Chip {
        soc_id: 457,
        soc: "SM8450",
        sold_as: Some("Snapdragon 8 Gen 1"),
        htp: "V69",
        soc_model: Some(36),
    },
    Chip {
        soc_id: 497,
        soc: "QCM6490",
        sold_as: None,
        htp: "V68",
        soc_model: None,
    },
    Chip {
        soc_id: 498,
        soc: "QCS6490",
        sold_as: None,
        htp: "V68",
        soc_model: None,
    },
    Chip {
        soc_id: 519,
        soc: "SM8550",
        sold_as: Some("Snapdragon 8 Gen 2"),
        htp: "V73",
        soc_model: Some(43),
    },
    Chip {
        soc_id: 555,
        soc: "X1E80100",
        sold_as: Some("Snapdragon X Elite"),
        htp: "V73",
        soc_model: Some(60),
    },
    Chip {
        soc_id: 557,
        soc: "SM8650",
        sold_as: Some("Snapdragon 8 Gen 3"),
        htp: "V75",
        soc_model: Some(57),
    },
    Chip {
        soc_id: 618,
        soc: "SM8750",
        sold_as: Some("Snapdragon 8 Elite"),
        htp: "V79",
        soc_model: Some(69),
    },
    Chip {
        soc_id: 660,
        soc: "SM8850",
        sold_as: Some("Snapdragon 8 Elite Gen 5"),
        htp: "V81",
        soc_model: Some(87),
    },
];

impl Chip {
    /// `SM8550 (Snapdragon 8 Gen 2)`
    pub fn name(&self) -> String {
        self.sold_as.map_or_else(
            || self.soc.to_owned(),
            |sold_as| format!("{} ({sold_as})", self.soc),
        )
    }
}

/// The chip of this number of the kernel's.
pub fn by_id(soc_id: u32) -> Option<&'static Chip> {
    CHIPS.iter().find(|chip| chip.soc_id == soc_id)
}

/// The chip that Android names. A faster bin of a chip adds a suffix: `SM8550-AC`, `SM8750P`.
pub fn by_soc(soc: &str) -> Option<&'static Chip> {
    CHIPS.iter().find(|chip| {
        let rest = soc.strip_prefix(chip.soc);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// The chip of this number of QNN's.
pub fn by_model(soc_model: u64) -> Option<&'static Chip> {
    CHIPS.iter().find(|chip| {
        chip.soc_model
            .is_some_and(|known| u64::from(known) == soc_model)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_are_found_by_each_of_their_names() {
        assert_eq!(by_id(519).unwrap().name(), "SM8550 (Snapdragon 8 Gen 2)");
        assert_eq!(by_soc("SM8550-AC").unwrap().soc_id, 519);
        assert_eq!(by_model(69).unwrap().htp, "V79");
        assert_eq!(
            (
                by_id(1),
                by_soc("SM85501"),
                by_soc("Tensor G3"),
                by_model(1)
            ),
            (None, None, None, None)
        );
    }
}

//! Input recipes to tensors: pure, and the same bytes on every machine.

use super::Dtype;

impl Dtype {
    /// Least and greatest value of a whole-number type.
    pub fn range(self) -> Option<(i128, i128)> {
        match self {
            Self::Float32 | Self::Float16 => None,
            Self::Int64 => Some((i64::MIN.into(), i64::MAX.into())),
            Self::Int32 => Some((i32::MIN.into(), i32::MAX.into())),
            Self::Int8 => Some((i8::MIN.into(), i8::MAX.into())),
            Self::Uint8 => Some((0, u8::MAX.into())),
            Self::Bool => Some((0, 1)),
        }
    }

    /// The largest magnitude that stays finite.
    pub fn largest(self) -> f64 {
        match self {
            Self::Float32 => f32::MAX.into(),
            Self::Float16 => 65504.0,
            _ => self.range().map_or(0.0, |(_, most)| most as f64),
        }
    }

    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Self::Int64 => 8,
            Self::Float32 | Self::Int32 => 4,
            Self::Float16 => 2,
            Self::Int8 | Self::Uint8 | Self::Bool => 1,
        }
    }
}

//! The values of a tensor of floats as they lie in its file: converted where they are read, and never copied as a whole.
//! The logits of a language model are gigabytes.

use rayon::prelude::*;

/// So many values are read by one thread at a time. It is the same on every machine, so that sums are.
pub(super) const BLOCK: usize = 1 << 16;

/// Row-major values, as f64.
pub(super) trait Values: Copy + Send + Sync {
    fn len(self) -> usize;

    fn at(self, at: usize) -> f64;

    /// The beginnings and ends of the blocks of [`BLOCK`] values.
    fn blocks(self) -> impl IndexedParallelIterator<Item = std::ops::Range<usize>> {
        let len = self.len();
        let blocks = (0..len.div_ceil(BLOCK)).into_par_iter();
        blocks.map(move |block| block * BLOCK..len.min((block + 1) * BLOCK))
    }

    /// How many values are NaN.
    fn nans(self) -> usize {
        let of_block =
            |block: std::ops::Range<usize>| block.filter(|at| self.at(*at).is_nan()).count();
        self.blocks().map(of_block).sum()
    }
}

impl Values for &[f64] {
    fn len(self) -> usize {
        self.len()
    }

    fn at(self, at: usize) -> f64 {
        self[at]
    }
}

/// A type of floats, by the bytes of each.
macro_rules! stored {
    ($($name:ident, $width:literal, $decode:expr;)+) => {
        $(
            #[derive(Clone, Copy)]
            pub(super) struct $name<'b>(&'b [[u8; $width]]);

            impl<'b> $name<'b> {
                pub(super) fn of(bytes: &'b [u8]) -> Self {
                    Self(bytes.as_chunks().0)
                }
            }

            impl Values for $name<'_> {
                fn len(self) -> usize {
                    self.0.len()
                }

                #[inline]
                fn at(self, at: usize) -> f64 {
                    $decode(self.0[at])
                }
            }
        )+
    };
}

stored! {
    F64, 8, f64::from_le_bytes;
    F32, 4, |bytes| f64::from(f32::from_le_bytes(bytes));
    F16, 2, |bytes| half::f16::from_le_bytes(bytes).to_f64();
    Bf16, 2, |bytes| half::bf16::from_le_bytes(bytes).to_f64();
}

/// Evaluates an expression with [`Values`] of bytes that are of one type of floats; None for every other type.
macro_rules! with_values {
    (@ $kind:ident, [$($values:ident = $bytes:expr),+], $body:expr) => {{
        $(let $values = $crate::judge::values::$kind::of($bytes);)+
        Some($body)
    }};
    ($dtype:expr, $values:tt, $body:expr) => {
        match $dtype {
            safetensors::Dtype::F64 => $crate::judge::values::with_values!(@ F64, $values, $body),
            safetensors::Dtype::F32 => $crate::judge::values::with_values!(@ F32, $values, $body),
            safetensors::Dtype::F16 => $crate::judge::values::with_values!(@ F16, $values, $body),
            safetensors::Dtype::BF16 => $crate::judge::values::with_values!(@ Bf16, $values, $body),
            _ => None,
        }
    };
}
pub(super) use with_values;

/// The bits of a magnitude by which buckets differ: the exponent and four bits of the fraction.
const BUCKET_BITS: u32 = 15;

fn bucket(magnitude: f64) -> usize {
    (magnitude.to_bits() >> (63 - BUCKET_BITS)) as usize
}

/// The middle of the magnitudes of those values that `is_counted`: the mean of the two middle ones where their number is
/// even. None of no values.
pub(super) fn median_magnitude<V: Values>(
    values: V,
    is_counted: impl Fn(usize) -> bool + Sync,
) -> Option<f64> {
    let magnitudes = |block: std::ops::Range<usize>| {
        let counted = block.filter(|at| is_counted(*at));
        counted.map(|at| values.at(at).abs())
    };
    let empty = || vec![0u64; 1 << BUCKET_BITS];
    let counts = values.blocks().fold(empty, |mut counts, block| {
        magnitudes(block).for_each(|magnitude| counts[bucket(magnitude)] += 1);
        counts
    });
    let counts = counts.reduce(empty, |mut all, counts| {
        all.iter_mut()
            .zip(counts)
            .for_each(|(all, count)| *all += count);
        all
    });
    let count: u64 = counts.iter().sum();
    if count == 0 {
        return None;
    }
    let upper = count / 2;
    let lower = if count.is_multiple_of(2) {
        upper - 1
    } else {
        upper
    };
    // Both lie in these buckets, of which those in between are empty.
    let mut before = 0;
    let mut first = None;
    let mut last = 0;
    for (at, count) in counts.iter().enumerate() {
        if first.is_none() && before + count > lower {
            first = Some((at, before));
        }
        if before + count > upper {
            last = at;
            break;
        }
        before += count;
    }
    let (first, before) = first?;
    let gathered = values.blocks().map(|block| {
        let near =
            magnitudes(block).filter(|magnitude| (first..=last).contains(&bucket(*magnitude)));
        near.collect::<Vec<f64>>()
    });
    let mut gathered: Vec<f64> = gathered.flatten().collect();
    let mut ranked = |rank: u64| {
        let at = (rank - before) as usize;
        *gathered.select_nth_unstable_by(at, f64::total_cmp).1
    };
    Some((ranked(lower) + ranked(upper)) / 2.0)
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng as _, SeedableRng as _};

    use super::*;

    #[test]
    fn the_median_is_that_of_sorted_magnitudes() {
        let mut random = StdRng::seed_from_u64(3);
        for _ in 0..500 {
            let count = random.random_range(1..40);
            let draw = |_| {
                let exponent = random.random_range(-3..3);
                random.random_range(-1.0..1.0) * 10f64.powi(exponent)
            };
            let values: Vec<f64> = (0..count).map(draw).collect();
            let mut sorted: Vec<f64> = values.iter().map(|value| value.abs()).collect();
            sorted.sort_unstable_by(f64::total_cmp);
            let expected = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0;
            assert_eq!(median_magnitude(&values[..], |_| true), Some(expected));
        }
        assert_eq!(median_magnitude(&[1.0][..], |_| false), None);
        let long: Vec<f64> = (0..3 * BLOCK).map(|at| at as f64).collect();
        assert_eq!(
            median_magnitude(&long[..], |_| true),
            Some((3 * BLOCK - 1) as f64 / 2.0)
        );
    }
}

//! Input recipes to tensors: pure, and the same bytes on every machine and with every version of orch.
//!
//! The random stream of an input is ChaCha8 under a key made from the model's seed and the input's *name*, so adding,
//! removing or reordering inputs changes no other one, and a larger batch begins with the rows of the smaller one.
//! From the stream on only integer arithmetic and the basic IEEE 754 operations (+ − × ÷ and square root, which the
//! standard rounds exactly) are used: the platform's `ln`, `sin` and `cos` differ in their last bits, so normal values
//! come from Marsaglia's polar method with a logarithm of our own. A change of any of this changes inputs, and with
//! them every result: the digests in the tests hold it still.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::{Dim, Element, Fill, Input};

/// A tensor made from a recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    pub name: String,
    pub dtype: Element,
    pub shape: Vec<u64>,
    /// Row-major, little-endian.
    pub bytes: Vec<u8>,
}

/// All inputs but those that only the model's own tokenizer or processor can fill, in the order of the recipe.
pub fn tensors(
    seed: u64,
    inputs: &IndexMap<String, Input>,
    dims: &BTreeMap<String, u64>,
) -> Result<Vec<Tensor>, String> {
    let made = inputs
        .iter()
        .filter(|(_, input)| !input.fill.is_processed());
    made.map(|(name, input)| {
        tensor(seed, name, input, dims).map_err(|why| format!("input `{name}`: {why}"))
    })
    .collect()
}

/// Other values of the same recipes, by which a wrong answer is told from the right one; None where every recipe has but one.
pub fn control(
    seed: u64,
    inputs: &IndexMap<String, Input>,
    dims: &BTreeMap<String, u64>,
) -> Result<Option<Vec<Tensor>>, String> {
    let usual = tensors(seed, inputs, dims)?;
    // The usual stream of another seed: any bits of it differ.
    let mut other = tensors(seed ^ 0x636f_6e74_726f_6c00, inputs, dims)?;
    for tensor in &mut other {
        if matches!(inputs[&tensor.name].fill, Fill::Data(_)) {
            reverse_unique(tensor);
        }
    }
    if other == usual {
        other.iter_mut().for_each(halve);
    }
    Ok((other != usual).then_some(other))
}

/// Values that occur once change places with each other. What occurs more often has a meaning: padding, the tokens of an
/// image, a mask.
fn reverse_unique(tensor: &mut Tensor) {
    let width = tensor.dtype.size();
    let values: Vec<Vec<u8>> = tensor.bytes.chunks(width).map(<[u8]>::to_vec).collect();
    let mut seen: BTreeMap<&[u8], u32> = BTreeMap::new();
    for value in &values {
        *seen.entry(value).or_default() += 1;
    }
    let unique: Vec<usize> = (0..values.len())
        .filter(|at| seen[values[*at].as_slice()] == 1)
        .collect();
    for (to, from) in unique.iter().zip(unique.iter().rev()) {
        tensor.bytes[to * width..][..width].copy_from_slice(&values[*from]);
    }
}

/// Floats only: half of a constant is as good an input as the constant.
fn halve(tensor: &mut Tensor) {
    match tensor.dtype {
        Element::Float32 => each(tensor, |bytes| {
            (f32::from_le_bytes(bytes) / 2.0).to_le_bytes()
        }),
        Element::Float16 => {
            each(tensor, |bytes| {
                half::f16::from_f32(half::f16::from_le_bytes(bytes).to_f32() / 2.0).to_le_bytes()
            });
        }
        _ => {}
    }
}

fn each<const N: usize>(tensor: &mut Tensor, change: impl Fn([u8; N]) -> [u8; N]) {
    tensor
        .bytes
        .as_chunks_mut::<N>()
        .0
        .iter_mut()
        .for_each(|bytes| *bytes = change(*bytes));
}

/// The sizes of a shape with its names resolved.
pub fn sizes(shape: &[Dim], dims: &BTreeMap<String, u64>) -> Result<Vec<u64>, String> {
    let size = |dim: &Dim| match dim {
        Dim::Fixed(size) => Ok(*size),
        Dim::Named(name) => dims
            .get(name)
            .copied()
            .ok_or_else(|| format!("dim `{name}` has no value")),
    };
    shape.iter().map(size).collect()
}

fn tensor(
    seed: u64,
    name: &str,
    input: &Input,
    dims: &BTreeMap<String, u64>,
) -> Result<Tensor, String> {
    let shape = sizes(&input.shape, dims)?;
    let count = shape
        .iter()
        .try_fold(1u64, |count, size| count.checked_mul(*size));
    let count = count
        .and_then(|count| usize::try_from(count).ok())
        .ok_or("the shape holds too many elements")?;
    let dtype = input.dtype;
    let capacity = count
        .checked_mul(dtype.size())
        .ok_or("the shape holds too many elements")?;
    let mut bytes = Vec::with_capacity(capacity);
    let mut stream = Stream::new(seed, name);
    match &input.fill {
        Fill::Randint(low, high) => {
            let span = high.wrapping_sub(*low) as u64;
            if low >= high {
                return Err(format!("`randint` needs low < high, found [{low}, {high}]"));
            }
            (0..count).for_each(|_| {
                push_int(
                    &mut bytes,
                    dtype,
                    low.wrapping_add(stream.below(span) as i64),
                )
            });
        }
        Fill::Normal(mean, deviation) => {
            (0..count).for_each(|_| push(&mut bytes, dtype, mean + deviation * stream.normal()));
        }
        Fill::Uniform(low, high) => {
            (0..count).for_each(|_| push(&mut bytes, dtype, low + (high - low) * stream.unit()));
        }
        Fill::Value(value) => (0..count).for_each(|_| push(&mut bytes, dtype, *value)),
        Fill::Arange => {
            let last = shape.last().copied().ok_or("`arange` needs a last axis")?;
            (0..count as u64).for_each(|index| push_int(&mut bytes, dtype, (index % last) as i64));
        }
        Fill::Data(values) if values.len() != count => {
            return Err(format!(
                "`data` has {} values, the shape holds {count}",
                values.len()
            ));
        }
        Fill::Data(values) => values
            .iter()
            .for_each(|value| push(&mut bytes, dtype, *value)),
        Fill::Text(_) => return Err("`text` is filled by the model's tokenizer".to_owned()),
        Fill::Picture(_) => {
            return Err("`picture` is filled by the model's image processor".to_owned());
        }
        Fill::Sound(_) => {
            return Err("`sound` is filled by the model's feature extractor".to_owned());
        }
    }
    Ok(Tensor {
        name: name.to_owned(),
        dtype,
        shape,
        bytes,
    })
}

fn push(bytes: &mut Vec<u8>, dtype: Element, value: f64) {
    match dtype {
        Element::Float64 => bytes.extend(value.to_le_bytes()),
        Element::Float32 => bytes.extend((value as f32).to_le_bytes()),
        // By way of f32, because that is all that hardware converters take: so all machines round alike.
        Element::Float16 => bytes.extend(half::f16::from_f32(value as f32).to_le_bytes()),
        Element::Bfloat16 => bytes.extend(half::bf16::from_f32(value as f32).to_le_bytes()),
        _ => push_int(bytes, dtype, value as i64),
    }
}

fn push_int(bytes: &mut Vec<u8>, dtype: Element, value: i64) {
    match dtype {
        Element::Float64 | Element::Float32 | Element::Float16 | Element::Bfloat16 => {
            push(bytes, dtype, value as f64)
        }
        Element::Int64 => bytes.extend(value.to_le_bytes()),
        Element::Int32 => bytes.extend((value as i32).to_le_bytes()),
        Element::Int16 => bytes.extend((value as i16).to_le_bytes()),
        Element::Int8 => bytes.extend((value as i8).to_le_bytes()),
        Element::Uint64 => bytes.extend((value as u64).to_le_bytes()),
        Element::Uint32 => bytes.extend((value as u32).to_le_bytes()),
        Element::Uint16 => bytes.extend((value as u16).to_le_bytes()),
        Element::Uint8 => bytes.push(value as u8),
        Element::Bool => bytes.push(u8::from(value != 0)),
    }
}

/// The random stream of one input.
struct Stream {
    rng: ChaCha8Rng,
    /// The polar method makes values in pairs.
    spare: Option<f64>,
}

impl Stream {
    fn new(seed: u64, name: &str) -> Self {
        // FNV-1a of the name, then splitmix64 from both to the 32 bytes of the key.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let mut state = seed ^ splitmix(hash);
        let mut key = [0; 32];
        for part in key.chunks_exact_mut(8) {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            part.copy_from_slice(&splitmix(state).to_le_bytes());
        }
        Self {
            rng: ChaCha8Rng::from_seed(key),
            spare: None,
        }
    }

    /// A number below `bound`, every value equally likely: draws from the incomplete last run of the range are thrown
    /// away.
    fn below(&mut self, bound: u64) -> u64 {
        let usable = u64::MAX - (u64::MAX % bound + 1) % bound;
        loop {
            let drawn = self.rng.next_u64();
            if drawn <= usable {
                return drawn % bound;
            }
        }
    }

    /// A number from 0, inclusive, to 1, exclusive: 53 random bits.
    fn unit(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Mean 0, standard deviation 1: Marsaglia's polar method.
    fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let x = 2.0 * self.unit() - 1.0;
            let y = 2.0 * self.unit() - 1.0;
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let scale = (-2.0 * ln(square) / square).sqrt();
                self.spare = Some(y * scale);
                return x * scale;
            }
        }
    }
}

fn splitmix(state: u64) -> u64 {
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Natural logarithm of a normal positive number: `ln(m · 2^e) = 2 artanh((m − 1) / (m + 1)) + e ln 2`, with `m` near 1.
fn ln(value: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = value.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as i64 - 1023;
    let mut mantissa = f64::from_bits((bits & MANTISSA) | (1023 << 52));
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    // |ratio| is at most 0.172, so the terms left out are below 1e-17.
    let series = (0..12).rev().fold(0.0, |sum, term| {
        sum * square + 1.0 / f64::from(2 * term + 1)
    });
    2.0 * ratio * series + exponent as f64 * std::f64::consts::LN_2
}

impl Element {
    /// Least and greatest value of a whole-number type.
    pub fn range(self) -> Option<(i128, i128)> {
        match self {
            Self::Float64 | Self::Float32 | Self::Float16 | Self::Bfloat16 => None,
            Self::Int64 => Some((i64::MIN.into(), i64::MAX.into())),
            Self::Int32 => Some((i32::MIN.into(), i32::MAX.into())),
            Self::Int16 => Some((i16::MIN.into(), i16::MAX.into())),
            Self::Int8 => Some((i8::MIN.into(), i8::MAX.into())),
            Self::Uint64 => Some((0, u64::MAX.into())),
            Self::Uint32 => Some((0, u32::MAX.into())),
            Self::Uint16 => Some((0, u16::MAX.into())),
            Self::Uint8 => Some((0, u8::MAX.into())),
            Self::Bool => Some((0, 1)),
        }
    }

    /// The largest magnitude that stays finite.
    pub fn largest(self) -> f64 {
        match self {
            Self::Float64 => f64::MAX,
            Self::Float32 => f32::MAX.into(),
            Self::Bfloat16 => half::bf16::MAX.to_f64(),
            Self::Float16 => 65504.0,
            _ => self.range().map_or(0.0, |(_, most)| most as f64),
        }
    }
}

#[cfg(test)]
#[path = "recipe_tests.rs"]
mod tests;

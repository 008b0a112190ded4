//! What reruns a step and what does not, input by input: `src/key.rs` is the table that is proven here.

mod ambient;
mod code;
mod harness;
mod ignored;
mod machine;
mod matters;
mod project;
mod table;
mod toolchains;

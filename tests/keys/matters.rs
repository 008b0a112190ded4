//! x
use crate::harness::*;
#[test]
fn probe() {
    assert_reruns("nothing", &|_| {}, &table(""));
    assert_reruns("seed", &|w| w.edit("seed: 7", "seed: 8"), &table("inputs:bert | generate:bert: param.seed 7 => 8"));
    assert_reruns("dims", &|w| w.edit("seq: 16}", "seq: 8}"), &table(""));
}

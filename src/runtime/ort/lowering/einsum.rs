//! `Einsum` of two operands as transposes, one matrix product and a reshape.

use super::graph::{Graph, attribute, is, with_ints};
use crate::runtime::onnx_proto::NodeProto;

/// The letters of both operands by what becomes of them.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// The letters in both operands and in the result.
    batch: Vec<char>,
    /// The letters in both operands that are summed over.
    summed: Vec<char>,
    left: Vec<char>,
    right: Vec<char>,
    a: Vec<char>,
    b: Vec<char>,
    out: Vec<char>,
}

fn plan(equation: &str) -> Option<Plan> {
    let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (operands, out) = equation.split_once("->")?;
    let (a, b) = operands.split_once(',')?;
    let letters = |text: &str| -> Option<Vec<char>> {
        let letters: Vec<char> = text.chars().collect();
        // A repeated letter is a diagonal, and dots are axes without a name: neither is a plain product.
        let plain = letters
            .iter()
            .enumerate()
            .all(|(i, c)| c.is_ascii_alphabetic() && !letters[..i].contains(c));
        plain.then_some(letters)
    };
    let a = letters(a)?;
    let b = letters(b)?;
    let out = letters(out)?;
    let within = |of: &[char], test: &dyn Fn(&char) -> bool| {
        of.iter().copied().filter(|c| test(c)).collect::<Vec<_>>()
    };
    let plan = Plan {
        batch: within(&a, &|c| b.contains(c) && out.contains(c)),
        summed: within(&a, &|c| b.contains(c) && !out.contains(c)),
        left: within(&a, &|c| !b.contains(c)),
        right: within(&b, &|c| !a.contains(c)),
        a,
        b,
        out,
    };
    // A letter of one operand alone that is not in the result would be summed before the product.
    let kept = plan
        .left
        .iter()
        .chain(&plan.right)
        .all(|c| plan.out.contains(c));
    let known = plan
        .out
        .iter()
        .all(|c| plan.a.contains(c) || plan.b.contains(c));
    (kept && known && !plan.summed.is_empty()).then_some(plan)
}

pub(super) fn product(graph: &mut Graph, node: &NodeProto) -> Option<()> {
    let [a, b] = node.input.as_slice() else {
        return None;
    };
    if !is(node, "Einsum") {
        return None;
    }
    let equation = attribute(node, "equation")?.s.clone()?;
    let plan = plan(std::str::from_utf8(&equation).ok()?)?;
    let a_shape = graph.shape(a)?;
    let b_shape = graph.shape(b)?;
    let size = |c: &char| -> Option<i64> {
        let of = |letters: &[char], shape: &[i64]| {
            letters.iter().position(|l| l == c).map(|at| shape[at])
        };
        of(&plan.a, &a_shape).or_else(|| of(&plan.b, &b_shape))
    };
    let sizes = |letters: &[char]| letters.iter().map(&size).collect::<Option<Vec<i64>>>();
    let all = |letters: &[char]| sizes(letters).map(|sizes| sizes.iter().product::<i64>());
    let batch = all(&plan.batch)?;
    let summed = all(&plan.summed)?;
    let left = all(&plan.left)?;
    let right = all(&plan.right)?;
    let made = [&plan.batch[..], &plan.left, &plan.right].concat();
    let made_sizes = sizes(&made)?;

    let a = permute(
        graph,
        node,
        a,
        &plan.a,
        &[&plan.batch[..], &plan.left, &plan.summed].concat(),
    );
    let a = graph.reshape(node, &a, &[batch, left, summed]);
    let b = permute(
        graph,
        node,
        b,
        &plan.b,
        &[&plan.batch[..], &plan.summed, &plan.right].concat(),
    );
    let b = graph.reshape(node, &b, &[batch, summed, right]);
    let product = graph.op(node, "MatMul", &[&a, &b], vec![]);
    let back = graph.reshape(node, &product, &made_sizes);
    permute(graph, node, &back, &made, &plan.out);
    Some(())
}

/// Adds a transpose unless the letters already stand in order; gives the name of the arranged value.
fn permute(graph: &mut Graph, node: &NodeProto, value: &str, from: &[char], to: &[char]) -> String {
    if from == to {
        return value.to_owned();
    }
    let order = to
        .iter()
        .filter_map(|c| from.iter().position(|l| l == c))
        .map(|at| at as i64)
        .collect();
    graph.op(node, "Transpose", &[value], vec![with_ints("perm", order)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_fall_into_batch_summed_left_and_right() {
        let plan = plan("bd, bkd -> bk").unwrap();
        assert_eq!(
            (plan.batch, plan.summed, plan.left, plan.right),
            (vec!['b'], vec!['d'], vec![], vec!['k'])
        );
    }

    #[test]
    fn what_is_not_a_plain_product_is_left_alone() {
        for equation in [
            "ii,ij->j",
            "...d,kd->...k",
            "ij->ji",
            "ab,cd->abcd",
            "ab,bc->a",
            "ab,bc->ad",
        ] {
            assert_eq!(plan(equation), None, "{equation}");
        }
    }
}

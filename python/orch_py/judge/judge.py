"""Whether outputs agree with the reference: the one definition of it in Python. `src/judge` is the same in Rust, and
`tests/fixtures/judge/cases.json` holds both to it. All is reckoned in 64-bit floats.

One tensor, ours `a` against the reference `b`, under `{atol, rtol, budget, cosine, snr, tokens}`:

1. Dtypes and shapes are equal. Integers and bools are equal everywhere (any byte but 0 is true). A NaN on either side
   is wrong. A tensor without elements decides nothing. Of a tensor that is refused here, no figure is known (None).
2. Sentinels are places of `b`: every infinity; every |b| >= 1e30; and the values above a gap. For the gap, sort the
   magnitudes that are not 0 and below 1e30: the last of them that is >= 9e3 (a mask of -1e4 lies on top of a score)
   and >= 1000 times the one before it, and all above it, are candidates (none, if there is no such). The candidates
   of one sign are sentinels if the largest is at most 1.01 times the smallest. At a sentinel `a` has the same sign
   and is within 1 % of `b` (of an infinity: is equal), or has a magnitude of at least 65500 (half precision
   saturates) and at least 10 times the largest computed |b|. Sentinels take part in nothing that follows, not even in
   `max_abs`.
3. All other places are computed. There `a` is finite; if not, no figure is known but how many sentinels there are.
   scale = sqrt(mean(min(|b|, 4 * median)^2)) over the computed |b| that are not 0, median being theirs (the mean of
   the two middle ones); 1 if there are none or if it comes out as 0. ratio = 0 where a equals b, else |a - b| / (atol
   * scale + rtol * |b|). `over` is the share of computed places with a ratio above 1, and may not be above `budget`;
   no ratio may be above 4 (above 1 where the budget is 0). Where the last axis has at least 2 indices, `column_over` is
   the largest such share among its indices (columns) that have at least 4 computed places, and not above a half; 0 if
   there is none. A slice is all places at one index of one axis: a row, a column, a channel. Ids among other numbers
   are a slice of at least 4 places in which `b` is whole and below 2^24 everywhere, and not 0 everywhere: there `a` is
   within a half, or 1/256 of |b| where that is more, for at least the share `tokens` of the places.
4. Cosine = a.b / (|a| |b|), between -1 and 1; 1 if a equals b everywhere; else 0 if |a| or |b| is 0, or if it is not
   finite. SNR = 10 log10(|b|^2 / |a - b|^2) in dB, between -200 and 200; 200 if |a - b| is 0; else -200 if |b| is 0.
   Both over the computed places of the tensor, if there are at least 2; and of every row of the last axis that has at
   least 2 and in which rms(b) >= 0.1 * scale. A tensor of rank 0, or with a last axis below 2, is one row. Of n rows
   counted are the worst, and the 1st percentile, which is element (n - 1) // 100 of them in ascending order. Neither
   the tensor's cosine nor the 1st percentile is below `cosine`, and the worst row not below 1 - 4 * (1 - cosine); the
   same with `snr`, where the worst row may be 6 dB below.

Tokens are the integers and bools of an output of which the model's task says so: ids, codes, labels. Instead of 1's
"equal everywhere":

5. The share of a set of places is that of the equal ones; or, where that is less, the mean over the values that `b`
   has there of the share of equal ones among the places of that value. So neither padding nor silence makes up for
   what stands between. `tokens` is the tensor's share, `row_tokens` of the rows as in 4. Neither the tensor's nor the
   1st percentile is below `tokens`, and the worst row not below 1 - 2 * (1 - tokens); all to 1e-9. `max_abs` is 1 if
   anything differs; `mae` and `over` are the share that does. A ratio is (1 - share) / (1 - bound), or, where the
   bound is 1 and the share below it, 1 and how many places differ.

A run gives outputs for two inputs: the reference's, and the control's. What one slice holds may be so small beside the
rest of its tensor that the bounds of 3 let anything pass there. So:

6. Of each output of floats, each axis with at least 2 indices and each of its slices with at least 4 computed places,
   there are wrong answers: zeros; the negative of `b`; a constant, which is the mean of `b` in the slice; and the other
   input's `b`. For each of the two inputs (the first alone where the control is lacking or has another shape):
   S = |b|^2, E = |a - b|^2, and of a wrong answer w, D = |w - b|^2 and X = |a - w|^2, where a constant is the mean of
   `a` itself. A slice with a root mean square of at most 1e-6 times the scale is rounding's, and is left to 3. An
   answer is wrong on an input by the slice's own magnitude if D > S / 10^(snr / 10) and D by place is more than
   (1e-6 scale)^2; so a slice that is the same for every input, or the same everywhere, need not be told from those. It
   is refused if on either input a ratio is above 4 (or 1), or more of the ratios than `budget` of the tensor's or, on
   the last axis, half of the slice's are above 1; a constant, if both the mean of `b` and that of `a` are. If one is
   wrong on any input and not refused, the slice is judged by its own magnitude: of each such answer, summed over the
   inputs on which it is wrong, E < X (the run is nearer to the reference than to it) and E <= 4 D. If not, it is wrong
   if E by place is more than 100 times that of the tensor's other places and more than (1e-6 scale)^2, both summed over
   both inputs; else it is undecided.

`max_abs` and `mae` are those of the computed places. Of integers and bools `scale` is 1, a ratio is the difference,
and there is neither cosine nor SNR. A figure above 1e300 is told as 1e300, for JSON knows no infinity.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

# What is asked unless a spec says otherwise.
TOLERANCES: dict[str, dict[str, float]] = {
    "fp32": {"atol": 1e-3, "rtol": 1e-3, "budget": 0.0, "cosine": 0.9999, "snr": 50.0, "tokens": 1.0},
    "fp16": {"atol": 2e-2, "rtol": 2e-2, "budget": 1e-3, "cosine": 0.999, "snr": 30.0, "tokens": 0.9},
    "bf16": {"atol": 6e-2, "rtol": 3e-2, "budget": 5e-3, "cosine": 0.995, "snr": 20.0, "tokens": 0.85},
    "int8": {"atol": 1.5e-1, "rtol": 1e-1, "budget": 1e-2, "cosine": 0.98, "snr": 14.0, "tokens": 0.8},
}

# --- What follows is a part of every generated test. ---

FIGURES = (
    *("max_abs", "mae", "scale", "over", "column_over", "worst"),
    *("cosine", "snr_db", "row_cosine", "row_snr_db", "tokens", "row_tokens", "sentinels"),
)

# numpy has no bfloat16. It is held by its bits, which are the upper half of a 32-bit float's.
BFLOAT16 = np.dtype([("bfloat16", "<u2")])


def widened(value: np.ndarray) -> np.ndarray:
    """bfloat16 as the same numbers in 32 bits; everything else as it is."""
    return np.asarray(value.view("<u2").astype("<u4") << 16).view("<f4") if value.dtype == BFLOAT16 else value


def type_name(value: np.ndarray) -> str:
    return "bfloat16" if value.dtype == BFLOAT16 else str(value.dtype)


def sentinels(reference: np.ndarray) -> np.ndarray:
    """The places of `reference`, as 64-bit floats, that hold no computed value but a mark: a mask or an infinity."""
    if -9e3 < reference.min(initial=0.0) and reference.max(initial=0.0) < 9e3:
        return np.zeros(reference.shape, bool)
    size = np.abs(reference)
    marks = size >= 1e30
    large = np.sort(size[~marks & (size >= 9e3)])
    # Of what lies below, only the largest can be the one before a gap.
    below = size[size < 9e3].max(initial=0.0)
    steps = np.concatenate([[below] if below > 0 else large[:1], large])
    gaps = np.flatnonzero(steps[1:] >= 1000 * steps[:-1])
    if gaps.size:
        least = steps[1:][gaps[-1]]
        for side in (reference > 0, reference < 0):
            candidates = side & (size >= least) & (size < 1e30)
            if candidates.any() and size[candidates].max() <= 1.01 * size[candidates].min():
                marks |= candidates
    return marks


# Values that are multiplied at a time, so that they stay near the processor.
BLOCK = 1 << 18


def sums_of_rows(ours: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Of each row four sums of squares and products: of the difference, ours, the reference, and both."""
    found, step = np.zeros((4, len(ours))), max(1, BLOCK // max(1, ours.shape[1]))
    for begin in range(0, len(ours), step):
        one, other = ours[begin : begin + step], reference[begin : begin + step]
        gaps = one - other
        for row, (left, right) in enumerate(((gaps, gaps), (one, one), (other, other), (one, other))):
            found[row, begin : begin + step] = np.einsum("ij,ij->i", left, right)
    return found


def likeness(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and signal-to-noise ratio of rows by their sums."""
    noise, energy, signal, product = sums
    cosine = product / (np.sqrt(energy) * np.sqrt(signal))
    cosine = np.where(noise == 0, 1.0, np.where(np.isfinite(cosine), cosine, 0.0))
    snr = np.where(noise == 0, 200.0, np.where(signal == 0, -200.0, 10 * np.log10(signal / noise)))
    return np.clip(cosine, -1.0, 1.0), np.clip(snr, -200.0, 200.0)


def of_rows(values: np.ndarray) -> dict[str, float] | None:
    """The worst of the rows, and their 1st percentile."""
    if not values.size:
        return None
    ranked = np.sort(values)
    return {"worst": float(ranked[0]), "p01": float(ranked[(len(ranked) - 1) // 100])}


def first_place(where: np.ndarray, shape: list[int]) -> str:
    """The first place that holds, e.g. `at [0, 3]`."""
    return f"at {[int(axis) for axis in np.unravel_index(int(np.flatnonzero(where)[0]), shape)]}"


def first_off(found: dict[str, Any], ours: np.ndarray, reference: np.ndarray) -> str:
    """The first place where whole numbers differ, with both."""
    differ = ours != reference
    where = f"the first {first_place(differ, found['shape'])}"
    return f"{where}: {ours[differ][0]} where the reference is {reference[differ][0]}"


def shares(ours: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Of each row the share of equal places: of all, or the mean over its kinds of tokens, whichever is less."""
    equal, rows = ours == reference, np.arange(len(reference))[:, np.newaxis]
    kinds = np.unique(reference, return_inverse=True)[1].reshape(reference.shape)
    # Each kind in a row by a number of its own.
    known, kinds, counts = np.unique(kinds + rows * (kinds.max() + 1), return_inverse=True, return_counts=True)
    row_of = np.zeros(len(known), int)
    row_of[kinds.reshape(-1)] = np.repeat(rows, reference.shape[1])
    of_kinds = np.bincount(kinds.reshape(-1), equal.reshape(-1)) / counts
    return np.minimum(equal.mean(axis=1), np.bincount(row_of, of_kinds) / np.bincount(row_of))


def compared_tokens(
    found: dict[str, Any], ours: np.ndarray, reference: np.ndarray, tolerance: dict[str, float]
) -> dict[str, Any]:
    """Tokens, flattened: the share of equal places, and that of the rows."""
    found |= {"max_abs": 0.0, "mae": 0.0, "scale": 1.0, "over": 0.0, "column_over": 0.0}
    found |= {"worst": 0.0, "sentinels": 0}
    if not reference.size:
        return found
    shape, least, differing = found["shape"], tolerance["tokens"], int((ours != reference).sum())
    width = shape[-1] if shape and shape[-1] >= 2 else reference.size
    rows = of_rows(shares(ours.reshape(-1, width), reference.reshape(-1, width))) or {}
    found |= {"tokens": float(shares(ours.reshape(1, -1), reference.reshape(1, -1))[0]), "row_tokens": rows}
    found |= {"max_abs": float(differing > 0), "mae": differing / reference.size, "over": differing / reference.size}
    asked = (
        ("", found["tokens"], least),
        (" of the rows' 1st percentile", rows["p01"], least),
        (" of the worst row", rows["worst"], 1 - 2 * (1 - least)),
    )
    for what, share, bound in asked:
        ratio = 0.0 if share >= 1 else 1 + differing if bound >= 1 else (1 - share) / (1 - bound)
        found["worst"] = max(found["worst"], float(ratio))
        if share + 1e-9 < bound and not found["wrong"]:
            told = f"{differing} of {ours.size} tokens differ, {first_off(found, ours, reference)}"
            found["wrong"] = f"{told}; the equal share{what} is {share:.6g}, at least {bound:.6g} is asked"
    return found


def compared_exactly(found: dict[str, Any], ours: np.ndarray, reference: np.ndarray) -> dict[str, Any]:
    """Integers and bools, flattened: equal everywhere."""
    differ = ours != reference
    # Python's own integers, which hold the difference of any two.
    gaps = [abs(int(a) - int(b)) for a, b in zip(ours[differ], reference[differ], strict=True)]
    most, size = float(max(gaps, default=0)), max(1, ours.size)
    found |= {"max_abs": most, "mae": sum(gaps) / size, "scale": 1.0, "over": len(gaps) / size, "worst": most}
    found |= {"column_over": 0.0, "sentinels": 0}
    if gaps:
        found["wrong"] = f"{len(gaps)} of {ours.size} values differ, {first_off(found, ours, reference)}"
    return found


def by_column(values: np.ndarray, marks: np.ndarray, shape: list[int]) -> np.ndarray:
    """Values of the computed places in rows of the last axis; a mark is a 0."""
    whole = np.zeros(len(marks))
    whole[~marks] = values
    return whole.reshape(-1, shape[-1])


def by_axis(values: np.ndarray, axis: int) -> np.ndarray:
    """A row for each index of an axis."""
    return np.moveaxis(values, axis, 0).reshape(values.shape[axis], values.size // values.shape[axis])


def are_whole(values: np.ndarray) -> np.ndarray:
    return (values == np.round(values)) & (np.abs(values) < 2**24)


def has_whole_slice(values: np.ndarray, axis: int) -> bool:
    """Whether a slice may be of whole numbers alone: whether the first few places of any are."""
    few = tuple(slice(None) if each == axis else slice(4) for each in range(values.ndim))
    return bool(by_axis(are_whole(values[few]), axis).all(axis=1).any())


def wrong_ids(ours: np.ndarray, reference: np.ndarray, tolerance: dict[str, float]) -> list[str]:
    """The first slice of whole numbers of which too many are other ones."""
    axes = [axis for axis, size in enumerate(reference.shape) if 0 < 4 * size <= reference.size]
    axes = [axis for axis in axes if has_whole_slice(reference, axis)]
    if not axes:
        return []
    whole = are_whole(reference)
    near = np.abs(ours - reference) <= np.maximum(0.5, np.abs(reference) / 256)
    for axis in axes:
        size = reference.shape[axis]
        ids = by_axis(whole, axis).all(axis=1) & by_axis(reference != 0, axis).any(axis=1)
        if not ids.any():
            continue
        shares = by_axis(near, axis).mean(axis=1)
        for index in np.flatnonzero(ids & (shares + 1e-9 < tolerance.get("tokens", 1.0))):
            off, count = round((1 - shares[index]) * reference.size / size), reference.size // size
            return [f"{off} of the {count} whole numbers at index {index} of axis {axis} are other ones"]
    return []


def scale_of(values: np.ndarray) -> float:
    """What differences are measured by: the root mean square, of which outliers are cut off."""
    is_counted = values != 0
    sizes = np.abs(values if is_counted.all() else values[is_counted])
    if not sizes.size:
        return 1.0
    np.minimum(sizes, 4 * np.median(sizes, overwrite_input=True), out=sizes)
    return float(np.sqrt(np.dot(sizes, sizes) / sizes.size)) or 1.0


def compared(
    found: dict[str, Any], ours: np.ndarray, reference: np.ndarray, tolerance: dict[str, float]
) -> dict[str, Any]:
    """Floating-point numbers, flattened: marks as places, computed values one by one, by row and as a whole."""
    shape = found["shape"]
    for value, whose in ((reference, "the reference"), (ours, "it")):
        if (nans := np.isnan(value)).any():
            return found | {"wrong": f"{whose} holds {int(nans.sum())} NaN, the first {first_place(nans, shape)}"}
    marks = sentinels(reference)
    found["sentinels"] = int(marks.sum())
    wrong = []

    a, b = ours, reference
    if found["sentinels"]:
        a, b = ours[~marks], reference[~marks]
        near = np.isfinite(reference) & (np.abs(ours - reference) <= 0.01 * np.abs(reference))
        saturated = np.abs(ours) >= max(65500.0, 10 * np.abs(b).max(initial=0.0))
        kept = (ours == reference) | ((np.sign(ours) == np.sign(reference)) & (near | saturated))
        if (lost := marks & ~kept).any():
            told = f"it is {ours[lost][0]:.6g} where the reference has the sentinel {reference[lost][0]:.6g}"
            wrong.append(f"{first_place(lost, shape)} {told}")
    if not np.isfinite(a).all():
        odd = ~marks & ~np.isfinite(ours)
        told = f"it is {ours[odd][0]} where the reference is {reference[odd][0]:.6g}"
        return found | {"wrong": f"{first_place(odd, shape)} {told}"}

    scale = scale_of(b)
    gaps = np.subtract(a, b)
    np.abs(gaps, out=gaps)
    bounds, most = tolerance["rtol"] * np.abs(b), 4.0 if tolerance["budget"] > 0 else 1.0
    bounds += tolerance["atol"] * scale
    ratios = np.divide(gaps, bounds, out=bounds)
    ratios[gaps == 0] = 0.0
    beyond = int(np.count_nonzero(ratios > 1))
    worst, over = float(ratios.max(initial=0.0)), beyond / max(1, ratios.size)
    known = {"max_abs": gaps.max(initial=0.0), "mae": gaps.sum() / max(1, gaps.size), "scale": scale, "worst": worst}
    found |= {name: float(min(value, 1e300)) for name, value in known.items()} | {"over": over, "column_over": 0.0}
    del gaps
    if beyond and shape and shape[-1] >= 2:
        counts = (~marks).reshape(-1, shape[-1]).sum(axis=0)
        shares = by_column(ratios > 1, marks, shape).sum(axis=0) / np.maximum(counts, 1)
        found["column_over"] = float(shares[counts >= 4].max(initial=0.0))
    if worst > most or over > tolerance["budget"]:
        at = int(np.argmax(ratios))
        place = first_place(np.cumsum(~marks) == at + 1, shape)
        told = f"it is {a[at]:.6g} where the reference is {b[at]:.6g}, {worst:.3g} times the bound"
        wrong.append(f"{place} {told}; {over:.3g} of the values are beyond theirs, {tolerance['budget']:g} may be")
    elif found["column_over"] > 0.5:
        wrong.append(f"{100 * found['column_over']:.0f} % of one column's values are beyond their bounds")
    wrong += wrong_ids(ours.reshape(shape), reference.reshape(shape), tolerance)

    if a.size >= 2:
        width = shape[-1] if shape and shape[-1] >= 2 else len(marks)
        if found["sentinels"]:
            # A mark becomes a 0 on both sides, which adds nothing to any sum.
            ours, reference = np.where(marks, 0, ours), np.where(marks, 0, reference)
        sums = sums_of_rows(ours.reshape(-1, width), reference.reshape(-1, width))
        whole = likeness(sums.sum(axis=1, keepdims=True))
        found |= {"cosine": float(whole[0][0]), "snr_db": float(whole[1][0])}
        counts = width - marks.reshape(-1, width).sum(axis=-1)
        speak = (counts >= 2) & (np.sqrt(sums[2] / np.maximum(counts, 1)) >= 0.1 * scale)
        rows = likeness(sums[:, speak])
        found |= {"row_cosine": of_rows(rows[0]), "row_snr_db": of_rows(rows[1])}
    cosine, snr = tolerance["cosine"], tolerance["snr"]
    for name, least, loosest in (("cosine", cosine, 1 - 4 * (1 - cosine)), ("snr_db", snr, snr - 6)):
        row = found[f"row_{name}"] or {}
        for what, value, bound in (
            ("", found[name], least),
            (" of the rows' 1st percentile", row.get("p01"), least),
            (" of the worst row", row.get("worst"), loosest),
        ):
            if value is not None and value < bound:
                wrong.append(f"{name}{what} is {value:.6g}, at least {bound:.6g} is asked")
                break
    found["wrong"] = "; ".join(wrong) or None
    return found


def tensor_verdict(
    ours: np.ndarray, reference: np.ndarray, tolerance: dict[str, float], is_tokens: bool = False
) -> dict[str, Any]:
    """The figures of one output; `wrong` is None if it agrees, and `decides` says whether that means anything."""
    found: dict[str, Any] = {"shape": list(ours.shape), "dtype": type_name(ours), **dict.fromkeys(FIGURES)}
    found |= {"decides": reference.size > 0, "wrong": None}
    if ours.dtype != reference.dtype:
        return found | {"wrong": f"its dtype is {type_name(ours)}, the reference's is {type_name(reference)}"}
    if ours.shape != reference.shape:
        return found | {"wrong": f"its shape is {list(ours.shape)}, the reference's is {list(reference.shape)}"}
    ours, reference = widened(ours).reshape(-1), widened(reference).reshape(-1)
    if ours.dtype.kind == "b":
        ours, reference = ours.view(np.uint8) != 0, reference.view(np.uint8) != 0
    if ours.dtype.kind in "iub":
        exactly = compared_exactly(found, ours, reference) if not is_tokens else None
        return exactly or compared_tokens(found, ours, reference, tolerance)
    if ours.dtype.kind != "f":
        return found | {"wrong": f"values of dtype {ours.dtype} cannot be compared; have the model return float or int"}
    with np.errstate(all="ignore"):
        return compared(found, ours.astype(np.float64), reference.astype(np.float64), tolerance)


def verdict(
    outputs: dict[str, np.ndarray],
    reference: dict[str, np.ndarray],
    tolerance: dict[str, float],
    tokens: Collection[str] = (),
) -> dict[str, Any]:
    """All outputs against the reference. One that is wrong, lacking or too many is a disagreement. `tokens` names those
    whose whole numbers are tokens."""
    tensors = {
        name: tensor_verdict(outputs[name], value, tolerance, name in tokens)
        for name, value in reference.items()
        if name in outputs
    }
    wrong = [f"the outputs lack `{name}`" for name in reference if name not in outputs]
    wrong += [f"the reference lacks `{name}`" for name in outputs if name not in reference]
    wrong += [f"`{name}`: {found['wrong']}" for name, found in tensors.items() if found["wrong"]]
    more = f"; and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return {
        "agrees": not wrong,
        "reason": wrong[0] + more if wrong else None,
        "decides": any(found["decides"] for found in tensors.values()),
        "tensors": tensors,
    }


class Side:
    """One output for one input: ours, the reference, and what the reference is for the other input."""

    def __init__(
        self, ours: np.ndarray, reference: np.ndarray, other: np.ndarray | None, tolerance: dict[str, float]
    ) -> None:
        a, b = (widened(value).astype(np.float64) for value in (ours, reference))
        c = b if other is None else widened(other).astype(np.float64)
        marks = sentinels(b.reshape(-1)).reshape(b.shape)
        self.scale = scale_of(b[~marks])
        self.computed = ~marks & (np.abs(c) < 1e30)
        self.ours, self.reference, self.other = (np.where(self.computed, value, 0.0) for value in (a, b, c))
        self.bounds = tolerance["atol"] * self.scale + tolerance["rtol"] * np.abs(self.reference)

    def means(self, values: np.ndarray, axis: int) -> np.ndarray:
        """The mean of each slice, at all of its places that were computed."""
        computed = by_axis(self.computed, axis)
        means = values.sum(axis=1) / np.maximum(computed.sum(axis=1), 1)
        return np.where(computed, means[:, np.newaxis], 0.0)

    def wrong_answers(self, axis: int) -> dict[str, np.ndarray]:
        """What each slice must not be taken for. A place that was not computed is a 0, as it is in the reference."""
        reference = by_axis(self.reference, axis)
        return {
            "zeros": np.zeros_like(reference),
            "its negative": -reference,
            "a constant": self.means(reference, axis),
            "another input's": by_axis(self.other, axis),
        }

    def refuses(self, answer: np.ndarray, axis: int, tolerance: dict[str, float]) -> np.ndarray:
        """Which slices the bounds of values would not let pass, were this the answer in one of them."""
        gaps, counts = np.abs(answer - by_axis(self.reference, axis)), by_axis(self.computed, axis).sum(axis=1)
        ratios = np.where(gaps == 0, 0.0, gaps / by_axis(self.bounds, axis))
        beyond, most = (ratios > 1).sum(axis=1), 4.0 if tolerance["budget"] > 0 else 1.0
        refused = (ratios.max(axis=1, initial=0.0) > most) | (beyond > tolerance["budget"] * self.computed.sum())
        return refused | (beyond > 0.5 * counts) if axis == self.reference.ndim - 1 else refused


def energy(values: np.ndarray) -> np.ndarray:
    return (values**2).sum(axis=1)


def slices_of(sides: list[Side], axis: int, tolerance: dict[str, float]) -> dict[str, Any] | None:
    """The slices of an axis that are judged by their own magnitude, if any."""
    size = sides[0].reference.shape[axis]
    count = sum(by_axis(side.computed, axis).sum(axis=1) for side in sides)
    signal = sum(energy(by_axis(side.reference, axis)) for side in sides)
    error = sum(energy(by_axis(side.ours - side.reference, axis)) for side in sides)
    scale = max(side.scale for side in sides)
    told = by_axis(sides[0].computed, axis).sum(axis=1) >= 4
    told &= signal > np.maximum(count, 1) * (1e-6 * scale) ** 2
    own, unlike = np.zeros(size, bool), np.zeros(size, bool)
    taken_for: dict[int, str] = {}
    each = [side.wrong_answers(axis) for side in sides]
    for what in each[0]:
        refused, refused_as_ours = np.zeros(size, bool), np.zeros(size, bool)
        distance, ours, errors = np.zeros(size), np.zeros(size), np.zeros(size)
        for side, answers in zip(sides, each, strict=True):
            reference, run = by_axis(side.reference, axis), by_axis(side.ours, axis)
            # Of all constants the nearest to ours.
            nearest = side.means(run, axis) if what == "a constant" else answers[what]
            refused |= side.refuses(answers[what], axis, tolerance)
            refused_as_ours |= side.refuses(nearest, axis, tolerance)
            apart = energy(answers[what] - reference)
            counts = apart > energy(reference) * 10 ** (-tolerance["snr"] / 10)
            counts &= apart > by_axis(side.computed, axis).sum(axis=1) * (1e-6 * scale) ** 2
            distance += np.where(counts, apart, 0.0)
            ours += np.where(counts, energy(run - nearest), 0.0)
            errors += np.where(counts, energy(run - reference), 0.0)
        passes = told & ~(refused & refused_as_ours) & (distance > 0)
        bad = passes & ~((errors < ours) & (errors <= 4 * distance))
        own, unlike = own | passes, unlike | bad
        for index in np.flatnonzero(bad):
            taken_for.setdefault(int(index), what)
    if not own.any():
        return None
    elsewhere = (error.sum() - error) / np.maximum(count.sum() - count, 1)
    wrong = unlike & (error / np.maximum(count, 1) > np.maximum(100 * elsewhere, (1e-6 * scale) ** 2))
    return {
        "axis": axis,
        "of": size,
        "own": int(own.sum()),
        "wrong": np.flatnonzero(wrong).tolist(),
        "undecided": np.flatnonzero(unlike & ~wrong).tolist(),
        "taken_for": taken_for[min(taken_for)] if taken_for else None,
    }


def small_slices(
    outputs: dict[str, np.ndarray],
    reference: dict[str, np.ndarray],
    tolerance: dict[str, float],
    control_outputs: dict[str, np.ndarray] | None = None,
    control_reference: dict[str, np.ndarray] | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Of outputs that agree, the slices that are judged by their own magnitude, by axis."""
    found = {}
    for name, value in sorted(reference.items()):
        if widened(value).dtype.kind != "f":
            continue
        other, again = (control_reference or {}).get(name), (control_outputs or {}).get(name)
        other = other if other is not None and other.shape == value.shape else None
        with np.errstate(all="ignore"):
            sides = [Side(outputs[name], value, other, tolerance)]
            if other is not None and again is not None:
                sides.append(Side(again, other, value, tolerance))
            axes = [axis for axis, size in enumerate(value.shape) if 2 <= size <= value.size // 4]
            if rows := [row for axis in axes if (row := slices_of(sides, axis, tolerance))]:
                found[name] = rows
    return found


def first_slice(found: dict[str, list[dict[str, Any]]], kind: str) -> str | None:
    """The first of these slices, and how many more there are."""
    bad = [(name, row) for name, rows in found.items() for row in rows if row[kind]]
    if not bad:
        return None
    name, row = bad[0]
    indices, more = listed_indices(row[kind]), f"; and {len(bad) - 1} more of this kind" if len(bad) > 1 else ""
    return f"`{name}`, axis {row['axis']}, {indices} of {row['of']}: {row['taken_for']} would pass as well{more}"


def listed_indices(indices: list[int]) -> str:
    shown = ", ".join(map(str, indices[:8]))
    return f"index {shown}" + (f" and {len(indices) - 8} more" if len(indices) > 8 else "")


def farthest(found: dict[str, Any]) -> str:
    """How far the outputs of a verdict are apart, for a sentence."""
    rows = [(row["worst"] or 0.0, name, row) for name, row in found["tensors"].items() if row["max_abs"] is not None]
    if not rows:
        return "nothing"
    worst, name, row = max(rows, key=lambda each: each[0])
    shared = [row["tokens"] for _, _, row in rows if row["tokens"] is not None]
    tokens = f"; {min(shared):.6g} of the tokens are the same" if shared else ""
    return f"{row['max_abs']:.3g} in `{name}` (scale {row['scale']:.3g}), {worst:.3g} times the bound{tokens}"


def decide(
    outputs: dict[str, np.ndarray],
    reference: dict[str, np.ndarray],
    tolerance: dict[str, float],
    control_outputs: dict[str, np.ndarray] | None = None,
    control_reference: dict[str, np.ndarray] | None = None,
    dropped_reference: dict[str, np.ndarray] | None = None,
    dropped: str = "one of its layers",
    tokens: Collection[str] = (),
) -> tuple[str, str | None]:
    """PASS, NUMERICS or INDECISIVE, and why. A figure that another input's outputs would pass too proves nothing."""
    first = verdict(outputs, reference, tolerance, tokens)
    if not first["agrees"]:
        return "NUMERICS", first["reason"]
    if control_outputs is not None and control_reference is not None:
        second = verdict(control_outputs, control_reference, tolerance, tokens)
        if not second["agrees"]:
            return "NUMERICS", f"right on the first input, wrong on the control's: {second['reason']}"
    slices = small_slices(outputs, reference, tolerance, control_outputs, control_reference)
    if told := first_slice(slices, "wrong"):
        return "NUMERICS", f"wrong by the magnitude of its own values, which are small beside others: {told}"
    if not first["decides"]:
        return "INDECISIVE", "no output has an element, so nothing was compared"
    for other, what in (
        (control_reference, "the outputs of another input"),
        (dropped_reference, f"the outputs of the model without `{dropped}`"),
    ):
        if other is not None and (found := verdict(other, reference, tolerance, tokens))["agrees"]:
            return "INDECISIVE", f"{what} would pass as well: they differ by {farthest(found)}"
    if told := first_slice(slices, "undecided"):
        return "INDECISIVE", f"too small beside others to be told from a wrong answer: {told}"
    return "PASS", None

//! What pictures are drawn of: figures as they are, no geometry.

/// More samples than a picture has pixels are drawn as the extremes of groups.
const POINTS: usize = 160;

/// At most `POINTS` values: the least and the greatest of each group, so that no outlier is lost.
pub(super) fn thinned(samples: &[f64]) -> Vec<f64> {
    if samples.len() <= POINTS {
        return samples.to_vec();
    }
    let group = samples.len().div_ceil(POINTS / 2);
    let least = |group: &[f64]| group.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |group: &[f64]| group.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    samples.chunks(group).flat_map(|group| [least(group), most(group)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_extremes() {
        let mut samples = vec![1.0; 5000];
        samples[1234] = 9.0;
        samples[4321] = 0.5;
        let thin = thinned(&samples);
        assert!(thin.len() <= POINTS, "{}", thin.len());
        assert!(thin.contains(&9.0) && thin.contains(&0.5));
        assert_eq!(thinned(&[1.0, 2.0]), [1.0, 2.0]);
    }
}

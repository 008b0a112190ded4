//! Figures of rounds, and what is compared of them.

use pretty_assertions::assert_eq;

use super::*;

fn of(samples: Vec<f64>) -> Metrics {
    metrics(&[ran(1, &raw(samples))], None).unwrap()
}

fn ran(round: u32, raw: &RawMeasure) -> MeasuredRound<'_> {
    MeasuredRound {
        round,
        started: "2026-01-02T03:04:05Z",
        raw,
    }
}

fn times(samples_ms: Vec<f64>) -> Times {
    Times {
        load_ms: 5.0,
        first_ms: 2.0,
        warmup_ms: vec![1.0; 3],
        samples_ms,
        ..Times::default()
    }
}

fn raw(samples_ms: Vec<f64>) -> RawMeasure {
    RawMeasure {
        times: Some(times(samples_ms)),
        peak_rss_bytes: Some(1 << 20),
        ..RawMeasure::default()
    }
}

/// A round whose thread did all of the work.
fn single(wall: &[f64], cpu: &[f64]) -> RawMeasure {
    using(
        wall,
        cpu,
        Some(UseOfCpu {
            involuntary_switches: 9,
            voluntary_switches: 0,
            own_ms: 100.0,
            others_ms: 1.0,
        }),
    )
}

fn using(wall: &[f64], cpu: &[f64], use_of_cpu: Option<UseOfCpu>) -> RawMeasure {
    let times = Times {
        cpu_ms: cpu.to_vec(),
        use_of_cpu,
        ..times(wall.to_vec())
    };
    RawMeasure {
        times: Some(times),
        ..raw(vec![])
    }
}

fn over(rounds: &[RawMeasure]) -> Metrics {
    let rounds: Vec<_> = rounds
        .iter()
        .zip(1..)
        .map(|(raw, round)| ran(round, raw))
        .collect();
    metrics(&rounds, Some(4)).unwrap()
}

fn up_to(n: u32) -> Vec<f64> {
    // Not in order, so that a forgotten sort is seen.
    (1..=n).rev().map(f64::from).collect()
}

#[test]
fn the_figures_are_numpys() {
    let m = of(vec![4.0, 1.0, 3.0, 2.0]);
    assert_eq!((m.median_ms, m.min_ms, m.max_ms), (2.5, 1.0, 4.0));
    assert_eq!(
        (m.samples, m.warmup, m.peak_rss_bytes, m.per_second),
        (4, 3, Some(1 << 20), Some(400.0))
    );
    assert_eq!(m.samples_ms, [4.0, 1.0, 3.0, 2.0]);
    let sorted = [1.0, 2.0, 4.0, 8.0];
    assert_eq!(
        (
            quantile(&sorted, 0.25),
            quantile(&sorted, 0.75),
            quantile(&sorted, 0.875)
        ),
        (1.75, 5.0, 6.5)
    );
    assert_eq!(
        (
            quantile(&sorted, 0.0),
            quantile(&sorted, 1.0),
            quantile(&[7.0], 0.9)
        ),
        (1.0, 8.0, 7.0)
    );
}

#[test]
fn tails_need_their_number_of_samples() {
    let tails = |n| {
        let m = of(up_to(n));
        (m.p90_ms.is_some(), m.p95_ms.is_some(), m.p99_ms.is_some())
    };
    assert_eq!(tails(28), (false, false, false));
    assert_eq!([29, 58].map(tails), [(true, false, false); 2]);
    assert_eq!([59, 298].map(tails), [(true, true, false); 2]);
    assert_eq!(tails(299), (true, true, true));
    let m = of(up_to(301));
    assert_eq!(
        (m.p90_ms, m.p95_ms, m.p99_ms),
        (Some(271.0), Some(286.0), Some(298.0))
    );
}

#[test]
fn one_round_knows_nothing_of_how_rounds_differ() {
    let m = of(up_to(20));
    assert_eq!(
        (m.median_low_ms, m.median_high_ms, m.rounds.len()),
        (None, None, 1)
    );
}

#[test]
fn a_case_is_the_median_of_its_rounds_medians_and_their_range() {
    // The pooled median would be 1: a round counts once, however many samples it has.
    let m = over(&[
        raw(vec![1.0; 50]),
        raw(vec![3.0, 3.0, 3.0]),
        raw(vec![9.0, 2.0, 2.0]),
    ]);
    assert_eq!(
        (m.median_ms, m.median_low_ms, m.median_high_ms),
        (2.0, Some(1.0), Some(3.0))
    );
    assert_eq!((m.samples, m.samples_ms.len(), m.max_ms), (56, 56, 9.0));
    assert_eq!(m.per_second, Some(2000.0), "four items of a batch in 2 ms");
    assert_eq!(
        m.rounds
            .iter()
            .map(|round| (round.round, round.samples))
            .collect::<Vec<_>>(),
        [(1, 50), (2, 3), (3, 3)]
    );
}

#[test]
fn short_samples_are_compared_by_least_wall_time() {
    let m = over(&[
        single(&[1.9, 5.0], &[0.5, 0.5]),
        single(&[1.7, 9.0], &[0.5, 0.5]),
    ]);
    assert_eq!(
        m.statistic,
        Some(Statistic {
            ms: 1.7,
            basis: Basis::LeastWall
        })
    );
}

#[test]
fn long_ones_by_cpu_time_where_one_thread_computes() {
    let cpu: Vec<f64> = (0..11).map(|i| 7.0 + f64::from(i)).collect();
    let quiet = single(&[25.0; 11], &cpu);
    let loud = single(&[25.0; 11], &[30.0; 11]);
    assert_eq!(
        over(&[loud.clone(), quiet.clone()]).statistic,
        Some(Statistic {
            ms: 8.0,
            basis: Basis::CpuP10
        })
    );
    let used = |voluntary_switches, others_ms| {
        let used = UseOfCpu {
            involuntary_switches: 0,
            voluntary_switches,
            own_ms: 100.0,
            others_ms,
        };
        using(&[25.0; 11], &cpu, Some(used))
    };
    let others_compute = used(0, 80.0);
    let a_device_does = used(11, 0.0);
    for raw in [
        others_compute,
        a_device_does,
        using(&[25.0; 11], &cpu, None),
        single(&[25.0; 11], &[]),
    ] {
        let found = over(&[raw, quiet.clone()]).statistic;
        assert_eq!(
            found,
            Some(Statistic {
                ms: 25.0,
                basis: Basis::LeastWall
            }),
            "one round without it is enough"
        );
    }
}

#[test]
fn the_other_side_is_compared_on_the_same_basis() {
    let rounds = over(&[single(&[1.9, 2.5], &[1.8, 1.8])]).rounds;
    assert_eq!(basis(&rounds), Basis::LeastWall);
    assert_eq!(
        statistic_on(&rounds, Basis::CpuP10).map(|found| found.ms),
        Some(1.8)
    );
    assert_eq!(
        statistic_on(&over(&[raw(vec![3.0])]).rounds, Basis::CpuP10),
        None
    );
    assert_eq!(
        (statistic(&[]), statistic_on(&[], Basis::LeastWall)),
        (None, None)
    );
}

#[test]
fn what_disturbed_a_round_is_reported_with_how_many_it_was() {
    let with = |others: f64| {
        let conditions = serde_json::json!({"yardstick_ms": [1.0, 1.0], "others_cores": others});
        RawMeasure {
            conditions: Some(serde_json::from_value(conditions).unwrap()),
            ..raw(vec![1.0])
        }
    };
    assert_eq!(over(&[with(0.0), with(0.1)]).remarks, [""; 0]);
    let expected = [
        "other processes kept 1.5 cores busy",
        "2 of 3 rounds were disturbed",
    ];
    assert_eq!(over(&[with(1.5), with(0.0), with(0.5)]).remarks, expected);
}

#[test]
fn a_yardstick_that_was_slow_throughout_is_known_by_those_of_other_cases() {
    let of = |yardstick: f64, threads: u32| {
        let conditions = serde_json::json!({"yardstick_ms": [yardstick, yardstick], "yardstick_threads": threads});
        let conditions = Some(serde_json::from_value(conditions).unwrap());
        let metrics = over(&[RawMeasure {
            conditions,
            ..raw(vec![1.0])
        }]);
        CaseResult {
            metrics: Some(metrics),
            ..super::super::fixture().cases.remove(0)
        }
    };
    let mut cases = [of(2.0, 2), of(1.0, 2), of(0.5, 1)];
    let quiet = |cases: &[CaseResult]| {
        cases
            .iter()
            .map(|case| case.metrics.as_ref().unwrap().is_quiet())
            .collect::<Vec<_>>()
    };
    assert_eq!(quiet(&cases), [true, true, true]);
    beside_each_other(&mut cases);
    assert_eq!(quiet(&cases), [false, true, true]);
    let slow = cases[0].metrics.as_ref().unwrap();
    assert_eq!(
        slow.remarks,
        ["a fixed computation ran 2.0 times slower at one moment than at another"]
    );
    assert_eq!(slow.not_quiet, slow.doubts());
}

#[test]
fn noise_is_spread_against_the_median() {
    assert!(!of(vec![100.0, 100.0, 105.0, 110.0]).noisy);
    assert!(of(vec![100.0, 100.0, 120.0, 120.0]).noisy);
    assert!(!of(vec![3.0]).noisy);
}

#[test]
fn no_samples_or_odd_ones_are_no_measurement() {
    let none = |raw: &RawMeasure| assert_eq!(metrics(&[ran(1, raw)], None), None);
    none(&raw(vec![]));
    none(&raw(vec![1.0, f64::NAN]));
    let endless = Times {
        load_ms: f64::INFINITY,
        ..times(vec![1.0])
    };
    none(&RawMeasure {
        times: Some(endless),
        ..raw(vec![])
    });
    none(&RawMeasure {
        times: None,
        ..raw(vec![])
    });
    assert_eq!(metrics(&[], None), None);
}

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

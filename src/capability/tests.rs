//! What the table that orch comes with says, and what no table may say.

use super::*;

/// Who adds an assertion by hand has it laid out and marked by `ORCH_BLESS=1`.
#[test]
fn the_own_table_is_as_orch_writes_it() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/specs/capabilities.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let table = Table::read(&text).unwrap_or_else(|what| panic!("specs/capabilities.yaml: {what}"));
    if std::env::var_os("ORCH_BLESS").is_some() {
        std::fs::write(path, table.text()).unwrap();
    } else {
        assert_eq!(
            table.text(),
            text,
            "run the test with ORCH_BLESS=1 to lay it out"
        );
    }
    assert!(
        cells(&table.families)
            .filter(|(_, _, cell)| cell.asserted.is_some())
            .count()
            >= 66
    );
    let contradicted = &table.families["mixture-of-experts"]["openvino"];
    assert!(
        !contradicted.asserted.as_ref().unwrap().compatible && contradicted.contradicted.is_some()
    );
}

#[test]
fn every_figure_is_one_that_a_run_gave() {
    let measured = "{column: cpu-fp32, right: 1, asked: 2, first: \"2026-01-02\", last: \"2026-01-02\", host: m}";
    let run = "{day: \"2026-01-02\", host: m, spec: s, orch: x, columns: {cpu-fp32: {target: cpu, precision: fp32, backend: cpu}},
      models: {a: {family: text, task: t, ends: {PASS: [cpu-fp32]}}, b: {family: text, task: t, ends: {CRASH: [cpu-fp32]}}}}";
    let table = |families: &str, runs: &str| {
        Table::read(&format!(
            "version: 1\nsources: {{}}\nfamilies: {families}\ntypes: {{}}\nruns: [{runs}]\n"
        ))
    };
    table(
        &format!("{{text: {{cpu: {{measured: [{measured}]}}}}}}"),
        run,
    )
    .unwrap();
    let wrong = |families: &str, runs: &str| table(families, runs).unwrap_err();
    let better = measured.replace("right: 1", "right: 2");
    let claimed = wrong(&format!("{{text: {{cpu: {{measured: [{better}]}}}}}}"), run);
    assert_eq!(
        claimed,
        "families.text.cpu: `measured` is not what `runs` says: `orch capabilities --update` writes it"
    );
    assert!(
        wrong(
            &format!("{{text: {{cpu: {{measured: [{measured}]}}}}}}"),
            ""
        )
        .contains("families.text")
    );
    assert!(wrong("{}", run).contains("families.text"));
    assert!(wrong("{}", &run.replace("[cpu-fp32]", "[gone]")).contains("has no column `gone`"));
    let error = wrong("{}", &run.replace("CRASH", "GREAT"));
    assert!(error.contains("GREAT"), "{error}");
    let asserted = |backend: &str, source: &str| {
        wrong(
            &format!(
                "{{text: {{{backend}: {{asserted: {{source: {source}, compatible: true}}}}}}}}"
            ),
            "",
        )
    };
    assert_eq!(
        asserted("cpuu", "x"),
        "families.text: there is no backend `cpuu`; did you mean `cpu`?"
    );
    assert_eq!(
        asserted("cpu", "x"),
        "families.text.cpu: there is no source `x`; none is declared"
    );
    let error = wrong("{text: {cpu: {measurd: []}}}", "");
    assert!(error.starts_with("3:"), "{error}");
}

#[test]
fn coverage_is_of_the_types_that_transformers_has() {
    let coverage = Table::read(OWN).unwrap().coverage();
    let all = coverage.families.last().unwrap();
    assert_eq!(
        (all.family, all.types),
        ("all", crate::spec::model_types().count())
    );
    assert_eq!(
        all.types,
        coverage
            .families
            .iter()
            .rev()
            .skip(1)
            .map(|row| row.types)
            .sum::<usize>()
    );
    let here = &all.backends["cpu"];
    assert!(0 < here.right && here.right <= here.asked && here.asked <= all.types);
    assert_eq!(
        here.percent,
        (1000.0 * here.right as f64 / all.types as f64).round() / 10.0
    );
}

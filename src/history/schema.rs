//! The tables of the history: their columns with units and meanings, from which the database, the rows and the page of
//! documentation are made; and the two views that have the shape of the tables in the project's first documents.

use std::fmt::Write as _;

/// The version of these tables. A database of an older version is made again from the files of the runs.
pub(super) const VERSION: u32 = 3;

pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) meaning: &'static str,
    pub(super) columns: &'static [Column],
    /// The column by which rows are found again, and one of them replaces another; empty if that is not wanted.
    pub(super) key: &'static str,
}

/// Name, type, and meaning with unit.
pub(super) struct Column(
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) &'static str,
);

/// `table ("key") "meaning" { column "TYPE" "meaning, with its unit", … }`
macro_rules! tables {
    ($($name:ident ($key:literal) $meaning:literal { $($column:ident $kind:literal $described:literal,)* })*) => {
        pub(super) const TABLES: &[Table] = &[$(Table {
            name: stringify!($name),
            meaning: $meaning,
            columns: &[$(Column(stringify!($column), $kind, $described)),*],
            key: $key,
        }),*];
    };
}

tables! {
    runs ("run") "One row for each run of a plan that has cases. A run that had nothing to do leaves one only for a git revision that is new to it." {
        run "VARCHAR" "its name: when it began, and a digest",
        started "TIMESTAMP" "when it began, UTC",
        seconds "DOUBLE" "how long it took, s",
        command "VARCHAR" "the command line",
        spec "VARCHAR" "the spec, as it was named",
        scope "VARCHAR" "which part of the spec; NULL for all of it",
        orch "VARCHAR" "version of orch",
        git_revision "VARCHAR" "commit that was checked out around the spec; NULL outside of git",
        git_committed "TIMESTAMP" "when that was committed, UTC",
        git_branch "VARCHAR" "branch that was checked out",
        git_dirty "BOOLEAN" "whether tracked files differed from the commit",
        host "VARCHAR" "name of the machine",
        host_fingerprint "VARCHAR" "digest of what kind of machine it is: equal ones may share measurements",
        os "VARCHAR" "operating system",
        cpu "VARCHAR" "the CPU's own name",
        cores "INTEGER" "hardware threads that orch may use",
        memory_bytes "BIGINT" "memory that orch may use, bytes",
        interrupted "BOOLEAN" "whether it was ended early",
        same_as "VARCHAR" "the run whose results were still valid, where this one had nothing to do",
        imported_from "VARCHAR" "file of another machine that it was read from",
        steps_executed "INTEGER" "steps that it executed",
        steps_kept "INTEGER" "steps whose result the store held",
        cases "INTEGER" "cases in its report",
        passed "INTEGER" "cases that ended well: PASS, FLAKY, PASS_FALLBACK, XFAIL",
        failed "INTEGER" "cases that failed the run",
        unavailable "INTEGER" "cases whose hardware or runtime was not there",
        unsupported "INTEGER" "cases that a vendor's tool refused",
    }
    executions ("execution") "One row for each time that a case was executed, or ended before it could run. A result that later runs keep is no new execution." {
        id "INTEGER" "number in this database, in order of import",
        execution "VARCHAR" "its name: a digest, the same on every machine",
        run "VARCHAR" "the run that executed it; NULL if only runs that kept its result are known",
        case_id "VARCHAR" "model, sizes, target and precision: `bert:cpu-fp32`",
        executed "TIMESTAMP" "when it began, UTC",
        host "VARCHAR" "the machine that executed it",
        cpu "VARCHAR" "its CPU's own name; NULL where nothing was measured, and of older versions of orch",
        cpu_identity "VARCHAR" "what tells that CPU from others of its name: its maker's numbers, caches, a digest of its flags",
        spec "VARCHAR" "the spec that has the case",
        model "VARCHAR" "row of `models:`",
        family "VARCHAR" "its family",
        task "VARCHAR" "its task",
        pipeline "VARCHAR" "its pipeline",
        weights "VARCHAR" "random, hub, folder or file",
        parameters "BIGINT" "how many weights it has",
        dims "JSON" "its sizes by name",
        target "VARCHAR" "row of `targets:`",
        backend "VARCHAR" "the target's hardware with its driver",
        runtime "VARCHAR" "library that ran it; NULL where the report names none",
        precision "VARCHAR" "precision that was asked for",
        state "VARCHAR" "how it ended when it was first told",
        stage "VARCHAR" "step at which it ended, unless it passed",
        reason "VARCHAR" "why it did not pass",
        requested_device "VARCHAR" "device that was asked for",
        actual_device "VARCHAR" "device that ran it",
        device "VARCHAR" "name that the vendor gives that device",
        stand_in "VARCHAR" "`emulated` or `software` where that is no hardware",
        fallback "VARCHAR" "target and precision that ran in its place: the figures are its",
        untimed "BOOLEAN" "whether it was checked only",
        load_ms "DOUBLE" "median of the rounds' loads, each in a fresh process; the file may be in the system's page cache, ms",
        first_ms "DOUBLE" "first inference, ms",
        median_ms "DOUBLE" "median of the rounds' medians, ms",
        median_low_ms "DOUBLE" "least of these medians, where there are several, ms",
        median_high_ms "DOUBLE" "greatest of them, ms",
        statistic_ms "DOUBLE" "what is compared with other runs: the lowest over the rounds, ms",
        statistic_basis "VARCHAR" "of each round: least_wall, its least sample; cpu_p10, the 10th percentile of CPU time",
        per_second "DOUBLE" "items of the batch, or inferences, in a second by the median",
        min_ms "DOUBLE" "least sample, ms",
        max_ms "DOUBLE" "greatest sample, ms",
        p90_ms "DOUBLE" "90th percentile, from 29 samples on, ms",
        p95_ms "DOUBLE" "95th percentile, from 59 samples on, ms",
        p99_ms "DOUBLE" "99th percentile, from 299 samples on, ms",
        noisy "BOOLEAN" "interquartile range above 10 % of the median",
        samples "INTEGER" "number of samples",
        rounds "INTEGER" "processes that took them",
        remarks "VARCHAR" "what may have disturbed them",
        warmup "INTEGER" "inferences before them, in the first round",
        sync "VARCHAR" "how the device was waited for",
        peak_rss_bytes "BIGINT" "greatest resident set of the process, bytes",
        peak_device_bytes "BIGINT" "most of the GPU's own memory, bytes",
        output_shape "VARCHAR" "shape of each output, as JSON",
        key "VARCHAR" "key of the step that ran: what it depended on",
        artefact "VARCHAR" "digest of the tree that it loaded",
    }
    results ("") "One row for each case of each run's report: its state, and which execution it rests on." {
        run "VARCHAR" "the run that reported it",
        case_id "VARCHAR" "as in `executions`",
        execution "VARCHAR" "the execution that it rests on; NULL if nothing was executed",
        kept "BOOLEAN" "whether that was an earlier run's: nothing new was measured",
        model "VARCHAR" "as in `executions`",
        family "VARCHAR" "as in `executions`",
        target "VARCHAR" "as in `executions`",
        backend "VARCHAR" "as in `executions`",
        precision "VARCHAR" "as in `executions`",
        host "VARCHAR" "the machine that ran it",
        state "VARCHAR" "PASS, FAIL, … (docs/results.md)",
        stage "VARCHAR" "step at which it ended, unless it passed",
        reason "VARCHAR" "why it did not pass",
        is_failure "BOOLEAN" "whether it failed the run",
        expected "VARCHAR" "how the spec expects it to fail",
        chosen "VARCHAR" "why orch chose the target, where it was asked to",
        reference "VARCHAR" "what its outputs were compared with",
        max_abs "DOUBLE" "greatest difference from the reference, in the output's unit",
        mae "DOUBLE" "mean absolute difference, in the output's unit",
        cosine "DOUBLE" "cosine of outputs and reference",
        snr_db "DOUBLE" "signal to noise, dB",
        tokens "DOUBLE" "least share of equal tokens, 0 to 1",
        worst "DOUBLE" "greatest difference as a multiple of its bound: above 1 is wrong",
        within_tolerance "BOOLEAN" "whether all bounds held",
        control_worst "DOUBLE" "the same for the outputs of another input: that must be refused",
        repro "VARCHAR" "command that repeats it",
    }
    rounds ("") "Each process that measured an execution, and what else the machine did meanwhile." {
        execution "VARCHAR" "as in `executions`",
        round "INTEGER" "counted from 1",
        measured "TIMESTAMP" "when it began, UTC",
        load_ms "DOUBLE" "load in this fresh process; the file may be in the system's page cache, ms",
        first_ms "DOUBLE" "first inference, ms",
        warmup "INTEGER" "inferences before the samples",
        samples "INTEGER" "number of samples",
        min_ms "DOUBLE" "least sample, ms",
        median_ms "DOUBLE" "median of the samples, ms",
        cpu_p10_ms "DOUBLE" "10th percentile of the inferring thread's CPU time, ms",
        threads "INTEGER" "threads that computed",
        own_ms "DOUBLE" "CPU time of the inferring thread, ms",
        others_ms "DOUBLE" "CPU time of the process's other threads, ms",
        involuntary_switches "BIGINT" "how often the kernel took the CPU from the inferring thread",
        voluntary_switches "BIGINT" "how often that thread waited",
        seed "UBIGINT" "of the random order of all rounds",
        place "INTEGER" "place in that order, from 0",
        load_before "DOUBLE" "runnable processes in the minute before it began",
        load_after "DOUBLE" "the same at its end",
        yardstick_before_ms "DOUBLE" "least time of a fixed computation before it, ms",
        yardstick_after_ms "DOUBLE" "the same after it, ms",
        others_cores "DOUBLE" "cores that other processes kept busy",
        steal "DOUBLE" "share of the CPU time that the host gave to others, 0 to 1",
        throttled "BIGINT" "how often a core was slowed down, or the control group stopped",
        governor "VARCHAR" "of the cores",
        device "JSON" "what its driver says of the device",
    }
    samples ("") "Each timed inference of an execution." {
        execution "VARCHAR" "as in `executions`",
        round "INTEGER" "process that took it, from 1",
        sample "INTEGER" "place in the order in which they were taken, from 1",
        ms "DOUBLE" "its time, ms",
    }
    placements ("") "Where the nodes of a model ran." {
        execution "VARCHAR" "as in `executions`",
        place "VARCHAR" "provider or device",
        nodes "BIGINT" "nodes, or subgraphs where a runtime does not tell nodes",
    }
    versions ("") "What an execution and the steps above it were made with." {
        execution "VARCHAR" "as in `executions`",
        name "VARCHAR" "library, tool, driver or SDK",
        version "VARCHAR" "its version",
    }
    steps ("") "The steps that a run executed." {
        run "VARCHAR" "as in `runs`",
        step "VARCHAR" "`convert:bert:onnx`",
        key "VARCHAR" "its key: what it depended on",
        state "VARCHAR" "how it ended",
        output "VARCHAR" "digest of the tree that it made",
        started "TIMESTAMP" "when it began, UTC",
        seconds "DOUBLE" "how long it took, s",
    }
    devices ("") "What the probers said before a run." {
        id "INTEGER" "number in this database, in order of import",
        run "VARCHAR" "as in `runs`",
        backend "VARCHAR" "cpu, cuda, openvino, …",
        available "BOOLEAN" "whether it can be used",
        reason "VARCHAR" "why it cannot",
        device "VARCHAR" "`cuda:0`; empty where the backend has none",
        name "VARCHAR" "the vendor's name",
        kind "VARCHAR" "hardware, emulator or software",
        memory_bytes "BIGINT" "its memory, bytes",
        facts "JSON" "what its driver or library says of it",
    }
}

/// The views in the shape of the first documents. A fallback's figures are another device's, so they are none of the
/// hardware's.
const VIEWS: &str = "
CREATE VIEW hardware_results AS
SELECT id,
       model AS model_id,
       family AS model_type,
       backend || coalesce(' (' || stand_in || ')', '') AS hardware,
       state IN ('PASS', 'FLAKY', 'XPASS') AS success,
       CASE WHEN fallback IS NULL THEN load_ms / 1000 END AS load_time,
       CASE WHEN fallback IS NULL THEN median_ms / 1000 END AS inference_time,
       CASE WHEN fallback IS NULL THEN coalesce(peak_device_bytes, peak_rss_bytes) / 1048576 END AS memory_usage,
       CASE WHEN fallback IS NULL THEN reason ELSE concat_ws(': ', 'it ran on ' || fallback, reason) END AS error,
       executed AS \"timestamp\",
       output_shape,
       backend,
       runtime,
       device
FROM executions
WHERE state NOT IN ('SKIP_UNAVAILABLE', 'MOCK', 'INCOMPLETE');
CREATE VIEW hardware_detection AS
SELECT devices.id,
       backend AS hardware_type,
       available,
       coalesce(name, backend) AS name,
       CASE WHEN available THEN facts::VARCHAR ELSE reason END AS features,
       runs.started AS \"timestamp\"
FROM devices JOIN runs USING (run);
";

/// All statements that make the tables. What they mean is in the database too: `SELECT comment FROM duckdb_columns()`.
pub(super) fn create() -> String {
    let mut script = String::from("CREATE SEQUENCE numbers;\n");
    for Table {
        name: table,
        meaning,
        columns,
        key,
    } in TABLES
    {
        let declared = columns.iter().map(|Column(name, kind, _)| match *name {
            "id" => "id INTEGER DEFAULT nextval('numbers')".to_owned(),
            _ => format!("{name} {kind}"),
        });
        let key = (!key.is_empty()).then(|| format!("PRIMARY KEY ({key})"));
        let declared: Vec<_> = declared.chain(key).collect();
        let _ = writeln!(script, "CREATE TABLE {table} ({});", declared.join(", "));
        let _ = writeln!(script, "COMMENT ON TABLE {table} IS {};", quoted(meaning));
        for Column(name, _, meaning) in *columns {
            let _ = writeln!(
                script,
                "COMMENT ON COLUMN {table}.{name} IS {};",
                quoted(meaning)
            );
        }
    }
    script.push_str(VIEWS);
    let _ = writeln!(
        script,
        "CREATE TABLE history (version INTEGER);\nINSERT INTO history VALUES ({VERSION});"
    );
    script
}

impl Table {
    pub(super) fn named(name: &str) -> &'static Self {
        TABLES
            .iter()
            .find(|table| table.name == name)
            .expect("BUG: no table is called so")
    }

    /// The names of its columns.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.columns.iter().map(|Column(name, ..)| *name)
    }
}

/// The text as a literal of SQL.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The tables as Markdown.
    fn page() -> String {
        let mut page = String::new();
        for Table {
            name,
            meaning,
            columns,
            ..
        } in TABLES
        {
            let _ = writeln!(
                page,
                "### `{name}`\n\n{meaning}\n\n| column | type | meaning |\n|---|---|---|"
            );
            for Column(name, kind, meaning) in *columns {
                let _ = writeln!(page, "| `{name}` | {kind} | {meaning} |");
            }
            page.push('\n');
        }
        page
    }

    #[test]
    fn the_documentation_has_the_tables() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/history/tables.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (before, _) = text.split_once("### `runs`").unwrap_or((&text, ""));
        let expected = format!("{before}{}\n", page().trim_end());
        if std::env::var_os("ORCH_BLESS").is_some() {
            return std::fs::write(path, &expected).unwrap();
        }
        assert!(text == expected, "ORCH_BLESS=1 cargo test --lib history");
    }

    #[test]
    fn no_column_stands_twice() {
        for table in TABLES {
            let names: BTreeSet<_> = table.names().collect();
            assert_eq!(names.len(), table.columns.len(), "{}", table.name);
        }
    }
}

//! Arguments that select cases.

use clap::Args as ClapArgs;

use super::complete;
use crate::matrix::{Facet, Mistake, Query, Selection};

#[derive(Debug, Clone, ClapArgs)]
#[command(
    next_help_heading = "Selection (globs, several with commas or by repeating an option; different options combine with AND)"
)]
pub(in crate::cli) struct SelectionArgs {
    /// Only these models
    #[arg(long = "model", short = 'm', value_name = "GLOB", value_delimiter = ',', add = complete::models())]
    models: Vec<String>,
    /// Only these targets or, with a precision, columns: cpu, openvino-int8; the exact name of one outside the matrix adds
    /// it for every model; `auto` picks the best target for each model, from these or from all
    #[arg(long = "target", short = 't', value_name = "GLOB", value_delimiter = ',', add = complete::targets())]
    targets: Vec<String>,
    /// Only cases at these precisions: fp32, int8
    #[arg(long = "precision", value_name = "GLOB", value_delimiter = ',')]
    precisions: Vec<String>,
    /// Only models of these families
    #[arg(long = "family", value_name = "GLOB", value_delimiter = ',')]
    families: Vec<String>,
    /// Only models of these tasks
    #[arg(long = "task", value_name = "GLOB", value_delimiter = ',')]
    tasks: Vec<String>,
    /// Only models of these priorities
    #[arg(long = "priority", value_name = "GLOB", value_delimiter = ',')]
    priorities: Vec<String>,
    /// Only models or targets with these tags
    #[arg(long = "tag", value_name = "GLOB", value_delimiter = ',')]
    tags: Vec<String>,
    /// Only these cases, e.g. 'bert:openvino-*'
    #[arg(long = "case", value_name = "GLOB", value_delimiter = ',', add = complete::cases())]
    cases: Vec<String>,
    /// Only what an expression selects: 'family:vision & !(priority:low | tag:slow)'; @FILE: what any line of a file selects
    #[arg(long = "select", value_name = "EXPR", value_parser = expression)]
    queries: Vec<Query>,
    /// Only the models listed in a file: one glob per line
    #[arg(long, value_name = "FILE", value_parser = models)]
    models_from: Vec<Query>,
}

impl SelectionArgs {
    pub(super) fn selection(&self) -> Selection {
        let lists = [
            (Facet::Model, &self.models),
            (Facet::Precision, &self.precisions),
            (Facet::Family, &self.families),
            (Facet::Task, &self.tasks),
            (Facet::Priority, &self.priorities),
            (Facet::Tag, &self.tags),
            (Facet::Case, &self.cases),
        ];
        let queries = given(&lists)
            .chain(self.queries.iter().chain(&self.models_from).cloned())
            .collect();
        Selection {
            targets: self.targets.clone(),
            queries,
        }
    }
}

/// A query for each list of globs that is given.
pub(in crate::cli) fn given(lists: &[(Facet, &Vec<String>)]) -> impl Iterator<Item = Query> {
    let given = lists.iter().filter(|(_, globs)| !globs.is_empty());
    given.map(|(facet, globs)| Query::any_of(*facet, globs))
}

pub(in crate::cli) fn expression(text: &str) -> Result<Query, String> {
    let Some(file) = text.strip_prefix('@') else {
        return text.parse().map_err(|mistake: Mistake| mistake.to_string());
    };
    let read = |(number, line): (usize, String)| {
        line.parse::<Query>()
            .map_err(|mistake| format!("{file}:{number}: {mistake}"))
    };
    lines(file)?
        .into_iter()
        .map(read)
        .collect::<Result<_, _>>()
        .map(Query::Any)
}

fn models(file: &str) -> Result<Query, String> {
    let globs: Vec<_> = lines(file)?.into_iter().map(|(_, line)| line).collect();
    Ok(Query::any_of(Facet::Model, &globs))
}

/// What a list holds, by the numbers of its lines; `#` begins a comment.
fn lines(file: &str) -> Result<Vec<(usize, String)>, String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("failed to read `{file}`: {error}"))?;
    let plain = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    let found: Vec<_> = (1..)
        .zip(plain)
        .filter(|(_, line)| !line.is_empty())
        .map(|(n, line)| (n, line.to_owned()))
        .collect();
    if found.is_empty() {
        Err(format!("`{file}` lists nothing: write one name a line"))
    } else {
        Ok(found)
    }
}

//! The token stream of a source, without what no result depends on: the digests in keys are made of it.
//!
//! Comments, documentation, layout, visibility, inline tests and the folder in which a module lies are left out. So a
//! comment, a reformatting and a moved file rerun nothing. A *renamed* module counts as changed.

use std::collections::BTreeSet;
use std::path::Path;

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use ruff_python_ast::token::TokenKind;
use ruff_python_ast::{Stmt, StmtImportFrom};
use ruff_python_parser::parse_module;
use ruff_text_size::Ranged;

/// The paths of all modules of one language, by which an import is resolved: `["judge", "tensor"]`.
pub(crate) type Modules = BTreeSet<Vec<String>>;

/// The path of the module that a file holds. `path` is relative to the root of its language's modules.
pub(crate) fn module(path: &Path) -> Vec<String> {
    let without_extension = path.with_extension("");
    let mut segments: Vec<String> = without_extension
        .iter()
        .map(|segment| segment.to_string_lossy().into_owned())
        .collect();
    if matches!(
        segments.last().map(String::as_str),
        Some("mod" | "lib" | "__init__")
    ) {
        segments.pop();
    }
    segments
}

/// The tokens of a Rust source, one on a line.
///
/// # Errors
/// The text cannot be split into tokens.
pub(crate) fn of_rust(text: &str, own: &[String], modules: &Modules) -> Result<String, String> {
    let stream: TokenStream = text.parse().map_err(|error| format!("{error}"))?;
    let mut tokens = RustTokens {
        own,
        modules,
        uses: BTreeSet::new(),
        lines: Vec::new(),
    };
    tokens.add(&Vec::from_iter(stream));
    let imports = tokens.uses.iter().map(|path| format!("use {path}"));
    Ok(Vec::from_iter(imports.chain(tokens.lines)).join("\n"))
}

/// What a walk over the tokens of one Rust source has gathered.
struct RustTokens<'a> {
    own: &'a [String],
    modules: &'a Modules,
    uses: BTreeSet<String>,
    lines: Vec<String>,
}

impl RustTokens<'_> {
    fn add(&mut self, trees: &[TokenTree]) {
        let trees = &trees[..without_last_semicolon(trees)];
        let mut at = 0;
        while at < trees.len() {
            at += self.add_first(&trees[at..], at == 0);
        }
    }

    /// Adds what begins these trees. Returns how many trees it is made of.
    fn add_first(&mut self, trees: &[TokenTree], is_first: bool) -> usize {
        if let Some(length) = documentation(trees) {
            return length;
        }
        if let Some(length) = test_item(trees) {
            return length;
        }
        if let Some(length) = visibility(trees) {
            return length;
        }
        if let Some(length) = module_declaration(trees) {
            return length;
        }
        if let Some(length) = self.import(trees) {
            return length;
        }
        if let Some(length) = self.inner_path(trees) {
            return length;
        }
        if let Some(length) = embedded_file(trees) {
            self.lines.push(length.1);
            return length.0;
        }
        match &trees[0] {
            TokenTree::Punct(punct) if punct.as_char() == ',' => {
                // A trailing comma is a matter of layout.
                let is_trailing = trees.get(1).is_none_or(|next| is_punct(next, '>'));
                if !is_trailing && !is_first {
                    self.lines.push(",".into());
                }
                1
            }
            TokenTree::Punct(punct) => {
                self.lines.push(punct.as_char().to_string());
                1 + self.body(punct.as_char(), trees)
            }
            TokenTree::Group(group) => {
                self.group(group);
                1
            }
            other => {
                self.lines.push(other.to_string());
                1
            }
        }
    }

    fn group(&mut self, group: &Group) {
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::None => ("", ""),
        };
        self.lines.push(open.into());
        self.add(&Vec::from_iter(group.stream()));
        self.lines.push(close.into());
    }

    /// Adds the body of a match arm or of a closure, which begins after `punct`, without the braces around a single
    /// expression. Returns how many further trees were read.
    fn body(&mut self, punct: char, trees: &[TokenTree]) -> usize {
        let is_arm = punct == '>' && trees.len() > 1;
        if punct != '|' && !is_arm {
            return 0;
        }
        let Some(TokenTree::Group(group)) = trees.get(1) else {
            return 0;
        };
        if group.delimiter() != Delimiter::Brace || !is_single_expression(group) {
            return 0;
        }
        if is_arm
            && self
                .lines
                .iter()
                .rev()
                .nth(1)
                .is_none_or(|line| line != "=")
        {
            return 0;
        }
        self.add(&Vec::from_iter(group.stream()));
        let has_comma = trees.get(2).is_some_and(|next| is_punct(next, ','));
        if is_arm && !has_comma && trees.len() > 2 {
            self.lines.push(",".into());
        }
        1
    }

    /// A `use` declaration: its paths stand at the beginning of the file's tokens, sorted.
    fn import(&mut self, trees: &[TokenTree]) -> Option<usize> {
        if !is_ident(trees.first()?, "use") {
            return None;
        }
        let end = trees.iter().position(|tree| is_punct(tree, ';'))?;
        let mut paths = Vec::new();
        leaves(&trees[1..end], &[], &mut paths);
        for path in paths {
            self.uses.insert(self.resolved(&path));
        }
        Some(end + 1)
    }

    /// A path that begins at `crate`, `self` or `super`, in the midst of code.
    fn inner_path(&mut self, trees: &[TokenTree]) -> Option<usize> {
        let TokenTree::Ident(first) = trees.first()? else {
            return None;
        };
        if !matches!(first.to_string().as_str(), "crate" | "self" | "super") {
            return None;
        }
        let mut segments = vec![first.to_string()];
        let mut at = 1;
        while let [colon, second, TokenTree::Ident(ident), ..] = &trees[at..] {
            if !is_punct(colon, ':') || !is_punct(second, ':') {
                break;
            }
            segments.push(ident.to_string());
            at += 3;
        }
        if segments.len() == 1 {
            return None;
        }
        self.lines.push(self.resolved(&segments));
        Some(at)
    }

    /// A path by the name of the module that it leads to and what follows, wherever that module lies.
    fn resolved(&self, path: &[String]) -> String {
        let mut absolute = match path[0].as_str() {
            "crate" => Vec::new(),
            "self" | "super" => self.own.to_vec(),
            _ => return path.join("::"),
        };
        for segment in path {
            match segment.as_str() {
                "crate" | "self" => {}
                "super" => {
                    absolute.pop();
                }
                other => absolute.push(other.to_owned()),
            }
        }
        let length = (1..=absolute.len())
            .rev()
            .find(|length| self.modules.contains(&absolute[..*length]));
        let from = length.map_or(0, |length| length - 1);
        format!("orch {}", absolute[from..].join("::"))
    }
}

fn is_punct(tree: &TokenTree, char: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == char)
}

fn is_ident(tree: &TokenTree, name: &str) -> bool {
    matches!(tree, TokenTree::Ident(ident) if ident == name)
}

/// `#[doc = …]`, as which comments of documentation appear, and its inner form.
fn documentation(trees: &[TokenTree]) -> Option<usize> {
    let (length, attribute) = attribute(trees)?;
    is_ident(attribute.first()?, "doc").then_some(length)
}

/// The trees of an attribute and how many trees it takes up.
fn attribute(trees: &[TokenTree]) -> Option<(usize, Vec<TokenTree>)> {
    if !is_punct(trees.first()?, '#') {
        return None;
    }
    let is_inner = is_punct(trees.get(1)?, '!');
    let at = if is_inner { 2 } else { 1 };
    match trees.get(at)? {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
            Some((at + 1, Vec::from_iter(group.stream())))
        }
        _ => None,
    }
}

/// An item that only tests are built with.
fn test_item(trees: &[TokenTree]) -> Option<usize> {
    let (length, attribute) = attribute(trees)?;
    let [name, TokenTree::Group(condition)] = attribute.as_slice() else {
        return None;
    };
    if !is_ident(name, "cfg") || !needs_test(condition) {
        return None;
    }
    let end = trees[length..].iter().position(|tree| {
        let is_block =
            matches!(tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        is_block || is_punct(tree, ';')
    })?;
    Some(length + end + 1)
}

/// Whether a condition is `test`, or `all(…)` with `test` in it.
fn needs_test(condition: &Group) -> bool {
    let trees = Vec::from_iter(condition.stream());
    match trees.as_slice() {
        [name] => is_ident(name, "test"),
        [all, TokenTree::Group(conditions)] if is_ident(all, "all") => conditions
            .stream()
            .into_iter()
            .any(|tree| is_ident(&tree, "test")),
        _ => false,
    }
}

/// `pub`, and what it is restricted to.
fn visibility(trees: &[TokenTree]) -> Option<usize> {
    if !is_ident(trees.first()?, "pub") {
        return None;
    }
    let Some(TokenTree::Group(group)) = trees.get(1) else {
        return Some(1);
    };
    let scope = group.stream().into_iter().next();
    let is_scope = group.delimiter() == Delimiter::Parenthesis
        && scope.is_some_and(|tree| {
            ["crate", "super", "self", "in"]
                .iter()
                .any(|name| is_ident(&tree, name))
        });
    Some(if is_scope { 2 } else { 1 })
}

/// `mod name;`: which files belong to an implementation stands in the catalogue.
fn module_declaration(trees: &[TokenTree]) -> Option<usize> {
    let [keyword, TokenTree::Ident(_), end, ..] = trees else {
        return None;
    };
    (is_ident(keyword, "mod") && is_punct(end, ';')).then_some(3)
}

/// `include_str!("path")` and its like, by the name of the file: how many trees, and its line.
fn embedded_file(trees: &[TokenTree]) -> Option<(usize, String)> {
    let [TokenTree::Ident(name), bang, TokenTree::Group(group), ..] = trees else {
        return None;
    };
    let name = name.to_string();
    if !matches!(name.as_str(), "include_str" | "include_bytes" | "include") || !is_punct(bang, '!')
    {
        return None;
    }
    let path = group.stream().to_string();
    let file = path.rsplit(['/', '"']).find(|part| !part.is_empty())?;
    Some((3, format!("{name} {file}")))
}

/// Whether a block is one expression, around which braces are a matter of layout.
fn is_single_expression(group: &Group) -> bool {
    let block: Result<syn::Block, _> = syn::parse2(TokenTree::Group(group.clone()).into());
    match block.as_ref().map(|block| block.stmts.as_slice()) {
        Ok([syn::Stmt::Expr(_, None)]) => true,
        Ok([syn::Stmt::Expr(expression, Some(_))]) => leaves_the_block(expression),
        Ok([syn::Stmt::Macro(macro_call)]) => macro_call.semi_token.is_none(),
        _ => false,
    }
}

/// Whether control never reaches what follows an expression, so that a semicolon after it changes nothing.
fn leaves_the_block(expression: &syn::Expr) -> bool {
    matches!(
        expression,
        syn::Expr::Return(_) | syn::Expr::Break(_) | syn::Expr::Continue(_)
    )
}

/// How many trees remain without a semicolon that ends a block behind `return`, `break` or `continue`.
fn without_last_semicolon(trees: &[TokenTree]) -> usize {
    let Some((last, before)) = trees.split_last() else {
        return 0;
    };
    if !is_punct(last, ';') {
        return trees.len();
    }
    let start = before
        .iter()
        .rposition(|tree| is_punct(tree, ';'))
        .map_or(0, |at| at + 1);
    let leaves = before[start..].iter().any(|tree| {
        ["return", "break", "continue"]
            .iter()
            .any(|name| is_ident(tree, name))
    });
    if leaves { before.len() } else { trees.len() }
}

/// The paths of a tree of imports, each with the name that it takes (`a::b as c`).
fn leaves(trees: &[TokenTree], prefix: &[String], found: &mut Vec<Vec<String>>) {
    for tree in trees.split(|tree| is_punct(tree, ',')) {
        let mut path = prefix.to_vec();
        let mut group = None;
        for token in tree.iter().filter(|token| !is_punct(token, ':')) {
            match token {
                TokenTree::Group(inner) => group = Some(Vec::from_iter(inner.stream())),
                TokenTree::Ident(ident) if is_self(ident) && !path.is_empty() => {}
                TokenTree::Ident(ident) if ident == "as" => path.push("as".into()),
                other => path.push(other.to_string()),
            }
        }
        match group {
            Some(inner) => leaves(&inner, &path, found),
            None if tree.is_empty() => {}
            None => found.push(path),
        }
    }
}

fn is_self(ident: &Ident) -> bool {
    ident == "self"
}

/// The tokens of a Python source, one on a line.
///
/// # Errors
/// The text is no Python.
pub(crate) fn of_python(text: &str, modules: &Modules) -> Result<String, String> {
    let parsed = parse_module(text).map_err(|error| error.to_string())?;
    let docstrings = docstrings(parsed.suite());
    let mut imports = Vec::new();
    own_imports(parsed.suite(), &mut imports);
    let mut lines: Vec<String> = Vec::new();
    let mut is_behind_docstring = false;
    // The imports of a run of statements: one statement may be two when a module has moved.
    let mut run: Vec<String> = Vec::new();
    for token in parsed.tokens().iter() {
        let start = token.start();
        if let Some(import) = imports.iter().find(|import| import.range().contains(start)) {
            if import.start() == start {
                run.extend(imported(import, modules));
            }
            continue;
        }
        let is_layout = matches!(
            token.kind(),
            TokenKind::Comment | TokenKind::NonLogicalNewline | TokenKind::Newline
        );
        if !run.is_empty() {
            if is_layout {
                continue;
            }
            run.sort();
            lines.append(&mut run);
            lines.push("newline".to_owned());
        }
        if docstrings.iter().any(|range| range.contains(start)) {
            is_behind_docstring = true;
            continue;
        }
        if std::mem::take(&mut is_behind_docstring) && token.kind() == TokenKind::Newline {
            continue;
        }
        let line = match token.kind() {
            TokenKind::Comment | TokenKind::NonLogicalNewline => continue,
            TokenKind::Newline => "newline",
            TokenKind::Indent => "indent",
            TokenKind::Dedent => "dedent",
            TokenKind::Rpar | TokenKind::Rsqb | TokenKind::Rbrace
                if lines.last().is_some_and(|line| line == ",") && !is_tuple_of_one(&lines) =>
            {
                lines.pop();
                &text[token.range()]
            }
            _ => &text[token.range()],
        };
        lines.push(line.to_owned());
    }
    run.sort();
    lines.append(&mut run);
    Ok(lines.join("\n"))
}

/// Whether the brackets that close now hold one element and a comma, which makes a tuple.
fn is_tuple_of_one(lines: &[String]) -> bool {
    let mut depth = 0;
    for line in lines.iter().rev().skip(1) {
        match line.as_str() {
            ")" | "]" | "}" => depth += 1,
            "(" | "[" | "{" if depth == 0 => return true,
            "(" | "[" | "{" => depth -= 1,
            "," if depth == 0 => return false,
            _ => {}
        }
    }
    false
}

/// Where the strings stand that document a module, a class or a function.
fn docstrings(body: &[Stmt]) -> Vec<ruff_text_size::TextRange> {
    let mut found = Vec::new();
    if let Some(Stmt::Expr(first)) = body.first()
        && first.value.is_string_literal_expr()
    {
        found.push(first.range());
    }
    for statement in body {
        match statement {
            Stmt::ClassDef(class) => found.extend(docstrings(&class.body)),
            Stmt::FunctionDef(function) => found.extend(docstrings(&function.body)),
            _ => {}
        }
    }
    found
}

/// Imports from orch's own package, at any depth.
fn own_imports<'a>(body: &'a [Stmt], found: &mut Vec<&'a StmtImportFrom>) {
    for statement in body {
        match statement {
            Stmt::ImportFrom(import) => {
                let module = import.module.as_ref().map_or("", |module| module.as_str());
                if module == "orch_py" || module.starts_with("orch_py.") {
                    found.push(import);
                }
            }
            Stmt::ClassDef(class) => own_imports(&class.body, found),
            Stmt::FunctionDef(function) => own_imports(&function.body, found),
            Stmt::If(branch) => {
                own_imports(&branch.body, found);
                for clause in &branch.elif_else_clauses {
                    own_imports(&clause.body, found);
                }
            }
            Stmt::Try(attempt) => {
                own_imports(&attempt.body, found);
                own_imports(&attempt.orelse, found);
                own_imports(&attempt.finalbody, found);
            }
            Stmt::With(with) => own_imports(&with.body, found),
            Stmt::For(each) => own_imports(&each.body, found),
            Stmt::While(repeated) => own_imports(&repeated.body, found),
            _ => {}
        }
    }
}

/// The names that an import takes, each by the module that it lies in or is.
fn imported(import: &StmtImportFrom, modules: &Modules) -> Vec<String> {
    let module = import.module.as_ref().map_or("", |module| module.as_str());
    let base: Vec<String> = module.split('.').skip(1).map(str::to_owned).collect();
    let mut lines = Vec::new();
    for alias in &import.names {
        let mut path = base.clone();
        path.push(alias.name.to_string());
        let is_module = modules.contains(&path);
        let from = path.len().saturating_sub(if is_module { 1 } else { 2 });
        let mut line = format!("orch import {}", path[from..].join("."));
        if let Some(name) = &alias.asname {
            line.push_str(" as ");
            line.push_str(name.as_str());
        }
        lines.push(line);
    }
    lines
}

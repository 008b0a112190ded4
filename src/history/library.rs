//! DuckDB's C API, of which orch uses these functions: the one file of the history with `unsafe` in it.
//!
//! Values go in and out as text: a query that is read here has columns of text only, so no other type of DuckDB's needs to
//! be known. The library is loaded at run time (docs/design/history.md).

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the blocks are sound for the same reason, which stands at their head"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};

use crate::base::Bug;
use crate::base::c_functions::c_functions;

type Handle = *mut c_void;
type State = c_int;

/// `duckdb_result`: six words, of which only the library knows the meaning. Functions take it by pointer, and one by value.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawResult([*mut c_void; 6]);

/// `duckdb_string_t`: up to 12 bytes stand behind the length, longer texts at the pointer.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawString {
    length: u32,
    prefix: [u8; 4],
    pointer: *const u8,
}

const _: () = assert!(size_of::<RawString>() == 16 && size_of::<RawResult>() == 48);

const INLINE: usize = 12;
/// `DUCKDB_TYPE_VARCHAR`
const TEXT: c_int = 17;
/// `DUCKDB_STATEMENT_TYPE_SELECT`
const SELECT: c_int = 1;

c_functions! {
    struct Table of "DuckDB 1.5";
    create_config = "duckdb_create_config"(*mut Handle) -> State;
    set_config = "duckdb_set_config"(Handle, *const c_char, *const c_char) -> State;
    destroy_config = "duckdb_destroy_config"(*mut Handle);
    open = "duckdb_open_ext"(*const c_char, *mut Handle, Handle, *mut *mut c_char) -> State;
    close = "duckdb_close"(*mut Handle);
    connect = "duckdb_connect"(Handle, *mut Handle) -> State;
    disconnect = "duckdb_disconnect"(*mut Handle);
    free = "duckdb_free"(*mut c_void);
    query = "duckdb_query"(Handle, *const c_char, *mut RawResult) -> State;
    prepare = "duckdb_prepare"(Handle, *const c_char, *mut Handle) -> State;
    prepare_error = "duckdb_prepare_error"(Handle) -> *const c_char;
    destroy_prepare = "duckdb_destroy_prepare"(*mut Handle);
    statement_type = "duckdb_prepared_statement_type"(Handle) -> c_int;
    bind_text = "duckdb_bind_varchar_length"(Handle, u64, *const c_char, u64) -> State;
    execute_prepared = "duckdb_execute_prepared"(Handle, *mut RawResult) -> State;
    result_error = "duckdb_result_error"(*mut RawResult) -> *const c_char;
    destroy_result = "duckdb_destroy_result"(*mut RawResult);
    column_count = "duckdb_column_count"(*mut RawResult) -> u64;
    column_name = "duckdb_column_name"(*mut RawResult, u64) -> *const c_char;
    column_type = "duckdb_column_type"(*mut RawResult, u64) -> c_int;
    fetch_chunk = "duckdb_fetch_chunk"(RawResult) -> Handle;
    destroy_chunk = "duckdb_destroy_data_chunk"(*mut Handle);
    chunk_size = "duckdb_data_chunk_get_size"(Handle) -> u64;
    chunk_vector = "duckdb_data_chunk_get_vector"(Handle, u64) -> Handle;
    vector_data = "duckdb_vector_get_data"(Handle) -> *mut c_void;
    vector_validity = "duckdb_vector_get_validity"(Handle) -> *mut u64;
}

// SAFETY of the unsafe blocks below: every handle was made by the library and is given back once, by the `Drop` of the value
// that owns it; a connection keeps its database, and a statement borrows its connection. Every other pointer is to a value
// that outlives the call, and texts end with a zero byte where no length is passed.

/// The library, loaded.
#[derive(Clone)]
pub(super) struct Library(Arc<Table>);

impl Library {
    pub(super) fn load(path: &Path) -> Result<Self> {
        Ok(Self(Arc::new(Table::load(path)?)))
    }

    /// Opens a database, or makes it; `:memory:` is one that is kept nowhere. `options` are DuckDB's own.
    pub(super) fn open(&self, path: &str, options: &[(&str, &str)]) -> Result<Connection> {
        let table = &self.0;
        let mut config = Config {
            table,
            handle: null_mut(),
        };
        ensure!(
            unsafe { (table.create_config)(&mut config.handle) } == 0,
            "DuckDB makes no configuration"
        );
        for (name, value) in options {
            let c_name = CString::new(*name)?;
            let c_value = CString::new(*value)?;
            let state =
                unsafe { (table.set_config)(config.handle, c_name.as_ptr(), c_value.as_ptr()) };
            ensure!(state == 0, "DuckDB takes no option {name} = {value}");
        }
        let path = CString::new(path).context("in the database's path")?;
        let mut opened = Connection {
            table: table.clone(),
            database: null_mut(),
            connection: null_mut(),
        };
        let mut error = null_mut();
        if unsafe {
            (table.open)(
                path.as_ptr(),
                &mut opened.database,
                config.handle,
                &mut error,
            )
        } != 0
        {
            let words = text_at(error);
            unsafe { (table.free)(error.cast()) };
            bail!("{words}");
        }
        let state = unsafe { (table.connect)(opened.database, &mut opened.connection) };
        ensure!(
            state == 0,
            "DuckDB opens the database and gives no connection"
        );
        Ok(opened)
    }
}

/// A handle of the library's, given back with its owner.
macro_rules! owned {
    ($name:ident, $give_back:ident) => {
        struct $name<'t> {
            table: &'t Table,
            handle: Handle,
        }

        impl Drop for $name<'_> {
            fn drop(&mut self) {
                unsafe { (self.table.$give_back)(&mut self.handle) };
            }
        }
    };
}

owned!(Config, destroy_config);
owned!(Statement, destroy_prepare);
owned!(Chunk, destroy_chunk);

/// An open database.
pub(super) struct Connection {
    table: Arc<Table>,
    database: Handle,
    connection: Handle,
}

/// What a query gave. None is NULL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Option<String>>>,
}

impl Connection {
    /// Performs statements that give nothing.
    pub(super) fn execute(&self, script: &str) -> Result<()> {
        let script = CString::new(script).context("in the statement")?;
        let mut result = Answer::new(&self.table);
        let state =
            unsafe { (self.table.query)(self.connection, script.as_ptr(), &mut result.raw) };
        result.check(state)
    }

    /// Performs one statement with texts in place of `$1`, `$2`, …
    pub(super) fn execute_with(&self, statement: &str, values: &[&str]) -> Result<()> {
        self.prepare(statement)?.perform(values).map(drop)
    }

    /// The rows of a query whose columns are all text.
    pub(super) fn rows(&self, query: &str, values: &[&str]) -> Result<Rows> {
        self.prepare(query)?.perform(values)?.read()
    }

    /// All values of a query, less NULLs, row by row.
    pub(super) fn texts(&self, query: &str, values: &[&str]) -> Result<Vec<String>> {
        Ok(self
            .rows(query, values)?
            .rows
            .into_iter()
            .flatten()
            .flatten()
            .collect())
    }

    /// Whether it is one statement that reads, without performing it. Otherwise what DuckDB says of it.
    pub(super) fn is_query(&self, statement: &str) -> Result<bool> {
        let statement = self.prepare(statement)?;
        Ok(unsafe { (self.table.statement_type)(statement.handle) } == SELECT)
    }

    fn prepare(&self, statement: &str) -> Result<Statement<'_>> {
        let text = CString::new(statement).context("in the statement")?;
        let mut prepared = Statement {
            table: &self.table,
            handle: null_mut(),
        };
        let state =
            unsafe { (self.table.prepare)(self.connection, text.as_ptr(), &mut prepared.handle) };
        ensure!(
            state == 0,
            "{}",
            text_at(unsafe { (self.table.prepare_error)(prepared.handle) })
        );
        Ok(prepared)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        unsafe {
            (self.table.disconnect)(&mut self.connection);
            (self.table.close)(&mut self.database);
        }
    }
}

impl<'c> Statement<'c> {
    fn perform(&self, values: &[&str]) -> Result<Answer<'c>> {
        for (place, value) in (1..).zip(values) {
            let text = value.as_ptr().cast();
            let length = value.len() as u64;
            let state = unsafe { (self.table.bind_text)(self.handle, place, text, length) };
            ensure!(state == 0, "BUG: the statement has no ${place}");
        }
        let mut result = Answer::new(self.table);
        let state = unsafe { (self.table.execute_prepared)(self.handle, &mut result.raw) };
        result.check(state)?;
        Ok(result)
    }
}

struct Answer<'t> {
    table: &'t Table,
    raw: RawResult,
}

impl<'t> Answer<'t> {
    fn new(table: &'t Table) -> Self {
        Self {
            table,
            raw: RawResult([null_mut(); 6]),
        }
    }

    fn check(&mut self, state: State) -> Result<()> {
        ensure!(
            state == 0,
            "{}",
            text_at(unsafe { (self.table.result_error)(&mut self.raw) })
        );
        Ok(())
    }

    fn read(mut self) -> Result<Rows> {
        let table = self.table;
        let count = unsafe { (table.column_count)(&mut self.raw) };
        let mut columns = Vec::new();
        for column in 0..count {
            let kind = unsafe { (table.column_type)(&mut self.raw, column) };
            ensure!(
                kind == TEXT,
                Bug::new(format!("column {column} of a query for orch is not text"))
            );
            columns.push(text_at(unsafe {
                (table.column_name)(&mut self.raw, column)
            }));
        }
        let mut rows = Vec::new();
        loop {
            let chunk = Chunk {
                table,
                handle: unsafe { (table.fetch_chunk)(self.raw) },
            };
            if chunk.handle.is_null() {
                return Ok(Rows { columns, rows });
            }
            chunk.read(count, &mut rows);
        }
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        unsafe { (self.table.destroy_result)(&mut self.raw) };
    }
}

/// Some thousand rows, column by column.
impl Chunk<'_> {
    /// Adds its rows; all of its `columns` are text.
    fn read(&self, columns: u64, rows: &mut Vec<Vec<Option<String>>>) {
        let size = unsafe { (self.table.chunk_size)(self.handle) } as usize;
        let first = rows.len();
        rows.resize_with(first + size, Vec::new);
        for column in 0..columns {
            let vector = unsafe { (self.table.chunk_vector)(self.handle, column) };
            let data = unsafe { (self.table.vector_data)(vector) }.cast::<RawString>();
            let validity = unsafe { (self.table.vector_validity)(vector) };
            for (row, place) in (first..).zip(0..size) {
                // SAFETY: a vector of text has `size` strings, and a bit for each of them unless all are there.
                let is_there = validity.is_null()
                    || unsafe { *validity.add(place / 64) } >> (place % 64) & 1 == 1;
                rows[row].push(is_there.then(|| unsafe { string(data.add(place)) }));
            }
        }
    }
}

/// # Safety
/// It points to a string of a chunk that lives.
unsafe fn string(at: *const RawString) -> String {
    // SAFETY: by the caller's word. Short texts begin where the prefix does, and are part of the structure.
    let bytes = unsafe {
        let length = (*at).length as usize;
        let start = if length <= INLINE {
            (&raw const (*at).prefix).cast::<u8>()
        } else {
            (*at).pointer
        };
        std::slice::from_raw_parts(start, length)
    };
    String::from_utf8_lossy(bytes).into_owned()
}

/// A text of the library's.
fn text_at(text: *const c_char) -> String {
    if text.is_null() {
        return "DuckDB gave no reason".to_owned();
    }
    // SAFETY: the library's texts end with a zero byte.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

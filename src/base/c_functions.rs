//! The functions of a C library that is opened at run time, as a table of pointers.

/// Declares the table, a line for each function: our name, the library's, and its type by the headers of the version that
/// is locked. `$whose` says which version that is.
macro_rules! c_functions {
    ($visible:vis struct $table:ident of $whose:expr; $($name:ident = $symbol:literal($($argument:ty),*) $(-> $result:ty)?;)*) => {
        $visible struct $table {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $table {
            /// The library stays open for the life of the process.
            $visible fn load(path: &std::path::Path) -> anyhow::Result<Self> {
                use anyhow::Context as _;
                let path_text = path.display();
                // SAFETY: the file is that library, whose initialisers ask for nothing.
                let library = unsafe { libloading::Library::new(path) };
                let library = library.with_context(|| format!("the library `{path_text}` cannot be opened"))?;
                let library = Box::leak(Box::new(library));
                // SAFETY: the types are those of the headers.
                Ok(unsafe {
                    Self { $($name: *library.get($symbol).with_context(|| {
                        format!("`{path_text}` has no function {}, which that of {} has", $symbol, $whose)
                    })?,)* }
                })
            }
        }
    };
}
pub(crate) use c_functions;

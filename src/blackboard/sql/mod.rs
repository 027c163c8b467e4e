//! Database access: connection, statements with named parameters, rows, transactions. Only this
//! module and `connection` know which database is used; it knows no table.

mod error;
#[cfg(feature = "failpoints")]
pub(super) mod prose;
mod transaction;
mod value;

pub(crate) use error::{Class, Error, Result};
pub(crate) use transaction::Begin;
pub(crate) use value::{FromRow, Json, Lossy, Params, Row, ToSql};

use crate::blackboard::Result as BoardResult;
use crate::clock::Time;

/// Named parameters of a statement: `params! { now, id: run.run_id; item.{ epoch, title } }` are
/// `:now`, `:id`, `:epoch` and `:title`.
///
/// A name without a value stands for the local variable or field of that name.
macro_rules! params {
    ($($name:ident $(: $value:expr)?),* $(,)? $(; $owner:ident.{ $($field:ident),* $(,)? })*) => {
        &[
            $((
                concat!(":", stringify!($name)),
                $crate::blackboard::sql::params!(@value $name $(, $value)?),
            ),)*
            $($((
                concat!(":", stringify!($field)),
                $crate::blackboard::sql::params!(@value $owner, $owner.$field),
            ),)*)*
        ]
    };
    ($owner:ident.{ $($field:ident),* $(,)? } $($more:tt)*) => {
        $crate::blackboard::sql::params! { ; $owner.{ $($field),* } $($more)* }
    };
    (@value $name:ident) => { &$name as &dyn $crate::blackboard::sql::ToSql };
    (@value $name:ident, $value:expr) => { &$value as &dyn $crate::blackboard::sql::ToSql };
}
pub(crate) use params;

/// Builds a struct from a row: `columns! { row => Run { run_id, epoch, rest: row.get(0)? } }`. A
/// name without a value stands for both the field and its column.
macro_rules! columns {
    ($row:ident => $type:ident {
        $($field:ident $(: $value:expr)?),* $(,)? $(; ..$rest:expr)?
    }) => {
        $type {
            $($field: $crate::blackboard::sql::columns!(@value $row $field $(, $value)?),)*
            $(..$rest)?
        }
    };
    (@value $row:ident $field:ident) => { $row.get(stringify!($field))? };
    (@value $row:ident $field:ident, $value:expr) => { $value };
}
pub(crate) use columns;

/// Reads a struct from a row, with the syntax of [`columns!`].
macro_rules! impl_from_row {
    ($row:ident => $type:ident { $($columns:tt)* }) => {
        impl $crate::blackboard::sql::FromRow for $type {
            fn from_row($row: &$crate::blackboard::sql::Row<'_>) -> $crate::blackboard::sql::Result<Self> {
                Ok($crate::blackboard::sql::columns! { $row => $type { $($columns)* } })
            }
        }
    };
}
pub(crate) use impl_from_row;

/// Connection to the blackboard. Statement texts are constants: nothing is ever formatted into one.
#[derive(Debug)]
pub(crate) struct Connection {
    sqlite: rusqlite::Connection,
}

impl Connection {
    pub(in crate::blackboard) fn new(sqlite: rusqlite::Connection) -> Self {
        Self { sqlite }
    }

    /// Returns the SQLite connection, for use in `connection` only: pragmas, limits, copies.
    pub(in crate::blackboard) fn sqlite(&self) -> &rusqlite::Connection {
        &self.sqlite
    }

    /// Like [`Self::sqlite`], for copying into this connection.
    pub(in crate::blackboard) fn sqlite_mut(&mut self) -> &mut rusqlite::Connection {
        &mut self.sqlite
    }

    /// Returns all rows of a query.
    pub(crate) fn all<T>(
        &self,
        sql: &'static str,
        params: Params<'_>,
        mut from_row: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> BoardResult<Vec<T>> {
        let mut all = Vec::new();
        self.each(sql, params, |row| {
            all.push(from_row(row)?);
            Ok(())
        })?;
        Ok(all)
    }

    /// Returns the first row of a query, which must have one.
    pub(crate) fn one<T>(
        &self,
        sql: &'static str,
        params: Params<'_>,
        from_row: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> BoardResult<T> {
        let found = self.optional(sql, params, from_row)?;
        Ok(found.ok_or(Error::NoRow)?)
    }

    /// Returns the first row of a query, if it has one.
    pub(crate) fn optional<T>(
        &self,
        sql: &'static str,
        params: Params<'_>,
        from_row: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> BoardResult<Option<T>> {
        let mut statement = self.prepare(sql, params)?;
        let mut rows = statement.raw_query();
        let first = rows.next()?;
        Ok(first.map(|row| from_row(&Row::new(row))).transpose()?)
    }

    /// Like [`Self::one`]; the type determines how the row is read.
    pub(crate) fn value<T: FromRow>(
        &self,
        sql: &'static str,
        params: Params<'_>,
    ) -> BoardResult<T> {
        self.one(sql, params, T::from_row)
    }

    /// Like [`Self::optional`]; the type determines how the row is read.
    pub(crate) fn find<T: FromRow>(
        &self,
        sql: &'static str,
        params: Params<'_>,
    ) -> BoardResult<Option<T>> {
        self.optional(sql, params, T::from_row)
    }

    /// Like [`Self::all`]; the type determines how each row is read.
    pub(crate) fn list<T: FromRow>(
        &self,
        sql: &'static str,
        params: Params<'_>,
    ) -> BoardResult<Vec<T>> {
        self.all(sql, params, T::from_row)
    }

    /// Returns the single moment of a query without parameters; `None` if it is absent.
    pub(crate) fn moment(&self, sql: &'static str) -> BoardResult<Option<Time>> {
        let text: Option<String> = self.value(sql, &[])?;
        // The CHECK constraints of the columns prevent anything else.
        Ok(text.and_then(|text| Time::parse(&text).ok()))
    }

    /// Calls `take` with each row of a query in turn, until it fails.
    pub(crate) fn each(
        &self,
        sql: &'static str,
        params: Params<'_>,
        mut take: impl FnMut(&Row<'_>) -> Result<()>,
    ) -> BoardResult<()> {
        let mut statement = self.prepare(sql, params)?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            take(&Row::new(row))?;
        }
        Ok(())
    }

    /// True if a query returns a row.
    pub(crate) fn exists(&self, sql: &'static str, params: Params<'_>) -> BoardResult<bool> {
        Ok(self.optional(sql, params, |_| Ok(()))?.is_some())
    }

    /// Runs a statement that returns no rows, and returns the number of rows it changed.
    pub(crate) fn execute(&self, sql: &'static str, params: Params<'_>) -> BoardResult<usize> {
        Ok(self.prepare(sql, params)?.raw_execute()?)
    }

    /// Runs a statement that returns no rows, however many it changes.
    pub(crate) fn run(&self, sql: &'static str, params: Params<'_>) -> BoardResult<()> {
        self.execute(sql, params).map(drop)
    }

    /// Inserts one row and returns the id assigned by the database.
    pub(crate) fn insert(&self, sql: &'static str, params: Params<'_>) -> BoardResult<i64> {
        self.execute(sql, params)?;
        Ok(self.sqlite.last_insert_rowid())
    }

    /// Runs a script: several statements without parameters.
    pub(crate) fn execute_batch(&self, script: &str) -> BoardResult<()> {
        Ok(self.sqlite.execute_batch(script)?)
    }

    fn prepare(
        &self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<rusqlite::CachedStatement<'_>> {
        #[cfg(test)]
        crate::blackboard::tests::executed::note(sql);
        let mut statement = self.sqlite.prepare_cached(sql)?;
        for (name, value) in params {
            let index = statement
                .parameter_index(name)?
                .ok_or_else(|| rusqlite::Error::InvalidParameterName((*name).to_owned()))?;
            let value = value.to_sql()?;
            #[cfg(feature = "failpoints")]
            let value = prose::scrambled(sql, name, value);
            statement.raw_bind_parameter(index, value)?;
        }
        Ok(statement)
    }
}

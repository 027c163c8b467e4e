//! Values as the database stores them: ids, words of a closed set, times and JSON are text.

use std::borrow::Cow;
use std::cell::Cell;

use rusqlite::types::{ToSqlOutput, Value as Owned, ValueRef};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Error, Result};
use crate::clock::Time;
use crate::closed_enum::{FromText, Text};

/// Named parameters.
pub(crate) type Params<'a> = &'a [(&'a str, &'a dyn ToSql)];

/// Value that can be a parameter.
pub(crate) trait ToSql {
    fn to_sql(&self) -> Result<Param<'_>>;
}

/// Value that can be read from a column.
pub(crate) trait FromSql: Sized {
    fn from_sql(value: Value<'_>) -> std::result::Result<Self, Unfit>;
}

/// Value that can be read from a whole row: a struct by the names of its columns, anything else by
/// their order.
pub(crate) trait FromRow: Sized {
    fn from_row(row: &Row<'_>) -> Result<Self>;
}

/// Value to write to the database.
pub(crate) enum Param<'a> {
    Null,
    Integer(i64),
    Text(Cow<'a, str>),
}

/// Value read from the database.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Null,
    Integer(i64),
    Real,
    Text(&'a [u8]),
}

/// Reason why a value is not valid for the requested type.
pub(crate) type Unfit = Box<dyn std::error::Error + Send + Sync>;

/// JSON of one of our own types.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

/// Text from another program, with any bytes.
#[derive(Debug)]
pub(crate) struct Lossy(pub(crate) String);

/// Row of a result. Columns are read by name, or by number if the query gives them none.
pub(crate) struct Row<'a> {
    sqlite: &'a rusqlite::Row<'a>,
    /// Number of the column after the last one that was read. Columns are mostly read in order, and
    /// comparing each name with all others takes longer than most queries.
    next: Cell<usize>,
}

impl<'a> Row<'a> {
    pub(super) fn new(sqlite: &'a rusqlite::Row<'a>) -> Self {
        let next = Cell::new(0);
        Self { sqlite, next }
    }

    pub(crate) fn get<T: FromSql>(&self, column: impl Column) -> Result<T> {
        let statement = self.sqlite.as_ref();
        let next = self.next.get();
        let index = if column.is_named(statement.column_name(next).unwrap_or_default()) {
            next
        } else {
            column.idx(statement)?
        };
        self.next.set(index + 1);
        let value = match self.sqlite.get_ref(index)? {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::Integer(number),
            ValueRef::Real(_) => Value::Real,
            ValueRef::Text(text) | ValueRef::Blob(text) => Value::Text(text),
        };
        T::from_sql(value).map_err(|problem| Error::Unreadable {
            column: column.to_string(),
            problem,
        })
    }
}

/// Name or number of a column.
pub(crate) trait Column: rusqlite::RowIndex + ToString + Copy {
    fn is_named(self, name: &str) -> bool;
}

impl Column for &str {
    fn is_named(self, name: &str) -> bool {
        self == name
    }
}

impl Column for usize {
    fn is_named(self, _: &str) -> bool {
        false
    }
}

impl rusqlite::ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => ToSqlOutput::Owned(Owned::Null),
            Self::Integer(number) => ToSqlOutput::Owned(Owned::Integer(*number)),
            Self::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        })
    }
}

impl<'a> Value<'a> {
    fn integer(self) -> std::result::Result<i64, Unfit> {
        match self {
            Self::Integer(number) => Ok(number),
            Self::Null => Err("NULL instead of an integer".into()),
            Self::Real => Err("a real number instead of an integer".into()),
            Self::Text(_) => Err("text instead of an integer".into()),
        }
    }

    fn bytes(self) -> std::result::Result<&'a [u8], Unfit> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Null => Err("NULL instead of text".into()),
            Self::Integer(_) | Self::Real => Err("a number instead of text".into()),
        }
    }

    fn text(self) -> std::result::Result<&'a str, Unfit> {
        Ok(std::str::from_utf8(self.bytes()?)?)
    }
}

macro_rules! to_sql {
    ($($type:ty: $value:ident => $param:expr;)*) => {$(
        impl ToSql for $type {
            fn to_sql(&self) -> Result<Param<'_>> {
                let $value = self;
                Ok($param)
            }
        }
    )*};
}

to_sql! {
    i64: number => Param::Integer(*number);
    u32: number => Param::Integer((*number).into());
    bool: value => Param::Integer((*value).into());
    Time: moment => Param::Text(moment.to_string().into());
    &Time: moment => Param::Text(moment.to_string().into());
    serde_json::Value: json => Param::Text(json.to_string().into());
    &serde_json::Value: json => Param::Text(json.to_string().into());
}

macro_rules! from_sql {
    ($($type:ty: $value:ident => $read:expr;)*) => {$(
        impl FromSql for $type {
            fn from_sql($value: Value<'_>) -> std::result::Result<Self, Unfit> {
                Ok($read)
            }
        }
    )*};
}

from_sql! {
    i64: value => value.integer()?;
    u32: value => Self::try_from(value.integer()?)?;
    bool: value => value.integer()? != 0;
    String: value => value.text()?.to_owned();
    Lossy: value => Self(String::from_utf8_lossy(value.bytes()?).into_owned());
    Time: value => Self::parse(value.text()?)?;
    serde_json::Value: value => serde_json::from_str(value.text()?)?;
}

impl<T: Text> ToSql for T {
    fn to_sql(&self) -> Result<Param<'_>> {
        Ok(Param::Text(self.text().into()))
    }
}

/// Ids and closed sets: a text outside the set is an error that names the set.
impl<T: FromText> FromSql for T {
    fn from_sql(value: Value<'_>) -> std::result::Result<Self, Unfit> {
        Ok(Self::from_text(value.text()?)?)
    }
}

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> Result<Param<'_>> {
        let text = serde_json::to_string(&self.0).map_err(Error::Unstorable)?;
        Ok(Param::Text(text.into()))
    }
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn from_sql(value: Value<'_>) -> std::result::Result<Self, Unfit> {
        Ok(Self(serde_json::from_str(value.text()?)?))
    }
}

impl<T: FromSql> FromRow for T {
    fn from_row(row: &Row<'_>) -> Result<Self> {
        row.get(0)
    }
}

impl<A: FromSql, B: FromSql> FromRow for (A, B) {
    fn from_row(row: &Row<'_>) -> Result<Self> {
        Ok((row.get(0)?, row.get(1)?))
    }
}

impl<T: ToSql> ToSql for Option<T> {
    fn to_sql(&self) -> Result<Param<'_>> {
        self.as_ref().map_or(Ok(Param::Null), ToSql::to_sql)
    }
}

impl<T: FromSql> FromSql for Option<T> {
    fn from_sql(value: Value<'_>) -> std::result::Result<Self, Unfit> {
        match value {
            Value::Null => Ok(None),
            Value::Integer(_) | Value::Real | Value::Text(_) => T::from_sql(value).map(Some),
        }
    }
}

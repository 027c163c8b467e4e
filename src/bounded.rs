//! Deserializers for values with limits. The error for any other value names the allowed range.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// Maximum cost limit of a change, in dollars. A higher value is more likely a typo than a budget.
const MOST_USD: f64 = 1_000_000.0;

/// Deserializes a whole number from MIN to MAX, for `deserialize_with`.
pub(crate) fn whole<'de, D, T, const MIN: i64, const MAX: i64>(
    deserializer: D,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64>,
{
    deserializer.deserialize_i64(Whole::<T, MIN, MAX>(PhantomData))
}

/// Like `whole`, for an optional setting.
pub(crate) fn whole_or_none<'de, D, T, const MIN: i64, const MAX: i64>(
    deserializer: D,
) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64>,
{
    whole::<D, T, MIN, MAX>(deserializer).map(Some)
}

/// Deserializes an amount of dollars, with or without cents.
pub(crate) fn dollars<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    deserializer.deserialize_f64(Dollars)
}

/// Like `dollars`, for an optional setting.
pub(crate) fn dollars_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<f64>, D::Error> {
    dollars(deserializer).map(Some)
}

struct Whole<T, const MIN: i64, const MAX: i64>(PhantomData<T>);

impl<T: TryFrom<i64>, const MIN: i64, const MAX: i64> Visitor<'_> for Whole<T, MIN, MAX> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {MIN} to {MAX}")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        let refused = || E::invalid_value(Unexpected::Signed(value), &self);
        if !(MIN..=MAX).contains(&value) {
            return Err(refused());
        }
        T::try_from(value).ok().ok_or_else(refused)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<T, E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => Err(E::invalid_value(Unexpected::Unsigned(value), &self)),
        }
    }
}

struct Dollars;

impl Visitor<'_> for Dollars {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an amount from 0.0 to {MOST_USD}")
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<f64, E> {
        if (0.0..=MOST_USD).contains(&value) {
            // Avoids `-0.0`, which is in the range too and would be printed with its sign.
            Ok(value.abs())
        } else {
            Err(E::invalid_value(Unexpected::Float(value), &self))
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<f64, E> {
        match i32::try_from(value) {
            Ok(value) => self.visit_f64(value.into()),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(value), &self)),
        }
    }
}

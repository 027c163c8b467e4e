//! Tests that are specific to SQLite: the words in the schema, query plans, broken files, power
//! cuts.

mod check;
pub(in crate::blackboard) mod executed;
mod fixture;
mod history;
mod plans;
mod power;
mod prune;
mod refusals;
mod statements;
mod words;

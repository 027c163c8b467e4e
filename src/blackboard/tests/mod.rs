//! What SQLite alone must do: the words of the schema, plans, broken files, power that goes off.

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

//! Tasks through the binary: bad input, the work on a new branch, edits, and the order of many tasks.

mod begun;
mod edited;
mod order;
mod refused;
mod waiting;
mod worked;

//! Conformance suite for the blackboard, whatever the database. The cases use only the functions of
//! this module and `engine`: a second database gets its own `engine`, and the same cases.
//!
//! No case may assume that ids commit in order, or that a sequence has no gaps.

mod checks;
mod claims;
mod decisions;
mod ends;
pub(in crate::blackboard) mod engine;
mod events;
mod fences;
mod findings;
mod holds;
mod intake;
mod people;
mod posts;
mod proposals;
mod prune;
mod pulls;
mod requests;
mod settings;
mod shadow;
pub(in crate::blackboard) mod story;
mod tasks;
mod upkeep;
mod views;
mod walk;

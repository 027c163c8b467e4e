//! What every blackboard must do, whatever database is under it. The cases know only the functions of this room and
//! `engine`: a second database gets an `engine` of its own, and the same cases.
//!
//! No case may assume that ids commit in order, or that a number is without gaps.

mod claims;
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
mod views;
mod walk;

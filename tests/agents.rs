//! Misbehaving agents, one per test: how each ends, what is reported, what is kept, and that the
//! worktree is usable for the next. The agent is the fixer, except in the files named after
//! another.

mod dialects;
mod documented;
mod ends;
mod gates;
mod history;
mod outside;
mod planted_git;
mod reviewer;
mod sandbox;
pub(crate) mod secrets;
mod settings;

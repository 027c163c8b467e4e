//! Agents that do not do what they should, one a test: where each ends, what is said about it, what is kept, and that
//! the worktree is fit for the next. The fixer is meant, unless a file of its own says otherwise.

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

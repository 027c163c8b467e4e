//! The fake GitHub, compared with GitHub and its `gh`: all tests that use it depend on this.

mod described;
mod model;
mod new_pulls;
mod real;
mod trouble;

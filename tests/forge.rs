//! The stand-in for GitHub, held to what GitHub and its `gh` do: everything that is tested against it is worth as much
//! as this.

mod described;
mod model;
mod real;
mod trouble;

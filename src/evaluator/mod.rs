//! Evaluators: read the blackboard and return proposals. They must not change anything, and they read no clock.

pub(crate) mod checks;
pub(crate) mod command;
pub(crate) mod definition;
pub(crate) mod pr_feedback;
pub(crate) mod review_feedback;
pub(crate) mod schedule;
mod size_limit;

pub(crate) use definition::{Config, Definition};
pub(crate) use pr_feedback::{OurPush, PullCase};

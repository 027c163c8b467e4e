//! Looks at the blackboard and proposes. It must not change anything, and it reads no clock.

pub(crate) mod command;
pub(crate) mod definition;
pub(crate) mod pr_feedback;
pub(crate) mod review_feedback;
pub(crate) mod schedule;
mod size_limit;

pub(crate) use definition::{Config, Definition};
pub(crate) use pr_feedback::{OurPush, PullCase};
pub(crate) use review_feedback::Case;

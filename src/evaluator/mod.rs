//! Looks at the blackboard and proposes. It must not change anything, and it reads no clock.

pub(crate) mod command;
pub(crate) mod definition;
mod fit;
pub(crate) mod pr_feedback;
pub(crate) mod review_feedback;
pub(crate) mod schedule;

pub(crate) use definition::{Config, Definition};
pub(crate) use pr_feedback::{OurPush, PullCase};
pub(crate) use review_feedback::Case;

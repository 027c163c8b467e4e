//! Looks at the blackboard and proposes. It must not change anything, and it reads no clock.

pub(crate) mod definition;
pub(crate) mod schedule;

//! Shadow mode: records of what would have been done.

pub(super) mod shadow_review;
pub(super) mod shadow_runs;

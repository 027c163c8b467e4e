//! Pull requests as they were last read, what was said on them, and what is to be posted or pushed.

pub(super) mod adopt;
pub(super) mod dismissed_review;
pub(super) mod feedback;
pub(super) mod head_moved;
pub(super) mod outbox;
pub(super) mod pull_request_text;
pub(super) mod pulls;
pub(super) mod rate_limit;
pub(super) mod reopen;

//! Pull requests as they were last read, the feedback on them, and what remand will post or push.

pub(super) mod adopt;
pub(super) mod checks;
pub(super) mod dismissed_review;
pub(super) mod feedback;
pub(super) mod head_moved;
pub(super) mod outbox;
pub(super) mod pull_request_text;
pub(super) mod pulls;
pub(super) mod rate_limit;
pub(super) mod reopen;

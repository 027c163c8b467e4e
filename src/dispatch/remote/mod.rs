//! Pushes and posts: everything that leaves this machine.

pub(super) mod configuration;
pub(super) mod post;
pub(super) mod post_text;
pub(super) mod pull_request_body;
pub(super) mod push;
pub(super) mod remote_sync;
pub(super) mod reply_intents;
mod rerun;

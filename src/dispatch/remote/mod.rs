//! What leaves this machine: pushes and posts.

pub(super) mod configuration;
pub(super) mod post;
pub(super) mod post_text;
pub(super) mod push;
pub(super) mod remote_sync;
pub(super) mod reply_intents;

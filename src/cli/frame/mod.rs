//! Shared parts of all commands: settings, output, errors, logging.

pub(super) mod context;
pub(super) mod error;
pub(super) mod journal;
pub(super) mod logging;
pub(super) mod pr_ref;
pub(super) mod remote_url;
pub(super) mod running_daemon;
pub(super) mod ui;

//! Shared parts of all commands: settings, output, errors and logging.

pub(super) mod context;
pub(super) mod error;
pub(super) mod journal;
pub(super) mod line;
pub(super) mod logging;
pub(super) mod pager;
pub(super) mod pr_ref;
pub(super) mod remote_url;
pub(super) mod running_daemon;
pub(super) mod screen;
pub(super) mod text_source;
pub(super) mod ui;

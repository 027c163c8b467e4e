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

pub(super) use context::{
    CommandContext, FIELD_CAP, Step, find_change, found, id_or_dash, no_such, read_text,
    refuse_agents, runtime, said, similar_changes, wait,
};
pub(super) use error::{CommandError, ExitCode, refused_for};
pub(super) use pager::paged;
pub(super) use pr_ref::PrRef;
pub(super) use text_source::{TemporaryFile, TextArgs};
pub(super) use ui::{Format, Line, Table, TextStyle, Ui};

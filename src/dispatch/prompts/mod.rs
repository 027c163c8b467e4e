//! Contents of a run's prompt.

pub(super) mod earlier_findings;
pub(super) mod prompt_context;
pub(super) mod prompt_parts;
pub(super) mod spec_files;
pub(super) mod spec_folder;

//! Measures work before anything is done with it: a fix of a gigabyte would run every later step
//! into its time limit.

use super::command::GitCommand;
use super::fs_nofollow::path_of;
use super::history::check_shas;
use super::status::Entry;
use super::{Git, GitError, Place, Result, Uncommitted};

/// Number of files and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Size {
    pub(crate) files: usize,
    pub(crate) bytes: u64,
}

impl Git {
    /// Measures files of a worktree that are changed or new and not committed, without reading
    /// contents.
    pub(crate) fn uncommitted_size(&self, place: &Place, left: &Uncommitted) -> Size {
        let mut size = Size::default();
        for entry in self.shown_entries(left.clone()) {
            let (Entry::Changed { path, .. } | Entry::Untracked { path }) = entry;
            size.files += 1;
            // A removed file has no size.
            let meta = place.path.join(path_of(&path)).symlink_metadata();
            size.bytes = size.bytes.saturating_add(meta.map_or(0, |meta| meta.len()));
        }
        size
    }

    /// Measures the objects on disk that one commit reaches and the other does not, including those
    /// that a later commit removed.
    pub(crate) async fn new_objects_size(
        &self,
        place: &Place,
        from: &str,
        to: &str,
    ) -> Result<u64> {
        check_shas([from, to])?;
        let call = GitCommand::at(place, "rev-list --objects --disk-usage")
            .arg(to)
            .arg(format!("^{from}"));
        let line = self.line(call).await?;
        let bytes = line.trim().parse().ok();
        bytes.ok_or_else(|| GitError::output("rev-list --disk-usage", line.as_bytes()))
    }
}

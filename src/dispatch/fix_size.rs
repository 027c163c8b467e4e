//! The size of a fix, checked before anything is done with it. Committing, showing, copying and testing a gigabyte
//! would run each of these steps into its time limit, again and again.

use super::commit::Span;
use super::interrupt::Result;
use super::task::Task;
use crate::dispatch::remote::remote_sync::objected;
use crate::git::{Place, Uncommitted};
use crate::remote::{Objection, Wrong};

/// Commits of a fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Commits {
    /// At most one, made by remand.
    OursOnly,
    Others,
}

impl Task {
    /// Returns the reason if the uncommitted changes are too large to be committed. Their contents are not read.
    pub(super) fn oversize_rest(&self, place: &Place, rest: &Uncommitted) -> Option<String> {
        let rest = self.git.uncommitted_size(place, rest);
        self.too_large(rest.files, rest.bytes)
    }

    /// Returns the reason if a committed fix is too large to be pushed. Only names and sizes are read.
    pub(super) async fn oversize(
        &self,
        place: &Place,
        span: Span<'_>,
        head: &str,
        commits: Commits,
    ) -> Result<Option<String>> {
        let files = self.git.net_files(place, span.first, head).await?;
        if let Some(reason) = self.too_large(files.len(), 0) {
            return Ok(Some(reason));
        }
        let blobs: Vec<String> = files
            .iter()
            .filter(|file| file.has_blob())
            .map(|file| file.blob.clone())
            .collect();
        let sizes = self.git.blob_sizes(place, &blobs).await?;
        let bytes = sizes
            .iter()
            .fold(0_u64, |sum, size| sum.saturating_add(*size));
        let carried = match commits {
            Commits::OursOnly => 0,
            // Intermediate commits may contain files that the last one no longer has.
            Commits::Others => self.git.new_objects_size(place, span.first, head).await?,
        };
        Ok(self.too_large(files.len(), bytes.max(carried)))
    }

    fn too_large(&self, files: usize, bytes: u64) -> Option<String> {
        let rules = &self.rules.push;
        let what = if bytes > rules.max_total_bytes() {
            Wrong::TooMuch {
                bytes,
                most: rules.max_total_bytes(),
            }
        } else if self.change.has_pr() && files > rules.max_files {
            Wrong::TooManyFiles {
                files,
                most: rules.max_files,
            }
        } else {
            return None;
        };
        Some(objected("the fix", &[Objection { what, path: None }]))
    }
}

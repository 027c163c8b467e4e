//! The findings of earlier reviews of the same change, as input of a new review.

use std::collections::{BTreeMap, BTreeSet};

use super::prompt_parts::was_told;
use crate::blackboard::{self as bb, OpenFinding};
use crate::dispatch::interrupt::Result;
use crate::dispatch::task::Task;
use crate::git::{GitError, Place};
use crate::review_text::{Earlier, PathState, PromptPresence};
use crate::work::Run;

/// An open finding with the facts that decide if a review may pass over it.
pub(crate) struct EarlierFinding {
    pub(crate) open: OpenFinding,
    prompt: PromptPresence,
    path: PathState,
}

impl EarlierFinding {
    pub(crate) fn as_earlier(&self) -> Earlier<'_> {
        Earlier {
            id: self.open.finding_id.as_str(),
            finding: &self.open.finding,
            outcome: self.open.outcome,
            prompt: self.prompt,
            path: self.path,
        }
    }
}

impl Task {
    pub(crate) async fn earlier_findings(&self, run: &Run) -> Result<Vec<EarlierFinding>> {
        let (id, run_id) = (self.change.change_id.clone(), run.run_id.clone());
        let read = self.read(move |conn| {
            let raised = bb::heads_of_findings(conn, &id)?;
            let coverage = bb::coverage_of_run(conn, &run_id)?;
            Ok((bb::open_findings(conn, &id)?, raised, coverage))
        });
        let (open, raised, coverage) = read.await?;
        if open.is_empty() {
            return Ok(Vec::new());
        }
        let place = self.place()?;
        let mut changed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut earlier = Vec::new();
        for open in open {
            let raised = raised.iter().find(|(id, _)| *id == open.finding_id);
            let path = match (&open.finding.path, raised) {
                (None, _) => PathState::Changed,
                (Some(_), None) => PathState::Untouched,
                (Some(path), Some((_, head))) => {
                    if !changed.contains_key(head) {
                        let paths = self.changed_paths(&place, head, &run.head_before);
                        changed.insert(head.clone(), paths.await?);
                    }
                    let paths = changed.get(head);
                    if paths.is_some_and(|paths| paths.iter().any(|file| is_at(file, path))) {
                        PathState::Changed
                    } else {
                        PathState::Untouched
                    }
                }
            };
            // Runs of older versions recorded nothing: without that knowledge no finding is closed.
            let shown = !coverage.is_empty() && was_told(&coverage, open.finding_id.as_str());
            let prompt = if shown {
                PromptPresence::InPrompt
            } else {
                PromptPresence::LeftOut
            };
            earlier.push(EarlierFinding { open, prompt, path });
        }
        Ok(earlier)
    }

    /// The paths that differ between two commits; none if the first one no longer exists, as after a rewrite of the
    /// branch.
    async fn changed_paths(&self, place: &Place, from: &str, to: &str) -> Result<BTreeSet<String>> {
        let files = match self.git.changed_files(place, from, to).await {
            Err(GitError::Failed { .. }) if self.git.resolve(place, from).await?.is_none() => {
                return Ok(BTreeSet::new());
            }
            files => files?,
        };
        Ok(files
            .into_iter()
            .flat_map(|file| file.old_path.into_iter().chain([file.path]))
            .collect())
    }
}

/// True if a file matches a path as reviewers write it: the file, a directory above it, or the end of its path.
fn is_at(file: &str, path: &str) -> bool {
    let path = path.trim_matches('/');
    file == path
        || file
            .strip_prefix(path)
            .is_some_and(|rest| rest.starts_with('/'))
        || file
            .strip_suffix(path)
            .is_some_and(|rest| rest.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_as_reviewers_write_it() {
        for (file, path, expected) in [
            ("src/a.rs", "src/a.rs", true),
            ("src/a.rs", "a.rs", true),
            ("src/a.rs", "src/", true),
            ("src/ba.rs", "a.rs", false),
            ("srcx/a.rs", "src", false),
        ] {
            assert_eq!(is_at(file, path), expected, "{file} {path}");
        }
    }
}

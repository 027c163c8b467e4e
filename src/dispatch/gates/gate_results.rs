//! Results of gates by the tree that they ran on, the commands and the set-up, so that a base that passed is not tested
//! again for each change. A file that is lost or cannot be read only means that gates run once more.

use std::path::PathBuf;

use super::project_commands::ProjectCommands;
use crate::dispatch::interrupt::{Result, file_trouble};
use crate::dispatch::run::launch::{make_folder, write};
use crate::dispatch::run::worktree_lock::WorktreeLock;
use crate::files;
use crate::fingerprint::fingerprint;
use crate::work::GateResult;

/// Number of results that are kept.
const KEPT: usize = 200;

impl ProjectCommands<'_> {
    /// The result that is known for a tree.
    pub(crate) fn known_result(&self, tree: &str) -> Option<GateResult> {
        let key = self.result_key(tree);
        self.results()
            .into_iter()
            .rev()
            .find(|(_, known)| *known == key)
            .map(|(result, _)| result)
    }

    /// Gates of several changes may end concurrently: they write the file one after the other.
    pub(crate) async fn remember_result(&self, tree: &str, result: GateResult) -> Result<()> {
        let file = self.results_file();
        let _lock = WorktreeLock::take(&self.settings.locks_dir, &file.display().to_string())
            .await
            .map_err(file_trouble("lock", &file))?;
        let key = self.result_key(tree);
        let mut all: Vec<(GateResult, String)> = self
            .results()
            .into_iter()
            .filter(|(_, known)| *known != key)
            .collect();
        all.push((result, key));
        let from = all.len().saturating_sub(KEPT);
        let text: String = all
            .iter()
            .skip(from)
            .map(|(result, key)| format!("{result} {key}\n"))
            .collect();
        file.parent().map_or(Ok(()), make_folder)?;
        write(&file, text.as_bytes())
    }

    fn results(&self) -> Vec<(GateResult, String)> {
        let text = files::read_text(&self.results_file(), files::SMALL).unwrap_or_default();
        let read = |line: &str| {
            let (result, key) = line.split_once(' ')?;
            Some((result.parse().ok()?, key.to_owned()))
        };
        text.lines().filter_map(read).collect()
    }

    /// Beside the checkouts, where no gate can write.
    fn results_file(&self) -> PathBuf {
        self.settings
            .gates_dir
            .join(self.project.project_id.as_str())
            .join("results")
    }

    fn result_key(&self, tree: &str) -> String {
        let rules = self.rules;
        let mut words = vec![tree.to_owned()];
        for list in rules
            .gates
            .iter()
            .chain([&rules.setup, &rules.setup_again_on])
        {
            words.push(list.len().to_string());
            words.extend(list.iter().cloned());
        }
        fingerprint(&words, b"")
    }
}

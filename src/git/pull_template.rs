//! The template for the descriptions of pull requests, as a commit has it.

use super::agent_config_paths::read_tree;
use super::command::GitCommand;
use super::{Git, Place, Result, check_sha};

/// Paths at which GitHub looks for it, ignoring case, in the order of precedence.
const PATHS: [&str; 3] = [
    ".github/pull_request_template.md",
    "pull_request_template.md",
    "docs/pull_request_template.md",
];

/// Maximum number of bytes. A longer file does not count as a template.
const CAP: u64 = 64 * 1024;

impl Git {
    /// Returns the template for pull requests; `None` if the commit has none, or if it is not a
    /// regular file, too long, or not text.
    pub(crate) async fn pull_template(
        &self,
        place: &Place,
        commit: &str,
    ) -> Result<Option<String>> {
        check_sha(commit)?;
        let list = || GitCommand::at(place, "ls-tree -z --full-tree --end-of-options").arg(commit);
        let mut files = read_tree(&self.bytes(list()).await?)?;
        let folders = list().args(["--", ".github/", "docs/"]);
        files.extend(read_tree(&self.bytes(folders).await?)?);
        files.retain(|file| file.blob.is_file());
        let found = PATHS.iter().find_map(|path| {
            let is_it = |known: &[u8]| known.eq_ignore_ascii_case(path.as_bytes());
            files.iter().find(|file| is_it(&file.path))
        });
        let Some(file) = found else {
            return Ok(None);
        };
        let blob = [file.blob.sha.clone()];
        let sizes = self.blob_sizes(place, &blob).await?;
        if sizes.iter().any(|size| *size > CAP) {
            return Ok(None);
        }
        let content = self.blob(place, &file.blob.sha).await?;
        let text = String::from_utf8(content).ok();
        Ok(text.filter(|text| !text.trim().is_empty()))
    }
}

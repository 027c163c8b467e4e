//! Paths of files that configure or instruct an agent: in a commit, in the index, on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::bytes::{records, split_once};
use super::command::GitCommand;
use super::fs_nofollow::{FileKind, names, path_of, thing};
use super::{Git, GitError, Place, Result};

/// Directories (or files of that name) that are configuration with all their contents, at any
/// depth.
const FOLDERS: &[&str] = &[
    ".claude",
    ".gemini",
    ".codex",
    ".cursor",
    ".opencode",
    ".agents",
    ".windsurf",
    ".clinerules",
    ".husky",
    ".vscode",
];

/// Configuration at the top of the worktree only.
const TOP: &[&str] = &[
    ".mcp.json",
    ".claude.json",
    ".cursorrules",
    ".windsurfrules",
    "opencode.json",
    "opencode.jsonc",
    ".gitmodules",
    ".ripgreprc",
    ".github/copilot-instructions.md",
    ".github/instructions",
    ".github/agents",
    ".github/prompts",
];

/// Instructions that agents read in the directory in which they work, at any depth.
const INSTRUCTIONS: &[&str] = &[
    "claude.md",
    "claude.local.md",
    "agents.md",
    "agents.override.md",
    "gemini.md",
];

/// Returns true if agents take instructions from a path, so that a branch must not control it.
///
/// Names are compared case-insensitively, because some file systems are. Everything below such a
/// name is configuration too: there may be a directory where a file is expected. `.github` itself
/// is only passed in when it is not a directory; it is then a symlink to instructions of its own.
pub(crate) fn is_agent_config(path: &str) -> bool {
    is_config(path.as_bytes())
}

pub(super) fn is_config(path: &[u8]) -> bool {
    let lower = path.to_ascii_lowercase();
    let is_at_or_below = |name: &&str| {
        lower
            .strip_prefix(name.as_bytes())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    let is_named = |part: &[u8]| {
        FOLDERS
            .iter()
            .chain(INSTRUCTIONS)
            .any(|name| name.as_bytes() == part)
    };
    lower.starts_with(b".aider")
        || lower == b".github"
        || TOP.iter().any(is_at_or_below)
        || lower.split(|b| *b == b'/').any(is_named)
}

/// Returns true for configuration at the top, which is placed even if the branch has no such
/// directory.
pub(super) fn is_at_top(path: &[u8]) -> bool {
    let lower = path.to_ascii_lowercase();
    let first = lower.split(|b| *b == b'/').next().unwrap_or_default();
    !lower.contains(&b'/')
        || first == b".github"
        || FOLDERS.iter().any(|name| name.as_bytes() == first)
}

/// File in a commit, as listed by git.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Blob {
    pub(super) mode: u32,
    pub(super) sha: String,
}

/// Entry of the index.
#[derive(Debug, Clone)]
pub(super) struct Staged {
    pub(super) blob: Blob,
    /// Set if the entry is marked skip-worktree.
    pub(super) hidden: bool,
}

#[derive(Debug)]
pub(super) struct TreeFile {
    pub(super) path: Vec<u8>,
    pub(super) blob: Blob,
}

impl Blob {
    fn read(mode: &str, sha: &str, record: &[u8]) -> Result<Self> {
        let mode = u32::from_str_radix(mode, 8).ok();
        Ok(Self {
            mode: mode.ok_or_else(|| GitError::output("ls-tree", record))?,
            sha: sha.to_owned(),
        })
    }

    pub(super) fn is_file(&self) -> bool {
        self.mode & 0o170_000 == 0o100_000
    }

    pub(super) fn is_link(&self) -> bool {
        self.mode == 0o120_000
    }
}

impl Git {
    pub(super) async fn config_in_commit(
        &self,
        place: &Place,
        commit: &str,
    ) -> Result<BTreeMap<Vec<u8>, Blob>> {
        let call = GitCommand::at(place, "ls-tree -r -z --full-tree --end-of-options").arg(commit);
        let files = read_tree_if(&self.bytes(call).await?, is_config)?.into_iter();
        Ok(files.map(|file| (file.path, file.blob)).collect())
    }

    /// Lists configuration in HEAD; nothing if HEAD has no commit.
    pub(super) async fn config_in_head(&self, place: &Place) -> Result<BTreeMap<Vec<u8>, Blob>> {
        match self.config_in_commit(place, "HEAD").await {
            Err(GitError::Failed { .. }) if self.resolve(place, "HEAD").await?.is_none() => {
                Ok(BTreeMap::new())
            }
            listed => listed,
        }
    }

    /// Lists configuration in the index. Paths in conflict have no blob.
    pub(super) async fn config_in_index(
        &self,
        place: &Place,
    ) -> Result<BTreeMap<Vec<u8>, Option<Staged>>> {
        let call = GitCommand::at(place, "ls-files -t -s -z");
        Ok(read_index(&self.bytes(call).await?)?.0)
    }

    /// Lists configuration in the index, and untracked configuration below the top. Ignored files
    /// are not searched there.
    pub(super) async fn config_in_index_and_untracked(
        &self,
        place: &Place,
    ) -> Result<ConfigListed> {
        let call = GitCommand::at(place, "ls-files -t -s -o -z --exclude-standard");
        read_index(&self.bytes(call).await?)
    }
}

/// Configuration in the index, and untracked configuration.
pub(super) type ConfigListed = (BTreeMap<Vec<u8>, Option<Staged>>, BTreeSet<Vec<u8>>);

/// Parses `H 100644 ID STAGE TAB path NUL` and `? path NUL`.
fn read_index(bytes: &[u8]) -> Result<ConfigListed> {
    let (mut found, mut untracked) = (BTreeMap::new(), BTreeSet::new());
    for record in records(bytes) {
        if let Some(path) = record.strip_prefix(b"? ") {
            if is_config(path) && !path.ends_with(b"/") && !in_worktrees(path) {
                untracked.insert(path.to_vec());
            }
            continue;
        }
        let (words, path) = split(record, "ls-files -t -s -z")?;
        if is_config(path) {
            let [tag, mode, sha, stage] = words.split(' ').collect::<Vec<_>>()[..] else {
                return Err(GitError::output("ls-files -t -s -z", record));
            };
            let staged = Staged {
                blob: Blob::read(mode, sha, record)?,
                hidden: tag == "S",
            };
            found.insert(path.to_vec(), (stage == "0").then_some(staged));
        }
    }
    Ok((found, untracked))
}

/// Lists all configuration at the top of the worktree, ignored or not, recursively.
///
/// A symlink counts as a file, whatever its target.
pub(super) fn config_on_disk(root: &Path) -> Result<BTreeSet<Vec<u8>>> {
    let mut found = BTreeSet::new();
    for name in names(root)? {
        if is_config(name.as_os_str().as_bytes()) {
            leaves(root, &name, &mut found)?;
        }
    }
    found.retain(|path| is_config(path));
    Ok(found)
}

fn leaves(root: &Path, path: &Path, found: &mut BTreeSet<Vec<u8>>) -> Result<()> {
    let bytes = path.as_os_str().as_bytes();
    match thing(&root.join(path))? {
        FileKind::Absent => {}
        FileKind::Folder if in_worktrees(bytes) => {}
        FileKind::Folder => {
            for name in names(&root.join(path))? {
                leaves(root, &path.join(name), found)?;
            }
        }
        FileKind::File { .. } | FileKind::Link | FileKind::Other => {
            found.insert(bytes.to_vec());
        }
    }
    Ok(())
}

/// Returns true below `.claude/worktrees/`, where some agents keep whole worktrees, possibly with
/// other people's work.
fn in_worktrees(path: &[u8]) -> bool {
    let parts: Vec<&[u8]> = path.split(|b| *b == b'/').collect();
    parts.len() >= 3 && parts.get(1).is_some_and(|part| *part == b"worktrees")
}

/// Parses `100644 blob ID TAB path NUL`.
pub(super) fn read_tree(bytes: &[u8]) -> Result<Vec<TreeFile>> {
    read_tree_if(bytes, |_| true)
}

/// Like [`read_tree`], for the paths that are wanted.
fn read_tree_if(bytes: &[u8], wanted: fn(&[u8]) -> bool) -> Result<Vec<TreeFile>> {
    let mut files = Vec::new();
    for record in records(bytes) {
        let (words, path) = split(record, "ls-tree -z")?;
        if !wanted(path) {
            continue;
        }
        let [mode, _kind, sha] = words.split(' ').collect::<Vec<_>>()[..] else {
            return Err(GitError::output("ls-tree -z", record));
        };
        files.push(TreeFile {
            path: path.to_vec(),
            blob: Blob::read(mode, sha, record)?,
        });
    }
    Ok(files)
}

/// Splits a record at its tab into words and a path.
fn split<'a>(record: &'a [u8], args: &str) -> Result<(&'a str, &'a [u8])> {
    let parts = split_once(record, b'\t');
    let parts = parts.and_then(|(words, path)| Some((std::str::from_utf8(words).ok()?, path)));
    parts.ok_or_else(|| GitError::output(args, record))
}

/// Resolves a symlink of a commit to a path in that commit. Returns `None` if it leaves the tree.
pub(super) fn link_target(link: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    if target.starts_with(b"/") {
        return None;
    }
    let mut path: PathBuf = path_of(link).parent()?.to_owned();
    for part in target.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." if !path.pop() => return None,
            b".." => {}
            name => path.push(path_of(name)),
        }
    }
    Some(path.as_os_str().as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_configuration() {
        for path in [
            ".claude/settings.json",
            ".claude",
            "CLAUDE.md",
            "claude.MD",
            "a/b/AGENTS.md",
            "a/.cursor/rules/x.mdc",
            ".mcp.json",
            ".aider.conf.yml",
            ".github/copilot-instructions.md",
            ".github/instructions/a.md",
            ".husky/pre-push",
            "CLAUDE.md/x",
            ".mcp.json/x",
            ".github",
            ".gitmodules",
        ] {
            assert!(is_config(path.as_bytes()), "{path}");
        }
        for path in [
            "src/main.rs",
            "README.md",
            "a/.mcp.json",
            ".github/workflows/ci.yml",
            ".mcp.jsonx",
            "claude.rs",
            "x.claude/y",
        ] {
            assert!(!is_config(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn links_that_leave_the_commit_lead_nowhere() {
        let target = |link: &str, to: &str| {
            link_target(link.as_bytes(), to.as_bytes()).map(|p| String::from_utf8(p).unwrap())
        };
        assert_eq!(
            target("CLAUDE.md", "AGENTS.md").as_deref(),
            Some("AGENTS.md")
        );
        assert_eq!(target("a/b/CLAUDE.md", "../.././x").as_deref(), Some("x"));
        assert_eq!(target("CLAUDE.md", "../x"), None);
        assert_eq!(target("CLAUDE.md", "/etc/passwd"), None);
    }
}

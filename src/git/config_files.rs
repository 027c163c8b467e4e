//! Reads git's configuration files without git, only far enough to know whether git has to be
//! asked about drivers and files with rules.
//!
//! Git is always asked if a file includes others, is not a regular file, or is not where it should
//! be. Nothing is remembered by time: an answer of git is used again only for exactly the same
//! contents, which are read before each call.

use std::path::{Path, PathBuf};

use super::fs_nofollow::{FileKind, leads_to, path_of, thing, without_line_end};
use super::{Git, Place};
use crate::files::{self, SMALL};

/// Maximum size of a configuration file that is read here.
const LIMIT: u64 = 256 * 1024;

/// Words without which no file can include another one. Names of sections and keys have no escapes.
const INCLUDES: &str = "include";
/// Words without which a repository's configuration defines no driver.
const DRIVERS: [&str; 2] = ["filter", "driver"];
/// Words without which a configuration names no file with rules.
const RULES: [&str; 2] = ["attributesfile", "excludesfile"];

/// Contents of the configuration files that git reads in a worktree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ConfigFiles {
    /// Files of the repository, which an agent can write.
    repository: Vec<Vec<u8>>,
    /// Files of the user and of the machine.
    user: Vec<Vec<u8>>,
}

impl ConfigFiles {
    /// Reads the files; `None` if only git can tell what the configuration is.
    pub(super) fn read(git: &Git, place: &Place) -> Option<Self> {
        files::aside(|| {
            if !leads_to_common_dir(place) {
                return None;
            }
            let repository = vec![
                content(&place.common_dir.join("config"))?,
                content(&place.git_dir.join("config.worktree"))?,
            ];
            // People keep these behind symlinks.
            let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
            let user = user_files(git).into_iter().map(real);
            let user = user.map(|path| content(&path)).collect::<Option<_>>()?;
            let found = Self { repository, user };
            (!found.has_any(&[INCLUDES])).then_some(found)
        })
    }

    /// Returns true if no driver of the repository and no file with rules can be in effect.
    pub(super) fn name_nothing(&self) -> bool {
        let drivers = self.repository.iter().any(|text| has_any(text, &DRIVERS));
        !drivers && !self.has_any(&RULES)
    }

    fn has_any(&self, words: &[&str]) -> bool {
        let mut all = self.repository.iter().chain(&self.user);
        all.any(|text| has_any(text, words))
    }
}

/// Returns true if git, too, takes `common_dir` for the directory that all worktrees share: by the
/// file `commondir` of a linked worktree, or because there is no such file.
pub(super) fn leads_to_common_dir(place: &Place) -> bool {
    let file = place.git_dir.join("commondir");
    if !place.is_linked() {
        return matches!(thing(&file), Ok(FileKind::Absent));
    }
    let Ok(text) = files::read(&file, SMALL) else {
        return false;
    };
    let target = place.git_dir.join(path_of(without_line_end(&text)));
    leads_to(&target, &place.common_dir)
}

fn user_files(git: &Git) -> Vec<PathBuf> {
    let value = |name: &str| git.env.get(name).filter(|value| !value.is_empty());
    let named = |name: &str| value(name).map(PathBuf::from);
    let mut all = Vec::new();
    if let Some(path) = named("GIT_CONFIG_GLOBAL") {
        all.push(path);
    } else {
        let home = named("HOME");
        let folder = named("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
        all.extend(folder.map(|folder| folder.join("git/config")));
        all.extend(home.map(|home| home.join(".gitconfig")));
    }
    // Read even if git is configured not to: git is then asked once too often.
    all.push(named("GIT_CONFIG_SYSTEM").unwrap_or_else(|| PathBuf::from("/etc/gitconfig")));
    all
}

/// Returns the content of a file, nothing for a missing one; `None` if it is anything else.
fn content(path: &Path) -> Option<Vec<u8>> {
    match thing(path).ok()? {
        FileKind::Absent => Some(Vec::new()),
        FileKind::File { .. } => files::read(path, LIMIT).ok(),
        FileKind::Folder | FileKind::Link | FileKind::Other => None,
    }
}

/// Returns true if a text has one of some words, in any case.
fn has_any(text: &[u8], words: &[&str]) -> bool {
    let is = |word: &str| {
        let mut places = text.windows(word.len());
        places.any(|found| found.eq_ignore_ascii_case(word.as_bytes()))
    };
    words.iter().any(|word| is(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(repository: &str, user: &str) -> ConfigFiles {
        ConfigFiles {
            repository: vec![repository.into(), Vec::new()],
            user: vec![user.into()],
        }
    }

    #[test]
    fn git_is_asked_about_every_driver_and_file_with_rules() {
        let usual = "[core]\n\tbare = false\n[branch \"a\"]\n\tmerge = refs/heads/a\n";
        assert!(files(usual, "[user]\n\tname = a\n[filter \"lfs\"]\n").name_nothing());
        for planted in [
            "[filter \"x\"]\n\tclean = evil\n",
            "[FILTER.x]\nclean=evil\n",
            "[merge \"x\"] Driver = evil\n",
            "[core]\n\tattributesFile = /dev/zero\n",
            "[core] ExcludesFile=/dev/zero\n",
        ] {
            assert!(!files(planted, "").name_nothing(), "{planted}");
        }
        assert!(!files("", "[core]\n\texcludesFile = ~/.ignore\n").name_nothing());
        assert!(has_any(b"[INCLUDEIF \"gitdir:x\"]", &[INCLUDES]));
    }
}

//! Disables filters and merge drivers that a repository's configuration defines.
//!
//! Git starts these commands when it reads or writes a worktree, and has no switch to disable them,
//! so each is overridden by name.
//!
//! Those in the user's configuration stay, since files would be damaged without them (a large file
//! would be committed instead of its LFS pointer). So do the exact commands of Git LFS, which `git
//! lfs install --local` writes into the repository.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::PoisonError;

use super::command::{GitCommand, text};
use super::config_files::ConfigFiles;
use super::{Git, GitError, Result};
use crate::files;

/// Git commands that never read the files of a worktree or files with rules for them.
///
/// Other commands may start a filter unexpectedly: `write-tree` rereads every file that is as
/// recent as the index.
const TOUCHES_NO_FILES: &[&str] = &[
    "cat-file",
    "commit-tree",
    "config",
    "for-each-ref",
    "hash-object --no-filters",
    "ls-tree",
    "merge-base",
    "rev-list",
    "rev-parse",
    "symbolic-ref",
    "update-ref",
    "upload-pack",
    "version",
    "worktree list",
];

const KEYS: &str = r"^(filter\..*\.(clean|smudge|process|required)|merge\..*\.driver|core\.(attributesfile|excludesfile))$";

/// Settings that name a file with rules, which git reads completely. An oversized file is a device
/// or a trap.
const RULES: [&str; 2] = ["core.attributesfile", "core.excludesfile"];
const MOST_RULES: u64 = 1 << 20;

/// Maximum number of overridden settings. No honest repository needs more, and the environment has
/// a size limit.
const MOST: usize = 500;

const LFS: [&str; 5] = [
    "git-lfs clean -- %f",
    "git-lfs smudge -- %f",
    "git-lfs smudge --skip -- %f",
    "git-lfs filter-process",
    "git-lfs filter-process --skip",
];

/// Answer of git about drivers and files with rules.
#[derive(Debug)]
pub(super) struct KnownDrivers {
    about: ConfigFiles,
    /// `None` if there are none.
    listed: Option<String>,
}

/// Key of git's configuration and its value for one call.
pub(super) type Setting = (String, String);

impl Git {
    /// Returns settings that disable the drivers defined by the repository of a call.
    pub(super) async fn without_drivers(&self, call: &GitCommand) -> Result<Vec<Setting>> {
        if TOUCHES_NO_FILES.iter().any(|words| call.begins_with(words)) {
            return Ok(Vec::new());
        }
        let Some(listed) = self.listed_drivers(call).await? else {
            return Ok(Vec::new());
        };
        let mut settings = overrides(&listed);
        settings.extend(self.endless_rules(&listed, &call.cwd));
        if settings.len() > MOST {
            return Err(GitError::TooMuch {
                args: "config --get-regexp".to_owned(),
                cap: MOST,
            });
        }
        Ok(settings)
    }

    /// Lists the settings of drivers and rules; `None` if there are none.
    ///
    /// No process is started if the configuration files, read just before the call, cannot have
    /// any, or are byte for byte those that git was last asked about.
    async fn listed_drivers(&self, call: &GitCommand) -> Result<Option<String>> {
        let place = call.place.as_ref();
        let files = place.and_then(|place| ConfigFiles::read(self, place));
        if let Some(files) = &files {
            if files.name_nothing() {
                return Ok(None);
            }
            let known = self.drivers.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = known.as_ref().filter(|known| known.about == *files) {
                return Ok(known.listed.clone());
            }
        }
        let list = call
            .in_same_place("config -z --show-scope --includes --get-regexp")
            .arg(KEYS);
        let listed = self.listed_settings(&list).await?;
        let listed = listed.map(|bytes| text("config --get-regexp", bytes));
        let listed = listed.transpose()?;
        let mut known = self.drivers.lock().unwrap_or_else(PoisonError::into_inner);
        *known = files.map(|about| KnownDrivers {
            about,
            listed: listed.clone(),
        });
        Ok(listed)
    }

    /// Unsets files with rules that are not regular files or are too large: git would block on a
    /// pipe, and read a device until its memory is full.
    fn endless_rules(&self, listed: &str, cwd: &Path) -> Vec<Setting> {
        let named = entries(listed).filter(|(_, key, _)| RULES.contains(key));
        let named: BTreeMap<&str, &str> = named.map(|(_, key, value)| (key, value)).collect();
        let home = self.env.get("HOME").map(Path::new);
        let path = |value: &str| match (value.strip_prefix("~/"), home) {
            (Some(below), Some(home)) => home.join(below),
            (Some(_), None) | (None, _) => cwd.join(value),
        };
        let is_endless = |value: &str| {
            let meta = files::aside(|| path(value).metadata());
            meta.is_ok_and(|meta| !meta.is_dir() && (!meta.is_file() || meta.len() > MOST_RULES))
        };
        let endless = named.into_iter().filter(|(_, value)| is_endless(value));
        endless
            .map(|(key, _)| (key.to_owned(), String::new()))
            .collect()
    }
}

/// Parses the output of `git config -z --show-scope` into scope, key and value, in the order in
/// which git reads them.
fn entries(listed: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    let mut fields = listed.split('\0');
    std::iter::from_fn(move || {
        let (scope, entry) = (fields.next()?, fields.next()?);
        let (key, value) = entry.split_once('\n').unwrap_or((entry, ""));
        Some((scope, key, value))
    })
}

fn overrides(listed: &str) -> Vec<Setting> {
    let mut users: BTreeMap<String, String> = BTreeMap::new();
    let mut planted: BTreeSet<(String, String)> = BTreeSet::new();
    for (scope, key, value) in entries(listed).filter(|(_, key, _)| !RULES.contains(key)) {
        let Some((driver, name)) = key.rsplit_once('.') else {
            continue;
        };
        let is_users = matches!(scope, "system" | "global");
        if is_users || LFS.contains(&value) {
            users.insert(key.to_owned(), value.to_owned());
        } else if name != "required" {
            planted.insert((driver.to_owned(), name.to_owned()));
        }
    }
    let mut settings = BTreeMap::new();
    let mut set = |key: String, otherwise: &str| {
        let value = users.get(&key).map_or(otherwise, String::as_str);
        settings.insert(key, value.to_owned());
    };
    for (driver, name) in planted {
        if name == "driver" {
            // A failing driver leaves a conflict; an empty one would drop the changes of the other
            // side.
            set(format!("{driver}.driver"), "false");
            continue;
        }
        for name in ["clean", "smudge", "process"] {
            set(format!("{driver}.{name}"), "");
        }
        set(format!("{driver}.required"), "false");
    }
    settings.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(entries: &[(&str, &str, &str)]) -> String {
        entries
            .iter()
            .map(|(scope, key, value)| format!("{scope}\0{key}\n{value}\0"))
            .collect()
    }

    #[test]
    fn only_drivers_of_the_repository_are_switched_off() {
        let all = listed(&[
            ("global", "filter.lfs.clean", "git-lfs clean -- %f"),
            ("global", "filter.lfs.process", "git-lfs filter-process"),
            ("global", "filter.lfs.required", "true"),
            ("global", "merge.mine.driver", "mine %A"),
            ("local", "filter.e.x.clean", "evil"),
            ("local", "filter.e.x.required", "true"),
            ("worktree", "merge.e.driver", "evil %A"),
        ]);
        let expected = [
            ("filter.e.x.clean", ""),
            ("filter.e.x.process", ""),
            ("filter.e.x.required", "false"),
            ("filter.e.x.smudge", ""),
            ("merge.e.driver", "false"),
        ];
        assert_eq!(
            overrides(&all),
            expected.map(|(key, value)| (key.to_owned(), value.to_owned()))
        );
    }

    #[test]
    fn a_driver_of_the_user_s_own_is_put_back_where_the_repository_changes_it() {
        let all = listed(&[
            ("global", "filter.lfs.clean", "git-lfs clean -- %f"),
            ("global", "filter.lfs.required", "true"),
            ("global", "merge.mine.driver", "mine %A"),
            ("local", "filter.lfs.clean", "evil"),
            ("local", "merge.mine.driver", "evil"),
        ]);
        let expected = [
            ("filter.lfs.clean", "git-lfs clean -- %f"),
            ("filter.lfs.process", ""),
            ("filter.lfs.required", "true"),
            ("filter.lfs.smudge", ""),
            ("merge.mine.driver", "mine %A"),
        ];
        assert_eq!(
            overrides(&all),
            expected.map(|(key, value)| (key.to_owned(), value.to_owned()))
        );
        let local = listed(&[
            ("local", "filter.lfs.clean", "git-lfs clean -- %f"),
            ("local", "filter.lfs.required", ""),
        ]);
        assert_eq!(overrides(&local), []);
    }
}

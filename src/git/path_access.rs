//! Determines the paths that a git call needs without running git: a sandbox must know them before
//! git can look for itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::command::GitCommand;
use super::fs_nofollow::path_of;
use super::{Git, GitError, Place, Result};
use crate::sandbox::GitReach;
use crate::{files, process};

/// Maximum size of the user's configuration as listed by git.
const CONFIG_CAP: usize = 1024 * 1024;

impl GitCommand {
    /// Returns the paths that the call needs. `None` if there is no repository: then nothing in it
    /// can start a command.
    pub(super) fn reach(&self) -> Option<GitReach> {
        let (mut write, mut read) = (self.write.clone(), self.read.clone());
        let place = match &self.place {
            Some(place) => place.clone(),
            None => discover(&self.cwd)?,
        };
        let found = [&place.path, &place.git_dir, &place.common_dir, &self.cwd];
        if self.place.is_some() || self.changes_something().is_some() {
            write.extend(found.map(PathBuf::clone));
        } else {
            read.extend(found.map(PathBuf::clone));
        }
        Some(GitReach {
            worktree: place.path,
            repository: place.common_dir,
            write,
            read,
        })
    }
}

impl Git {
    /// Returns files of the user's git configuration: included files, and the ignore and attributes
    /// files that it names.
    ///
    /// Without them a confined git would commit under another name, and would commit files that the
    /// user ignores globally. Read outside of any repository, once per [`Git`].
    pub(super) async fn user_files(&self) -> Result<&[PathBuf]> {
        self.user_files
            .get_or_try_init(|| self.find_user_files())
            .await
            .map(Vec::as_slice)
    }

    async fn find_user_files(&self) -> Result<Vec<PathBuf>> {
        let call = "config --global --includes --list --show-origin -z";
        let short = GitCommand::anywhere("/".as_ref(), call)
            .cap(CONFIG_CAP)
            .short(self, &[])?;
        // Without a configuration git fails here, and then nothing is needed.
        let output = process::short(&short).await.map_err(GitError::Process)?;
        let home = self.env.get("HOME").map(PathBuf::from);
        let mut files = named_files(&output.stdout, home.as_deref());
        for name in ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"] {
            files.extend(self.env.get(name).map(PathBuf::from));
        }
        files.retain(|path| path.is_absolute() && path.is_file());
        Ok(files.into_iter().collect())
    }
}

/// Parses repeated `origin NUL key LF value NUL`.
fn named_files(listed: &[u8], home: Option<&Path>) -> BTreeSet<PathBuf> {
    let mut fields = listed.split(|byte| *byte == 0);
    let mut files = BTreeSet::new();
    while let (Some(origin), Some(entry)) = (fields.next(), fields.next()) {
        let Some(origin) = origin.strip_prefix(b"file:").map(path_of) else {
            continue;
        };
        let entry = String::from_utf8_lossy(entry);
        let (key, value) = entry.split_once('\n').unwrap_or((&entry, ""));
        let is_include =
            key == "include.path" || (key.starts_with("includeif.") && key.ends_with(".path"));
        if is_include || key == "core.excludesfile" || key == "core.attributesfile" {
            let path = match (value.strip_prefix("~/"), home) {
                (Some(rest), Some(home)) => home.join(rest),
                _ => PathBuf::from(value),
            };
            files.insert(match origin.parent() {
                Some(folder) => folder.join(path),
                None => path,
            });
        }
        files.insert(origin);
    }
    files
}

/// Searches upwards from a directory as git does.
///
/// A `.git` file counts only if it leads to something that looks like a repository: an agent can
/// write one, and whatever it names becomes visible to git.
fn discover(from: &Path) -> Option<Place> {
    from.ancestors().find_map(|folder| {
        let path = folder.to_owned();
        let dot_git = folder.join(".git");
        let git_dir = match one_line(&dot_git) {
            _ if is_git_dir(&dot_git) => dot_git,
            Some(text) => folder.join(text.strip_prefix("gitdir: ")?),
            None if is_git_dir(folder) => {
                return Some(Place {
                    git_dir: path.clone(),
                    common_dir: common_dir(folder).unwrap_or_else(|| path.clone()),
                    path,
                });
            }
            None => return None,
        };
        let git_dir = git_dir.canonicalize().ok()?;
        let common_dir = common_dir(&git_dir)?;
        Some(Place {
            path,
            git_dir,
            common_dir,
        })
    })
}

fn common_dir(git_dir: &Path) -> Option<PathBuf> {
    let common_dir = match one_line(&git_dir.join("commondir")) {
        Some(text) => git_dir.join(text).canonicalize().ok()?,
        None => git_dir.to_owned(),
    };
    let is_repository = common_dir.join("objects").is_dir() && common_dir.join("refs").is_dir();
    is_repository.then_some(common_dir)
}

fn is_git_dir(path: &Path) -> bool {
    let is_linked = path.join("commondir").is_file();
    path.is_dir()
        && path.join("HEAD").symlink_metadata().is_ok()
        && (is_linked || path.join("objects").is_dir())
}

fn one_line(path: &Path) -> Option<String> {
    let text = files::read_text(path, files::SMALL).ok()?;
    Some(text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_that_the_user_s_configuration_names() {
        let listed = b"file:/h/.gitconfig\0user.name\nAda\0file:/h/.gitconfig\0include.path\nmore\0\
            file:/h/.gitconfig\0includeif.gitdir:~/src/.path\n~/.team\0file:/h/more\0core.excludesfile\n/x/ignore\0\
            command line:\0core.excludesfile\n/never\0file:/h/more\0core.bare\0";
        let found = named_files(listed, Some(Path::new("/h")));
        let found: Vec<&str> = found.iter().filter_map(|path| path.to_str()).collect();
        assert_eq!(found, ["/h/.gitconfig", "/h/.team", "/h/more", "/x/ignore"]);
    }

    #[test]
    fn a_git_file_that_leads_to_no_repository_shows_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (secret, inside) = (dir.path().join("secret"), dir.path().join("tree/below"));
        fs::create_dir_all(&secret).unwrap();
        fs::create_dir_all(&inside).unwrap();
        fs::write(secret.join("HEAD"), "").unwrap();
        fs::write(
            dir.path().join("tree/.git"),
            format!("gitdir: {}\n", secret.display()),
        )
        .unwrap();
        assert_eq!(discover(&inside), None);
        for folder in ["objects", "refs"] {
            fs::create_dir(secret.join(folder)).unwrap();
        }
        let found = discover(&inside).unwrap();
        assert_eq!(
            (found.path, found.common_dir),
            (dir.path().join("tree"), secret.canonicalize().unwrap())
        );
    }
}

//! Objections to a push.
//!
//! They are based on the net difference, in the bare clone, where settings of the branch or of an
//! agent have no effect. Secrets are also searched in the intermediate commits: they would be
//! pushed along.

use std::fmt;

use super::content_scan::Judge;
use super::{Remote, Result};
use crate::git::NetFile;
use crate::glob;
use crate::project_settings::PushLimits;
use crate::sanitize;
use crate::secret::Secret;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Objection {
    pub(crate) what: Wrong,
    /// Path; `None` if the objection is to the whole push. Bytes that are not UTF-8 are shown with
    /// `�`.
    pub(crate) path: Option<String>,
}

impl Objection {
    pub(super) fn at(path: String, what: Wrong) -> Self {
        Self {
            what,
            path: Some(path),
        }
    }

    pub(super) fn to_all(what: Wrong) -> Self {
        Self { what, path: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wrong {
    Forbidden {
        pattern: String,
    },
    TooBig {
        bytes: u64,
        most: u64,
    },
    TooManyFiles {
        files: usize,
        most: usize,
    },
    TooMuch {
        bytes: u64,
        most: u64,
    },
    /// Leads out of the tree, or into `.git`.
    Symlink,
    Submodule,
    /// A secret, identified by its kind; never the secret itself.
    Secret {
        kind: &'static str,
        line: usize,
    },
    /// A secret that a later commit removes: it would be pushed with the history.
    SecretInHistory {
        kind: &'static str,
    },
    SecretInMessage {
        kind: &'static str,
        commit: String,
    },
}

pub(super) const LINK: u32 = 0o120_000;
pub(super) const SUBMODULE: u32 = 0o160_000;

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = sanitize::line(self.path.as_deref().unwrap_or("the change"));
        match &self.what {
            Wrong::Forbidden { pattern } => {
                write!(
                    f,
                    "{path} must not be changed by an agent: forbidden by `{}`",
                    sanitize::line(pattern)
                )
            }
            Wrong::TooBig { bytes, most } => {
                write!(f, "{path} has {bytes} bytes; the limit is {most}")
            }
            Wrong::TooManyFiles { files, most } => {
                write!(f, "{files} files changed; the limit is {most}")
            }
            Wrong::TooMuch { bytes, most } => {
                write!(f, "{path} has {bytes} bytes in total; the limit is {most}")
            }
            Wrong::Symlink => write!(
                f,
                "{path} is a symlink that points outside the repository or into .git"
            ),
            Wrong::Submodule => write!(f, "{path} changes a submodule, which agents must not do"),
            Wrong::Secret { kind, line } => {
                write!(
                    f,
                    "{path} contains what looks like {kind} on line {line}; remove it, and revoke it if it is real"
                )
            }
            Wrong::SecretInHistory { kind } => {
                write!(
                    f,
                    "{path} contains what looks like {kind} in an earlier commit that would be pushed too; drop that commit"
                )
            }
            Wrong::SecretInMessage { kind, commit } => {
                write!(
                    f,
                    "the message of {commit} contains what looks like {kind}; reword it, and revoke it if it is real"
                )
            }
        }
    }
}

impl Remote {
    /// Returns the objections to pushing `to` to a branch that is at `from`; an empty list allows
    /// the push. `known` secrets are always searched.
    pub(crate) async fn objections(
        &self,
        from: &str,
        to: &str,
        limits: &PushLimits,
        known: &[Secret],
    ) -> Result<Vec<Objection>> {
        self.have(from).await?;
        self.have(to).await?;
        let files = self.git.net_files(&self.place, from, to).await?;
        let mut objections = Vec::new();
        let (count, most) = (files.len(), limits.max_files);
        if count > most {
            let what = Wrong::TooManyFiles { files: count, most };
            objections.push(Objection::to_all(what));
        }
        let judge = Judge::new(self, limits, known);
        for file in &files {
            let wrong = by_path(file, limits).into_iter();
            objections.extend(wrong.map(|what| Objection::at(judge.covered(&file.path), what)));
        }
        // A commit of ten thousand files already has an objection; its files are not read.
        if count <= most {
            objections.extend(judge.files(&files).await?);
            let mut carried = judge.history(from, to, &files).await?;
            // A secret that is still there was also in the commits before.
            let is_said = |objection: &Objection| {
                let same = |other: &Objection| {
                    other.path == objection.path && matches!(other.what, Wrong::Secret { .. })
                };
                objection.path.is_some() && objections.iter().any(same)
            };
            carried.retain(|objection| !is_said(objection));
            objections.extend(carried);
        }
        Ok(objections)
    }
}

fn by_path(file: &NetFile, limits: &PushLimits) -> Vec<Wrong> {
    let path = file.display_path();
    let is_link = [LINK, SUBMODULE].contains(&file.mode);
    let forbids = |pattern: &&String| {
        glob::matches_path(pattern, &path) || (is_link && glob::is_above_path(pattern, &path))
    };
    let forbidden = limits.forbidden.iter().find(forbids).cloned();
    let forbidden = forbidden.map(|pattern| Wrong::Forbidden { pattern });
    let mut wrong: Vec<Wrong> = forbidden.into_iter().collect();
    if file.mode == SUBMODULE || file.old_mode == SUBMODULE || path.to_lowercase() == ".gitmodules"
    {
        wrong.push(Wrong::Submodule);
    }
    wrong
}

/// Returns true if a symlink leads to a path in the same tree. Steps up are allowed only at the
/// start: after a name they could start from wherever that name, itself a symlink, leads.
pub(super) fn stays_inside(link: &[u8], target: &[u8]) -> bool {
    let mut depth = link.iter().filter(|b| **b == b'/').count();
    let mut is_below = false;
    if target.starts_with(b"/") || target.is_empty() || target.contains(&0) {
        return false;
    }
    for part in target.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." if is_below || depth == 0 => return false,
            b".." => depth -= 1,
            name if name.eq_ignore_ascii_case(b".git") => return false,
            _ => is_below = true,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_inside_and_outside() {
        for (link, target, inside) in [
            ("link", "a", true),
            ("a/b/link", "../../c", true),
            ("a/link", "./b//c", true),
            ("link", "..", false),
            ("a/link", "../../etc", false),
            ("link", "/etc/passwd", false),
            ("a/b/link", "up/../../x", false),
            ("link", ".git/config", false),
            ("link", ".GIT/hooks", false),
            ("link", "", false),
        ] {
            assert_eq!(
                stays_inside(link.as_bytes(), target.as_bytes()),
                inside,
                "{link} -> {target}"
            );
        }
    }
}

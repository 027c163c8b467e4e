//! References to pull requests: `owner/repo#42`, `project#42` as `run` prints it, a URL, or `#42` or `42` in a project's checkout.

use std::path::Path;

use anyhow::Result;

use super::context::{CommandContext, wait};
use super::error::CommandError;
use crate::blackboard::{self as bb, Project};
use crate::text::{digits, list};

/// A parsed reference to a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PrRef {
    /// `owner/repo`, or the name of a repository or project without its owner; `None` means the
    /// repository of the checkout.
    pub(crate) repo: Option<String>,
    pub(crate) number: i64,
}

impl PrRef {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (repo, number) = match text.strip_prefix("https://") {
            Some(rest) => {
                let (host, rest) = rest.split_once('/')?;
                if !["github.com", "www.github.com"].contains(&host) {
                    return None;
                }
                let (repo, number) = rest.split_once("/pull/")?;
                // The number may be followed by a tab of the page, or by an anchor.
                (repo, number.split(['/', '?', '#']).next()?)
            }
            None => text.rsplit_once('#')?,
        };
        let parts = if text.starts_with("https://") {
            2..=2
        } else {
            1..=2
        };
        let is_one = parts.contains(&repo.split('/').count())
            && repo.split('/').all(|part| !part.is_empty());
        let number = digits(number)?;
        if repo.is_empty() || is_one {
            let repo = Some(repo.to_owned()).filter(|repo| !repo.is_empty());
            return (number > 0).then_some(Self { repo, number });
        }
        None
    }

    /// Parses a number without `#`: a PR of the project of the current directory.
    pub(crate) fn bare(text: &str) -> Option<Self> {
        let number = digits(text)?;
        (number > 0).then_some(Self { repo: None, number })
    }

    /// True for a repository or project without its owner.
    pub(crate) fn is_short(&self) -> bool {
        self.repo.as_ref().is_some_and(|repo| !repo.contains('/'))
    }

    /// Returns the project of the pull request. The error for an unknown project has a hint how to
    /// add it.
    pub(crate) fn project(&self, ctx: &CommandContext) -> Result<Project> {
        let Some(repo) = &self.repo else {
            return project_here(ctx)?.ok_or_else(|| {
                let what = format!(
                    "cannot tell which repository PR {} belongs to: the current directory is not in a project",
                    self.number
                );
                CommandError::not_found(what)
                    .hint("use owner/repo#42 or the URL; `remand project list` lists the projects")
                    .into()
            });
        };
        let all = ctx.read(bb::list_projects)?;
        let mut fitting: Vec<Project> = all
            .into_iter()
            .filter(|project| is_of(project, repo))
            .collect();
        if fitting.len() > 1
            && let Some(here) = project_here(ctx)?
        {
            fitting.retain(|project| project.project_id == here.project_id);
        }
        match fitting.len() {
            0 if self.is_short() => {
                let what = format!("there is no project or repository named {repo}");
                CommandError::not_found(what).fail_with_hint(
                    "use owner/repo#42 or the URL; `remand project list` lists the projects",
                )
            }
            0 => {
                let what = format!("there is no project for the repository {repo}");
                CommandError::not_found(what).fail_with_hint(format!(
                    "add it with `remand project add PATH --repo {repo}`"
                ))
            }
            1 => Ok(fitting.remove(0)),
            _ => {
                let names = list(fitting.iter().map(|project| &project.project_id));
                let what = format!("several projects use the repository {repo}: {names}");
                CommandError::new(what).fail_with_hint(format!(
                    "change to the checkout of one of them and use `#{}`",
                    self.number
                ))
            }
        }
    }
}

/// Returns the project whose repository contains the current directory.
pub(crate) fn project_here(ctx: &CommandContext) -> Result<Option<Project>> {
    let git = ctx.git(&ctx.settings()?);
    let Ok(found) = wait(git.project_at(Path::new(".")))? else {
        return Ok(None);
    };
    let common_dir = found.common_dir.display().to_string();
    ctx.read(|conn| bb::project_by_common_dir(conn, &common_dir))
}

fn is_of(project: &Project, repo: &str) -> bool {
    let is_name = |known: &str| known.eq_ignore_ascii_case(repo);
    let known = project.repo.as_deref();
    known.is_some_and(|known| {
        is_name(known) || known.split_once('/').is_some_and(|(_, name)| is_name(name))
    }) || project.project_id.as_str() == repo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_people_write_it() {
        for (text, expected) in [
            ("ada/engine#42", Some((Some("ada/engine"), 42))),
            ("#42", Some((None, 42))),
            (
                "https://github.com/ada/engine/pull/42",
                Some((Some("ada/engine"), 42)),
            ),
            (
                "https://github.com/ada/engine/pull/42/files",
                Some((Some("ada/engine"), 42)),
            ),
            (
                "https://github.com/ada/engine/pull/42#issuecomment-1",
                Some((Some("ada/engine"), 42)),
            ),
            (
                "https://github.com/ada/engine/pull/7?x=1",
                Some((Some("ada/engine"), 7)),
            ),
            ("https://git.example.org/ada/engine/pull/7", None),
            ("https://github.com/ada/engine/issues/42", None),
            ("https://github.com/a/b/c/pull/42", None),
            ("ada/engine", None),
            ("ada/engine#", None),
            ("ada/engine#0", None),
            ("ada/engine#+1", None),
            ("ada/engine#-1", None),
            ("ada/engine#99999999999999999999", None),
            ("engine#42", Some((Some("engine"), 42))),
            ("https://github.com/engine/pull/42", None),
            ("c1", None),
            ("fix/a/b#1", None),
        ] {
            let read = PrRef::parse(text);
            assert_eq!(
                read,
                expected.map(|(repo, number)| PrRef {
                    repo: repo.map(str::to_owned),
                    number
                }),
                "{text}"
            );
        }
    }
}

//! Pushes one commit to one branch, only from the expected state, and never rewrites the branch.

use super::command::Ended;
use super::{Remote, RemoteError, Result};
use crate::failpoint::crash_point;
use crate::git::{GitError, check_branch_name, check_sha};
use crate::text::joined;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Push {
    pub(crate) branch: String,
    pub(crate) expected: Expected,
    pub(crate) to: String,
}

/// State of the branch on the remote before the push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expected {
    /// The branch is at this commit, from which the pushed one descends.
    At(String),
    /// The branch does not exist. The push creates it.
    Absent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// The remote is at `to`, by this push or an earlier one.
    Done,
    /// The remote has `to` and more: its head.
    Ahead(String),
    /// The remote is elsewhere: its head; `None` if the branch is gone.
    Moved(Option<String>),
    /// A branch of the remote leaves no room for the new one: `a` for `a/b`, and the reverse.
    Conflict(String),
    /// A hook or a rule of the remote refused the push.
    Refused { rule: Rule, message: String },
}

/// Rule by which a remote refuses a push, as far as it reports GitHub's code for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    ProtectedBranch,
    Ruleset,
    BranchName,
    Other,
}

impl Remote {
    /// Pushes a commit: checks the remote first, pushes, and checks again whenever the result is
    /// not clear.
    ///
    /// The result reflects what the remote has. An error means that the remote was still as
    /// expected, or could not be reached.
    pub(crate) async fn push(&self, push: &Push) -> Result<Pushed> {
        check_branch_name(&push.branch).map_err(GitError::from)?;
        self.have(&push.to).await?;
        if let Expected::At(from) = &push.expected {
            self.check_no_rewrite(from, &push.to).await?;
        }
        if let Some(found) = self.find(push).await? {
            return Ok(found);
        }
        crash_point!("push.before");
        let ended = self.send(push).await;
        crash_point!("push.after");
        if ended.as_ref().is_ok_and(|ended| is_done(ended, push)) {
            return Ok(Pushed::Done);
        }
        // Whatever the output was: the connection may have been lost after the remote accepted the
        // commit.
        match self.find(push).await {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => {}
            // The first error is more specific than that the remote does not answer now.
            Err(error) => return Err(ended.map_or_else(|first| first, |_| error)),
        }
        let ended = ended?;
        let refusal = refusal(&ended.stdout);
        if refusal.is_some()
            && push.expected == Expected::Absent
            && let Some(other) = self.branch_in_the_way(&push.branch).await?
        {
            return Ok(Pushed::Conflict(other));
        }
        let message = |why: &str| self.message(&format!("{why}\n{}", remote_lines(&ended.stderr)));
        match refusal {
            Some(Refusal::Stays(why)) => Ok(Pushed::Refused {
                rule: rule(&ended.stderr),
                message: message(why),
            }),
            Some(Refusal::Passes(why)) => Err(RemoteError::Busy {
                url: self.shown_url(),
                message: message(why),
            }),
            None => Err(self.trouble("push", &ended)),
        }
    }

    /// Returns the state of the remote; `None` if it is the expected one.
    async fn find(&self, push: &Push) -> Result<Option<Pushed>> {
        let Some(head) = self.head_of(&push.branch).await? else {
            return Ok(match push.expected {
                Expected::At(_) => Some(Pushed::Moved(None)),
                Expected::Absent => None,
            });
        };
        if head == push.to {
            return Ok(Some(Pushed::Done));
        }
        if push.expected == Expected::At(head) {
            return Ok(None);
        }
        // It may move again while it is fetched.
        Ok(Some(match self.fetch(&push.branch).await? {
            Some(head) if self.contains(&head, &push.to).await? => Pushed::Ahead(head),
            moved => Pushed::Moved(moved),
        }))
    }

    async fn check_no_rewrite(&self, from: &str, to: &str) -> Result<()> {
        check_sha(from)?;
        if self.contains(to, from).await? {
            return Ok(());
        }
        Err(RemoteError::Rewrite {
            from: from.to_owned(),
            to: to.to_owned(),
        })
    }

    async fn send(&self, push: &Push) -> Result<Ended> {
        let Push {
            branch,
            expected,
            to,
        } = push;
        // Without a commit: only if the branch does not exist.
        let from = match expected {
            Expected::At(from) => from.as_str(),
            Expected::Absent => "",
        };
        let args = [
            "push",
            "--porcelain",
            "--no-verify",
            "--no-signed",
            "--no-follow-tags",
            "--recurse-submodules=no",
            &format!("--force-with-lease=refs/heads/{branch}:{from}"),
            "--",
            "{url}",
            &format!("{to}:refs/heads/{branch}"),
        ];
        self.call("push", &args).await
    }
}

/// Parses `FLAG TAB from:to TAB summary`: a space is a fast-forward, `*` a new branch, `=` means
/// up to date.
fn is_done(ended: &Ended, push: &Push) -> bool {
    let about = format!("{}:refs/heads/{}", push.to, push.branch);
    let is_ours = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        matches!(fields.as_slice(), [" " | "*" | "=", names, _] if *names == about)
    };
    ended.status == Some(0) && ended.stdout.lines().any(is_ours)
}

/// Reason why the remote refused.
#[derive(Debug, PartialEq, Eq)]
enum Refusal<'a> {
    Stays(&'a str),
    /// A temporary problem of the remote.
    Passes(&'a str),
}

/// Returns the remote's refusal; `None` if git itself refused, or nobody.
fn refusal(stdout: &str) -> Option<Refusal<'_>> {
    const PASSING: [&str; 5] = [
        "failed to update ref",
        "cannot lock ref",
        "failed to lock",
        "unpacker error",
        "internal server error",
    ];
    let summary = stdout
        .lines()
        .find_map(|line| line.strip_prefix("!\t")?.split('\t').nth(1))?;
    let why = summary.strip_prefix("[remote rejected]")?.trim();
    let lower = why.to_ascii_lowercase();
    Some(if PASSING.iter().any(|passing| lower.contains(passing)) {
        Refusal::Passes(why)
    } else {
        Refusal::Stays(why)
    })
}

/// Returns the rule that a remote names: `remote: error: GH006: Protected branch update failed`.
fn rule(stderr: &str) -> Rule {
    let lines = stderr
        .lines()
        .filter_map(|line| line.strip_prefix("remote:"));
    let mut codes = lines.filter_map(|line| {
        let line = line.trim();
        let (code, _) = line
            .strip_prefix("error:")
            .unwrap_or(line)
            .split_once(':')?;
        match code.trim() {
            "GH006" => Some(Rule::ProtectedBranch),
            "GH013" => Some(Rule::Ruleset),
            "GH002" => Some(Rule::BranchName),
            _ => None,
        }
    });
    codes.next().unwrap_or(Rule::Other)
}

fn remote_lines(stderr: &str) -> String {
    let lines = stderr
        .lines()
        .filter_map(|line| line.strip_prefix("remote:"));
    joined(lines.map(str::trim), "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_is_read_from_its_code() {
        for (line, expected) in [
            (
                "remote: error: GH006: Protected branch update failed for refs/heads/x.",
                Rule::ProtectedBranch,
            ),
            (
                "remote: error: GH013: Repository rule violations found for refs/heads/x.",
                Rule::Ruleset,
            ),
            ("remote: GH013: Repository rule violations", Rule::Ruleset),
            (
                "remote: error: GH002: Sorry, this branch name is not allowed.",
                Rule::BranchName,
            ),
            ("remote: error: GH009: Secrets detected!", Rule::Other),
            ("error: GH006: not by the remote", Rule::Other),
            ("remote: see GH006: protected", Rule::Other),
            ("", Rule::Other),
        ] {
            assert_eq!(rule(line), expected, "{line}");
        }
        let lines = "remote: Review it:\nremote: error: GH013: Repository rule violations\n";
        assert_eq!(rule(lines), Rule::Ruleset);
    }

    #[test]
    fn what_stays_refused() {
        let line = |why: &str| format!("To /x\n!\tabc:refs/heads/fix\t{why}\nDone\n");
        let declined = line("[remote rejected] (pre-receive hook declined)");
        assert_eq!(
            refusal(&declined),
            Some(Refusal::Stays("(pre-receive hook declined)"))
        );
        let protected = line("[remote rejected] (protected branch hook declined)");
        assert!(matches!(refusal(&protected), Some(Refusal::Stays(_))));
        for passing in [
            "(failed to update ref)",
            "(unpacker error)",
            "(Internal Server Error)",
        ] {
            let line = line(&format!("[remote rejected] {passing}"));
            assert_eq!(refusal(&line), Some(Refusal::Passes(passing)));
        }
        for passing in [
            "[rejected] (stale info)",
            "[rejected] (fetch first)",
            "[remote failure] (remote failed to report status)",
        ] {
            assert_eq!(refusal(&line(passing)), None, "{passing}");
        }
        assert_eq!(refusal(""), None);
    }
}

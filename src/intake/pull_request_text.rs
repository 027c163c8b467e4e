//! The purpose of a pull request: its description, and the issue that it closes. Agents get both if the authors may
//! cause work. A linked issue that cannot be read never prevents the pull request from being read.

use super::trust::{Known, by_account, by_permission};
use super::{Intake, IntakeError, Result};
use crate::github::{Answer, Fetch, GithubError};
use crate::pull_request::{
    Author, Description, Issue, LinkedIssue, Pull, Purpose, Trust, TrustDecision,
};

/// Maximum bytes of a description, or of an issue's text, that are stored.
const TEXT_CAP: usize = 64 * 1024;

/// Keywords with which a pull request closes an issue.
const KEYWORDS: [&str; 9] = [
    "close", "closes", "closed", "fix", "fixes", "fixed", "resolve", "resolves", "resolved",
];

impl Intake {
    /// Returns the current purpose of a pull request. `pull` is none if it did not change; then the issue is fetched
    /// only if an earlier attempt failed.
    pub(super) async fn purpose(
        &self,
        fetch: &Fetch,
        repo: &str,
        pull: Option<&Pull>,
        known: &Purpose,
    ) -> Result<Purpose> {
        let description = match pull {
            None => known.description.clone(),
            Some(pull) => self.description(repo, pull).await?,
        };
        // An untrusted author must not choose further input for an agent.
        let trusted = description
            .as_ref()
            .filter(|description| description.trust == Trust::MayMakeWork);
        let Some(number) = trusted.and_then(|description| closes(&description.text, repo)) else {
            return Ok(Purpose {
                description,
                issue: None,
            });
        };
        let known = known
            .issue
            .as_ref()
            .filter(|known| known.number() == number);
        let issue = match known {
            Some(known) if pull.is_none() && !known.is_to_be_read() => known.clone(),
            Some(_) | None => self.linked_issue(fetch, repo, number, known).await?,
        };
        Ok(Purpose {
            description,
            issue: Some(issue),
        })
    }

    async fn description(&self, repo: &str, pull: &Pull) -> Result<Option<Description>> {
        let text = pull.body.as_deref().unwrap_or_default();
        if text.trim().is_empty() {
            return Ok(None);
        }
        let TrustDecision { trust, reason, .. } = self.trust_of(repo, pull.author.as_ref()).await?;
        Ok(Some(Description {
            text: capped(text),
            trust,
            reason,
        }))
    }

    /// Returns the linked issue. If it cannot be read now, the last known text is kept.
    async fn linked_issue(
        &self,
        fetch: &Fetch,
        repo: &str,
        number: i64,
        known: Option<&LinkedIssue>,
    ) -> Result<LinkedIssue> {
        let etag = known.and_then(LinkedIssue::etag);
        let (issue, etag) = match self.github.issue_in(fetch, repo, number, etag).await {
            Ok(Answer::New { value, etag }) => (value, etag),
            Ok(Answer::Unchanged) => {
                let unread = LinkedIssue::Unread {
                    number,
                    reason: "not modified".to_owned(),
                    is_lasting: false,
                };
                return Ok(known.cloned().unwrap_or(unread));
            }
            Err(error) => return Ok(unread(number, known, &error)),
        };
        let Issue {
            title,
            body,
            author,
            is_pull,
            is_open: _,
        } = issue;
        if is_pull {
            let reason = "it is a pull request".to_owned();
            return Ok(LinkedIssue::Unread {
                number,
                reason,
                is_lasting: true,
            });
        }
        let TrustDecision { trust, reason, .. } = match self.trust_of(repo, author.as_ref()).await {
            Ok(decision) => decision,
            Err(IntakeError::Github(error)) => return Ok(unread(number, known, &error)),
            Err(error) => return Err(error),
        };
        Ok(LinkedIssue::Read {
            number,
            title: capped(&title),
            body: capped(&body),
            trust,
            reason,
            etag,
        })
    }

    /// Uses the rules for comments.
    async fn trust_of(&self, repo: &str, author: Option<&Author>) -> Result<TrustDecision> {
        match by_account(author, &self.settings.bots) {
            Known::Decided(decision) => Ok(decision),
            Known::Ask(author) => Ok(by_permission(self.permission(repo, author).await?)),
        }
    }
}

fn unread(number: i64, known: Option<&LinkedIssue>, error: &GithubError) -> LinkedIssue {
    if let Some(known @ LinkedIssue::Read { .. }) = known {
        return known.clone();
    }
    let is_lasting = match error {
        GithubError::NotFound { .. } | GithubError::Refused { .. } => true,
        GithubError::NoGh
        | GithubError::LoggedOut
        | GithubError::Auth { .. }
        | GithubError::Limited { .. }
        | GithubError::Transient { .. }
        | GithubError::Broken { .. } => false,
    };
    LinkedIssue::Unread {
        number,
        reason: error.to_string(),
        is_lasting,
    }
}

/// Returns the first issue of the same repository that a text closes, in one of the forms that GitHub accepts: `Fixes
/// #12`, `closes: ada/engine#12`, `Resolves https://github.com/ada/engine/issues/12`. Text that GitHub does not show is
/// ignored.
fn closes(text: &str, repo: &str) -> Option<i64> {
    let shown = without_comments(text);
    let words: Vec<&str> = shown.split_whitespace().collect();
    let is_keyword = |word: &str| {
        let word = word
            .strip_suffix(':')
            .unwrap_or(word)
            .trim_start_matches(['(', '*', '_', '-', '>']);
        KEYWORDS
            .iter()
            .any(|keyword| word.eq_ignore_ascii_case(keyword))
    };
    words
        .iter()
        .zip(words.iter().skip(1))
        .find_map(|(word, next)| reference(next, repo).filter(|_| is_keyword(word)))
}

fn reference(word: &str, repo: &str) -> Option<i64> {
    let word = word.trim_end_matches(['.', ',', ';', ':', '!', ')', ']', '*', '_']);
    let (place, number) = word.rsplit_once(['#', '/'])?;
    let is_here = if word.contains("://") {
        place
            .to_ascii_lowercase()
            .strip_prefix("https://github.com/")
            .and_then(|rest| rest.strip_suffix("/issues"))
            == Some(repo.to_ascii_lowercase().as_str())
    } else {
        word.contains('#') && (place.is_empty() || place.eq_ignore_ascii_case(repo))
    };
    let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
    number
        .parse()
        .ok()
        .filter(|number| is_here && is_number && *number > 0)
}

/// Templates of descriptions contain examples in comments.
fn without_comments(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("<!--") {
        shown.push_str(before);
        shown.push(' ');
        rest = after.split_once("-->").map_or("", |(_, after)| after);
    }
    shown + rest
}

fn capped(text: &str) -> String {
    text.get(..text.floor_char_boundary(TEXT_CAP))
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issue_is_closed_in_the_forms_that_github_knows() {
        for (text, expected) in [
            ("Fixes #12", Some(12)),
            ("This\nfixes: #12.", Some(12)),
            ("(closes ada/engine#12)", Some(12)),
            ("**Resolves** Ada/Engine#12", None),
            ("Resolved Ada/Engine#12, fixes #13", Some(12)),
            ("closes https://github.com/ada/engine/issues/12.", Some(12)),
            ("closes https://github.com/ada/engine/pull/12", None),
            ("closes https://example.org/ada/engine/issues/12", None),
            ("fixes bob/engine#12", None),
            ("see #12", None),
            ("prefixes #12", None),
            ("fixes 12", None),
            ("fixes #", None),
            ("fixes #0", None),
            ("fixes #-1", None),
            ("fixes #99999999999999999999", None),
            ("<!-- Fixes #1 -->\ncloses #12", Some(12)),
            ("<!-- Fixes #1", None),
            ("", None),
        ] {
            assert_eq!(closes(text, "ada/engine"), expected, "{text}");
        }
    }
}

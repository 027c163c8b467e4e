//! Trust: the accounts that may cause work. Decided once, when a comment is read, from facts of the forge itself: never
//! from a name, from the text, or from GitHub's author association. Pure; unknown accounts may not cause work.

use std::collections::BTreeSet;

use crate::blackboard::OurPosts;
use crate::pull_request::{
    Author, AuthorKind, Comment, CommentKind, Permission, Trust, TrustDecision, is_by_a_remand,
    marker_of,
};

/// A decision, or the author whose permission is needed for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known<'a> {
    Decided(TrustDecision),
    Ask(&'a Author),
}

/// Comments by remand on a pull request: by this instance, and by others that watch it too.
#[derive(Debug, Clone)]
pub(super) struct Written {
    ours: OurPosts,
    /// Reviews by another instance, and those that the forge wrapped around its replies.
    others: BTreeSet<i64>,
}

pub(super) fn known<'a>(comment: &'a Comment, written: &Written, bots: &[i64]) -> Known<'a> {
    if written.is_ours(comment) {
        return decided(Trust::Ours, "written by remand");
    }
    if written.is_by_another(comment) {
        return decided(
            Trust::ShownOnly,
            "written by another remand instance, or by this one with another blackboard",
        );
    }
    by_account(comment.author.as_ref(), bots)
}

/// Decides by the author's account.
pub(super) fn by_account<'a>(author: Option<&'a Author>, bots: &[i64]) -> Known<'a> {
    let Some(author) = author else {
        return decided(Trust::ShownOnly, "its author's account no longer exists");
    };
    match author.kind {
        AuthorKind::User if !is_users_name(&author.login) => decided(
            Trust::ShownOnly,
            "its author's name is not a valid user name: no permission on the repository",
        ),
        AuthorKind::User => Known::Ask(author),
        AuthorKind::Bot if bots.contains(&author.id) => {
            let reason = format!("the bot {} is listed in the configuration", author.id);
            decided(Trust::MayMakeWork, &reason)
        }
        AuthorKind::Bot => {
            let reason = format!("the bot {} is not listed in the configuration", author.id);
            decided(Trust::ShownOnly, &reason)
        }
        AuthorKind::Other => decided(Trust::ShownOnly, "its author is neither a user nor a bot"),
    }
}

pub(super) fn by_permission(permission: Permission) -> TrustDecision {
    let trust = if permission.may_write() {
        Trust::MayMakeWork
    } else {
        Trust::ShownOnly
    };
    let reason = match permission {
        Permission::None => "its author has no permission on the repository".to_owned(),
        Permission::Admin
        | Permission::Maintain
        | Permission::Write
        | Permission::Triage
        | Permission::Read => {
            format!("its author's permission on the repository is {permission}")
        }
    };
    TrustDecision {
        trust,
        reason,
        is_person: true,
    }
}

impl Written {
    /// Adds the comments by remand among those just read.
    pub(super) fn new(ours: OurPosts, comments: &[Comment]) -> Self {
        let mut written = Self {
            ours,
            others: BTreeSet::new(),
        };
        let answers = comments
            .iter()
            .filter(|comment| comment.in_reply_to.is_some() && written.is_ours(comment));
        let wraps: Vec<i64> = answers.filter_map(|comment| comment.review).collect();
        written.ours.wraps.extend(wraps);
        let foreign = comments
            .iter()
            .filter(|comment| is_by_a_remand(&comment.body) && !written.is_ours(comment));
        let reviews = foreign.filter_map(|comment| match (comment.kind, comment.in_reply_to) {
            (CommentKind::Review, _) => Some(comment.forge_id),
            (CommentKind::ReviewComment, Some(_)) => comment.review,
            (CommentKind::ReviewComment | CommentKind::IssueComment | CommentKind::Person, _) => {
                None
            }
        });
        let others = reviews.collect();
        Self { others, ..written }
    }

    /// Recognises our posts by the recorded id, or by the marker at their end if the record is missing because of a
    /// crash. Comments of our reviews are ours, and so is the review that the forge wraps around our replies. The
    /// account proves nothing: it may be the user's own.
    fn is_ours(&self, comment: &Comment) -> bool {
        let ours = &self.ours;
        if is_wordless_review(comment) && ours.wraps.contains(&comment.forge_id) {
            return true;
        }
        let came_with = comment
            .review
            .map(|review| format!("{}:{review}", CommentKind::Review));
        let is_recorded = |key: &String| *key == comment.key() || came_with.as_ref() == Some(key);
        let is_marked = |marker: &String| marker_of(&comment.body) == Some(marker);
        ours.forge_ids.iter().any(is_recorded) || ours.markers.iter().any(is_marked)
    }

    /// True if it ends with a marker of another instance, belongs to a review that does, or is the review that the
    /// forge wraps around such a reply. Two programs that take each other for people would never stop.
    fn is_by_another(&self, comment: &Comment) -> bool {
        is_by_a_remand(&comment.body)
            || comment
                .review
                .is_some_and(|review| self.others.contains(&review))
            || (is_wordless_review(comment) && self.others.contains(&comment.forge_id))
    }
}

fn is_wordless_review(comment: &Comment) -> bool {
    comment.kind == CommentKind::Review && comment.body.is_empty()
}

/// True if the forge allows this login for a user; brackets are for bots.
fn is_users_name(login: &str) -> bool {
    !login.is_empty()
        && login
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// A decision that needs no permission, so not about a person's account.
fn decided<'a>(trust: Trust, reason: &str) -> Known<'a> {
    Known::Decided(TrustDecision {
        trust,
        reason: reason.to_owned(),
        is_person: false,
    })
}

//! Who may make work. Decided once, when something is taken in, from what the forge itself says: never from a name, from
//! what a text claims, or from what GitHub calls the author's association. Pure; who is unknown may not.

use std::collections::BTreeSet;

use crate::blackboard::OurPosts;
use crate::pull_request::{
    Author, AuthorKind, Comment, Permission, SaidKind, Trust, is_by_a_remand, marker_of,
};

/// What may come of something that was said, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) trust: Trust,
    pub(super) reason: String,
    pub(super) is_person: bool,
}

/// What is known without asking, or whose permission has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known<'a> {
    Decided(Decision),
    Ask(&'a Author),
}

/// What remands wrote on a pull request: this one, and any other that watches it too.
#[derive(Debug, Clone)]
pub(super) struct Written {
    ours: OurPosts,
    /// Reviews of another, and those that the forge wrapped around its answers.
    others: BTreeSet<i64>,
}

pub(super) fn known<'a>(said: &'a Comment, written: &Written, bots: &[i64]) -> Known<'a> {
    if written.is_ours(said) {
        return decided(Trust::Ours, "remand wrote it", false);
    }
    if written.is_by_another(said) {
        return decided(
            Trust::ShownOnly,
            "it is by another remand, or by this one with another blackboard",
            false,
        );
    }
    by_account(said.author.as_ref(), bots)
}

/// What is known of a text by whose account wrote it.
pub(super) fn by_account<'a>(author: Option<&'a Author>, bots: &[i64]) -> Known<'a> {
    let Some(author) = author else {
        return decided(Trust::ShownOnly, "its author's account is gone", false);
    };
    match author.kind {
        AuthorKind::User if !is_users_name(&author.login) => decided(
            Trust::ShownOnly,
            "no user can have such a name: no permission on the repository",
            false,
        ),
        AuthorKind::User => Known::Ask(author),
        AuthorKind::Bot if bots.contains(&author.id) => decided(
            Trust::MayMakeWork,
            &format!("the bot {} is listed", author.id),
            false,
        ),
        AuthorKind::Bot => decided(
            Trust::ShownOnly,
            &format!("the bot {} is not listed", author.id),
            false,
        ),
        AuthorKind::Other => decided(
            Trust::ShownOnly,
            "its author is neither a user nor a bot",
            false,
        ),
    }
}

pub(super) fn by_permission(permission: Permission) -> Decision {
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
    Decision {
        trust,
        reason,
        is_person: true,
    }
}

impl Written {
    /// With what stands in what was just read.
    pub(super) fn new(ours: OurPosts, said: &[Comment]) -> Self {
        let mut written = Self {
            ours,
            others: BTreeSet::new(),
        };
        let answers = said
            .iter()
            .filter(|said| said.in_reply_to.is_some() && written.is_ours(said));
        let wraps: Vec<i64> = answers.filter_map(|said| said.review).collect();
        written.ours.wraps.extend(wraps);
        let foreign = said
            .iter()
            .filter(|said| is_by_a_remand(&said.body) && !written.is_ours(said));
        let reviews = foreign.filter_map(|said| match (said.kind, said.in_reply_to) {
            (SaidKind::Review, _) => Some(said.forge_id),
            (SaidKind::ReviewComment, Some(_)) => said.review,
            (SaidKind::ReviewComment | SaidKind::IssueComment, _) => None,
        });
        let others = reviews.collect();
        Self { others, ..written }
    }

    /// By what was recorded when it was posted; or, when that was cut short, by the marker that it ends with. What came
    /// with a review of ours is ours, and so is what the forge wrapped around an answer of ours. The account says
    /// nothing: it may be the user's own.
    fn is_ours(&self, said: &Comment) -> bool {
        let ours = &self.ours;
        if is_wordless_review(said) && ours.wraps.contains(&said.forge_id) {
            return true;
        }
        let came_with = said
            .review
            .map(|review| format!("{}:{review}", SaidKind::Review));
        let is_recorded = |key: &String| *key == said.key() || came_with.as_ref() == Some(key);
        let is_marked = |marker: &String| marker_of(&said.body) == Some(marker);
        ours.forge_ids.iter().any(is_recorded) || ours.markers.iter().any(is_marked)
    }

    /// It ends with a marker that is not ours, came with a review that does, or is what the forge wrapped around an
    /// answer that does. Whoever has such an account, two programs that take each other for people never come to rest.
    fn is_by_another(&self, said: &Comment) -> bool {
        is_by_a_remand(&said.body)
            || said
                .review
                .is_some_and(|review| self.others.contains(&review))
            || (is_wordless_review(said) && self.others.contains(&said.forge_id))
    }
}

fn is_wordless_review(said: &Comment) -> bool {
    said.kind == SaidKind::Review && said.body.is_empty()
}

/// As the forge gives them out; brackets are for bots.
fn is_users_name(login: &str) -> bool {
    !login.is_empty()
        && login
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

fn decided<'a>(trust: Trust, reason: &str, is_person: bool) -> Known<'a> {
    Known::Decided(Decision {
        trust,
        reason: reason.to_owned(),
        is_person,
    })
}

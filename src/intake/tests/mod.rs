//! Tables of the decisions of this module. Reading and storing are tested through the program, with the fake GitHub.

use std::collections::BTreeMap;

use super::adopt::{Refusal, refusal, standing};
use super::read::keep_for_their_review;
use super::trust::{Known, Written, by_permission, known};
use crate::blackboard::{OurPosts, Project};
use crate::change::ProjectId;
use crate::clock::Time;
use crate::pull_request::{
    Author, AuthorKind, Comment, CommentKind, Permission, Pull, PullState, ReviewState, Trust,
    TrustDecision,
};

fn author(id: i64, login: &str, kind: AuthorKind) -> Author {
    Author {
        id,
        login: login.to_owned(),
        kind,
    }
}

fn said(author: Option<Author>, body: &str) -> Comment {
    Comment {
        kind: CommentKind::Review,
        forge_id: 77,
        author,
        body: body.to_owned(),
        state: Some(ReviewState::ChangesRequested),
        commit: Some("abc".into()),
        path: None,
        line: None,
        hunk: None,
        review: None,
        in_reply_to: None,
        created_at: "2026-11-16T08:00:00Z".into(),
        updated_at: "2026-11-16T08:00:00Z".into(),
        url: String::new(),
    }
}

fn pull() -> Pull {
    Pull {
        body: None,
        number: 7,
        title: "Add x".into(),
        state: PullState::Open,
        draft: false,
        author: Some(author(1, "ada", AuthorKind::User)),
        head_ref: "feature".into(),
        head_sha: "abc".into(),
        head_repo: Some("Ada/Engine".into()),
        base_repo: "ada/engine".into(),
        default_branch: "main".into(),
        base_ref: "main".into(),
        labels: vec![],
        opened_at: "2026-11-16T08:00:00Z".into(),
        updated_at: "2026-11-16T08:00:00Z".into(),
        url: String::new(),
    }
}

fn project() -> Project {
    Project {
        project_id: ProjectId::new("engine"),
        path: "/src/engine".into(),
        common_dir: "/src/engine/.git".into(),
        repo: Some("ada/engine".into()),
        remote_url: Some("https://github.com/ada/engine".into()),
        default_branch: "main".into(),
        created_at: Time::from_millis(0),
    }
}

/// Returns the trust, and whether the author is a person; `None` if the forge has to be asked.
fn decided(said: &Comment, ours: &OurPosts, bots: &[i64]) -> Option<(Trust, bool)> {
    decided_among(said, ours, &[], bots)
}

/// Like `decided`, for comments that were all read at once.
fn decided_among(
    said: &Comment,
    ours: &OurPosts,
    all: &[Comment],
    bots: &[i64],
) -> Option<(Trust, bool)> {
    match known(said, &Written::new(ours.clone(), all), bots) {
        Known::Decided(TrustDecision {
            trust, is_person, ..
        }) => Some((trust, is_person)),
        Known::Ask(_) => None,
    }
}

#[test]
fn only_users_are_asked_about_and_only_listed_bots_need_no_asking() {
    let nothing = OurPosts::default();
    let by = |id, login, kind| said(Some(author(id, login, kind)), "no");
    for (who, expected) in [
        (by(1, "ada", AuthorKind::User), None),
        (by(2, "github-actions", AuthorKind::User), None),
        // No user can have such a name.
        (
            by(3, "eve[bot]", AuthorKind::User),
            Some((Trust::ShownOnly, false)),
        ),
        // The listed number is that of a bot; the permission of a user is requested nevertheless.
        (by(9, "listed", AuthorKind::User), None),
        (
            by(8, "stray[bot]", AuthorKind::Bot),
            Some((Trust::ShownOnly, false)),
        ),
        (
            by(9, "listed[bot]", AuthorKind::Bot),
            Some((Trust::MayMakeWork, false)),
        ),
        (
            by(9, "acme", AuthorKind::Other),
            Some((Trust::ShownOnly, false)),
        ),
        (said(None, "no"), Some((Trust::ShownOnly, false))),
    ] {
        assert_eq!(decided(&who, &nothing, &[9]), expected, "{:?}", who.author);
    }
}

#[test]
fn what_is_ours_is_known_by_number_or_by_the_marker_of_what_is_not_recorded_yet() {
    let ada = || Some(author(1, "ada", AuthorKind::User));
    let recorded = OurPosts {
        forge_ids: vec!["review:77".into()],
        ..OurPosts::default()
    };
    assert_eq!(
        decided(&said(ada(), "no"), &recorded, &[]),
        Some((Trust::Ours, false))
    );
    let other = OurPosts {
        forge_ids: vec!["issue_comment:77".into()],
        markers: vec!["k1".into()],
        ..OurPosts::default()
    };
    assert_eq!(decided(&said(ada(), "no"), &other, &[]), None);
    assert_eq!(
        decided(&said(ada(), "x\n\n<!-- remand:k1 -->"), &other, &[]),
        Some((Trust::Ours, false))
    );
    // A quoted marker belongs to the person who quotes it.
    assert_eq!(
        decided(&said(ada(), "> x\n> <!-- remand:k1 -->"), &other, &[]),
        None
    );
    assert_eq!(
        decided(&said(ada(), "x <!-- remand:k1 --> y"), &other, &[]),
        None
    );
    assert_eq!(
        decided(&said(ada(), "<!-- remand:k11 -->"), &other, &[]),
        None
    );
}

/// Whatever account it is: it may be that of a person with write permission, or of a listed bot.
#[test]
fn what_another_remand_wrote_makes_no_work() {
    let marked = "no\n\n<!-- remand:0123456789abcdef0123456789abcdef -->";
    let by = |kind| Some(author(9, "ada", kind));
    let nothing = OurPosts::default();
    for kind in [AuthorKind::User, AuthorKind::Bot] {
        assert_eq!(
            decided(&said(by(kind), marked), &nothing, &[9]),
            Some((Trust::ShownOnly, false))
        );
    }
    let comment = |body: &str, in_reply_to| {
        let mut comment = said(by(AuthorKind::User), body);
        (comment.kind, comment.forge_id, comment.state) = (CommentKind::ReviewComment, 5, None);
        (comment.review, comment.in_reply_to) = (Some(77), in_reply_to);
        comment
    };
    // Comments of its review, and the review that the forge wraps around its reply.
    let review = said(by(AuthorKind::User), marked);
    let with_it = comment("here", None);
    let all = [review, with_it.clone()];
    assert_eq!(
        decided_among(&with_it, &nothing, &all, &[]),
        Some((Trust::ShownOnly, false))
    );
    assert_eq!(decided_among(&with_it, &nothing, &[], &[]), None);
    let wrap = said(by(AuthorKind::User), "");
    let all = [wrap.clone(), comment(marked, Some(3))];
    assert_eq!(
        decided_among(&wrap, &nothing, &all, &[]),
        Some((Trust::ShownOnly, false))
    );
    assert_eq!(decided_among(&wrap, &nothing, &[], &[]), None);
}

#[test]
fn only_who_may_write_makes_work() {
    for (permission, expected) in [
        (Permission::Admin, Trust::MayMakeWork),
        (Permission::Maintain, Trust::MayMakeWork),
        (Permission::Write, Trust::MayMakeWork),
        (Permission::Triage, Trust::ShownOnly),
        (Permission::Read, Trust::ShownOnly),
        (Permission::None, Trust::ShownOnly),
    ] {
        let decision = by_permission(permission);
        assert_eq!(
            (decision.trust, decision.is_person),
            (expected, true),
            "{permission}"
        );
    }
}

#[test]
fn what_can_not_be_taken_over() {
    let why = |change: fn(&mut Pull)| {
        let mut pull = pull();
        change(&mut pull);
        refusal(&pull, &project())
    };
    assert_eq!(why(|_| ()), None);
    assert_eq!(
        why(|pull| pull.state = PullState::Merged),
        Some(Refusal::Over(PullState::Merged))
    );
    assert_eq!(
        why(|pull| pull.state = PullState::Closed),
        Some(Refusal::Over(PullState::Closed))
    );
    assert_eq!(
        why(|pull| pull.head_repo = Some("eve/engine".into())),
        Some(Refusal::Fork)
    );
    assert_eq!(why(|pull| pull.head_repo = None), Some(Refusal::Fork));
    assert_eq!(
        why(|pull| pull.head_ref = "main".into()),
        Some(Refusal::DefaultBranch)
    );
    for name in ["--upload-pack=x", "a..b", "x y", "$(x)"] {
        let mut pull = pull();
        pull.head_ref = name.into();
        assert!(
            matches!(refusal(&pull, &project()), Some(Refusal::BranchName(_))),
            "{name}"
        );
        let mut pull = self::pull();
        pull.base_ref = name.into();
        assert!(
            matches!(refusal(&pull, &project()), Some(Refusal::BranchName(_))),
            "{name}"
        );
    }
}

#[test]
fn the_last_word_of_each_counts_where_it_is_about_the_head() {
    use ReviewState::{Approved, ChangesRequested, Commented, Dismissed};
    let review = |id, state, commit: &str| {
        let mut review = said(Some(author(id, "x", AuthorKind::User)), "");
        review.state = Some(state);
        review.commit = Some(commit.into());
        review
    };
    let mut by_a_remand = review(1, ChangesRequested, "abc");
    by_a_remand.body = "no\n\n<!-- remand:0123456789abcdef0123456789abcdef -->".into();
    for (reviews, expected) in [
        (vec![review(1, Approved, "abc")], vec![(1, Approved)]),
        (vec![review(1, Approved, "old")], vec![]),
        (
            vec![
                review(1, ChangesRequested, "abc"),
                review(1, Approved, "abc"),
            ],
            vec![(1, Approved)],
        ),
        (
            vec![review(1, Approved, "abc"), review(1, Commented, "abc")],
            vec![(1, Approved)],
        ),
        (
            vec![
                review(1, Approved, "abc"),
                review(1, ChangesRequested, "old"),
            ],
            vec![],
        ),
        (vec![review(1, Dismissed, "abc")], vec![(1, Dismissed)]),
        // His own review counts, whatever remand posts with his account.
        (
            vec![review(1, Approved, "abc"), by_a_remand],
            vec![(1, Approved)],
        ),
        (
            vec![
                review(1, Approved, "abc"),
                review(2, ChangesRequested, "abc"),
            ],
            vec![(1, Approved), (2, ChangesRequested)],
        ),
    ] {
        let found: Vec<(i64, ReviewState)> = standing(&reviews, "abc")
            .into_iter()
            .map(|(author, state)| (author.id, state))
            .collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn a_comment_without_its_review_waits_for_it_but_not_for_ever() {
    let now = Time::parse("2026-11-16T18:00:00Z").unwrap();
    let comment = |id, review| {
        let mut comment = said(None, "here");
        (
            comment.kind,
            comment.forge_id,
            comment.review,
            comment.state,
        ) = (CommentKind::ReviewComment, id, review, None);
        comment
    };
    let stored = [
        ("review:5".to_owned(), String::new()),
        ("review_comment:9".to_owned(), String::new()),
    ]
    .into();
    let at = |text: &str| text.to_owned();
    let seen: BTreeMap<i64, String> = [
        (2, at("2026-11-16T17:59:00.000Z")),
        (3, at("2026-11-16T17:50:00.000Z")),
        (4, at("2026-11-16T19:00:00.000Z")),
    ]
    .into();
    let first = "2026-11-16T18:00:00.000Z";
    for (all, kept) in [
        (vec![comment(1, None)], vec![]),
        (vec![said(None, "no"), comment(1, Some(77))], vec![]),
        (vec![comment(1, Some(5))], vec![]),
        // However long ago it was typed, it counts from when it was seen.
        (vec![comment(1, Some(78))], vec![(1, first)]),
        (
            vec![comment(2, Some(78))],
            vec![(2, "2026-11-16T17:59:00.000Z")],
        ),
        (vec![comment(3, Some(78))], vec![]),
        // Seen at a time in the future.
        (vec![comment(4, Some(78))], vec![(4, first)]),
        // Already stored.
        (vec![comment(9, Some(78))], vec![]),
        (
            vec![comment(1, Some(78)), comment(6, None), comment(7, Some(79))],
            vec![(1, first), (7, first)],
        ),
    ] {
        let mut left = all.clone();
        let early = keep_for_their_review(&mut left, &stored, &seen, now);
        assert_eq!(
            early
                .iter()
                .map(|(id, at)| (*id, at.as_str()))
                .collect::<Vec<_>>(),
            kept
        );
        assert_eq!(left.len(), all.len() - kept.len());
    }
}

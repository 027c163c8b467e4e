//! Cases for the ledger of findings: one row per finding, across all reviews of a change.

use super::story::{Story, finding, more_fixes, review_done};
use crate::blackboard::{self as bb, OpenFinding};
use crate::change::ChangeId;
use crate::finding::{Finding, Outcome, Resolution, Severity, Verdict};

fn all(story: &mut Story, id: &ChangeId) -> Vec<OpenFinding> {
    story.engine.read(|conn| bb::finding_list(conn, id))
}

/// Runs a review, a fix, and a second review, which judges and repeats findings as given.
fn second_review(
    story: &mut Story,
    first: &[Finding],
    judged: &[(usize, Outcome)],
    second: &[Finding],
) -> ChangeId {
    let change = story.change();
    story.review(Verdict::ChangesRequested, first);
    story.beat();
    story.fix();
    let known = all(story, &change.change_id);
    let claimed = story.claim();
    let mut done = review_done(&claimed.change.head, Verdict::ChangesRequested, second);
    let entry = |(n, outcome): &(usize, Outcome)| {
        let resolution = (*outcome == Outcome::Resolved).then_some(Resolution::Judged);
        (known[*n].finding_id.to_string(), *outcome, resolution)
    };
    done.judged = judged.iter().map(entry).collect();
    story
        .step(|conn, now| bb::finish_review(conn, &claimed.claim(), &done, now))
        .unwrap();
    change.change_id
}

#[test]
fn a_finding_that_is_repeated_is_the_same_finding() {
    let mut story = Story::begin();
    let mut moved = finding("a.rs", "No bound in line 40.");
    moved.severity = Severity::Critical;
    moved.line = Some(40);
    let id = second_review(
        &mut story,
        &[finding("a.rs", "no bound in line 12")],
        &[],
        &[moved],
    );
    let found = all(&mut story, &id);
    assert_eq!(found.len(), 1);
    assert_eq!(
        (
            found[0].outcome,
            found[0].finding.severity,
            found[0].finding.line
        ),
        (Outcome::Open, Severity::Critical, Some(40))
    );
    story.check();
}

#[test]
fn a_finding_that_is_not_judged_stays_as_it_was() {
    let mut story = Story::begin();
    let id = second_review(
        &mut story,
        &[finding("a.rs", "one"), finding("b.rs", "two")],
        &[],
        &[finding("c.rs", "three")],
    );
    let outcomes: Vec<Outcome> = all(&mut story, &id).iter().map(|f| f.outcome).collect();
    assert_eq!(
        outcomes,
        [Outcome::Addressed, Outcome::Addressed, Outcome::Open]
    );
    assert_eq!(
        story.engine.read(|conn| bb::open_findings(conn, &id)).len(),
        3
    );
}

#[test]
fn what_the_reviewer_judged_is_as_judged() {
    let mut story = Story::begin();
    let judged = [(0, Outcome::Open), (1, Outcome::Resolved)];
    let id = second_review(
        &mut story,
        &[finding("a.rs", "one"), finding("b.rs", "two")],
        &judged,
        &[finding("c.rs", "three")],
    );
    let outcomes: Vec<Outcome> = all(&mut story, &id).iter().map(|f| f.outcome).collect();
    assert_eq!(outcomes, [Outcome::Open, Outcome::Resolved, Outcome::Open]);
}

#[test]
fn what_a_person_waived_stays_waived() {
    let mut story = Story::begin();
    let change = story.change();
    story.review(
        Verdict::ChangesRequested,
        &[finding("a.rs", "one"), finding("b.rs", "two")],
    );
    let known = all(&mut story, &change.change_id);
    story.engine.waive(&known[0].finding_id);
    story.beat();
    story.fix();
    assert_eq!(
        all(&mut story, &change.change_id)[0].outcome,
        Outcome::Waived,
        "a fix does not touch it"
    );
    story.review(Verdict::ChangesRequested, &[finding("a.rs", "one")]);
    let outcomes: Vec<Outcome> = all(&mut story, &change.change_id)
        .iter()
        .map(|f| f.outcome)
        .collect();
    assert_eq!(
        outcomes,
        [Outcome::Waived, Outcome::Addressed],
        "even if it is raised again"
    );
}

#[test]
fn a_resolved_finding_that_comes_back_is_open_again() {
    let mut story = Story::begin();
    let judged = [(0, Outcome::Resolved)];
    let id = second_review(
        &mut story,
        &[finding("a.rs", "one")],
        &judged,
        &[finding("b.rs", "two")],
    );
    let resolved = all(&mut story, &id);
    assert_eq!(
        (resolved[0].outcome, resolved[0].resolution),
        (Outcome::Resolved, Some(Resolution::Judged))
    );
    story.beat();
    story.fix();
    story.review(Verdict::ChangesRequested, &[finding("a.rs", "one")]);
    let back = all(&mut story, &id);
    assert_eq!((back[0].outcome, back[0].resolution), (Outcome::Open, None));
    assert_eq!(back[1].outcome, Outcome::Addressed);
}

#[test]
fn a_review_that_says_nothing_clear_closes_nothing() {
    for verdict in [Verdict::NeedsDiscussion, Verdict::Unclear] {
        let mut story = Story::begin();
        let change = story.change();
        story.review(Verdict::ChangesRequested, &[finding("a.rs", "one")]);
        story.beat();
        story.fix();
        story.review(verdict, &[]);
        assert_eq!(
            all(&mut story, &change.change_id)[0].outcome,
            Outcome::Addressed,
            "{verdict}"
        );
    }
}

#[test]
fn blocking_findings_are_those_at_the_threshold() {
    let mut story = Story::begin();
    let change = story.change();
    let mut minor = finding("b.rs", "two");
    minor.severity = Severity::Low;
    story.review(Verdict::ChangesRequested, &[finding("a.rs", "one"), minor]);
    let review = story
        .engine
        .read(|conn| bb::last_review(conn, &change.change_id))
        .unwrap();
    assert_eq!(review.blocking, [finding("a.rs", "one").fingerprint()]);
}

#[test]
fn the_history_begins_where_a_person_spoke() {
    let mut story = Story::begin();
    let change = story.change_at_its_bound();
    let id = &change.change_id;
    assert_eq!(story.engine.read(|conn| bb::history(conn, id)).len(), 2);
    story
        .step(|conn, now| more_fixes(conn, id, 1, now))
        .unwrap();
    assert_eq!(story.engine.read(|conn| bb::history(conn, id)).len(), 0);
    assert_eq!(story.engine.read(|conn| bb::reviews_of(conn, id)).len(), 2);
}

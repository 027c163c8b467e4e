//! Size limit of a review in one event. The forge limits the characters of one text, not the number of comments in a
//! review, and an event that is too large cannot be written at all. Values in, values out.

use crate::event::body::WorkRejected;
use crate::finding::{Finding, RaisedBy, Verdict};
use crate::pull_request::Feedback;

/// Maximum bytes of one text: the forge's limit, 65,536 characters of up to four bytes.
const TEXT: usize = 256 << 10;

/// Maximum bytes of all comments together, as stored: far more than the runs of a fix can be given, and about half of
/// the maximum size of an event.
const ALL: usize = 8 << 20;

/// Returns the review with its comments in their order, as far as they fit. An empty comment is included, but is not a
/// finding.
pub(super) fn fit(review: &Feedback, comments: &[&Feedback]) -> WorkRejected {
    let (mut findings, mut left_out) = (Vec::new(), Vec::new());
    let mut taken = vec![review.feedback_id.clone()];
    let mut room = ALL;
    for comment in comments {
        if comment.body.trim().is_empty() {
            taken.push(comment.feedback_id.clone());
            continue;
        }
        let (text, path) = (
            cut(&comment.body, TEXT),
            comment.path.as_deref().map(|path| cut(path, TEXT)),
        );
        let context = comment.hunk.as_deref().map(|hunk| cut(hunk, TEXT));
        let finding = Finding {
            path,
            line: comment.line.and_then(|line| u32::try_from(line).ok()),
            text,
            raised_by: RaisedBy::Person,
            context,
            feedback_id: Some(comment.feedback_id.clone()),
            forge_id: Some(comment.forge_id.clone()),
            ..Finding::default()
        };
        let Some(rest) = room.checked_sub(json_size(&finding)) else {
            left_out.push(comment.feedback_id.clone());
            continue;
        };
        room = rest;
        taken.push(comment.feedback_id.clone());
        findings.push(finding);
    }
    WorkRejected {
        verdict: Some(Verdict::ChangesRequested),
        body: cut(&review.body, TEXT),
        findings,
        feedback: Some(taken),
        left_out: left_out.len(),
        left_out_feedback: left_out,
        begins_round: Some(review.is_person),
        ..Default::default()
    }
}

/// Number of bytes that a finding has in an event.
fn json_size(finding: &Finding) -> usize {
    serde_json::to_string(finding).map_or(usize::MAX, |text| text.len())
}

/// The start of a text, with the number of bytes that are missing.
fn cut(text: &str, cap: usize) -> String {
    let end = text.floor_char_boundary(cap);
    match text.get(..end) {
        Some(kept) if end < text.len() => {
            format!("{kept}\n… ({} bytes left out)", text.len() - end)
        }
        Some(_) | None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::ChangeId;
    use crate::clock::Time;
    use crate::pull_request::{CommentKind, Trust, last_lines};

    fn feedback(n: i64, kind: CommentKind, body: &str) -> Feedback {
        Feedback {
            feedback_id: format!("g{n}"),
            change_id: ChangeId::new("c1"),
            forge_id: format!("{kind}:{n}"),
            author: "bob".into(),
            author_id: Some(7),
            trust: Trust::MayMakeWork,
            trust_reason: None,
            is_person: true,
            kind,
            state: None,
            commit: None,
            path: Some("src/".to_owned() + &"p".repeat(4000)),
            line: Some(1),
            hunk: Some(last_lines(&format!(
                "@@ -1 +1 @@\n{}",
                "\u{1}".repeat(500_000)
            ))),
            review: None,
            in_reply_to: None,
            url: None,
            body: body.into(),
            created_at: None,
            taken_in: Time::from_millis(0),
            outcome: None,
            outcome_reason: None,
            event_id: None,
        }
    }

    fn size(fitted: &WorkRejected) -> usize {
        serde_json::json!({ "body": fitted.body, "findings": fitted.findings })
            .to_string()
            .len()
    }

    /// GitHub accepts 65 536 characters: of four bytes each, or of a kind that is escaped with six.
    #[test]
    fn the_largest_review_that_the_forge_takes_fits_into_an_event() {
        for letter in ["a", "🦀", "\u{1}", "\""] {
            let largest = letter.repeat(65_536);
            let review = feedback(0, CommentKind::Review, &largest);
            let comments: Vec<Feedback> = (1..=300)
                .map(|n| feedback(n, CommentKind::ReviewComment, &largest))
                .collect();
            let fitted = fit(&review, &comments.iter().collect::<Vec<_>>());
            assert!(size(&fitted) < 10_000_000, "{letter:?}: {}", size(&fitted));
            assert!(
                fitted.findings.len() >= 12,
                "{letter:?}: {}",
                fitted.findings.len()
            );
            assert_eq!(fitted.findings.len() + fitted.left_out, 300);
            // It includes the review itself.
            let taken = fitted.feedback.as_ref().unwrap();
            assert_eq!(taken.len(), 1 + fitted.findings.len());
            assert_eq!(fitted.left_out_feedback.len(), fitted.left_out);
        }
    }

    #[test]
    fn what_is_cut_says_so_and_what_fits_is_whole() {
        assert_eq!(cut("ab", 2), "ab");
        assert_eq!(cut("🦀🦀", 5), "🦀\n… (4 bytes left out)");
        let (review, comment, empty) = (
            feedback(0, CommentKind::Review, "no"),
            feedback(1, CommentKind::ReviewComment, "here"),
            feedback(2, CommentKind::ReviewComment, " "),
        );
        let fitted = fit(&review, &[&comment, &empty]);
        assert_eq!((fitted.body.as_str(), fitted.findings.len()), ("no", 1));
        assert_eq!(fitted.findings[0].text, "here");
        assert_eq!(
            (fitted.feedback.unwrap(), fitted.left_out),
            (["g0", "g1", "g2"].map(str::to_owned).to_vec(), 0)
        );
    }
}

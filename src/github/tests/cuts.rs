//! Every recorded response, truncated at every byte, gives an error or the same value, never a
//! panic and never a partial value.

use std::fmt::Debug;

use serde::de::DeserializeOwned;

use super::super::GithubError;
use super::super::call::read_body;
use super::super::classify::{Request, classify};
use super::super::model::{CommentJson, InlineJson, PermissionJson, PullJson, Review, User};
use super::super::response::Reply;
use super::{ann, recorded};
use crate::process::ShortOutput;
use crate::pull_request::{Author, Comment, Pull};

fn cut_everywhere<J: DeserializeOwned, V: PartialEq + Debug>(
    name: &str,
    exit: i32,
    value: impl Fn(J) -> V,
) {
    let whole = recorded(name);
    let read = |bytes: &[u8]| -> Result<Option<V>, GithubError> {
        let output = ShortOutput {
            status: Some(exit),
            stdout: bytes.to_vec(),
            stderr: Vec::new(),
            truncated: false,
        };
        match classify(
            Request {
                path: "x",
                is_conditional: true,
                is_write: false,
            },
            &output,
        )? {
            Reply::New { body, .. } => Ok(Some(value(read_body("x", &body)?))),
            Reply::Unchanged { .. } => Ok(None),
        }
    };
    let expected = read(&whole).unwrap();
    for end in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[end] = 0xff;
        drop(read(&damaged));
        // When gh does the paging, it prints a page followed by the error of the next one.
        let glued = [&whole[..end], &whole[..]].concat();
        for bytes in [&whole[..end], &glued] {
            if let Ok(found) = read(bytes) {
                assert_eq!(found, expected, "{name} at {end}");
            }
        }
    }
}

#[test]
fn answers() {
    cut_everywhere("user", 0, |user: User| Author::from(user));
    cut_everywhere("pull", 0, |json: PullJson| Pull::from(json));
    cut_everywhere("permission", 0, |json: PermissionJson| json.of(&ann()));
    cut_everywhere("not_modified", 1, |json: PullJson| Pull::from(json));
}

#[test]
fn lists() {
    cut_everywhere("pulls", 0, |list: Vec<PullJson>| {
        list.into_iter().map(Pull::from).collect::<Vec<_>>()
    });
    cut_everywhere("reviews", 0, |list: Vec<Review>| {
        list.into_iter()
            .map(|Review(said)| said)
            .collect::<Vec<_>>()
    });
    cut_everywhere("review_comments", 0, |list: Vec<InlineJson>| {
        list.into_iter().map(Comment::from).collect::<Vec<_>>()
    });
    cut_everywhere("issue_comments", 0, |list: Vec<CommentJson>| {
        list.into_iter().map(Comment::from).collect::<Vec<_>>()
    });
}

#[test]
fn refusals_stay_refusals() {
    for name in [
        "bad_credentials",
        "rate_limit",
        "not_found",
        "unprocessable",
        "bad_gateway",
        "moved",
    ] {
        let whole = recorded(name);
        for end in 0..=whole.len() {
            let stdout = whole[..end].to_vec();
            let output = ShortOutput {
                status: Some(1),
                stdout,
                stderr: Vec::new(),
                truncated: false,
            };
            assert!(
                classify(
                    Request {
                        path: "x",
                        is_conditional: true,
                        is_write: false
                    },
                    &output
                )
                .is_err(),
                "{name} cut at {end}"
            );
        }
    }
}

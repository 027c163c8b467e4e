//! Tests for lists of many pages, and for unchanged pages.

use std::time::Duration;

use super::{Bed, recorded};
use crate::github::{CommentList, GithubError, Marks};

const COMMENTS: &str = "repos/acme/rocket/issues/7/comments?per_page=100&page=";

fn comments(ids: impl Iterator<Item = usize>, body: &str) -> String {
    let list: Vec<String> = ids
        .map(|id| {
            format!(
                r#"{{"id":{id},"user":null,"body":"{body}","html_url":"u","created_at":"2026-11-15T11:00:00Z","updated_at":"2026-11-15T11:00:00Z"}}"#
            )
        })
        .collect();
    format!("[{}]", list.join(","))
}

fn path(page: usize) -> String {
    format!("{COMMENTS}{page}")
}

/// Prepares 300 comments on four pages, the last of them empty: GitHub sends no Link header for a
/// list that ends with a full page.
fn three_hundred(bed: &Bed) {
    for page in 1..=4 {
        let ids = (page - 1) * 100..(page * 100).min(300);
        bed.answer(&path(page), &format!("W/\"{page}\""), &comments(ids, "x"));
    }
    bed.asked();
}

async fn read(bed: &Bed, known: &Marks) -> Result<(Vec<i64>, Marks), GithubError> {
    let pages = bed
        .github
        .comments(CommentList::IssueComments, "acme/rocket", 7, known)
        .await?;
    Ok((
        pages.items.iter().map(|said| said.forge_id).collect(),
        pages.marks,
    ))
}

#[tokio::test]
async fn a_list_of_four_pages_and_then_only_what_changed() {
    let bed = Bed::new();
    three_hundred(&bed);
    let (ids, marks) = read(&bed, &Marks::default()).await.unwrap();
    assert_eq!(ids, (0..300).collect::<Vec<i64>>());
    assert_eq!(
        bed.asked(),
        (1..=4)
            .map(|page| format!("GET {}", path(page)))
            .collect::<Vec<_>>()
    );

    let (ids, again) = read(&bed, &marks).await.unwrap();
    assert_eq!((ids.as_slice(), &again), (&[][..], &marks));
    assert_eq!(bed.asked().len(), 4);

    bed.answer(&path(3), "W/\"new\"", &comments(200..250, "edited"));
    let (ids, shrunk) = read(&bed, &marks).await.unwrap();
    assert_eq!(ids, (200..250).collect::<Vec<i64>>());
    assert_eq!(shrunk.get(&path(3)).unwrap().count, 50);
    assert_eq!(shrunk.get(&path(4)), None, "a list may become shorter");
    assert_eq!(shrunk.get(&path(1)), marks.get(&path(1)));
    assert_eq!(bed.asked().len(), 3);

    let stored: Marks = serde_json::from_str(&serde_json::to_string(&shrunk).unwrap()).unwrap();
    assert_eq!(stored, shrunk);
}

#[tokio::test]
async fn the_marks_of_other_lists_do_not_matter() {
    let bed = Bed::new();
    three_hundred(&bed);
    let (_, marks) = read(&bed, &Marks::default()).await.unwrap();
    bed.answer(
        "repos/acme/rocket/issues/8/comments?per_page=100&page=1",
        "W/\"1\"",
        "[]",
    );
    let other = bed
        .github
        .comments(CommentList::IssueComments, "acme/rocket", 8, &marks)
        .await
        .unwrap();
    assert_eq!((other.items.len(), other.marks.get(&path(1))), (0, None));
}

#[tokio::test]
async fn the_link_leads_on_even_from_a_page_that_is_not_full() {
    let bed = Bed::new();
    let first = "repos/acme/rocket/pulls?state=open&per_page=100&page=1";
    bed.raw(first, &recorded("pulls"), "", 0);
    bed.answer(
        "repos/acme/rocket/pulls?state=open&per_page=100&page=2",
        "W/\"2\"",
        "[]",
    );
    let pulls = bed
        .github
        .open_pulls("acme/rocket", &Marks::default())
        .await
        .unwrap();
    assert_eq!(
        pulls
            .items
            .iter()
            .map(|pull| pull.number)
            .collect::<Vec<_>>(),
        [7, 8]
    );
    assert_eq!(bed.asked().len(), 2);
    let again = bed
        .github
        .open_pulls("acme/rocket", &pulls.marks)
        .await
        .unwrap();
    assert_eq!(
        (again.items.len(), &again.marks),
        (0, &pulls.marks),
        "\"not modified\" came without a link"
    );
    assert_eq!(bed.asked().len(), 2);
}

#[tokio::test]
async fn nothing_is_returned_when_a_later_page_fails() {
    let limited = recorded("rate_limit");
    let cut = format!(
        "HTTP/2.0 200 OK\n\r\n{}",
        comments(100..200, "x").trim_end_matches(']')
    );
    for (out, exit) in [
        (limited.as_slice(), 1),
        (cut.as_bytes(), 0),
        (cut.as_bytes(), 1),
        (b"", 0),
        (b"", 1),
    ] {
        let bed = Bed::new();
        three_hundred(&bed);
        bed.raw(&path(2), out, "", exit);
        let error = read(&bed, &Marks::default()).await.unwrap_err();
        assert_eq!(bed.asked().len(), 2, "{error}");
    }
    let bed = Bed::new();
    three_hundred(&bed);
    bed.raw(&path(2), &limited, "", 1);
    assert!(matches!(
        read(&bed, &Marks::default()).await,
        Err(GithubError::Limited { until: Some(_) })
    ));
    assert_eq!(bed.github.rate().unwrap().remaining, 0);
}

#[tokio::test]
async fn a_list_without_an_end_is_broken() {
    let bed = Bed::new();
    for page in 1..=101 {
        let out =
            "HTTP/2.0 200 OK\nLink: <https://api.github.com/x?page=1>; rel=\"next\"\r\n\r\n[]";
        bed.raw(&path(page), out.as_bytes(), "", 0);
    }
    let error = read(&bed, &Marks::default()).await.unwrap_err();
    assert!(
        matches!(&error, GithubError::Broken { what, .. } if what.contains("100 pages")),
        "{error}"
    );
    assert_eq!(bed.asked().len(), 100);
}

#[tokio::test]
async fn a_page_without_an_etag_is_read_again() {
    let bed = Bed::new();
    bed.raw(
        &path(1),
        format!("HTTP/2.0 200 OK\n\r\n{}", comments(0..2, "x")).as_bytes(),
        "",
        0,
    );
    let (ids, marks) = read(&bed, &Marks::default()).await.unwrap();
    assert_eq!((ids.as_slice(), marks.is_empty()), (&[0, 1][..], true));
}

#[tokio::test]
async fn a_megabyte_in_one_comment() {
    let bed = Bed::new();
    bed.answer(&path(1), "W/\"1\"", &comments(0..1, &"ü".repeat(500_000)));
    let pages = bed
        .github
        .comments(
            CommentList::IssueComments,
            "acme/rocket",
            7,
            &Marks::default(),
        )
        .await
        .unwrap();
    assert_eq!(pages.items[0].body.len(), 1_000_000);
}

#[tokio::test]
async fn the_limit_is_for_all_pages_together() {
    let bed = Bed::with(Duration::from_millis(1_500), &[]);
    three_hundred(&bed);
    for page in 1..=4 {
        bed.script(&path(page), "sleep 0.6\n");
    }
    let error = read(&bed, &Marks::default()).await.unwrap_err();
    assert!(
        matches!(&error, GithubError::Transient { what, .. } if what == "no response within 1.5s"),
        "{error}"
    );
    assert!(bed.asked().len() < 4);
}

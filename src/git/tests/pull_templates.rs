//! Templates for pull requests: where they are found, and which do not count.

use std::fs;
use std::os::unix::fs::symlink;

use super::Bed;

/// Returns the template of a commit with exactly these files, besides those of the bed.
async fn template(files: &[(&str, &str)]) -> Option<String> {
    let bed = Bed::with(&[&[("a", "one\n")], files].concat()).await;
    let found = bed.git.pull_template(&bed.place, &bed.start).await;
    found.unwrap()
}

#[tokio::test]
async fn a_template_is_found_where_github_finds_it() {
    assert_eq!(template(&[]).await, None);
    let all = [
        ("docs/Pull_Request_Template.MD", "docs\n"),
        ("PULL_REQUEST_TEMPLATE.md", "top\n"),
        (".github/PULL_REQUEST_TEMPLATE.md", "hidden\n"),
        ("src/pull_request_template.md", "elsewhere\n"),
        (".github/x/pull_request_template.md", "elsewhere\n"),
    ];
    assert_eq!(template(&all).await.as_deref(), Some("hidden\n"));
    assert_eq!(template(&all[..2]).await.as_deref(), Some("top\n"));
    assert_eq!(template(&all[..1]).await.as_deref(), Some("docs\n"));
    assert_eq!(template(&all[3..]).await, None);
}

#[tokio::test]
async fn what_is_no_template() {
    let name = "pull_request_template.md";
    let fits = "x".repeat(64 * 1024);
    assert_eq!(template(&[(name, &fits)]).await, Some(fits.clone()));
    for text in [fits + "x", " \n".to_owned()] {
        assert_eq!(template(&[(name, &text)]).await, None);
    }
    assert_eq!(template(&[("pull_request_template.md/x", "x")]).await, None);
    let bed = Bed::new().await;
    symlink("a", bed.wt(name)).unwrap();
    fs::create_dir(bed.wt("docs")).unwrap();
    fs::write(bed.wt("docs").join(name), b"\xff").unwrap();
    bed.said(["add", "-A"]).await;
    let head = bed.commit("b", "x").await;
    let found = bed.git.pull_template(&bed.place, &head).await.unwrap();
    assert_eq!(found, None);
    assert!(bed.git.pull_template(&bed.place, "HEAD").await.is_err());
}

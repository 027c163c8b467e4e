//! Fixes that someone reverted.

use super::Bed;
use crate::remote::{Ours, Undone};

#[tokio::test]
async fn who_took_a_fix_back_is_found() {
    let bed = Bed::new().await;
    let push = bed.taken("a", "fixed\n").await;
    bed.remote.push(&push).await.unwrap();
    let ours = [Ours {
        before: bed.start.clone(),
        after: push.to.clone(),
    }];
    let other = bed.root.join("person");
    let on_top = bed.person("origin/fix/a", "b", "unrelated\n").await;
    bed.remote.fetch("fix/a").await.unwrap();
    assert_eq!(
        bed.remote.undone(&push.to, &on_top, &ours).await.unwrap(),
        None
    );

    bed.raw(
        &other,
        [
            "-c",
            "user.name=Grace\u{1b} H.",
            "revert",
            "--no-edit",
            &push.to,
        ],
    )
    .await;
    bed.raw(&other, ["push", "-q", "origin", "HEAD:fix/a"])
        .await;
    let reverted = bed.remote.fetch("fix/a").await.unwrap().unwrap();
    let found = bed
        .remote
        .undone(&on_top, &reverted, &ours)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((&found.commit, &found.ours), (&reverted, &push.to));
    assert!(
        found
            .by
            .as_deref()
            .is_some_and(|by| by.starts_with("Grace") && !by.contains('\u{1b}')),
        "{found:?}"
    );

    let back = bed.person(&push.to, "a", "one\n").await;
    bed.remote.fetch("fix/a").await.unwrap();
    let found = bed
        .remote
        .undone(&push.to, &back, &ours)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (found.commit, found.by.as_deref()),
        (back, Some("A Person"))
    );

    bed.raw(
        &other,
        [
            "push",
            "-q",
            "-f",
            "origin",
            &format!("{}:fix/a", bed.start),
        ],
    )
    .await;
    bed.remote.fetch("fix/a").await.unwrap();
    let dropped = Undone {
        commit: bed.start.clone(),
        ours: push.to.clone(),
        after: push.to.clone(),
        by: None,
    };
    assert_eq!(
        bed.remote
            .undone(&push.to, &bed.start, &ours)
            .await
            .unwrap(),
        Some(dropped)
    );
    assert_eq!(
        bed.remote
            .undone(&bed.start, &push.to, &ours)
            .await
            .unwrap(),
        None,
        "our own commits do not count"
    );
    bed.raw(&other, ["checkout", "-q", "-f", "--detach", &bed.start])
        .await;
    bed.raw(
        &other,
        [
            "commit",
            "-q",
            "--amend",
            "--allow-empty",
            "-m",
            "without the fix",
        ],
    )
    .await;
    bed.raw(&other, ["push", "-q", "-f", "origin", "HEAD:fix/a"])
        .await;
    let amended = bed.remote.fetch("fix/a").await.unwrap().unwrap();
    let found = bed
        .remote
        .undone(&push.to, &amended, &ours)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((found.commit, found.by), (amended, None));
    let squashed = bed.person(&bed.start, "a", "fixed\n").await;
    bed.remote.fetch("fix/a").await.unwrap();
    assert_eq!(
        bed.remote.undone(&push.to, &squashed, &ours).await.unwrap(),
        None,
        "rewriting a fix is not reverting it"
    );
}

//! Committing leftovers, and the fingerprint of the main checkout.

use std::fs;
use std::path::Path;

use super::{Bed, script, write};
use crate::git::{Git, GitError, HeadAt, Operation, Sweep};

#[tokio::test]
async fn what_is_left_is_committed_and_nothing_is_not() {
    let bed = Bed::new().await;
    assert_eq!(
        bed.git.commit_rest(&bed.place, "fix/a", "x").await.unwrap(),
        None
    );
    bed.write("a", "two\n");
    bed.write("-new \n name", "new");
    bed.write("ignored/x", "x");
    fs::remove_file(bed.wt("d/x")).unwrap();
    let sha = bed
        .git
        .commit_rest(&bed.place, "fix/a", "subject\n\n# not a comment\n")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(bed.said(["rev-parse", "refs/heads/fix/a"]).await, sha);
    assert!(bed.git.status(&bed.place).await.unwrap().is_clean());
    assert_eq!(
        bed.git
            .changed_files(&bed.place, &bed.start, &sha)
            .await
            .unwrap()
            .len(),
        3
    );
    assert!(
        bed.said(["log", "-1", "--format=%B"])
            .await
            .contains("# not a comment")
    );
    assert_eq!(
        bed.git.commit_rest(&bed.place, "fix/a", "x").await.unwrap(),
        None
    );
}

#[tokio::test]
async fn nothing_is_committed_elsewhere_or_in_the_middle_of_something() {
    let bed = Bed::new().await;
    bed.write("a", "two\n");
    bed.said(["checkout", "-q", "-b", "other"]).await;
    let refused = bed.git.commit_rest(&bed.place, "fix/a", "x").await;
    assert!(
        matches!(refused, Err(GitError::NotOnBranch { found: Some(found), .. }) if found == "other")
    );
    bed.said(["checkout", "-q", "--detach"]).await;
    let refused = bed.git.commit_rest(&bed.place, "fix/a", "x").await;
    assert!(matches!(
        refused,
        Err(GitError::NotOnBranch { found: None, .. })
    ));
    bed.said(["checkout", "-q", "fix/a"]).await;
    fs::write(
        bed.place.git_dir.join("MERGE_HEAD"),
        format!("{}\n", bed.start),
    )
    .unwrap();
    let refused = bed.git.commit_rest(&bed.place, "fix/a", "x").await;
    assert!(matches!(
        refused,
        Err(GitError::Unfinished {
            operation: Operation::Merge
        })
    ));
    fs::remove_file(bed.place.git_dir.join("MERGE_HEAD")).unwrap();
    fs::write(bed.place.git_dir.join("index.lock"), "").unwrap();
    let refused = bed.git.commit_rest(&bed.place, "fix/a", "x").await;
    assert!(matches!(refused, Err(GitError::Locked { path }) if path.ends_with("index.lock")));
    assert_eq!(bed.said(["rev-parse", "refs/heads/fix/a"]).await, bed.start);
}

#[tokio::test]
async fn a_branch_that_is_a_symbolic_ref_is_not_the_branch() {
    let bed = Bed::new().await;
    bed.write("a", "two\n");
    bed.said(["symbolic-ref", "refs/heads/fix/a", "refs/heads/main"])
        .await;
    assert!(matches!(
        bed.git.commit_rest(&bed.place, "fix/a", "x").await,
        Err(GitError::NotOnBranch { .. })
    ));
    assert_eq!(bed.said(["rev-parse", "refs/heads/main"]).await, bed.start);
}

#[tokio::test]
async fn a_repository_inside_is_not_committed() {
    let bed = Bed::new().await;
    bed.write("b", "b");
    bed.said(["init", "-q", "empty *"]).await;
    bed.said(["init", "-q", "full"]).await;
    bed.raw(
        &bed.wt("full"),
        ["commit", "-q", "--allow-empty", "-m", "x"],
    )
    .await;
    let sha = bed
        .git
        .commit_rest(&bed.place, "fix/a", "x")
        .await
        .unwrap()
        .unwrap();
    let files = bed
        .git
        .changed_files(&bed.place, &bed.start, &sha)
        .await
        .unwrap();
    assert_eq!(
        files.iter().map(|f| f.path.as_str()).collect::<Vec<_>>(),
        ["b"]
    );
    assert!(!bed.git.status(&bed.place).await.unwrap().is_clean());
}

#[tokio::test]
async fn without_a_user_in_the_configuration_remand_signs() {
    let bed = Bed::new().await;
    for half in ["", "[user]\n\tname = Only A Name\n"] {
        write(&bed.root.join("gitconfig"), half);
        bed.write("a", &format!("{half}changed\n"));
        bed.git
            .commit_rest(&bed.place, "fix/a", "x")
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            bed.said(["log", "-1", "--format=%an <%ae> %cn <%ce>"])
                .await,
            "remand <remand@localhost> remand <remand@localhost>"
        );
    }
}

#[tokio::test]
async fn variables_that_move_the_repository_do_not_reach_git() {
    let bed = Bed::new().await;
    let mut env = bed.env.clone();
    for name in [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_EXTERNAL_DIFF",
        "GIT_TRACE",
    ] {
        env.insert(name.to_owned(), "/nowhere".to_owned());
    }
    let git = Git::new(
        &env,
        std::time::Duration::from_secs(10),
        &super::for_tests(&env),
    );
    assert_eq!(
        git.worktree_at(&bed.place.path)
            .await
            .unwrap()
            .branch
            .as_deref(),
        Some("fix/a")
    );
    assert!(git.status(&bed.place).await.unwrap().is_clean());
}

#[tokio::test]
async fn the_mark_of_the_main_checkout_says_what_changed() {
    let bed = Bed::new().await;
    let project = bed.git.project_at(&bed.repo).await.unwrap();
    write(&bed.repo.join("dirty"), "mine");
    write(&bed.repo.join(".git/hooks/post-merge"), "old");
    bed.raw(&bed.repo, ["worktree", "add", "-q", "-b", "inner", "inner"])
        .await;
    let before = bed.git.checkout_mark(&project).await.unwrap();
    write(&bed.repo.join("inner/work"), "of another agent");
    bed.commit("b", "work in the worktree\n").await;
    let after = bed.git.checkout_mark(&project).await.unwrap();
    assert_eq!(
        before.differs(&after),
        Vec::<String>::new(),
        "work in worktrees does not change the main checkout"
    );

    script(&bed.repo.join(".git/hooks/pre-push"), "evil");
    fs::remove_file(bed.repo.join(".git/hooks/post-merge")).unwrap();
    bed.said(["config", "core.fsmonitor", "evil"]).await;
    write(&bed.repo.join("a"), "by absolute path\n");
    write(&bed.repo.join("dirty"), "mine and more");
    let after = bed.git.checkout_mark(&project).await.unwrap();
    assert_eq!(
        before.differs(&after),
        [
            "a became dirty in the main checkout",
            "dirty was changed in the main checkout",
            "config was changed",
            "hooks/pre-push was added",
            "hooks/post-merge was removed",
        ]
    );
    let stored: crate::git::CheckoutFingerprint =
        serde_json::from_str(&serde_json::to_string(&after).unwrap()).unwrap();
    assert_eq!(stored, after);
    bed.raw(&bed.repo, ["checkout", "-q", "-f", "--detach"])
        .await;
    let moved = bed.git.checkout_mark(&project).await.unwrap();
    assert!(
        after
            .differs(&moved)
            .iter()
            .any(|word| word.starts_with("HEAD of the main checkout moved"))
    );
    bed.raw(&bed.repo, ["update-ref", "refs/other/x", "HEAD"])
        .await;
    bed.raw(&bed.repo, ["symbolic-ref", "HEAD", "refs/other/x"])
        .await;
    let other = bed.git.checkout_mark(&project).await.unwrap();
    assert_eq!(moved.differs(&other).len(), 1, "at the same commit");
}

#[tokio::test]
async fn caches_that_the_repository_does_not_ignore_are_left_out() {
    let bed = Bed::with(&[("a", "one\n"), ("kept/__pycache__/t.pyc", "tracked\n")]).await;
    let caches = [
        "__pycache__/x.pyc",
        "b/__pycache__/y.pyc",
        "kept/__pycache__/u.pyc",
        ".pytest_cache/v/x",
        ".DS_Store",
    ];
    for path in caches {
        bed.write(path, "x");
    }
    assert!(bed.git.status(&bed.place).await.unwrap().is_clean());
    assert_eq!(
        bed.git.commit_rest(&bed.place, "fix/a", "x").await.unwrap(),
        None
    );
    bed.write("a", "two\n");
    bed.write("b/new", "new\n");
    bed.write("kept/__pycache__/t.pyc", "changed\n");
    let sha = bed
        .git
        .commit_rest(&bed.place, "fix/a", "x")
        .await
        .unwrap()
        .unwrap();
    let files = bed
        .git
        .changed_files(&bed.place, &bed.start, &sha)
        .await
        .unwrap();
    let files: Vec<String> = files.into_iter().map(|file| file.path).collect();
    assert_eq!(files, ["a", "b/new", "kept/__pycache__/t.pyc"]);
    assert!(bed.git.status(&bed.place).await.unwrap().is_clean());
    assert!(caches.iter().all(|path| bed.wt(path).exists()));
    let paths = caches.map(Path::new);
    assert_eq!(
        bed.git.ignored(&bed.place, &paths).await.unwrap().len(),
        caches.len()
    );
}

#[tokio::test]
async fn caches_do_not_keep_a_worktree_from_being_removed() {
    let bed = Bed::new().await;
    let project = bed.git.project_at(&bed.repo).await.unwrap();
    bed.write("d/__pycache__/x.pyc", "x");
    bed.write(".DS_Store", "x");
    let head_at = HeadAt::Branch("fix/a");
    assert_eq!(
        bed.git
            .sweepable(&project, &bed.place.path, head_at)
            .await
            .unwrap(),
        Sweep::Clean
    );
    bed.git
        .remove_worktree(&project, &bed.place.path)
        .await
        .unwrap();
    assert!(!bed.place.path.exists());
}

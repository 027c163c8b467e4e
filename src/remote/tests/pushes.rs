//! Pushes, and everything that a remote can do to them.

use std::fs;
use std::time::Duration;

use super::{Bed, CANARY};
use crate::git::GitError;
use crate::remote::{Expected, NetworkAccess, Push, Pushed, Remote, RemoteError};

#[tokio::test]
async fn a_commit_is_pushed_once() {
    let bed = Bed::new().await;
    bed.hook(
        "update",
        &format!("echo \"$*\" >> '{}'", bed.root.join("updates").display()),
    );
    let push = bed.taken("a", "two\n").await;
    for _ in 0..3 {
        assert_eq!(bed.remote.push(&push).await.unwrap(), Pushed::Done);
    }
    assert_eq!(bed.at_origin("fix/a").await, Some(push.to.clone()));
    assert_eq!(bed.at_origin("main").await, Some(bed.start.clone()));
    let updates = fs::read_to_string(bed.root.join("updates")).unwrap();
    assert_eq!(
        updates,
        format!("refs/heads/fix/a {} {}\n", bed.start, push.to)
    );
}

#[tokio::test]
async fn a_push_over_ssh() {
    let bed = Bed::new().await;
    let push = bed.taken("a", "two\n").await;
    let remote = bed.over_ssh("eval \"$cmd\"");
    assert_eq!(remote.push(&push).await.unwrap(), Pushed::Done);
    assert_eq!(bed.at_origin("fix/a").await, Some(push.to.clone()));
}

#[tokio::test]
async fn a_remote_that_moved_is_not_pushed_to() {
    let bed = Bed::new().await;
    let push = bed.taken("a", "two\n").await;
    let theirs = bed.person("origin/fix/a", "b", "b\n").await;
    assert_eq!(
        bed.remote.push(&push).await.unwrap(),
        Pushed::Moved(Some(theirs.clone()))
    );
    assert_eq!(bed.at_origin("fix/a").await, Some(theirs));
    bed.raw(&bed.origin, ["branch", "-q", "-D", "fix/a"]).await;
    assert_eq!(bed.remote.push(&push).await.unwrap(), Pushed::Moved(None));
    assert_eq!(
        bed.at_origin("fix/a").await,
        None,
        "a deleted branch is not created again"
    );
    fs::remove_dir_all(&bed.origin).unwrap();
    assert!(matches!(
        bed.remote.push(&push).await,
        Err(RemoteError::NotFound { .. })
    ));
}

/// The remote moves between the check and the push.
#[tokio::test]
async fn a_remote_that_moves_while_we_push_keeps_what_it_got() {
    let bed = Bed::new().await;
    let push = bed.taken("a", "two\n").await;
    let theirs = bed.person("origin/fix/a", "b", "b\n").await;
    bed.raw(&bed.origin, ["update-ref", "refs/heads/fix/a", &bed.start])
        .await;
    let origin = bed.origin.display();
    let moves = format!("git --git-dir='{origin}' update-ref refs/heads/fix/a {theirs}");
    let remote = bed.over_ssh(&format!(
        "case \"$cmd\" in *receive-pack*) {moves};; esac\neval \"$cmd\""
    ));
    assert_eq!(
        remote.push(&push).await.unwrap(),
        Pushed::Moved(Some(theirs.clone()))
    );
    assert_eq!(bed.at_origin("fix/a").await, Some(theirs));
}

#[tokio::test]
async fn somebody_on_top_of_ours_is_no_loss() {
    let bed = Bed::new().await;
    let push = bed.taken("a", "two\n").await;
    assert_eq!(bed.remote.push(&push).await.unwrap(), Pushed::Done);
    let theirs = bed.person("origin/fix/a", "b", "b\n").await;
    assert_eq!(bed.remote.push(&push).await.unwrap(), Pushed::Ahead(theirs));
}

#[tokio::test]
async fn history_is_never_rewritten() {
    let bed = Bed::new().await;
    let push = bed.taken("a", "two\n").await;
    bed.raw(&bed.place.path, ["reset", "-q", "--hard", &bed.start])
        .await;
    bed.raw(
        &bed.place.path,
        [
            "commit",
            "-q",
            "--amend",
            "--allow-empty",
            "-m",
            "another start",
        ],
    )
    .await;
    let amended = bed.raw(&bed.place.path, ["rev-parse", "HEAD"]).await;
    bed.remote
        .take(&bed.place, "fix/a", &amended)
        .await
        .unwrap();
    for (from, to) in [
        (&bed.start, &amended),
        (&push.to, &bed.start),
        (&"1".repeat(40), &push.to),
    ] {
        let rewrite = Push {
            branch: "fix/a".to_owned(),
            expected: Expected::At(from.clone()),
            to: to.clone(),
        };
        assert!(
            matches!(
                bed.remote.push(&rewrite).await,
                Err(RemoteError::Rewrite { .. })
            ),
            "{rewrite:?}"
        );
    }
    let unknown = Push {
        to: "1".repeat(40),
        ..push.clone()
    };
    assert!(matches!(
        bed.remote.push(&unknown).await,
        Err(RemoteError::Missing { .. })
    ));
    assert_eq!(bed.at_origin("fix/a").await, Some(bed.start.clone()));
}

#[tokio::test]
async fn a_new_branch_is_created_once() {
    let bed = Bed::new().await;
    bed.hook(
        "update",
        &format!("echo \"$*\" >> '{}'", bed.root.join("updates").display()),
    );
    let push = bed.new_branch("task/b").await;
    // The second one repeats it, as after a crash.
    for _ in 0..2 {
        assert_eq!(bed.remote.push(&push).await.unwrap(), Pushed::Done);
    }
    assert_eq!(bed.at_origin("task/b").await, Some(push.to.clone()));
    let updates = fs::read_to_string(bed.root.join("updates")).unwrap();
    let none = "0".repeat(40);
    assert_eq!(
        updates,
        format!("refs/heads/task/b {none} {}\n", push.to),
        "one update"
    );
}

#[tokio::test]
async fn a_new_branch_that_others_continue_is_ahead() {
    let bed = Bed::new().await;
    let push = bed.new_branch("task/b").await;
    assert_eq!(bed.remote.push(&push).await.unwrap(), Pushed::Done);
    let theirs = bed.person("origin/task/b", "b", "b\n").await;
    bed.raw(&bed.origin, ["update-ref", "refs/heads/task/b", &theirs])
        .await;
    assert_eq!(bed.remote.push(&push).await.unwrap(), Pushed::Ahead(theirs));
}

#[tokio::test]
async fn a_new_branch_that_somebody_else_created_is_left_alone() {
    let bed = Bed::new().await;
    let push = bed.new_branch("task/b").await;
    // Even where the push would be a fast-forward.
    bed.raw(&bed.origin, ["branch", "-q", "task/b", &bed.start])
        .await;
    let moved = Pushed::Moved(Some(bed.start.clone()));
    assert_eq!(bed.remote.push(&push).await.unwrap(), moved);
    assert_eq!(bed.at_origin("task/b").await, Some(bed.start.clone()));
}

/// It is created between the check and the push.
#[tokio::test]
async fn a_new_branch_that_is_created_while_we_push_keeps_what_it_got() {
    let bed = Bed::new().await;
    let push = bed.new_branch("task/b").await;
    let (origin, start) = (bed.origin.display(), &bed.start);
    let creates = format!("git --git-dir='{origin}' update-ref refs/heads/task/b {start}");
    let remote = bed.over_ssh(&format!(
        "case \"$cmd\" in *receive-pack*) {creates};; esac\neval \"$cmd\""
    ));
    let moved = Pushed::Moved(Some(start.clone()));
    assert_eq!(remote.push(&push).await.unwrap(), moved);
    assert_eq!(bed.at_origin("task/b").await, Some(start.clone()));
}

#[tokio::test]
async fn a_new_branch_whose_push_is_cut() {
    let bed = Bed::new().await;
    let push = bed.new_branch("task/b").await;
    bed.hook("pre-receive", "kill -9 $PPID");
    let cut = bed.remote.push(&push).await;
    assert!(
        matches!(cut, Err(RemoteError::Unreachable { .. })),
        "{cut:?}"
    );
    assert_eq!(bed.at_origin("task/b").await, None);
    bed.hook("pre-receive", "exit 0");
    bed.hook(
        "reference-transaction",
        "[ \"$1\" = committed ] && kill -9 $PPID\nexit 0",
    );
    assert_eq!(bed.remote.push(&push).await.unwrap(), Pushed::Done);
    assert_eq!(bed.at_origin("task/b").await, Some(push.to.clone()));
}

#[tokio::test]
async fn a_new_branch_that_the_remote_has_no_room_for() {
    let bed = Bed::new().await;
    // `fix/a` and `main` are there.
    for (branch, other) in [("fix", "fix/a"), ("main/x", "main"), ("fix/a/b/c", "fix/a")] {
        let push = bed.new_branch(branch).await;
        let conflict = Pushed::Conflict(other.to_owned());
        assert_eq!(bed.remote.push(&push).await.unwrap(), conflict, "{branch}");
        assert_eq!(bed.at_origin(branch).await, None);
    }
    let push = bed.new_branch("fix/ab").await;
    assert_eq!(bed.remote.push(&push).await.unwrap(), Pushed::Done);
}

#[tokio::test]
async fn a_new_branch_that_the_remote_declines() {
    let bed = Bed::new().await;
    let push = bed.new_branch("task/b").await;
    bed.hook(
        "pre-receive",
        "echo 'GH013: Repository rule violations' >&2; exit 1",
    );
    let Pushed::Refused { message: why, .. } = bed.remote.push(&push).await.unwrap() else {
        panic!("it was declined")
    };
    assert!(why.contains("GH013: Repository rule violations"), "{why}");
    assert_eq!(bed.at_origin("task/b").await, None);
}

#[tokio::test]
async fn a_branch_that_looks_like_an_option_is_refused() {
    let bed = Bed::new().await;
    let push = bed.taken("a", "two\n").await;
    for branch in [
        "--receive-pack=touch pwned",
        "-f",
        "+main",
        ":main",
        "x:main",
        "refs/../main",
        "HEAD",
        "a b",
        "",
    ] {
        let bad = Push {
            branch: branch.to_owned(),
            ..push.clone()
        };
        let refused = bed.remote.push(&bad).await;
        assert!(
            matches!(refused, Err(RemoteError::Git(GitError::BadBranchName(_)))),
            "{branch}: {refused:?}"
        );
    }
    for text in ["--all", "HEAD", "+x", ""] {
        assert!(
            bed.remote
                .push(&Push {
                    expected: Expected::At(text.to_owned()),
                    ..push.clone()
                })
                .await
                .is_err()
        );
        assert!(
            bed.remote
                .push(&Push {
                    to: text.to_owned(),
                    ..push.clone()
                })
                .await
                .is_err()
        );
    }
    assert_eq!(
        bed.raw(&bed.origin, ["for-each-ref", "--format=%(refname)"])
            .await,
        "refs/heads/fix/a\nrefs/heads/main"
    );
}

#[tokio::test]
async fn what_the_remote_declines_is_said_and_harmless() {
    let bed = Bed::new().await;
    let push = bed.taken("a", "two\n").await;
    bed.hook(
        "pre-receive",
        &format!("printf 'GH006: Protected branch \\033[31m {CANARY}\\n' >&2; exit 1"),
    );
    let Pushed::Refused { message: why, .. } = bed.remote.push(&push).await.unwrap() else {
        panic!("it was declined")
    };
    assert!(
        why.contains("pre-receive hook declined") && why.contains("GH006: Protected branch"),
        "{why}"
    );
    assert!(
        !why.contains(CANARY) && !why.contains('\u{1b}') && !why.contains('\n'),
        "{why}"
    );
    assert_eq!(bed.at_origin("fix/a").await, Some(bed.start.clone()));
}

#[tokio::test]
async fn a_push_that_is_cut_after_the_remote_took_it_is_done() {
    let bed = Bed::new().await;
    let push = bed.taken("a", "two\n").await;
    bed.hook(
        "reference-transaction",
        "[ \"$1\" = committed ] && kill -9 $PPID\nexit 0",
    );
    assert_eq!(bed.remote.push(&push).await.unwrap(), Pushed::Done);
    assert_eq!(bed.at_origin("fix/a").await, Some(push.to.clone()));
}

#[tokio::test]
async fn a_push_that_is_cut_before_the_remote_took_it_is_an_error() {
    let bed = Bed::new().await;
    let push = bed.taken("a", "two\n").await;
    bed.hook("pre-receive", "kill -9 $PPID");
    let cut = bed.remote.push(&push).await;
    assert!(
        matches!(cut, Err(RemoteError::Unreachable { .. })),
        "{cut:?}"
    );
    assert_eq!(bed.at_origin("fix/a").await, Some(bed.start.clone()));
    bed.hook("pre-receive", "exit 0");
    assert_eq!(
        bed.remote.push(&push).await.unwrap(),
        Pushed::Done,
        "and it can be repeated"
    );
}

#[tokio::test]
async fn a_push_that_hangs_is_ended_and_looked_up() {
    let bed = Bed::new().await;
    let push = bed.taken("a", "two\n").await;
    let short = Remote::new(NetworkAccess {
        limit: Duration::from_secs(2),
        ..(*bed.remote.reach).clone()
    });
    bed.hook("pre-receive", "exec sleep 600");
    let hung = short.push(&push).await;
    assert!(
        matches!(hung, Err(RemoteError::TimedOut { .. })),
        "{hung:?}"
    );
    assert_eq!(bed.at_origin("fix/a").await, Some(bed.start.clone()));
    bed.hook("pre-receive", "exit 0");
    // It accepts the commit and then sends nothing more.
    bed.hook("post-receive", "exec sleep 600");
    assert_eq!(short.push(&push).await.unwrap(), Pushed::Done);
}

#[tokio::test]
async fn a_push_without_the_right_is_auth() {
    let bed = Bed::new().await;
    let push = bed.taken("a", "two\n").await;
    let denied = "case \"$cmd\" in *receive-pack*) echo 'ERROR: Permission to o/r.git denied to ada.' >&2; exit 128;; esac";
    let remote = bed.over_ssh(&format!("{denied}\neval \"$cmd\""));
    let refused = remote.push(&push).await;
    assert!(
        matches!(refused, Err(RemoteError::Auth { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn settings_of_the_user_do_not_widen_a_push() {
    let bed = Bed::new().await;
    let mut config = fs::read_to_string(bed.root.join("gitconfig")).unwrap();
    config
        .push_str("[push]\n\tfollowTags = true\n\tgpgSign = true\n\tpushOption = x\n\trecurseSubmodules = on-demand\n");
    fs::write(bed.root.join("gitconfig"), config).unwrap();
    let push = bed.taken("a", "two\n").await;
    bed.raw(bed.remote.path(), ["tag", "-a", "-m", "x", "v1", &push.to])
        .await;
    assert_eq!(bed.remote.push(&push).await.unwrap(), Pushed::Done);
    assert_eq!(bed.raw(&bed.origin, ["tag"]).await, "");
}

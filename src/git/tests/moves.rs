//! Moving worktrees to the remote's head: imported commits, fast-forwards, replays and new
//! worktrees, each interrupted at every call that changes something.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Bed, for_tests, script, write};
use crate::git::{Git, GitError, Made, Place, Rebase, Rebased};

impl Bed {
    /// Creates a bare clone with a commit that the repository does not have; returns its path and
    /// the commit.
    async fn elsewhere(&self, path: &str, text: &str) -> (PathBuf, String) {
        let (bare, other) = (self.root.join("bare.git"), self.root.join("other"));
        if !bare.exists() {
            self.raw(&self.root, ["clone", "-q", "--bare", "repo", "bare.git"])
                .await;
            self.raw(&self.root, ["clone", "-q", "bare.git", "other"])
                .await;
        }
        self.raw(&other, ["checkout", "-q", "-B", "fix/a", "origin/fix/a"])
            .await;
        write(&other.join(path), text);
        self.raw(&other, ["add", "-A", "-f"]).await;
        self.raw(&other, ["commit", "-q", "-m", "by a person"])
            .await;
        self.raw(&other, ["push", "-q", "origin", "fix/a"]).await;
        (bare, self.raw(&other, ["rev-parse", "HEAD"]).await)
    }

    async fn brought(&self, path: &str, text: &str) -> String {
        let (bare, sha) = self.elsewhere(path, text).await;
        self.git.bring_in(&self.place, &bare, &sha).await.unwrap();
        sha
    }

    async fn is_clean_at(&self, sha: &str) {
        let now = self.git.worktree_at(&self.place.path).await.unwrap();
        assert_eq!(
            (now.branch.as_deref(), now.head.as_deref()),
            (Some("fix/a"), Some(sha))
        );
        assert_eq!((now.operation, now.index_lock), (None, false));
        assert_eq!(
            self.git.status(&self.place).await.unwrap(),
            crate::git::status::Status::default()
        );
        assert_eq!(
            self.git.moving(&self.place).await.unwrap(),
            None,
            "no marker is left"
        );
    }

    /// Creates a git that is killed after the writing call number `at`, and starts no more after
    /// that.
    fn mortal(&self, at: usize) -> Git {
        let bin = self.root.join(format!("bin{at}"));
        let real = which::which_in("git", Some(&self.env["PATH"]), "/").unwrap();
        let (dir, real) = (bin.display(), real.display());
        script(
            &bin.join("git"),
            &format!(
                "[ -e {dir}/dead ] && exit 137\n\
                 case \" $* \" in\n\
                 *' merge '* | *' rebase '* | *' reset '* | *' update-ref '* | *' symbolic-ref HEAD '*) ;;\n\
                 *' add '* | *' commit-tree '* | *' read-tree '* | *' write-tree '*) ;;\n\
                 *) exec {real} \"$@\" ;;\n\
                 esac\n\
                 n=$(($(cat {dir}/count 2>/dev/null || echo 0) + 1)); echo $n > {dir}/count\n\
                 [ $n = {at} ] || exec {real} \"$@\"\n\
                 : > {dir}/dead; {real} \"$@\" >/dev/null 2>&1; exit 137"
            ),
        );
        let mut env = self.env.clone();
        env.insert("PATH".to_owned(), format!("{dir}:{}", env["PATH"]));
        Git::new(&env, Duration::from_secs(60), &for_tests(&env))
    }

    fn was_killed(&self, at: usize) -> bool {
        self.root.join(format!("bin{at}/dead")).exists()
    }
}

fn rebase<'a>(bed: &'a Bed, head: &'a str, onto: &'a str) -> Rebase<'a> {
    Rebase {
        head_at: "fix/a".into(),
        first: &bed.start,
        head,
        onto,
        run: "r1",
    }
}

#[tokio::test]
async fn a_commit_comes_in_from_the_bare_clone() {
    let bed = Bed::new().await;
    let first = bed.brought("b", "one\n").await;
    bed.is_clean_at(&bed.start).await;
    assert_eq!(
        bed.said(["for-each-ref", "--format=%(refname)", "refs/remand/"])
            .await,
        format!("refs/remand/remote/{first}")
    );
    let second = bed.brought("b", "two\n").await;
    let refs = bed
        .said(["for-each-ref", "--format=%(refname)", "refs/remand/"])
        .await;
    assert_eq!(
        refs,
        format!("refs/remand/remote/{second}"),
        "one ref for a branch that moves forward"
    );
    let (bare, _) = bed.elsewhere("b", "three\n").await;
    let refused = bed.git.bring_in(&bed.place, &bare, &"1".repeat(40)).await;
    assert!(refused.is_err(), "{refused:?}");
    for from in ["/nowhere", "relative"] {
        let refused = bed
            .git
            .bring_in(&bed.place, Path::new(from), &"1".repeat(40))
            .await;
        assert!(matches!(refused, Err(GitError::NotThere { .. })), "{from}");
    }
    assert!(
        bed.git
            .bring_in(&bed.place, &bare, "--upload-pack=x")
            .await
            .is_err()
    );
}

#[tokio::test]
async fn nothing_planted_runs_when_a_commit_comes_in_and_the_worktree_moves() {
    let bed = Bed::new().await;
    let (bare, to) = bed.elsewhere("b", "b\n").await;
    let evil = bed.root.join("evil.sh");
    let marker = bed.root.join("marker");
    script(
        &evil,
        &format!("echo \"$0 $*\" >> '{}'; cat", marker.display()),
    );
    for hook in [
        "post-merge",
        "post-checkout",
        "pre-rebase",
        "post-rewrite",
        "reference-transaction",
        "post-index-change",
    ] {
        fs::copy(&evil, bed.place.common_dir.join("hooks").join(hook)).unwrap();
    }
    let (evil, source) = (evil.to_str().unwrap(), bare.to_str().unwrap());
    for key in [
        "core.fsmonitor".to_owned(),
        "core.alternateRefsCommand".to_owned(),
        "core.sshCommand".to_owned(),
        "core.editor".to_owned(),
        "sequence.editor".to_owned(),
        "gpg.program".to_owned(),
        "uploadpack.packObjectsHook".to_owned(),
        format!("remote.{source}.uploadpack"),
    ] {
        bed.said(["config", &key, evil]).await;
    }
    for (key, value) in [
        ("commit.gpgSign", "true"),
        ("merge.verifySignatures", "true"),
        ("rebase.autoStash", "true"),
        ("merge.autoStash", "true"),
        ("rebase.backend", "apply"),
        ("rebase.updateRefs", "true"),
        ("fetch.bundleURI", "ext::sh"),
    ] {
        bed.said(["-c", "core.fsmonitor=false", "config", key, value])
            .await;
    }
    write(
        &bed.place.common_dir.join("objects/info/alternates"),
        &format!("{}/objects\n", bare.display()),
    );
    fs::remove_file(&marker).ok();
    bed.git.bring_in(&bed.place, &bare, &to).await.unwrap();
    bed.git
        .forward(&bed.place, "fix/a", &bed.start, &to)
        .await
        .unwrap();
    bed.write("a", "ours\n");
    let head = bed
        .git
        .commit_rest(&bed.place, "fix/a", "ours")
        .await
        .unwrap()
        .unwrap();
    let (_, onto) = bed.elsewhere("c", "c\n").await;
    bed.git.bring_in(&bed.place, &bare, &onto).await.unwrap();
    let again = Rebase {
        first: &to,
        ..rebase(&bed, &head, &onto)
    };
    assert!(matches!(
        bed.git.rebase_onto(&bed.place, again).await,
        Ok(Rebased::Clean(_))
    ));
    assert!(!marker.exists(), "{}", fs::read_to_string(&marker).unwrap());
}

#[tokio::test]
async fn a_clean_worktree_moves_forward() {
    let bed = Bed::new().await;
    let to = bed.brought("b", "b\n").await;
    bed.write("ignored/cache", "stays");
    for _ in 0..2 {
        bed.git
            .forward(&bed.place, "fix/a", &bed.start, &to)
            .await
            .unwrap();
        bed.is_clean_at(&to).await;
    }
    assert_eq!(
        fs::read_to_string(bed.wt("ignored/cache")).unwrap(),
        "stays"
    );
    let refused = bed.git.forward(&bed.place, "fix/a", &to, &bed.start).await;
    assert!(matches!(refused, Err(GitError::NotForward { .. })));
    bed.commit("c", "ours\n").await;
    let refused = bed.git.forward(&bed.place, "fix/a", &bed.start, &to).await;
    assert!(
        matches!(refused, Err(GitError::Elsewhere { .. })),
        "{refused:?}"
    );
    assert!(
        bed.git
            .forward(&bed.place, "main", &bed.start, &to)
            .await
            .is_err()
    );
    assert!(
        bed.git
            .forward(&bed.place, "-x", &bed.start, &to)
            .await
            .is_err()
    );
}

#[tokio::test]
async fn work_in_the_worktree_is_not_moved_over() {
    let bed = Bed::new().await;
    let to = bed.brought("secrets.log", "theirs\n").await;
    // Ignored here and added there.
    bed.write("secrets.log", "mine\n");
    let refused = bed.git.forward(&bed.place, "fix/a", &bed.start, &to).await;
    assert!(
        matches!(&refused, Err(GitError::InTheWay { paths }) if paths == &["secrets.log"]),
        "{refused:?}"
    );
    let ours = bed.commit("a", "ours\n").await;
    let refused = bed
        .git
        .rebase_onto(&bed.place, rebase(&bed, &ours, &to))
        .await;
    assert!(
        matches!(&refused, Err(GitError::InTheWay { paths }) if paths == &["secrets.log"]),
        "{refused:?}"
    );
    assert_eq!(fs::read_to_string(bed.wt("secrets.log")).unwrap(), "mine\n");
    bed.is_clean_at(&ours).await;
    for (path, text) in [("a", "edited\n"), ("new", "new\n")] {
        bed.write(path, text);
        let refused = bed.git.forward(&bed.place, "fix/a", &ours, &ours).await;
        assert!(
            matches!(&refused, Err(GitError::LocalWork { paths }) if paths == &[path]),
            "{refused:?}"
        );
        assert_eq!(fs::read_to_string(bed.wt(path)).unwrap(), text);
        bed.said(["checkout", "-q", "."]).await;
    }
}

#[tokio::test]
async fn a_move_forward_that_was_cut_ends_where_it_was_to_end() {
    let bed = Bed::new().await;
    let to = bed.brought("big", &"x\n".repeat(1000)).await;
    bed.git.begin_moving(&bed.place, &to).await.unwrap();
    bed.write("big", "x\nx\n");
    bed.write("of a person", "who came by\n");
    write(&bed.place.git_dir.join("index.lock"), "");
    bed.git
        .forward(&bed.place, "fix/a", &bed.start, &to)
        .await
        .unwrap();
    bed.is_clean_at(&to).await;
    let kept = bed
        .said(["show", &format!("refs/remand/wip/forward-{to}:of a person")])
        .await;
    assert_eq!(kept, "who came by");
}

#[tokio::test]
async fn a_lock_that_a_killed_git_left_on_a_ref_of_ours_is_not_there_for_ever() {
    let bed = Bed::new().await;
    let (bare, sha) = bed.elsewhere("b", "b\n").await;
    let lock = bed
        .place
        .common_dir
        .join(format!("refs/remand/remote/{sha}.lock"));
    write(&lock, "");
    for _ in 0..2 {
        let locked = bed.git.bring_in(&bed.place, &bare, &sha).await;
        assert!(matches!(locked, Err(GitError::Locked { .. })), "{locked:?}");
    }
    let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::options()
        .write(true)
        .open(&lock)
        .unwrap()
        .set_modified(old)
        .unwrap();
    assert!(bed.git.bring_in(&bed.place, &bare, &sha).await.is_err());
    bed.git.bring_in(&bed.place, &bare, &sha).await.unwrap();
}

/// The lock would block every git in the repository, the user's too, until someone removes it by
/// hand.
#[tokio::test]
async fn a_lock_that_a_killed_git_left_on_the_packed_refs_is_not_there_for_ever() {
    let bed = Bed::new().await;
    let (bare, sha) = bed.elsewhere("b", "b\n").await;
    bed.git.bring_in(&bed.place, &bare, &sha).await.unwrap();
    let name = format!("refs/remand/remote/{sha}");
    let lock = bed.place.common_dir.join("packed-refs.lock");
    write(&lock, "");
    let locked = bed.git.forget_ref(&bed.place, &name).await;
    assert!(matches!(locked, Err(GitError::Locked { .. })), "{locked:?}");
    assert!(lock.exists(), "somebody may be using it");
    let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::options()
        .write(true)
        .open(&lock)
        .unwrap()
        .set_modified(old)
        .unwrap();
    assert!(bed.git.forget_ref(&bed.place, &name).await.is_err());
    bed.git.forget_ref(&bed.place, &name).await.unwrap();
}

#[tokio::test]
async fn a_move_forward_that_was_cut_leaves_a_worktree_that_can_be_looked_at() {
    for at in 1.. {
        let bed = Bed::new().await;
        let to = bed.brought("b", "b\n").await;
        let cut = bed
            .mortal(at)
            .forward(&bed.place, "fix/a", &bed.start, &to)
            .await;
        if cut.is_err() {
            write(&bed.place.git_dir.join("index.lock"), "");
        }
        bed.git
            .end_cut_move(&bed.place, "fix/a")
            .await
            .unwrap_or_else(|e| panic!("cut at {at}: {e}"));
        assert_eq!(bed.git.moving(&bed.place).await.unwrap(), None);
        if !bed.was_killed(at) {
            return bed.is_clean_at(&to).await;
        }
    }
}

/// A marker left by a crash does not discard a person's changes.
#[tokio::test]
async fn a_move_forward_that_was_whole_takes_nothing_from_who_came_later() {
    let bed = Bed::new().await;
    let to = bed.brought("b", "b\n").await;
    bed.git
        .forward(&bed.place, "fix/a", &bed.start, &to)
        .await
        .unwrap();
    bed.git.begin_moving(&bed.place, &to).await.unwrap();
    bed.write("b", "mine\n");
    bed.git.end_cut_move(&bed.place, "fix/a").await.unwrap();
    assert_eq!(fs::read_to_string(bed.wt("b")).unwrap(), "mine\n");
    assert_eq!(bed.git.moving(&bed.place).await.unwrap(), None);
}

#[tokio::test]
async fn a_move_forward_that_is_cut_at_any_call_can_be_said_again() {
    for at in 1.. {
        let bed = Bed::new().await;
        let to = bed.brought("b", "b\n").await;
        let cut = bed
            .mortal(at)
            .forward(&bed.place, "fix/a", &bed.start, &to)
            .await;
        assert_eq!(cut.is_err(), bed.was_killed(at));
        bed.git
            .forward(&bed.place, "fix/a", &bed.start, &to)
            .await
            .unwrap_or_else(|e| panic!("cut at {at}: {e}"));
        bed.is_clean_at(&to).await;
        if !bed.was_killed(at) {
            assert!(at > 3, "the sweep made progress");
            return;
        }
    }
}

#[tokio::test]
async fn commits_are_replayed() {
    let bed = Bed::new().await;
    let onto = bed.brought("b", "theirs\n").await;
    bed.said(["branch", "-q", "other"]).await;
    bed.commit("c", "ours\n").await;
    let head = bed.commit("d/y", "ours too\n").await;
    let mut seen = Vec::new();
    for _ in 0..2 {
        let Rebased::Clean(new) = bed
            .git
            .rebase_onto(&bed.place, rebase(&bed, &head, &onto))
            .await
            .unwrap()
        else {
            panic!("no conflict was expected")
        };
        bed.is_clean_at(&new).await;
        seen.push(new);
    }
    assert_eq!(seen[0], seen[1]);
    let log = bed.git.log(&bed.place, &onto, &seen[0]).await.unwrap();
    assert_eq!(log.len(), 2);
    assert_eq!(log[0].author, "A Person <person@example.com>");
    assert!(
        bed.git
            .is_ancestor(
                &bed.place,
                &head,
                &bed.said(["rev-parse", "refs/remand/wip/r1"]).await
            )
            .await
            .unwrap()
    );
    assert_eq!(
        bed.said(["rev-parse", "other"]).await,
        bed.start,
        "no other branch moves"
    );
    bed.commit("c", "and more\n").await;
    let refused = bed
        .git
        .rebase_onto(&bed.place, rebase(&bed, &head, &onto))
        .await;
    assert!(
        matches!(refused, Err(GitError::Elsewhere { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn nothing_to_replay_is_a_move_forward() {
    let bed = Bed::new().await;
    let onto = bed.brought("b", "theirs\n").await;
    let done = bed
        .git
        .rebase_onto(&bed.place, rebase(&bed, &bed.start, &onto))
        .await
        .unwrap();
    assert_eq!(done, Rebased::Clean(onto.clone()));
    bed.is_clean_at(&onto).await;
}

#[tokio::test]
async fn a_conflict_changes_nothing() {
    let bed = Bed::new().await;
    let onto = bed.brought("a", "theirs\n").await;
    bed.commit("c", "ours\n").await;
    let head = bed.commit("a", "ours\n").await;
    for _ in 0..2 {
        let done = bed
            .git
            .rebase_onto(&bed.place, rebase(&bed, &head, &onto))
            .await
            .unwrap();
        assert_eq!(done, Rebased::Conflict(vec!["a".to_owned()]));
        bed.is_clean_at(&head).await;
    }
    // The state that a git leaves when killed in the middle.
    bed.git.begin_moving(&bed.place, &head).await.unwrap();
    bed.try_raw(
        &bed.place.path,
        ["rebase", "-q", "--onto", &onto, &bed.start, &head],
    )
    .await;
    write(&bed.place.git_dir.join("index.lock"), "");
    let done = bed
        .git
        .rebase_onto(&bed.place, rebase(&bed, &head, &onto))
        .await
        .unwrap();
    assert_eq!(done, Rebased::Conflict(vec!["a".to_owned()]));
    bed.is_clean_at(&head).await;
}

#[tokio::test]
async fn what_the_run_left_before_is_not_overwritten() {
    let bed = Bed::new().await;
    bed.write("half", "done\n");
    bed.git.put_back(&bed.place, bed.to()).await.unwrap();
    let before = bed.said(["rev-parse", "refs/remand/wip/r1"]).await;
    let onto = bed.brought("b", "theirs\n").await;
    let head = bed.commit("c", "ours\n").await;
    bed.git
        .rebase_onto(&bed.place, rebase(&bed, &head, &onto))
        .await
        .unwrap();
    let after = bed.said(["rev-parse", "refs/remand/wip/r1"]).await;
    for kept in [&before, &head] {
        assert!(bed.git.is_ancestor(&bed.place, kept, &after).await.unwrap());
    }
}

#[tokio::test]
async fn a_replay_that_is_cut_at_any_call_can_be_said_again() {
    for (theirs, is_clean) in [("b", true), ("a", false)] {
        for at in 1.. {
            let bed = Bed::new().await;
            let onto = bed.brought(theirs, "theirs\n").await;
            let head = bed.commit("a", "ours\n").await;
            let cut = bed
                .mortal(at)
                .rebase_onto(&bed.place, rebase(&bed, &head, &onto))
                .await;
            assert_eq!(cut.is_err(), bed.was_killed(at), "cut at {at}: {cut:?}");
            let again = bed
                .git
                .rebase_onto(&bed.place, rebase(&bed, &head, &onto))
                .await;
            match again.unwrap_or_else(|error| panic!("cut at {at}: {error}")) {
                Rebased::Clean(new) => {
                    assert!(is_clean);
                    bed.is_clean_at(&new).await;
                    assert!(bed.git.is_ancestor(&bed.place, &onto, &new).await.unwrap());
                    assert_eq!(fs::read_to_string(bed.wt("a")).unwrap(), "ours\n");
                }
                Rebased::Conflict(paths) => {
                    assert!(!is_clean && paths == ["a"]);
                    bed.is_clean_at(&head).await;
                }
            }
            if !bed.was_killed(at) {
                assert!(at > 7, "the sweep made progress");
                break;
            }
        }
    }
}

/// It was replayed, the program died before that was recorded, and the remote moved again.
#[tokio::test]
async fn what_was_replayed_onto_an_earlier_head_is_replayed_again() {
    let bed = Bed::new().await;
    let first = bed.brought("b", "theirs\n").await;
    let head = bed.commit("a", "ours\n").await;
    let Rebased::Clean(replayed) = bed
        .git
        .rebase_onto(&bed.place, rebase(&bed, &head, &first))
        .await
        .unwrap()
    else {
        panic!("it is no conflict");
    };
    let second = bed.brought("second", "theirs\n").await;
    let Rebased::Clean(new) = bed
        .git
        .rebase_onto(&bed.place, rebase(&bed, &head, &second))
        .await
        .unwrap()
    else {
        panic!("it is no conflict");
    };
    bed.is_clean_at(&new).await;
    assert!(
        bed.git
            .is_ancestor(&bed.place, &second, &new)
            .await
            .unwrap()
    );
    assert!(
        !bed.git
            .is_ancestor(&bed.place, &replayed, &new)
            .await
            .unwrap()
    );
    // A commit that is not one of its own results is not touched.
    let other = bed.commit("other", "a person's\n").await;
    let refused = bed
        .git
        .rebase_onto(&bed.place, rebase(&bed, &head, &first))
        .await;
    assert!(
        matches!(refused, Err(GitError::Elsewhere { found: Some(found), .. }) if found == other)
    );
}

#[tokio::test]
async fn worktrees_are_made_on_new_and_on_existing_branches() {
    let bed = Bed::new().await;
    let project = bed.git.project_at(&bed.repo).await.unwrap();
    let (bare, sha) = bed.elsewhere("b", "b\n").await;
    bed.git
        .bring_in(&project.repository(), &bare, &sha)
        .await
        .unwrap();
    bed.said(["branch", "-q", "behind"]).await;
    for (path, branch) in [("w 1", "task/one"), ("w2", "behind")] {
        for _ in 0..2 {
            let made = bed
                .git
                .add_worktree(&project, &bed.root.join(path), branch, &sha)
                .await
                .unwrap();
            assert_eq!(
                (made.branch.as_deref(), made.head.as_ref()),
                (Some(branch), Some(&sha))
            );
            assert!(bed.git.status(&made.place).await.unwrap().is_clean());
            assert_eq!(
                fs::read_to_string(bed.root.join(path).join("b")).unwrap(),
                "b\n"
            );
        }
    }
    bed.said(["branch", "-q", "ahead", &sha]).await;
    let start = bed.start.clone();
    let refused = bed
        .git
        .add_worktree(&project, &bed.root.join("w3"), "ahead", &start)
        .await;
    assert!(matches!(refused, Err(GitError::Elsewhere { found: Some(found), .. }) if found == sha));
    let refused = bed
        .git
        .add_worktree(&project, &bed.root.join("w3"), "fix/a", &start)
        .await;
    assert!(matches!(refused, Err(GitError::BranchInUse { path, .. }) if path == bed.place.path));
    let refused = bed
        .git
        .add_worktree(&project, &bed.root.join("w3"), "x", &"1".repeat(40))
        .await;
    assert!(matches!(refused, Err(GitError::NotACommit { .. })));
    assert!(
        bed.git
            .add_worktree(&project, &bed.root.join("w3"), "-x", &sha)
            .await
            .is_err()
    );
    assert!(!bed.root.join("w3").exists());
    write(&bed.root.join("full/of"), "things");
    assert!(
        bed.git
            .add_worktree(&project, &bed.root.join("full"), "x", &sha)
            .await
            .is_err()
    );
    assert_eq!(
        fs::read_to_string(bed.root.join("full/of")).unwrap(),
        "things"
    );
}

#[tokio::test]
async fn work_in_a_worktree_that_is_there_already_is_left_alone() {
    let bed = Bed::new().await;
    let project = bed.git.project_at(&bed.repo).await.unwrap();
    let path = bed.root.join("w");
    bed.git
        .add_worktree(&project, &path, "task", &bed.start)
        .await
        .unwrap();
    write(&path.join("a"), "mine\n");
    bed.git
        .add_worktree(&project, &path, "task", &bed.start)
        .await
        .unwrap();
    assert_eq!(fs::read_to_string(path.join("a")).unwrap(), "mine\n");
}

#[tokio::test]
async fn a_worktree_whose_making_is_cut_at_any_call_can_be_made_again() {
    for at in 1.. {
        let bed = Bed::new().await;
        let project = bed.git.project_at(&bed.repo).await.unwrap();
        let path = bed.root.join("w");
        let cut = bed
            .mortal(at)
            .add_worktree(&project, &path, "task", &bed.start)
            .await;
        assert_eq!(cut.is_err(), bed.was_killed(at));
        let head = match bed.git.made_so_far(&project, &path).await.unwrap() {
            Made::Not => bed.start.clone(),
            Made::Empty { head } => head,
            Made::Whole => {
                let place = Place::find(&project.common_dir, &path).unwrap();
                bed.git.end_cut_move(&place, "task").await.unwrap();
                assert!(
                    bed.git.status(&place).await.unwrap().is_clean(),
                    "cut at {at}"
                );
                bed.start.clone()
            }
        };
        let made = bed.git.add_worktree(&project, &path, "task", &head).await;
        let made = made.unwrap_or_else(|error| panic!("cut at {at}: {error}"));
        assert!(
            bed.git.status(&made.place).await.unwrap().is_clean(),
            "cut at {at}"
        );
        if !bed.was_killed(at) {
            return;
        }
    }
}

#[tokio::test]
async fn what_git_leaves_of_a_worktree_when_it_is_killed_is_cleared() {
    let bed = Bed::new().await;
    let project = bed.git.project_at(&bed.repo).await.unwrap();
    let path = bed.root.join("w");
    let admin = bed.place.common_dir.join("worktrees/w");
    write(&admin.join("locked"), "initializing\n");
    write(&admin.join("gitdir"), &format!("{}/.git\n", path.display()));
    write(&admin.join("HEAD"), &format!("{}\n", "0".repeat(40)));
    write(&admin.join("commondir"), "../..\n");
    bed.git
        .add_worktree(&project, &path, "task", &bed.start)
        .await
        .unwrap();
    assert_eq!(fs::read_to_string(path.join("a")).unwrap(), "one\n");
}

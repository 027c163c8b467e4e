//! Inspection: repositories, worktrees, status, history, diff, and errors when it fails.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use super::{Bed, write};
use crate::git::{FileStatus, GitError, MINIMUM, Operation, Place};

#[tokio::test]
async fn the_version_is_read_and_is_new_enough() {
    let bed = Bed::new().await;
    assert!(bed.git.version().await.unwrap() >= MINIMUM);
    assert_eq!(
        crate::git::read_version("git version 2.39.5 (Apple Git-154)"),
        Some((2, 39))
    );
    assert_eq!(crate::git::read_version("git version 2.50-rc1"), None);
}

#[tokio::test]
async fn a_project_is_found_from_any_of_its_worktrees() {
    let bed = Bed::new().await;
    for path in [&bed.repo, &bed.place.path, &bed.repo.join("d")] {
        let project = bed.git.project_at(path).await.unwrap();
        assert_eq!(
            (&project.path, &project.common_dir),
            (&bed.repo, &bed.repo.join(".git")),
            "{path:?}"
        );
        assert_eq!(
            (
                project.default_branch.as_deref(),
                project.bare,
                project.origin
            ),
            (Some("main"), false, None)
        );
    }
    let project = bed.git.project_at(&bed.repo).await.unwrap();
    let listed = bed.git.worktrees(&project).await.unwrap();
    assert_eq!(listed.len(), 2);
    assert_eq!(
        (&listed[1].path, listed[1].branch.as_deref()),
        (&bed.place.path, Some("fix/a"))
    );
    assert_eq!(bed.git.top_of(&bed.repo.join("d")).await.unwrap(), bed.repo);
}

#[tokio::test]
async fn a_bare_repository_is_a_project_too() {
    let bed = Bed::new().await;
    let bare = bed.root.join("bare.git");
    bed.raw(&bed.root, ["clone", "-q", "--bare", "repo", "bare.git"])
        .await;
    bed.raw(&bare, ["worktree", "add", "-q", "../from-bare", "fix/a"])
        .await;
    for path in [bare.clone(), bed.root.join("from-bare")] {
        let project = bed.git.project_at(&path).await.unwrap();
        assert_eq!((&project.path, project.bare), (&bare, true));
        assert!(project.origin.is_some());
        bed.git.checkout_mark(&project).await.unwrap();
    }
    let worktree = bed
        .git
        .worktree_at(&bed.root.join("from-bare"))
        .await
        .unwrap();
    assert!(bed.git.status(&worktree.place).await.unwrap().is_clean());
}

#[tokio::test]
async fn what_is_no_worktree_is_told_apart() {
    let bed = Bed::new().await;
    let is_not_there = |e: GitError| matches!(e, GitError::NotThere { .. });
    assert!(
        bed.git
            .worktree_at(&bed.root.join("gone"))
            .await
            .is_err_and(is_not_there)
    );
    symlink(&bed.place.path, bed.root.join("link")).unwrap();
    assert!(
        bed.git
            .worktree_at(&bed.root.join("link"))
            .await
            .is_err_and(is_not_there)
    );
    assert!(matches!(
        bed.git.worktree_at(&bed.root).await,
        Err(GitError::NotARepository { .. })
    ));
    assert!(matches!(
        bed.git.worktree_at(&bed.wt("d")).await,
        Err(GitError::NotThisWorktree { .. })
    ));
    fs::remove_dir_all(&bed.place.path).unwrap();
    assert!(bed.git.status(&bed.place).await.is_err_and(is_not_there));
    symlink(&bed.repo, &bed.place.path).unwrap();
    assert!(bed.git.status(&bed.place).await.is_err_and(is_not_there));
}

#[tokio::test]
async fn a_git_file_that_leads_to_another_worktree_is_refused() {
    let bed = Bed::new().await;
    fs::write(
        bed.wt(".git"),
        format!("gitdir: {}\n", bed.repo.join(".git").display()),
    )
    .unwrap();
    assert!(matches!(
        bed.git.worktree_at(&bed.place.path).await,
        Err(GitError::NotThisWorktree { .. })
    ));
    fs::remove_file(bed.wt(".git")).unwrap();
    assert!(matches!(
        bed.git.worktree_at(&bed.place.path).await,
        Err(GitError::NotARepository { .. })
    ));
    assert_eq!(
        Place::find(&bed.place.common_dir, &bed.place.path).unwrap(),
        bed.place
    );
    assert!(
        bed.git.status(&bed.place).await.unwrap().is_clean(),
        "the known place needs no .git file"
    );
}

#[tokio::test]
async fn a_worktree_without_its_git_file_inside_the_main_checkout_is_not_the_main_checkout() {
    let bed = Bed::new().await;
    bed.raw(&bed.repo, ["worktree", "add", "-q", "-b", "inner", "inner"])
        .await;
    let inner = bed.repo.join("inner");
    let place = Place::find(&bed.place.common_dir, &inner).unwrap();
    fs::remove_file(inner.join(".git")).unwrap();
    assert!(matches!(
        bed.git.worktree_at(&inner).await,
        Err(GitError::NotThisWorktree { .. })
    ));
    write(&inner.join("a"), "dirty\n");
    assert_eq!(bed.git.status(&place).await.unwrap().changed, ["a"]);
}

#[tokio::test]
async fn operations_under_way_are_seen() {
    let bed = Bed::new().await;
    let wt = &bed.place.path;
    let look = async || bed.git.worktree_at(wt).await.unwrap();
    let now = look().await;
    assert_eq!(
        (now.operation, now.branch.as_deref(), now.head.as_ref()),
        (None, Some("fix/a"), Some(&bed.start))
    );
    let ours = bed.commit("a", "ours\n").await;
    bed.said(["checkout", "-q", "-b", "other", &bed.start])
        .await;
    let theirs = bed.commit("a", "theirs\n").await;
    for (args, operation) in [
        (["merge", "-q", &ours], Operation::Merge),
        (["rebase", "-q", &ours], Operation::Rebase),
        (["cherry-pick", "-x", &ours], Operation::CherryPick),
    ] {
        assert_ne!(bed.try_raw(wt, args).await.0, Some(0));
        let now = look().await;
        assert_eq!(now.operation, Some(operation));
        assert_eq!(now.branch.is_none(), operation == Operation::Rebase);
        bed.said([operation.as_str().replace('_', "-").as_str(), "--abort"])
            .await;
    }
    bed.said(["bisect", "start", &theirs, &bed.start]).await;
    assert_eq!(look().await.operation, Some(Operation::Bisect));
    bed.said(["bisect", "reset"]).await;
    bed.said(["checkout", "-q", "--detach"]).await;
    assert_eq!(look().await.branch, None);
    write(&bed.place.git_dir.join("index.lock"), "");
    assert!(look().await.index_lock);
}

#[tokio::test]
async fn a_branch_named_like_another_answer_of_git_is_told_from_it() {
    let bed = Bed::new().await;
    let both = async || {
        let now = bed.git.look(&bed.place).await.unwrap();
        let (with_status, _) = bed.git.look_and_status(&bed.place).await.unwrap();
        assert_eq!(now, with_status);
        assert_eq!(now.head.as_ref(), Some(&bed.start));
        now.branch
    };
    for name in ["(detached)", "(initial)", "refs/heads/fix/a", "HEADS"] {
        let full = format!("refs/heads/{name}");
        bed.said(["update-ref", &full, &bed.start]).await;
        bed.said(["symbolic-ref", "HEAD", &full]).await;
        assert_eq!(both().await.as_deref(), Some(name));
    }
    // A ref outside of the branches, and a branch that leads to another one.
    bed.said(["update-ref", "refs/other/x", &bed.start]).await;
    bed.said(["symbolic-ref", "HEAD", "refs/other/x"]).await;
    assert_eq!(both().await, None);
    bed.said(["symbolic-ref", "refs/heads/lead", "refs/heads/fix/a"])
        .await;
    bed.said(["symbolic-ref", "HEAD", "refs/heads/lead"]).await;
    assert_eq!(both().await.as_deref(), Some("fix/a"));
    bed.said(["symbolic-ref", "HEAD", "refs/heads/fix/a"]).await;
    bed.said(["update-ref", "refs/heads/HEAD", &bed.start])
        .await;
    assert_eq!(both().await.as_deref(), Some("fix/a"));
    bed.said(["update-ref", "--no-deref", "HEAD", &bed.start])
        .await;
    write(&bed.place.git_dir.join("HEAD"), &format!("{}\n", bed.start));
    assert_eq!(both().await, None);
}

#[tokio::test]
async fn a_driver_planted_between_two_calls_is_not_run() {
    let bed = Bed::new().await;
    bed.git.status(&bed.place).await.unwrap();
    let ran = bed.root.join("ran");
    let evil = format!("touch {}; cat", ran.display());
    let included = bed.place.common_dir.join("more");
    write(
        &bed.place.common_dir.join("info/attributes"),
        "* filter=x\n",
    );
    for plant in ["config", "config.worktree", "include"] {
        match plant {
            "config" => drop(bed.said(["config", "filter.x.clean", &evil]).await),
            "config.worktree" => {
                bed.said(["config", "extensions.worktreeConfig", "true"])
                    .await;
                bed.said(["config", "--worktree", "filter.x.clean", &evil])
                    .await;
            }
            _ => {
                write(&included, "");
                bed.said(["config", "include.path", included.to_str().unwrap()])
                    .await;
                bed.git.status(&bed.place).await.unwrap();
                write(&included, &format!("[filter \"x\"]\n\tclean = {evil}\n"));
            }
        }
        bed.write("a", plant);
        let status = bed.git.status(&bed.place).await.unwrap();
        assert_eq!(status.changed, ["a"], "{plant}");
        assert!(!ran.exists(), "{plant}");
        for arg in ["config", "config.worktree"] {
            fs::remove_file(bed.place.git_dir.join(arg)).ok();
        }
        bed.try_raw(&bed.repo, ["config", "--unset", "filter.x.clean"])
            .await;
    }
}

/// Git follows `commondir` to another configuration, also from the main checkout.
#[tokio::test]
async fn a_driver_of_a_planted_common_dir_is_not_run() {
    let bed = Bed::new().await;
    let project = bed.git.project_at(&bed.repo).await.unwrap();
    let before = bed.git.checkout_mark(&project).await.unwrap();
    let (evil, ran) = (bed.root.join("evil"), bed.root.join("ran"));
    bed.raw(
        &bed.root,
        ["clone", "-q", "--bare", "repo", evil.to_str().unwrap()],
    )
    .await;
    let command = format!("touch {}; cat", ran.display());
    bed.raw(&evil, ["config", "filter.x.clean", &command]).await;
    write(&evil.join("info/attributes"), "* filter=x\n");
    write(
        &bed.repo.join(".git/commondir"),
        &format!("{}\n", evil.display()),
    );
    write(&bed.repo.join("a"), "two\n");
    let after = bed.git.checkout_mark(&project).await.unwrap();
    let words = before.differs(&after);
    assert!(
        words.contains(&"commondir was added".to_owned()),
        "{words:?}"
    );
    let place = Place::with_git_dir(bed.repo.clone(), project.common_dir.clone());
    assert_eq!(bed.git.status(&place).await.unwrap().changed, ["a"]);
    assert_eq!(
        Place::find_both_ways(&project.common_dir, &bed.repo),
        None,
        "git has to search"
    );
    assert!(!ran.exists());
    // A directory may have a name that ends with a space.
    fs::remove_file(bed.repo.join(".git/commondir")).unwrap();
    write(&bed.place.git_dir.join("commondir"), "../.. \n");
    assert_eq!(
        Place::find_both_ways(&project.common_dir, &bed.place.path),
        None
    );
}

/// Git prints nothing for an ambiguous HEAD, and searches elsewhere if HEAD leads nowhere.
#[tokio::test]
async fn a_ref_is_not_taken_for_head() {
    let bed = Bed::new().await;
    let look = async || bed.git.unblock(&bed.place, bed.to()).await.unwrap().now;
    bed.said(["update-ref", "refs/heads/HEAD", &bed.start])
        .await;
    bed.said(["symbolic-ref", "refs/bisect/x", "refs/heads/main"])
        .await;
    assert_eq!(look().await.branch.as_deref(), Some("fix/a"));
    bed.said(["update-ref", "-d", "refs/heads/HEAD"]).await;
    bed.said(["symbolic-ref", "HEAD", "refs/heads/none"]).await;
    bed.said(["symbolic-ref", "refs/tags/HEAD", "refs/heads/fix/a"])
        .await;
    assert_eq!(look().await.branch.as_deref(), Some("none"));
    let now = bed.git.look(&bed.place).await.unwrap();
    assert_eq!(now.branch.as_deref(), Some("none"));
}

#[tokio::test]
async fn the_cache_of_untracked_files_hides_nothing() {
    let bed = Bed::new().await;
    for (key, value) in [
        ("core.untrackedCache", "true"),
        ("core.trustctime", "false"),
        ("core.checkStat", "minimal"),
        ("status.showUntrackedFiles", "all"),
    ] {
        bed.said(["config", key, value]).await;
    }
    // On some file systems, the size of a directory depends on its entries.
    fs::write(bed.place.path.join("kept"), "hidden\n").unwrap();
    let exclude = bed.said(["rev-parse", "--git-path", "info/exclude"]).await;
    fs::write(bed.place.path.join(exclude.trim()), "kept\n").unwrap();
    let top = fs::File::open(&bed.place.path).unwrap();
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    top.set_modified(old).unwrap();
    bed.said(["update-index", "--force-untracked-cache"]).await;
    for _ in 0..2 {
        bed.said(["status"]).await;
        top.set_modified(old).unwrap();
    }
    bed.said(["status"]).await;
    fs::rename(bed.place.path.join("kept"), bed.place.path.join("new")).unwrap();
    top.set_modified(old).unwrap();
    assert_eq!(
        bed.said(["status", "--porcelain", "-uall"]).await,
        "",
        "git itself is deceived"
    );
    let status = bed.git.status(&bed.place).await.unwrap();
    assert_eq!(status.untracked, ["new"]);
}

/// Git reads the file of the remote that a branch follows.
#[tokio::test]
async fn a_pipe_in_place_of_a_remote_does_not_hang_us() {
    let bed = Bed::new().await;
    bed.said(["config", "branch.fix/a.remote", "pipe"]).await;
    bed.said(["config", "branch.fix/a.merge", "refs/heads/main"])
        .await;
    for folder in ["remotes", "branches"] {
        let pipe = bed.place.common_dir.join(folder).join("pipe");
        fs::create_dir_all(pipe.parent().unwrap()).unwrap();
        let alias = format!("alias.pipe=!mkfifo {}", pipe.display());
        bed.said(["-c", &alias, "pipe"]).await;
        assert!(
            matches!(
                bed.git.status(&bed.place).await,
                Err(GitError::SpecialFile { path }) if path == pipe
            ),
            "{folder}"
        );
        fs::remove_file(&pipe).unwrap();
    }
}

#[tokio::test]
async fn status_shows_every_name_and_no_ignored_one() {
    let bed = Bed::new().await;
    let names = [
        "two words",
        "-dash",
        "new\nline",
        "größe",
        "\"quoted\"",
        ":(top)magic",
        "deep/er/file",
    ];
    for name in names {
        bed.write(name, "x");
    }
    fs::write(bed.place.path.join(OsStr::from_bytes(b"\xff\xfe")), "x").unwrap();
    bed.write("ignored/file", "x");
    bed.write("a.log", "x");
    bed.write("a", "changed\n");
    fs::remove_file(bed.wt("d/x")).unwrap();
    let status = bed.git.status(&bed.place).await.unwrap();
    assert_eq!(status.changed, ["a", "d/x"]);
    let mut expected: Vec<&str> = names.to_vec();
    expected.push("\u{fffd}\u{fffd}");
    expected.sort_unstable();
    let mut untracked = status.untracked.clone();
    untracked.sort_unstable();
    assert_eq!(untracked, expected);
    assert!(!status.is_clean());
}

#[tokio::test]
async fn a_look_that_fails_is_not_clean() {
    let bed = Bed::new().await;
    fs::write(bed.place.git_dir.join("index"), "junk").unwrap();
    assert!(matches!(
        bed.git.status(&bed.place).await,
        Err(GitError::Failed { status: 128, .. })
    ));
    fs::write(bed.place.git_dir.join("HEAD"), "junk").unwrap();
    assert!(matches!(
        bed.git.worktree_at(&bed.place.path).await,
        Err(GitError::NotARepository { .. })
    ));
    let mut env = bed.env.clone();
    env.insert("PATH".to_owned(), "/nowhere".to_owned());
    let none = crate::git::Git::new(
        &env,
        std::time::Duration::from_secs(1),
        &super::for_tests(&env),
    );
    assert!(matches!(none.version().await, Err(GitError::NoGit)));
}

#[tokio::test]
async fn a_git_that_hangs_is_ended() {
    let bed = Bed::new().await;
    super::script(&bed.root.join("bin/git"), "exec sleep 60");
    let mut env = bed.env.clone();
    env.insert(
        "PATH".to_owned(),
        format!("{}:{}", bed.root.join("bin").display(), env["PATH"]),
    );
    let slow = crate::git::Git::new(
        &env,
        std::time::Duration::from_millis(50),
        &super::for_tests(&env),
    );
    assert!(matches!(
        slow.status(&bed.place).await,
        Err(GitError::TimedOut { .. })
    ));
}

#[tokio::test]
async fn names_are_resolved_only_when_they_are_full() {
    let bed = Bed::new().await;
    let (git, place) = (&bed.git, &bed.place);
    bed.said(["tag", "main"]).await;
    for name in ["HEAD", "refs/heads/main", "refs/heads/fix/a", &bed.start] {
        assert_eq!(
            git.resolve(place, name).await.unwrap().as_ref(),
            Some(&bed.start),
            "{name}"
        );
    }
    assert_eq!(git.resolve(place, "refs/heads/none").await.unwrap(), None);
    assert_eq!(git.resolve(place, &"1".repeat(40)).await.unwrap(), None);
    for name in [
        "main",
        "--all",
        "HEAD~1",
        "refs/heads/../x",
        "refs/heads/a b",
        ":/start",
        "@",
        "",
    ] {
        assert!(
            matches!(
                git.resolve(place, name).await,
                Err(GitError::NotARef { .. })
            ),
            "{name}"
        );
    }
    let head = bed.commit("b", "b\n").await;
    assert_eq!(
        git.merge_base(place, &bed.start, &head)
            .await
            .unwrap()
            .as_ref(),
        Some(&bed.start)
    );
    assert!(git.is_ancestor(place, &bed.start, &head).await.unwrap());
    assert!(!git.is_ancestor(place, &head, &bed.start).await.unwrap());
    assert!(
        git.is_ancestor(place, &"1".repeat(40), &head)
            .await
            .is_err(),
        "a missing commit is an error"
    );
    assert_eq!(
        git.base_head(place, "main").await.unwrap().as_ref(),
        Some(&bed.start)
    );
    assert_ne!(
        git.tree_of(place, &head).await.unwrap(),
        git.tree_of(place, &bed.start).await.unwrap()
    );
    bed.said(["checkout", "-q", "--orphan", "alone"]).await;
    let alone = bed.commit("c", "c\n").await;
    assert_eq!(
        git.merge_base(place, &bed.start, &alone).await.unwrap(),
        None
    );
}

#[tokio::test]
async fn a_diff_has_its_files_and_its_text() {
    let bed = Bed::new().await;
    bed.said(["mv", "d/x", "moved file"]).await;
    bed.write("a", "one\ntwo\n");
    fs::write(bed.wt("b\u{e9}"), b"\0\x01binary").unwrap();
    symlink("/etc/passwd", bed.wt("link")).unwrap();
    bed.said(["add", "-A"]).await;
    let head = bed.commit("--output=pwned", "other\n").await;
    let diff = bed
        .git
        .diff(&bed.place, &bed.start, &head, 1 << 20)
        .await
        .unwrap();
    let file = |path: &str| diff.files.iter().find(|file| file.path == path).unwrap();
    assert_eq!(diff.files.len(), 5);
    assert_eq!(
        (file("a").added, file("a").deleted, file("a").status),
        (1, 0, FileStatus::Modified)
    );
    assert_eq!(file("moved file").old_path.as_deref(), Some("d/x"));
    assert!(file("b\u{e9}").binary);
    assert_eq!(file("link").mode, 0o120_000);
    assert!(diff.text.contains("+two\n") && !diff.truncated);
    let cut = bed
        .git
        .diff(&bed.place, &bed.start, &head, 20)
        .await
        .unwrap();
    assert!(cut.truncated && cut.text.len() <= 20 && cut.files == diff.files);
    assert!(
        bed.git
            .diff(&bed.place, "--output=pwned", &head, 20)
            .await
            .is_err()
    );
    assert!(
        bed.git
            .diff(&bed.place, &head, &head, 20)
            .await
            .unwrap()
            .files
            .is_empty()
    );
}

#[tokio::test]
async fn files_of_a_commit() {
    let bed = Bed::new().await;
    symlink("a", bed.wt("link")).unwrap();
    bed.said(["add", "-A"]).await;
    let head = bed.commit("empty *", "").await;
    let show = async |path: &str| bed.git.show_file(&bed.place, &head, path).await.unwrap();
    assert_eq!(show("a").await.as_deref(), Some(&b"one\n"[..]));
    assert_eq!(show("d/x").await.as_deref(), Some(&b"x\n"[..]));
    assert_eq!(show("empty *").await.as_deref(), Some(&b""[..]));
    for path in [
        "d",
        "d/",
        "link",
        "none",
        "*",
        "../repo/a",
        "./a",
        "/etc/passwd",
    ] {
        assert_eq!(
            bed.git
                .show_file(&bed.place, &head, path)
                .await
                .ok()
                .flatten(),
            None,
            "{path}"
        );
    }
}

#[tokio::test]
async fn the_log_has_subjects_and_trailers() {
    let bed = Bed::new().await;
    bed.write("a", "two\n");
    let message = "Address review feedback (cycle 1)\n\nBody \u{1f}text.\n\nRemand-Change: c1\nRemand-Cycle: 1\n";
    let first = bed
        .git
        .commit_rest(&bed.place, "fix/a", message)
        .await
        .unwrap()
        .unwrap();
    let second = bed.commit("b", "b").await;
    let log = bed.git.log(&bed.place, &bed.start, &second).await.unwrap();
    assert_eq!(
        log.iter().map(|c| c.sha.as_str()).collect::<Vec<_>>(),
        [second.as_str(), first.as_str()]
    );
    assert_eq!(log[1].subject, "Address review feedback (cycle 1)");
    let trailers = [("Remand-Change", "c1"), ("Remand-Cycle", "1")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(log[1].trailers, trailers);
    assert!(log[1].body.starts_with("Body") && log[0].trailers.is_empty());
    assert_eq!(log[1].author, "A Person <person@example.com>");
    assert!(
        bed.git
            .log(&bed.place, &second, &second)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn a_full_disk_is_told_apart() {
    let bed = Bed::new().await;
    super::script(
        &bed.root.join("bin/git"),
        "echo 'fatal: write error: No space left on device' >&2; exit 128",
    );
    let mut env = bed.env.clone();
    env.insert(
        "PATH".to_owned(),
        format!("{}:{}", bed.root.join("bin").display(), env["PATH"]),
    );
    let full = crate::git::Git::new(
        &env,
        std::time::Duration::from_secs(10),
        &super::for_tests(&env),
    );
    assert!(matches!(
        full.status(&bed.place).await,
        Err(GitError::NoSpace { .. })
    ));
}

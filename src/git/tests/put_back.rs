//! Saving and reverting what a run left, in every state in which an agent can leave a worktree.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use super::{Bed, write};
use crate::git::restore::Restored;
use crate::git::{GitError, Place, RestorePoint};

async fn saved(bed: &Bed) -> Option<String> {
    bed.git.save_wip(&bed.place, bed.to()).await.unwrap()
}

async fn put_back(bed: &Bed) -> Restored {
    let restored = bed.git.put_back(&bed.place, bed.to()).await.unwrap();
    bed.is_put_back().await;
    let again = bed.git.put_back(&bed.place, bed.to()).await.unwrap();
    assert_eq!(again.wip, restored.wip, "a second call has the same result");
    restored
}

async fn kept(bed: &Bed, path: &str) -> String {
    bed.said(["cat-file", "blob", &format!("refs/remand/wip/r1:{path}")])
        .await
}

/// Returns every file and symlink below a directory except `.git`, byte for byte.
fn bytes_of(root: &Path) -> BTreeMap<Vec<u8>, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            if path.file_name().unwrap() == ".git" {
                continue;
            }
            let name = path
                .strip_prefix(root)
                .unwrap()
                .as_os_str()
                .as_bytes()
                .to_vec();
            if meta.is_dir() {
                folders.push(path);
            } else if meta.is_symlink() {
                found.insert(
                    name,
                    (
                        0o120_000,
                        fs::read_link(&path)
                            .unwrap()
                            .as_os_str()
                            .as_bytes()
                            .to_vec(),
                    ),
                );
            } else {
                found.insert(
                    name,
                    (meta.permissions().mode() & 0o100, fs::read(&path).unwrap()),
                );
            }
        }
    }
    found
}

#[tokio::test]
async fn nothing_to_keep_is_none() {
    let bed = Bed::new().await;
    bed.write("ignored/x", "x");
    assert_eq!(saved(&bed).await, None);
    assert_eq!(put_back(&bed).await, Restored::default());
    assert!(bed.wt("ignored/x").exists(), "ignored files stay");
    bed.write("d/__pycache__/x.pyc", "x");
    assert_eq!(put_back(&bed).await, Restored::default());
    assert!(
        bed.wt("d/__pycache__/x.pyc").exists(),
        "caches are treated as ignored"
    );
}

#[tokio::test]
async fn every_byte_is_kept_and_comes_back() {
    let bed = Bed::new().await;
    bed.write("a", "one\r\ntwo \t\n\0binary\u{1}");
    bed.write("two words/and more/-x", "x");
    bed.write("new\nline", "x");
    bed.write(":(exclude)magic", "x");
    fs::write(
        bed.place.path.join(OsStr::from_bytes(b"caf\xe9")),
        b"\xff\xfe",
    )
    .unwrap();
    fs::remove_dir_all(bed.wt("d")).unwrap();
    symlink("/etc", bed.wt("d")).unwrap();
    symlink("nowhere", bed.wt("dangling")).unwrap();
    bed.write("tool", "#!/bin/sh\n");
    fs::set_permissions(bed.wt("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    bed.write("staged", "staged");
    bed.write("forced.log", "ignored but added");
    bed.said(["add", "-f", "staged", "forced.log"]).await;
    bed.write("staged", "and then edited");
    let before = bytes_of(&bed.place.path);
    let index_before = fs::read(bed.place.git_dir.join("index")).unwrap();

    let sha = saved(&bed).await.unwrap();
    assert_eq!(
        bytes_of(&bed.place.path),
        before,
        "the worktree is not touched"
    );
    assert_eq!(
        fs::read(bed.place.git_dir.join("index")).unwrap(),
        index_before,
        "nor its index"
    );
    assert_eq!(
        saved(&bed).await.as_deref(),
        Some(sha.as_str()),
        "a second call returns the same commit"
    );
    assert_eq!(put_back(&bed).await.wip.as_deref(), Some(sha.as_str()));
    bed.said([
        "worktree",
        "add",
        "-q",
        "--detach",
        "../kept",
        "refs/remand/wip/r1",
    ])
    .await;
    assert_eq!(bytes_of(&bed.root.join("kept")), before);
}

#[tokio::test]
async fn commits_of_the_agent_are_kept_wherever_it_left_them() {
    let bed = Bed::new().await;
    let on_branch = bed.commit("a", "on the branch\n").await;
    bed.said(["checkout", "-q", "-b", "elsewhere", &bed.start])
        .await;
    let elsewhere = bed.commit("b", "elsewhere\n").await;
    bed.said(["checkout", "-q", "--detach"]).await;
    let detached = bed.commit("c", "detached\n").await;
    let sha = put_back(&bed).await.wip.unwrap();
    for commit in [&on_branch, &elsewhere, &detached] {
        assert!(bed.git.is_ancestor(&bed.place, commit, &sha).await.unwrap());
    }
    assert_eq!(
        bed.said(["rev-parse", "elsewhere"]).await,
        elsewhere,
        "other branches are not touched"
    );
}

#[tokio::test]
async fn only_a_moved_head_is_something_to_keep() {
    let bed = Bed::new().await;
    let commit = bed.commit("a", "x\n").await;
    let sha = saved(&bed).await.unwrap();
    assert!(
        bed.git
            .is_ancestor(&bed.place, &commit, &sha)
            .await
            .unwrap()
    );
    assert_eq!(put_back(&bed).await.wip, Some(sha));
}

#[tokio::test]
async fn an_older_head_is_put_back_too() {
    let mut bed = Bed::new().await;
    let first = bed.start.clone();
    bed.start = bed.commit("b", "b\n").await;
    bed.said(["reset", "-q", "--hard", &first]).await;
    put_back(&bed).await;
    assert!(bed.wt("b").exists());
}

#[tokio::test]
async fn a_deleted_branch_is_made_again() {
    let bed = Bed::new().await;
    bed.write("a", "work\n");
    bed.said(["checkout", "-q", "--detach"]).await;
    bed.said(["branch", "-q", "-D", "fix/a"]).await;
    put_back(&bed).await;
    assert_eq!(kept(&bed, "a").await, "work");
    bed.said(["update-ref", "-d", "refs/heads/fix/a"]).await;
    bed.write("b", "unborn\n");
    bed.git.put_back(&bed.place, bed.to()).await.unwrap();
    bed.is_put_back().await;
    assert_eq!(kept(&bed, "b").await, "unborn");
}

#[tokio::test]
async fn a_branch_made_symbolic_does_not_move_the_other_one() {
    let bed = Bed::new().await;
    bed.raw(&bed.repo, ["checkout", "-q", "--detach"]).await;
    let ahead = bed.commit("b", "x\n").await;
    bed.said(["branch", "-q", "-f", "main", &ahead]).await;
    bed.said(["symbolic-ref", "refs/heads/fix/a", "refs/heads/main"])
        .await;
    put_back(&bed).await;
    assert_eq!(bed.said(["rev-parse", "refs/heads/main"]).await, ahead);
}

#[tokio::test]
async fn in_the_middle_of_a_rebase_merge_pick_revert_and_am() {
    for operation in ["rebase", "merge", "cherry-pick", "revert", "am"] {
        let bed = Bed::new().await;
        let wt = &bed.place.path;
        let ours = bed.commit("a", "ours\n").await;
        bed.said(["checkout", "-q", "-b", "other", &bed.start])
            .await;
        let theirs = bed.commit("a", "theirs\n").await;
        bed.said(["format-patch", "-q", "-1", "-o", "ignored"])
            .await;
        bed.said(["checkout", "-q", "fix/a"]).await;
        let status = match operation {
            "revert" => bed.try_raw(wt, ["revert", "--no-edit", &theirs]).await.0,
            "am" => {
                bed.try_raw(wt, ["am", "-3", "ignored/0001-by-the-agent.patch"])
                    .await
                    .0
            }
            _ => bed.try_raw(wt, [operation, &theirs]).await.0,
        };
        assert_ne!(status, Some(0), "{operation} stops");
        bed.write("untracked", operation);
        bed.write("a", "half resolved\n");
        write(&bed.place.git_dir.join("index.lock"), "");
        let sha = saved(&bed).await.unwrap();
        assert!(bed.place.git_dir.join("index.lock").exists());
        assert!(
            bed.git.is_ancestor(&bed.place, &ours, &sha).await.unwrap(),
            "{operation}"
        );
        assert_eq!(put_back(&bed).await.wip, Some(sha));
        assert_eq!(
            (
                kept(&bed, "a").await.as_str(),
                kept(&bed, "untracked").await.as_str()
            ),
            ("half resolved", operation)
        );
        let (_, said) = bed.try_raw(wt, ["status"]).await;
        assert!(said.ends_with("working tree clean"), "{said}");
    }
}

#[tokio::test]
async fn a_rebase_with_an_autostash_keeps_the_stash() {
    let bed = Bed::new().await;
    bed.commit("a", "ours\n").await;
    bed.said(["checkout", "-q", "-b", "other", &bed.start])
        .await;
    let theirs = bed.commit("a", "theirs\n").await;
    bed.said(["checkout", "-q", "fix/a"]).await;
    bed.write("d/x", "only in the stash\n");
    assert_ne!(
        bed.try_raw(&bed.place.path, ["rebase", "--autostash", &theirs])
            .await
            .0,
        Some(0)
    );
    put_back(&bed).await;
    let all = bed.said(["log", "--format=%H", "refs/remand/wip/r1"]).await;
    let mut found = false;
    for sha in all.lines() {
        found = found
            || bed.said(["cat-file", "blob", &format!("{sha}:d/x")]).await == "only in the stash";
    }
    assert!(found);
}

#[tokio::test]
async fn a_bisect_is_forgotten() {
    let bed = Bed::new().await;
    let head = bed.commit("a", "x\n").await;
    bed.said(["bisect", "start", &head, &bed.start]).await;
    put_back(&bed).await;
    assert_eq!(bed.said(["for-each-ref", "refs/bisect"]).await, "");
}

#[tokio::test]
async fn a_broken_index_head_and_git_file() {
    let bed = Bed::new().await;
    bed.write("a", "work\n");
    bed.write("new", "new\n");
    fs::write(bed.place.git_dir.join("index"), "junk").unwrap();
    fs::write(bed.place.git_dir.join("HEAD"), "junk").unwrap();
    fs::remove_file(bed.wt(".git")).unwrap();
    bed.raw(&bed.root, ["init", "-q", "wt"]).await;
    bed.git.unblock(&bed.place, bed.to()).await.unwrap();
    assert_eq!(
        bed.git
            .worktree_at(&bed.place.path)
            .await
            .unwrap()
            .branch
            .as_deref(),
        Some("fix/a")
    );
    put_back(&bed).await;
    assert_eq!(
        (
            kept(&bed, "a").await.as_str(),
            kept(&bed, "new").await.as_str()
        ),
        ("work", "new")
    );
    assert!(
        bed.place
            .common_dir
            .join("remand-kept/r1")
            .read_dir()
            .unwrap()
            .count()
            >= 2,
        "moved aside, not removed"
    );
}

#[tokio::test]
async fn a_change_hidden_from_git_is_kept() {
    let bed = Bed::new().await;
    bed.said(["update-index", "--assume-unchanged", "a"]).await;
    bed.write("a", "hidden\n");
    assert!(bed.git.status(&bed.place).await.unwrap().is_clean());
    saved(&bed).await.unwrap();
    assert_eq!(kept(&bed, "a").await, "hidden");
}

#[tokio::test]
async fn files_hidden_by_the_agents_own_ignore_rules_are_kept() {
    let bed = Bed::new().await;
    bed.write(".gitignore", "ignored/\n*.log\nout/\na\n");
    bed.said(["rm", "-q", "--cached", "a"]).await;
    bed.commit(".gitignore", "ignored/\n*.log\nout/\na\n").await;
    bed.write("out/result", "work\n");
    bed.write("a", "untracked and ignored now\n");
    bed.write("b.log", "stays");
    put_back(&bed).await;
    assert_eq!(fs::read_to_string(bed.wt("b.log")).unwrap(), "stays");
    let all = bed
        .said([
            "log",
            "--format=%H",
            "--first-parent",
            "-m",
            "refs/remand/wip/r1",
        ])
        .await;
    assert!(!all.is_empty());
    let trees = bed.said(["rev-list", "refs/remand/wip/r1"]).await;
    let mut found = Vec::new();
    for sha in trees.lines() {
        for path in ["out/result", "a"] {
            found.push(
                bed.try_raw(
                    &bed.place.path,
                    ["cat-file", "blob", &format!("{sha}:{path}")],
                )
                .await
                .1,
            );
        }
    }
    assert!(
        found.contains(&"work".to_owned())
            && found.contains(&"untracked and ignored now".to_owned()),
        "{found:?}"
    );
}

#[tokio::test]
async fn ignored_things_in_the_place_of_tracked_ones_are_kept() {
    let bed = Bed::new().await;
    fs::remove_dir_all(bed.wt("d")).unwrap();
    fs::remove_file(bed.wt("a")).unwrap();
    bed.said(["rm", "-q", "-r", "--cached", "a", "d"]).await;
    bed.write(".gitignore", "/a\n/d\n");
    bed.write("d", "a file now\n");
    bed.write("a/b/c", "a folder now\n");
    put_back(&bed).await;
    assert_eq!(
        (
            kept(&bed, "d").await.as_str(),
            kept(&bed, "a/b/c").await.as_str()
        ),
        ("a file now", "a folder now")
    );
}

#[tokio::test]
async fn repositories_inside_are_moved_aside_but_worktrees_are_not() {
    let bed = Bed::new().await;
    bed.said(["init", "-q", "sub/one"]).await;
    bed.write("sub/one/file", "precious");
    bed.said(["init", "-q", "two"]).await;
    bed.raw(&bed.wt("two"), ["commit", "-q", "--allow-empty", "-m", "x"])
        .await;
    let restored = bed.git.put_back(&bed.place, bed.to()).await.unwrap();
    bed.is_put_back().await;
    assert_eq!(restored.moved_aside.len(), 2);
    assert_eq!(
        fs::read_to_string(restored.moved_aside[0].join("file")).unwrap(),
        "precious"
    );
    bed.said(["worktree", "add", "-q", "-b", "persons", "inner"])
        .await;
    let refused = bed.git.put_back(&bed.place, bed.to()).await;
    assert!(matches!(refused, Err(GitError::StillDirty { paths }) if paths == ["inner/"]));
    assert!(bed.wt("inner/a").exists());
}

#[tokio::test]
async fn only_this_worktrees_lock_is_removed() {
    let bed = Bed::new().await;
    write(&bed.place.git_dir.join("index.lock"), "");
    write(&bed.repo.join(".git/index.lock"), "");
    put_back(&bed).await;
    assert!(bed.repo.join(".git/index.lock").exists());
}

#[tokio::test]
async fn a_worktree_swapped_for_a_symlink_leaves_the_victim_alone() {
    let bed = Bed::new().await;
    let victim = bed.root.join("victim");
    write(&victim.join("precious"), "x");
    fs::rename(&bed.place.path, bed.root.join("away")).unwrap();
    symlink(&victim, &bed.place.path).unwrap();
    assert!(matches!(
        bed.git.put_back(&bed.place, bed.to()).await,
        Err(GitError::NotThere { .. })
    ));
    assert!(victim.join("precious").exists() && !victim.join(".git").exists());
    assert!(Place::find(&bed.place.common_dir, &bed.place.path).is_err());
}

#[tokio::test]
async fn names_that_are_no_part_of_a_ref_are_refused() {
    let bed = Bed::new().await;
    for run in ["", "-x", "../x", "a b", "a/b", "a.lock", "ü"] {
        let to = RestorePoint { run, ..bed.to() };
        let refused = bed.git.save_wip(&bed.place, to).await;
        assert!(matches!(refused, Err(GitError::BadRunName { .. })), "{run}");
    }
}

#[tokio::test]
async fn a_worktree_emptied_by_the_agent() {
    let bed = Bed::new().await;
    for name in [".git", "a", ".gitignore"] {
        fs::remove_file(bed.wt(name)).unwrap();
    }
    fs::remove_dir_all(bed.wt("d")).unwrap();
    let sha = put_back(&bed).await.wip.unwrap();
    assert_eq!(bed.said(["ls-tree", "-r", "--name-only", &sha]).await, "");
}

#[tokio::test]
async fn a_repository_without_a_file() {
    let bed = Bed::with(&[]).await;
    assert_eq!(
        bed.git.commit_rest(&bed.place, "fix/a", "x").await.unwrap(),
        None
    );
    assert_eq!(
        bed.git.put_back(&bed.place, bed.to()).await.unwrap(),
        Restored::default()
    );
}

#[tokio::test]
async fn the_main_checkout_can_be_the_worktree() {
    let bed = Bed::new().await;
    let place = Place::find(&bed.place.common_dir, &bed.repo).unwrap();
    assert!(!place.is_linked());
    assert_eq!(bed.git.worktree_at(&bed.repo).await.unwrap().place, place);
    write(&bed.repo.join("a"), "work\n");
    write(&bed.repo.join("new"), "work\n");
    let to = RestorePoint {
        head_at: "main".into(),
        ..bed.to()
    };
    assert!(bed.git.put_back(&place, to).await.unwrap().wip.is_some());
    assert!(bed.git.status(&place).await.unwrap().is_clean());
    assert_eq!(kept(&bed, "new").await, "work");
}

#[tokio::test]
async fn forty_random_worktrees_are_kept_whole() {
    let bed = Bed::new().await;
    // A small generator: the point is repeatable variety.
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    for round in 0..40 {
        for _ in 0..1 + next(6) {
            let name = [
                "a",
                "d/x",
                "n",
                "n2",
                "d/n",
                "e/f/g",
                "-o",
                "ü ",
                ".gitignore",
            ][usize::try_from(next(9)).unwrap()];
            let path = bed.wt(name);
            let blocked = path
                .ancestors()
                .skip(1)
                .any(|p| p.starts_with(&bed.place.path) && p.exists() && !p.is_dir());
            if blocked || path.is_dir() {
                continue;
            }
            match next(5) {
                0 => drop(fs::remove_file(&path)),
                1 => {
                    fs::remove_file(&path).ok();
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    symlink("a", &path).unwrap();
                }
                _ => {
                    fs::remove_file(&path).ok();
                    let bytes: Vec<u8> = (0..next(50))
                        .map(|_| u8::try_from(next(256)).unwrap())
                        .collect();
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    fs::write(
                        &path,
                        if name == ".gitignore" {
                            b"n2\n".to_vec()
                        } else {
                            bytes
                        },
                    )
                    .unwrap();
                }
            }
        }
        if next(3) == 0 {
            bed.said(["add", "-A"]).await;
        }
        if next(4) == 0 {
            bed.said(["commit", "-q", "--allow-empty", "-a", "-m", "x"])
                .await;
        }
        let before = bytes_of(&bed.place.path);
        let run = format!("n{round}");
        let to = RestorePoint {
            run: &run,
            ..bed.to()
        };
        let wip = bed.git.put_back(&bed.place, to).await.unwrap().wip;
        bed.is_put_back().await;
        let mut all = BTreeMap::new();
        let layers = bed
            .said([
                "rev-list",
                "--reverse",
                wip.as_ref().unwrap_or(&bed.start),
                &format!("^{}", bed.start),
            ])
            .await;
        for sha in [bed.start.as_str()].into_iter().chain(layers.lines()) {
            let checkout = bed.root.join("look");
            bed.raw(
                &bed.repo,
                [
                    "worktree",
                    "add",
                    "-q",
                    "--detach",
                    "--force",
                    checkout.to_str().unwrap(),
                    sha,
                ],
            )
            .await;
            for (path, content) in bytes_of(&checkout) {
                all.entry(path).or_insert_with(Vec::new).push(content);
            }
            bed.raw(
                &bed.repo,
                ["worktree", "remove", "--force", checkout.to_str().unwrap()],
            )
            .await;
        }
        for (path, content) in before {
            let found = all
                .get(&path)
                .is_some_and(|contents| contents.contains(&content));
            assert!(
                found,
                "round {round}: {} is lost",
                String::from_utf8_lossy(&path)
            );
        }
    }
}

#[tokio::test]
async fn a_git_that_was_killed_while_it_moved_a_ref_blocks_nobody() {
    let bed = Bed::new().await;
    bed.write("a", "left\n");
    for name in ["refs/heads/fix/a", "refs/remand/wip/r1"] {
        write(&bed.place.common_dir.join(format!("{name}.lock")), "");
    }
    bed.git.put_back(&bed.place, bed.to()).await.unwrap();
    bed.is_put_back().await;
}

#[tokio::test]
async fn what_only_the_index_or_only_a_ref_knows_is_put_back_too() {
    let bed = Bed::new().await;
    let untouched = bed.git.put_back(&bed.place, bed.to()).await.unwrap();
    assert_eq!(untouched, Restored::default());
    // Staged, and the file is as it was.
    bed.write("a", "staged\n");
    bed.said(["add", "a"]).await;
    bed.write("a", "one\n");
    bed.git.put_back(&bed.place, bed.to()).await.unwrap();
    bed.is_put_back().await;
    // Ignored, and tracked by the index alone.
    bed.write("x.log", "kept\n");
    bed.said(["add", "-f", "x.log"]).await;
    let wip = bed.git.put_back(&bed.place, bed.to()).await.unwrap().wip;
    let kept = format!("{}:x.log", wip.unwrap());
    assert_eq!(bed.said(["show", &kept]).await, "kept");
    // Refs of an operation.
    bed.said(["update-ref", "refs/bisect/bad", &bed.start])
        .await;
    bed.git.put_back(&bed.place, bed.to()).await.unwrap();
    assert_eq!(bed.said(["for-each-ref", "refs/bisect/"]).await, "");
    bed.is_put_back().await;
}

/// Attributes let different bytes count as the same content.
#[tokio::test]
async fn bytes_that_count_as_unchanged_are_put_back_too() {
    let bed = Bed::with(&[
        ("a", "one\n"),
        ("id", "$Id$\n"),
        (".gitattributes", "a text\nid ident\n"),
    ])
    .await;
    let id = fs::read_to_string(bed.wt("id")).unwrap();
    let other = id.replace(|c: char| c.is_ascii_hexdigit() && c != 'd', "x");
    assert_ne!(id, other);
    bed.write("id", &other);
    // Git compares whole seconds.
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    let file = fs::File::options().append(true).open(bed.wt("id")).unwrap();
    file.set_modified(old).unwrap();
    assert!(bed.git.status(&bed.place).await.unwrap().is_clean());
    bed.write("a", "one\r\n");
    let restored = bed.git.put_back(&bed.place, bed.to()).await.unwrap();
    assert_eq!(restored, Restored::default());
    assert_eq!(fs::read_to_string(bed.wt("a")).unwrap(), "one\n");
    assert_eq!(fs::read_to_string(bed.wt("id")).unwrap(), id);
    // Hidden from git besides.
    bed.said(["update-index", "--assume-unchanged", "a"]).await;
    bed.write("a", "two\n");
    let wip = bed.git.put_back(&bed.place, bed.to()).await.unwrap().wip;
    assert!(wip.is_some());
    assert_eq!(fs::read_to_string(bed.wt("a")).unwrap(), "one\n");
}

#[tokio::test]
async fn refs_and_messages_that_git_does_not_show_are_put_back_too() {
    let bed = Bed::new().await;
    // Ambiguous names: git prints neither of the two.
    for name in ["refs/bisect/bad", "refs/heads/refs/bisect/bad"] {
        bed.said(["update-ref", name, &bed.start]).await;
    }
    bed.git.put_back(&bed.place, bed.to()).await.unwrap();
    assert_eq!(bed.said(["for-each-ref", "refs/bisect/"]).await, "");
    bed.said(["symbolic-ref", "refs/bisect/x", "refs/heads/main"])
        .await;
    bed.git.put_back(&bed.place, bed.to()).await.unwrap();
    assert_eq!(bed.said(["for-each-ref", "refs/bisect/"]).await, "");
    // HEAD on the branch by way of another ref.
    bed.said(["symbolic-ref", "refs/heads/lead", "refs/heads/fix/a"])
        .await;
    bed.said(["symbolic-ref", "HEAD", "refs/heads/lead"]).await;
    bed.git.put_back(&bed.place, bed.to()).await.unwrap();
    let head = fs::read_to_string(bed.place.git_dir.join("HEAD")).unwrap();
    assert_eq!(head, "ref: refs/heads/fix/a\n");
    for name in ["MERGE_MSG", "SQUASH_MSG", "MERGE_MODE", "MERGE_RR"] {
        let file = bed.place.git_dir.join(name);
        write(&file, "planted\n");
        bed.git.put_back(&bed.place, bed.to()).await.unwrap();
        assert!(!file.exists(), "{name}");
    }
    bed.is_put_back().await;
}

//! The clone, reading the remote, imported commits, and error messages.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::Duration;

use super::{Bed, CANARY, script, write};
use crate::git::{Git, GitError};
use crate::process::{Short, short};
use crate::remote::RemoteError;
use crate::remote::url::Way;

#[tokio::test]
async fn the_clone_is_made_once_and_mended() {
    let bed = Bed::new().await;
    let dir = bed.remote.path();
    assert_eq!(dir.metadata().unwrap().permissions().mode() & 0o077, 0);
    assert_eq!(
        bed.raw(dir, ["rev-parse", "--is-bare-repository"]).await,
        "true"
    );
    let git = Git::new(
        &bed.closed,
        Duration::from_secs(60),
        &crate::sandbox::for_tests(&bed.closed),
    );
    assert!(git.project_at(dir).await.unwrap().bare);
    bed.raw(dir, ["fsck", "--strict"]).await;

    bed.raw(dir, ["config", "core.sshCommand", "evil"]).await;
    let refused = bed.remote.head_of("main").await;
    assert!(
        matches!(refused, Err(RemoteError::NotReady { .. })),
        "nothing runs with a configuration that is not ours"
    );
    write(&dir.join("objects/info/alternates"), "/nowhere\n");
    assert!(matches!(
        bed.remote.take(&bed.place, "fix/a", &bed.start).await,
        Err(RemoteError::NotReady { .. })
    ));
    bed.remote.ready().await.unwrap();
    assert_eq!(
        bed.remote.head_of("main").await.unwrap(),
        Some(bed.start.clone())
    );
    bed.remote
        .take(&bed.place, "fix/a", &bed.start)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_clone_that_was_half_made_is_made() {
    let bed = Bed::new().await;
    for left in [
        &["objects"][..],
        &["objects", "refs"],
        &["objects", "refs", "config"],
    ] {
        let remote =
            bed.reach(|reach| reach.git_dir = bed.root.join(format!("half-{}", left.len())));
        for name in left {
            if *name == "config" {
                write(&remote.path().join(name), "[core]\n\tba");
            } else {
                fs::create_dir_all(remote.path().join(name)).unwrap();
            }
        }
        assert!(matches!(
            remote.head_of("main").await,
            Err(RemoteError::NotReady { .. })
        ));
        let (one, two, three) = tokio::join!(remote.ready(), remote.ready(), remote.ready());
        one.and(two).and(three).unwrap();
        assert_eq!(remote.fetch("main").await.unwrap(), Some(bed.start.clone()));
    }
    let remote = bed.reach(|reach| reach.git_dir = bed.root.join("link"));
    symlink(&bed.origin, remote.path()).unwrap();
    assert!(matches!(
        remote.ready().await,
        Err(RemoteError::NotReady { .. })
    ));
    write(&bed.root.join("file"), "");
    let remote = bed.reach(|reach| reach.git_dir = bed.root.join("file/p.git"));
    assert!(matches!(
        remote.ready().await,
        Err(RemoteError::File { .. })
    ));
}

#[tokio::test]
async fn many_at_once_make_one_clone() {
    let bed = Bed::new().await;
    let remote = bed.reach(|reach| reach.git_dir = bed.root.join("state/many.git"));
    let make = || {
        let remote = remote.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async { remote.ready().await }).unwrap();
        })
    };
    let threads: Vec<_> = (0..8).map(|_| make()).collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert_eq!(remote.fetch("main").await.unwrap(), Some(bed.start.clone()));
    let left: Vec<_> = fs::read_dir(remote.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        !left
            .iter()
            .any(|name| name.to_string_lossy().contains("new-")),
        "{left:?}"
    );
}

#[tokio::test]
async fn locks_of_a_killed_git_go_and_fresh_ones_stay() {
    let bed = Bed::new().await;
    let refs = bed.remote.path().join("refs/remand/remote");
    for name in ["main.lock", "fresh.lock"] {
        write(&refs.join(name), "");
    }
    let old = fs::File::options()
        .write(true)
        .open(refs.join("main.lock"))
        .unwrap();
    old.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000))
        .unwrap();
    bed.remote.ready().await.unwrap();
    assert!(!refs.join("main.lock").exists() && refs.join("fresh.lock").exists());
    assert_eq!(
        bed.remote.fetch("main").await.unwrap(),
        Some(bed.start.clone())
    );
}

#[tokio::test]
async fn branches_are_looked_at_and_fetched() {
    let bed = Bed::new().await;
    assert_eq!(
        bed.remote.head_of("fix/a").await.unwrap(),
        Some(bed.start.clone())
    );
    assert_eq!(bed.remote.head_of("none").await.unwrap(), None);
    assert_eq!(bed.remote.fetch("none").await.unwrap(), None);
    let first = bed.person("origin/fix/a", "b", "b\n").await;
    assert_eq!(
        bed.remote.fetch("fix/a").await.unwrap(),
        Some(first.clone())
    );
    let rewritten = bed.person(&bed.start, "c", "c\n").await;
    for _ in 0..2 {
        assert_eq!(
            bed.remote.fetch("fix/a").await.unwrap(),
            Some(rewritten.clone()),
            "even if it was rewritten"
        );
    }
    assert!(bed.remote.contains(&rewritten, &bed.start).await.unwrap());
    assert!(bed.remote.contains(&rewritten, &rewritten).await.unwrap());
    assert!(!bed.remote.contains(&rewritten, &first).await.unwrap());
    assert!(
        !bed.remote
            .contains(&rewritten, &"1".repeat(40))
            .await
            .unwrap()
    );
    assert!(matches!(
        bed.remote.contains(&"1".repeat(40), &first).await,
        Err(RemoteError::Missing { .. })
    ));
    bed.raw(&bed.origin, ["branch", "-q", "-D", "fix/a"]).await;
    assert_eq!(bed.remote.fetch("fix/a").await.unwrap(), None);
    let refs = bed.raw(bed.remote.path(), ["for-each-ref"]).await;
    assert!(!refs.contains("fix/a"), "{refs}");
}

#[tokio::test]
async fn a_branch_may_become_a_folder_of_branches() {
    let bed = Bed::new().await;
    for (gone, made) in [("fix/a", "fix"), ("fix", "fix/a/b"), ("fix/a/b", "fix/a")] {
        bed.remote.fetch(gone).await.unwrap().unwrap();
        bed.raw(&bed.origin, ["branch", "-q", "-D", gone]).await;
        bed.raw(&bed.origin, ["branch", "-q", made, &bed.start])
            .await;
        assert_eq!(
            bed.remote.fetch(made).await.unwrap(),
            Some(bed.start.clone()),
            "{gone} -> {made}"
        );
    }
}

#[tokio::test]
async fn names_that_are_options_do_not_reach_git() {
    let bed = Bed::new().await;
    for name in [
        "--upload-pack=touch pwned",
        "-x",
        "a b",
        "x:y",
        "refs/../x",
        "HEAD",
        "ext::sh -c x",
        "a\nb",
        "",
    ] {
        assert!(
            matches!(
                bed.remote.head_of(name).await,
                Err(RemoteError::Git(GitError::BadBranchName(_)))
            ),
            "{name}"
        );
        assert!(
            bed.remote.fetch(name).await.is_err()
                && bed.remote.take(&bed.place, name, &bed.start).await.is_err()
        );
    }
    for sha in ["--upload-pack=x", "HEAD", "main", "", "123"] {
        assert!(bed.remote.take(&bed.place, "fix/a", sha).await.is_err());
        assert!(
            bed.remote.contains(sha, &bed.start).await.is_err()
                && bed.remote.contains(&bed.start, sha).await.is_err()
        );
    }
}

#[tokio::test]
async fn a_commit_is_taken_by_its_id() {
    let bed = Bed::new().await;
    let first = bed.work("b", "b\n").await;
    let second = bed.work("b", "c\n").await;
    // No ref leads to it any more, and a branch of that name is elsewhere.
    bed.raw(&bed.place.path, ["reset", "-q", "--hard", &bed.start])
        .await;
    for _ in 0..2 {
        bed.remote.take(&bed.place, "fix/a", &second).await.unwrap();
    }
    assert!(bed.remote.contains(&second, &first).await.unwrap());
    assert!(
        bed.remote
            .take(&bed.place, "fix/a", &"1".repeat(40))
            .await
            .is_err()
    );
    let blob = bed.raw(&bed.place.path, ["rev-parse", "HEAD:a"]).await;
    assert!(
        bed.remote.take(&bed.place, "fix/a", &blob).await.is_err(),
        "only commits are imported"
    );
}

#[tokio::test]
async fn a_commit_is_taken_from_a_shallow_clone() {
    let bed = Bed::new().await;
    bed.person("origin/fix/a", "b", "b\n").await;
    bed.remote.fetch("fix/a").await.unwrap();
    let url = format!("file://{}", bed.origin.display());
    bed.raw(
        &bed.root,
        ["clone", "-q", "--depth=1", "-b", "fix/a", &url, "shallow"],
    )
    .await;
    let shallow = bed.root.join("shallow");
    bed.raw(&shallow, ["commit", "-q", "--allow-empty", "-m", "x"])
        .await;
    let sha = bed.raw(&shallow, ["rev-parse", "HEAD"]).await;
    let place = crate::git::Place::find(&shallow.join(".git"), &shallow).unwrap();
    bed.remote.take(&place, "fix/a", &sha).await.unwrap();
    assert!(bed.remote.contains(&sha, &bed.start).await.unwrap());
}

#[tokio::test]
async fn objects_that_attack_are_not_taken() {
    let bed = Bed::new().await;
    let wt = &bed.place.path;
    let blob = bed.raw(wt, ["rev-parse", "HEAD:a"]).await;
    // A tree with `.git` in it, which git itself would not write.
    let digit = |c: &u8| u8::try_from(char::from(*c).to_digit(16).unwrap()).unwrap();
    let id: Vec<u8> = blob
        .as_bytes()
        .chunks(2)
        .map(|two| digit(&two[0]) * 16 + digit(&two[1]))
        .collect();
    let tree = [b"100644 .git\0".to_vec(), id].concat();
    fs::write(bed.root.join("tree"), tree).unwrap();
    let file = bed.root.join("tree").display().to_string();
    let tree = bed
        .raw(
            wt,
            ["hash-object", "-t", "tree", "-w", "--literally", &file],
        )
        .await;
    let sha = bed
        .raw(wt, ["commit-tree", "-p", "HEAD", "-m", "x", &tree])
        .await;
    let refused = bed.remote.take(&bed.place, "fix/a", &sha).await;
    assert!(refused.is_err(), "{refused:?}");
    assert!(matches!(
        bed.remote.contains(&sha, &sha).await,
        Err(RemoteError::Missing { .. })
    ));
}

#[tokio::test]
async fn trouble_is_told_apart_and_shows_no_secret() {
    let bed = Bed::new().await;
    let denied =
        format!("echo \"git@h: Permission denied (publickey). $GH_TOKEN {CANARY}\" >&2; exit 255");
    let cases = [
        ("auth", bed.over_ssh(&denied)),
        (
            "refused",
            bed.reach(|reach| reach.url = "ssh://git@127.0.0.1:1/x".to_owned()),
        ),
        (
            "no host",
            bed.reach(|reach| reach.url = "https://forge.invalid/o/r".to_owned()),
        ),
        (
            "gone",
            bed.reach(|reach| reach.url = bed.root.join("gone.git").display().to_string()),
        ),
        (
            "ext",
            bed.reach(|reach| reach.url = "ext::sh -c touch% pwned".to_owned()),
        ),
        (
            "password",
            bed.reach(|reach| reach.url = format!("https://ada:{CANARY}@forge.invalid/o/r")),
        ),
    ];
    for (name, remote) in cases {
        let error = remote.head_of("main").await.unwrap_err();
        let fits = match name {
            "auth" => matches!(error, RemoteError::Auth { .. }),
            "refused" | "no host" => matches!(error, RemoteError::Unreachable { .. }),
            "gone" => matches!(error, RemoteError::NotFound { .. }),
            _ => matches!(error, RemoteError::BadUrl { .. }),
        };
        assert!(fits, "{name}: {error:?}");
        assert!(!format!("{error} {error:?}").contains(CANARY), "{error:?}");
    }
}

#[tokio::test]
async fn a_remote_that_says_nothing_is_left() {
    let bed = Bed::new().await;
    let slow = bed.over_ssh("exec sleep 600");
    let slow = crate::remote::Remote::new(super::NetworkAccess {
        limit: Duration::from_millis(300),
        ..(*slow.reach).clone()
    });
    assert!(matches!(
        slow.head_of("main").await,
        Err(RemoteError::TimedOut { .. })
    ));
}

#[tokio::test]
async fn the_users_own_configuration_is_honoured_and_asked_nothing() {
    let bed = Bed::new().await;
    let mut config = fs::read_to_string(bed.root.join("gitconfig")).unwrap();
    config.push_str(&format!(
        "[url \"{}\"]\n\tinsteadOf = https://forge.invalid/o/r.git\n",
        bed.origin.display()
    ));
    write(&bed.root.join("gitconfig"), &config);
    let remote = bed.reach(|reach| reach.url = "https://forge.invalid/o/r.git".to_owned());
    assert_eq!(
        remote.head_of("main").await.unwrap(),
        Some(bed.start.clone())
    );
    config.push_str(&format!(
        "[core]\n\tsshCommand = {}\n",
        bed.root.join("own.sh").display()
    ));
    write(&bed.root.join("gitconfig"), &config);
    script(
        &bed.root.join("own.sh"),
        "for cmd; do :; done\neval \"$cmd\"",
    );
    let remote =
        bed.reach(|reach| reach.url = format!("ssh://git@forge.invalid{}", bed.origin.display()));
    assert_eq!(
        remote.head_of("main").await.unwrap(),
        Some(bed.start.clone()),
        "the user's own ssh command is used"
    );
}

#[tokio::test]
async fn gh_is_asked_for_the_password_of_an_https_url_after_the_users_own_helpers() {
    let bed = Bed::new().await;
    let calls = bed.root.join("asked");
    script(
        &bed.root.join("own helper"),
        &format!("echo \"own $*\" >> '{}'", calls.display()),
    );
    let answer = "echo username=ada; echo password=\"$GH_TOKEN\"";
    script(
        &bed.root.join("it's gh"),
        &format!("echo \"gh $*\" >> '{}'\n{answer}", calls.display()),
    );
    let mut config = fs::read_to_string(bed.root.join("gitconfig")).unwrap();
    config.push_str(&format!(
        "[credential]\n\thelper = \"!'{}'\"\n",
        bed.root.join("own helper").display()
    ));
    write(&bed.root.join("gitconfig"), &config);
    let remote = bed.reach(|reach| {
        reach.url = "https://forge.invalid/o/r".to_owned();
        reach.gh = vec![
            bed.root.join("it's gh").display().to_string(),
            "--flag".to_owned(),
        ];
    });
    assert_eq!(remote.helper(Way::Ssh), None);
    // The effect of the setting in git; a TLS server is not needed for it.
    let setting = remote.helper(Way::Https).unwrap();
    assert!(!setting.contains(CANARY));
    let fill = Short {
        program: "git".into(),
        args: ["-c", &setting, "credential", "fill"]
            .iter()
            .map(Into::into)
            .collect(),
        cwd: bed.root.clone(),
        env: bed
            .env
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        stdin: Some(b"protocol=https\nhost=forge.invalid\n\n".to_vec()),
        limit: Duration::from_secs(60),
        cap: 1 << 16,
        is_wrapped: false,
    };
    let output = String::from_utf8(short(&fill).await.unwrap().stdout).unwrap();
    assert!(output.contains(&format!("password={CANARY}")), "{output}");
    assert_eq!(
        fs::read_to_string(&calls).unwrap(),
        "own get\ngh --flag auth git-credential get\n"
    );
}

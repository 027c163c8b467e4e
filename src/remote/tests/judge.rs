//! Objections to a push.

use std::fs;
use std::os::unix::fs::symlink;

use super::{Bed, CANARY, write};
use crate::project_settings::PushLimits;
use crate::remote::{Objection, RemoteError, Wrong};
use crate::secret::Secret;

/// Invented.
const TOKEN: &str = "0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R";

fn rules() -> PushLimits {
    let forbidden = [".github/workflows/**", "CODEOWNERS", ".claude/**"]
        .map(str::to_owned)
        .to_vec();
    PushLimits {
        forbidden,
        max_file_kb: 4,
        max_files: 5,
        max_total_kb: u64::MAX,
        secrets: true,
    }
}

fn known() -> Vec<Secret> {
    vec![Secret::new(CANARY)]
}

impl Bed {
    async fn judged(&self, rules: &PushLimits) -> Vec<Objection> {
        let to = self.commit().await;
        self.remote.take(&self.place, "fix/a", &to).await.unwrap();
        self.remote
            .objections(&self.start, &to, rules, &known())
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn an_ordinary_change_may_be_pushed() {
    let bed = Bed::new().await;
    write(
        &bed.place.path.join("a"),
        "two\nghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n",
    );
    write(&bed.place.path.join("größe \n x"), "x");
    fs::remove_file(bed.place.path.join("d/x")).unwrap();
    symlink("../a", bed.place.path.join("d/link")).unwrap();
    assert_eq!(bed.judged(&rules()).await, []);
    assert_eq!(
        bed.remote
            .objections(&bed.start, &bed.start, &rules(), &known())
            .await
            .unwrap(),
        []
    );
    let refused = bed
        .remote
        .objections(&bed.start, &"1".repeat(40), &rules(), &known())
        .await;
    assert!(
        matches!(refused, Err(RemoteError::Missing { .. })),
        "a missing commit is not approved"
    );
}

/// Everything that an agent may not commit has its own objection, and none of them shows a secret.
#[tokio::test]
async fn each_violation_gives_its_objection() {
    let token = format!("token: ghp_{TOKEN}\n");
    let key =
        format!("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj{TOKEN}\n");
    type Plant = Box<dyn Fn(&std::path::Path)>;
    let file = |path: &'static str, text: &str| -> Plant {
        let text = text.to_owned();
        Box::new(move |root| write(&root.join(path), &text))
    };
    let link = |path: &'static str, target: &'static str| -> Plant {
        Box::new(move |root| symlink(target, root.join(path)).unwrap())
    };
    let cases: Vec<(Plant, &str, &str)> = vec![
        (
            file(".github/workflows/ci.yml", "on: push\n"),
            ".github/workflows/ci.yml",
            "forbidden",
        ),
        (
            file(".GitHub/Workflows/x.yml", "on: push\n"),
            ".GitHub/Workflows/x.yml",
            "forbidden",
        ),
        (
            file("docs/codeowners", "* @me\n"),
            "docs/codeowners",
            "forbidden",
        ),
        (link(".claude", "d"), ".claude", "forbidden"),
        (link(".github", "d"), ".github", "forbidden"),
        (
            file(
                ".gitmodules",
                "[submodule \"x\"]\n\tpath = x\n\turl = https://h/x\n",
            ),
            ".gitmodules",
            "submodule",
        ),
        (link("link", "/etc/passwd"), "link", "symlink"),
        (link("d/link", "../../outside"), "d/link", "symlink"),
        (link("hooks", ".git/hooks"), "hooks", "symlink"),
        (file("big", &"x".repeat(5000)), "big", "5000 bytes"),
        (
            file("config.yml", &token),
            "config.yml",
            "a GitHub token on line 1",
        ),
        (
            file("bin", &format!("\0\u{1}\n\n{token}")),
            "bin",
            "a GitHub token on line 3",
        ),
        (file("key.pem", &key), "key.pem", "a private key"),
        (
            file("log", &format!("x\n{CANARY}\n")),
            "log",
            "one of remand's own secrets on line 2",
        ),
        (
            file("log64", "bG9nOiBjYW5hcnktb2YtdGhlLWRhZW1vbi05M2Mx\n"),
            "log64",
            "one of remand's own secrets",
        ),
        (
            file("canary-of-the-daemon-93c1", "x"),
            "***",
            "one of remand's own secrets",
        ),
        (
            link("canary-of-the-daemon-93c1 2", "a"),
            "***",
            "one of remand's own secrets",
        ),
    ];
    let bed = Bed::new().await;
    for (plant, path, expected) in cases {
        bed.raw(&bed.place.path, ["reset", "-q", "--hard", &bed.start])
            .await;
        plant(&bed.place.path);
        let objections = bed.judged(&rules()).await;
        assert!(!objections.is_empty(), "{expected}: {path}");
        for objection in &objections {
            let text = objection.to_string();
            assert!(
                text.contains(expected) && text.contains(path),
                "{expected} {path}: {text}"
            );
            let all = format!("{text} {objection:?}");
            assert!(!all.contains(TOKEN) && !all.contains(CANARY), "{all}");
        }
    }
}

#[tokio::test]
async fn too_many_files_and_both_ends_of_a_rename() {
    let bed = Bed::new().await;
    for n in 0..6 {
        write(&bed.place.path.join(format!("n{n}")), "x");
    }
    let many = bed.judged(&rules()).await;
    assert_eq!(
        many,
        [Objection {
            what: Wrong::TooManyFiles { files: 6, most: 5 },
            path: None
        }]
    );
    insta::assert_snapshot!(many[0], @"6 files changed; the limit is 5");

    bed.raw(&bed.place.path, ["reset", "-q", "--hard", &bed.start])
        .await;
    write(
        &bed.place.path.join("CODEOWNERS"),
        "* @owner\n* @other\n* @third\n",
    );
    let base = bed.commit().await;
    bed.raw(&bed.place.path, ["mv", "CODEOWNERS", "moved"])
        .await;
    let to = bed.commit().await;
    bed.remote.take(&bed.place, "fix/a", &to).await.unwrap();
    let moved = bed
        .remote
        .objections(&base, &to, &rules(), &known())
        .await
        .unwrap();
    insta::assert_snapshot!(moved[0], @"CODEOWNERS must not be changed by an agent: forbidden by `CODEOWNERS`");
}

#[tokio::test]
async fn a_submodule_is_an_objection_also_when_it_goes() {
    let bed = Bed::new().await;
    let wt = &bed.place.path;
    bed.raw(
        wt,
        [
            "update-index",
            "--add",
            "--cacheinfo",
            &format!("160000,{},sub", bed.start),
        ],
    )
    .await;
    bed.raw(wt, ["commit", "-q", "-m", "x"]).await;
    let with = bed.raw(wt, ["rev-parse", "HEAD"]).await;
    bed.remote.take(&bed.place, "fix/a", &with).await.unwrap();
    for (from, to) in [(&bed.start, &with), (&with, &bed.start)] {
        let objections = bed
            .remote
            .objections(from, to, &rules(), &known())
            .await
            .unwrap();
        assert_eq!(
            objections,
            [Objection {
                what: Wrong::Submodule,
                path: Some("sub".to_owned())
            }]
        );
    }
}

#[tokio::test]
async fn only_what_is_new_counts() {
    let bed = Bed::new().await;
    let old = bed.work("config.yml", &format!("ghp_{TOKEN}\n")).await;
    write(
        &bed.place.path.join("config.yml"),
        &format!("# a comment\nghp_{TOKEN}\nmore\n"),
    );
    let to = bed.commit().await;
    bed.remote.take(&bed.place, "fix/a", &to).await.unwrap();
    assert_eq!(
        bed.remote
            .objections(&old, &to, &rules(), &known())
            .await
            .unwrap(),
        []
    );
    assert_eq!(
        bed.remote
            .objections(&bed.start, &to, &rules(), &known())
            .await
            .unwrap()
            .len(),
        1
    );
    let lenient = PushLimits {
        secrets: false,
        ..rules()
    };
    assert_eq!(
        bed.remote
            .objections(&bed.start, &to, &lenient, &known())
            .await
            .unwrap(),
        []
    );
}

/// A secret that a later commit removes is still in the history that would be pushed.
#[tokio::test]
async fn a_secret_that_was_committed_and_removed_is_found() {
    let bed = Bed::new().await;
    bed.work("config.yml", &format!("one\nghp_{TOKEN}\n")).await;
    bed.work("config.yml", "one\n").await;
    let objections = bed.judged(&rules()).await;
    assert_eq!(objections.len(), 1);
    insta::assert_snapshot!(objections[0], @"config.yml contains what looks like a GitHub token in an earlier commit that would be pushed too; drop that commit");
    write(&bed.place.path.join("a"), "two\n");
    bed.raw(
        &bed.place.path,
        ["commit", "-q", "-a", "-m", &format!("Use {CANARY}")],
    )
    .await;
    let objections = bed.judged(&rules()).await;
    assert!(
        objections
            .iter()
            .any(|objection| matches!(objection.what, Wrong::SecretInMessage { .. }))
    );
    assert!(!format!("{objections:?}").contains(CANARY));
}

#[tokio::test]
async fn what_the_remote_has_already_is_not_ours() {
    let bed = Bed::new().await;
    let theirs = bed
        .person("origin/main", "config.yml", &format!("one\nghp_{TOKEN}\n"))
        .await;
    bed.raw(
        &bed.root.join("person"),
        ["push", "-q", "origin", "HEAD:main"],
    )
    .await;
    bed.remote.fetch("main").await.unwrap();
    bed.raw(&bed.place.path, ["fetch", "-q", "origin"]).await;
    bed.raw(
        &bed.place.path,
        ["merge", "-q", "--no-ff", "-m", "merge", &theirs],
    )
    .await;
    bed.work("config.yml", "one\n").await;
    assert_eq!(bed.judged(&rules()).await, []);
}

#[tokio::test]
async fn contents_are_judged_whatever_the_attributes_say() {
    let bed = Bed::new().await;
    write(
        &bed.place.path.join(".gitattributes"),
        "* -diff -text binary filter=none export-ignore\n",
    );
    write(&bed.place.path.join("x"), &format!("ghp_{TOKEN}\n"));
    assert_eq!(bed.judged(&rules()).await.len(), 1);
}

#[tokio::test]
async fn the_beginning_of_a_large_file_is_looked_at() {
    let bed = Bed::new().await;
    let mut text = format!("ghp_{TOKEN}\n");
    text.push_str(&"x y z\n".repeat(2_000_000));
    write(&bed.place.path.join("large"), &text);
    let wide = PushLimits {
        max_file_kb: u64::MAX,
        ..rules()
    };
    let objections = bed.judged(&wide).await;
    assert_eq!(objections.len(), 1);
    assert_eq!(
        objections[0].what,
        Wrong::Secret {
            kind: "a GitHub token",
            line: 1
        }
    );
}

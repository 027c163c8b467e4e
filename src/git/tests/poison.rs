//! Nothing that an agent plants in the shared git dir is run by any call of this module.

use std::fs;

use super::{Bed, script};

/// All hooks known to git 2.47.
const HOOKS: &[&str] = &[
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "pre-receive",
    "update",
    "proc-receive",
    "post-receive",
    "post-update",
    "reference-transaction",
    "push-to-checkout",
    "pre-auto-gc",
    "post-rewrite",
    "sendemail-validate",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-prepare-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "post-index-change",
];

#[tokio::test]
async fn planted_commands_do_not_run() {
    let bed = Bed::new().await;
    let marker = bed.root.join("marker");
    let evil = bed.root.join("evil.sh");
    script(
        &evil,
        &format!("echo \"$0 $*\" >> '{}'; cat", marker.display()),
    );
    for hook in HOOKS {
        fs::copy(&evil, bed.place.common_dir.join("hooks").join(hook)).unwrap();
    }
    let evil = evil.to_str().unwrap();
    for key in [
        "core.fsmonitor",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "core.pager",
        "pager.diff",
        "pager.log",
        "core.editor",
        "sequence.editor",
        "core.sshCommand",
        "core.askPass",
        "core.gitProxy",
        "credential.helper",
        "gpg.program",
        "gpg.ssh.program",
        "merge.evil.driver",
        "remote.origin.uploadpack",
        "interactive.diffFilter",
        "trailer.evil.command",
        "uploadpack.packObjectsHook",
    ] {
        bed.said(["config", key, evil]).await;
    }
    for (key, value) in [
        ("commit.gpgSign", "true"),
        ("log.showSignature", "true"),
        ("color.ui", "always"),
        ("diff.noprefix", "true"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", "/nowhere"),
        ("alias.status", "!false"),
        ("status.submoduleSummary", "true"),
        ("diff.submodule", "log"),
        ("core.repositoryFormatVersion", "1"),
    ] {
        bed.said(["-c", "core.fsmonitor=false", "config", key, value])
            .await;
    }
    fs::remove_file(&marker).ok();
    bed.write(".gitattributes", "* diff=evil merge=evil\n");
    bed.write("a", "two\n");
    bed.write("CLAUDE.md", "x\n");
    let (git, place) = (&bed.git, &bed.place);
    let project = git.project_at(&bed.repo).await.unwrap();
    git.worktree_at(&place.path).await.unwrap();
    git.worktrees(&project).await.unwrap();
    let mark = git.checkout_mark(&project).await.unwrap();
    assert_eq!(git.status(place).await.unwrap().changed, ["a"]);
    let head = git.commit_rest(place, "fix/a", "x").await.unwrap().unwrap();
    let diff = git.diff(place, &bed.start, &head, 1 << 20).await.unwrap();
    assert!(
        diff.text.contains("+++ b/a\n") && diff.text.contains("+two\n"),
        "{}",
        diff.text
    );
    git.log(place, &bed.start, &head).await.unwrap();
    git.show_file(place, &head, "a").await.unwrap().unwrap();
    assert!(
        git.resolve(place, &"1".repeat(40))
            .await
            .is_ok_and(|sha| sha.is_none()),
        "a missing object is not fetched"
    );
    git.swap_in_base_config(place, &bed.start, &bed.root.join("record"), None)
        .await
        .unwrap();
    git.put_back_config(place, &bed.root.join("record"), None)
        .await
        .unwrap();
    bed.write("b", "b");
    git.put_back(place, bed.to()).await.unwrap();
    assert_eq!(
        mark.differs(&git.checkout_mark(&project).await.unwrap()),
        Vec::<String>::new()
    );
    assert!(!marker.exists(), "{}", fs::read_to_string(&marker).unwrap());
    bed.try_raw(&place.path, ["status"]).await;
    assert!(marker.exists(), "the poison affects a plain git call");
}

#[tokio::test]
async fn history_is_not_rewritten_by_replacements_or_grafts() {
    let bed = Bed::new().await;
    let head = bed.commit("a", "evil\n").await;
    bed.said(["replace", &head, &bed.start]).await;
    super::write(
        &bed.place.common_dir.join("info/grafts"),
        &format!("{head}\n"),
    );
    let diff = bed
        .git
        .diff(&bed.place, &bed.start, &head, 1 << 20)
        .await
        .unwrap();
    assert_eq!(diff.files.len(), 1);
    assert!(
        bed.git
            .is_ancestor(&bed.place, &bed.start, &head)
            .await
            .unwrap()
    );
}

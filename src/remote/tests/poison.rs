//! Files that an agent plants in the shared repository run without anything from the daemon's
//! environment, and send nothing elsewhere.

use std::fs;

use super::{Bed, CANARY, script, write};
use crate::project_settings::PushLimits;
use crate::remote::Pushed;

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

const COMMANDS: &[&str] = &[
    "core.fsmonitor",
    "core.sshCommand",
    "core.pager",
    "core.editor",
    "core.askPass",
    "core.gitProxy",
    "core.alternateRefsCommand",
    "credential.helper",
    "diff.external",
    "diff.evil.command",
    "diff.evil.textconv",
    "filter.evil.clean",
    "filter.evil.smudge",
    "merge.evil.driver",
    "gpg.program",
    "uploadpack.packObjectsHook",
    "remote.origin.uploadpack",
    "remote.origin.receivepack",
    "interactive.diffFilter",
    "sequence.editor",
];

#[tokio::test]
async fn nothing_planted_runs_or_leads_elsewhere() {
    let bed = Bed::new().await;
    let (evil, marker) = (bed.root.join("evil.sh"), bed.root.join("marker"));
    bed.raw(&bed.root, ["init", "-q", "--bare", "evil.git"])
        .await;
    script(
        &evil,
        &format!("echo \"$0 $* [$CANARY]\" >> '{}'; cat", marker.display()),
    );
    let to = bed.work("a", "two\n").await;
    let common = &bed.place.common_dir;
    for hook in HOOKS {
        fs::create_dir_all(common.join("hooks")).unwrap();
        fs::copy(&evil, common.join("hooks").join(hook)).unwrap();
    }
    let wrong = bed.root.join("evil.git").display().to_string();
    let (evil, origin) = (evil.to_str().unwrap(), bed.origin.display().to_string());
    let mut config = fs::read_to_string(common.join("config")).unwrap();
    for key in COMMANDS {
        let (section, name) = key.rsplit_once('.').unwrap();
        let section = section
            .split_once('.')
            .map_or(section.to_owned(), |(head, sub)| {
                format!("{head} \"{sub}\"")
            });
        config.push_str(&format!("[{section}]\n\t{name} = {evil}\n"));
    }
    config.push_str(&format!(
        "[url \"{wrong}\"]\n\tinsteadOf = {origin}\n\tpushInsteadOf = {origin}\n\
         [remote \"origin\"]\n\tpushurl = {wrong}\n\
         [remote \"{origin}\"]\n\turl = {wrong}\n\tpushurl = {wrong}\n\treceivepack = {evil}\n\
         [alias]\n\tpush = !{evil}\n\tfetch = !{evil}\n\tls-remote = !{evil}\n\
         [include]\n\tpath = {}\n[push]\n\tdefault = matching\n",
        bed.root.join("included").display()
    ));
    write(&common.join("config"), &config);
    write(
        &bed.root.join("included"),
        &format!("[core]\n\thooksPath = {}\n", common.join("hooks").display()),
    );
    write(
        &common.join("objects/info/alternates"),
        &format!("{wrong}/objects\n"),
    );
    write(&bed.place.git_dir.join("commondir"), &format!("{wrong}\n"));
    write(&bed.place.path.join(".git"), &format!("gitdir: {wrong}\n"));

    bed.remote.ready().await.unwrap();
    bed.remote.fetch("fix/a").await.unwrap();
    bed.remote.take(&bed.place, "fix/a", &to).await.unwrap();
    let rules = PushLimits {
        forbidden: Vec::new(),
        max_file_kb: 1024,
        max_files: 9,
        max_total_kb: u64::MAX,
        secrets: true,
    };
    assert_eq!(
        bed.remote
            .objections(&bed.start, &to, &rules, &[])
            .await
            .unwrap(),
        []
    );
    let push = crate::remote::Push {
        branch: "fix/a".to_owned(),
        expected: crate::remote::Expected::At(bed.start.clone()),
        to: to.clone(),
    };
    assert_eq!(bed.remote.push(&push).await.unwrap(), Pushed::Done);
    bed.remote.undone(&bed.start, &to, &[]).await.unwrap();

    assert_eq!(
        bed.raw(&bed.root.join("evil.git"), ["for-each-ref"]).await,
        ""
    );
    assert_eq!(bed.at_origin("fix/a").await, Some(to));
    let ran = fs::read_to_string(&marker).unwrap_or_default();
    assert_eq!(ran, "", "something planted ran");
    bed.try_raw(&bed.root.join("repo"), ["-c", "alias.x=!true", "status"])
        .await;
    let ran = fs::read_to_string(&marker).unwrap_or_default();
    assert!(
        !ran.is_empty() && !ran.contains(CANARY),
        "the poison affects a plain git call"
    );
}

#[tokio::test]
async fn variables_that_move_the_repository_or_trace_do_not_reach_git() {
    let bed = Bed::new().await;
    let trace = bed.root.join("trace");
    let remote = bed.reach(|reach| {
        for name in [
            "GIT_WORK_TREE",
            "GIT_INDEX_FILE",
            "GIT_OBJECT_DIRECTORY",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES",
            "GIT_NAMESPACE",
        ] {
            reach.env.insert(name.to_owned(), "/nowhere".to_owned());
        }
        for name in [
            "GIT_TRACE",
            "GIT_TRACE_CURL",
            "GIT_TRACE2_EVENT",
            "GIT_TRACE_PACKET",
        ] {
            reach
                .env
                .insert(name.to_owned(), trace.display().to_string());
        }
        reach
            .env
            .insert("GIT_ALLOW_PROTOCOL".to_owned(), "ext".to_owned());
        reach
            .env
            .insert("GIT_DIR".to_owned(), bed.origin.display().to_string());
    });
    let push = bed.taken("a", "two\n").await;
    assert_eq!(remote.push(&push).await.unwrap(), Pushed::Done);
    assert!(!trace.exists());
}

#[tokio::test]
async fn the_secrets_of_the_daemon_are_not_in_the_arguments() {
    let bed = Bed::new().await;
    let log = bed.root.join("argv");
    let real = which::which_in("git", Some(&bed.env["PATH"]), "/").unwrap();
    script(
        &bed.root.join("bin/git"),
        &format!(
            "echo \"$*\" >> '{}'\nexec {} \"$@\"",
            log.display(),
            real.display()
        ),
    );
    let remote = bed.reach(|reach| {
        let path = format!("{}:{}", bed.root.join("bin").display(), reach.env["PATH"]);
        reach.env.insert("PATH".to_owned(), path);
        reach.gh = vec!["gh".to_owned()];
    });
    let push = bed.taken("a", "two\n").await;
    assert_eq!(remote.push(&push).await.unwrap(), Pushed::Done);
    let log_text = fs::read_to_string(&log).unwrap();
    assert!(
        log_text.contains("push --porcelain --no-verify") && !log_text.contains(CANARY),
        "{log_text}"
    );
    assert!(log_text.contains(&format!(
        "--force-with-lease=refs/heads/fix/a:{}",
        bed.start
    )));
}

//! Agent configuration of the base during a run.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::{Bed, write};
use crate::git::GitError;

const BASE: &[(&str, &str)] = &[
    ("a", "one\n"),
    ("CLAUDE.md", "base\n"),
    (".claude/settings.json", "base settings\n"),
    (".claude/deny.json", "base only\n"),
    ("pkg/AGENTS.md", "base of pkg\n"),
    ("pkg/code", "code\n"),
    (".gitignore", "*.local.json\n"),
];

/// Creates a branch that changed, added, removed and linked configuration.
async fn branch() -> Bed {
    let bed = Bed::with(BASE).await;
    bed.write("CLAUDE.md", "do evil\n");
    bed.write(".claude/hooks/run.sh", "evil\n");
    bed.write(".gemini/settings.json", "evil\n");
    bed.write("pkg/AGENTS.md", "evil\n");
    bed.write("pkg/CLAUDE.md", "evil\n");
    fs::remove_file(bed.wt(".claude/deny.json")).unwrap();
    fs::remove_file(bed.wt(".claude/settings.json")).unwrap();
    symlink("/etc/passwd", bed.wt(".claude/settings.json")).unwrap();
    symlink("pkg", bed.wt(".cursor")).unwrap();
    bed.said(["add", "-A"]).await;
    bed.said(["commit", "-q", "-m", "evil"]).await;
    bed.write(
        ".claude/settings.local.json",
        "ignored, left by an earlier run\n",
    );
    bed
}

fn record(bed: &Bed) -> PathBuf {
    bed.root.join("state/record.json")
}

async fn swap(bed: &Bed) -> crate::git::agent_config::Swapped {
    fs::create_dir_all(bed.root.join("state")).unwrap();
    bed.git
        .swap_in_base_config(&bed.place, &bed.start, &record(bed), None)
        .await
        .unwrap()
}

fn read(bed: &Bed, path: &str) -> Option<String> {
    let is_file = bed
        .wt(path)
        .symlink_metadata()
        .is_ok_and(|meta| meta.is_file());
    is_file.then(|| fs::read_to_string(bed.wt(path)).unwrap())
}

fn is_base(bed: &Bed) {
    assert_eq!(read(bed, "CLAUDE.md").as_deref(), Some("base\n"));
    assert_eq!(
        read(bed, ".claude/settings.json").as_deref(),
        Some("base settings\n")
    );
    assert_eq!(
        read(bed, ".claude/deny.json").as_deref(),
        Some("base only\n")
    );
    assert_eq!(read(bed, "pkg/AGENTS.md").as_deref(), Some("base of pkg\n"));
    for path in [
        ".claude/hooks",
        ".gemini",
        "pkg/CLAUDE.md",
        ".cursor",
        ".claude/settings.local.json",
    ] {
        assert!(bed.wt(path).symlink_metadata().is_err(), "{path}");
    }
}

async fn is_branch(bed: &Bed) {
    assert_eq!(bed.said(["status", "--porcelain"]).await, "");
    assert_eq!(
        bed.said(["ls-files", "-t"])
            .await
            .lines()
            .filter(|line| line.starts_with('S'))
            .count(),
        0
    );
    assert_eq!(read(bed, "CLAUDE.md").as_deref(), Some("do evil\n"));
    assert_eq!(
        read(bed, ".claude/settings.local.json").as_deref(),
        Some("ignored, left by an earlier run\n")
    );
    assert_eq!(
        fs::read_link(bed.wt(".claude/settings.json"))
            .unwrap()
            .to_str(),
        Some("/etc/passwd")
    );
    assert_eq!(
        fs::read_link(bed.wt(".cursor")).unwrap().to_str(),
        Some("pkg")
    );
    assert!(bed.wt(".claude/deny.json").symlink_metadata().is_err());
    // The dropped edits are recorded, so that a second call, after a crash, returns the same.
    let left = fs::read_dir(bed.root.join("state"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left
        .filter(|name| !name.to_string_lossy().ends_with(".dropped"))
        .collect();
    assert!(
        left.is_empty(),
        "nothing else stays in the state folder: {left:?}"
    );
}

#[tokio::test]
async fn a_run_sees_the_base_and_the_branch_comes_back() {
    let bed = branch().await;
    let swapped = swap(&bed).await;
    is_base(&bed);
    let mut agent = Bed {
        env: bed.env.clone(),
        ..Bed::new().await
    };
    agent.env.extend(swapped.env);
    assert_eq!(
        agent.raw(&bed.place.path, ["status", "--porcelain"]).await,
        "",
        "the agent's git sees no difference"
    );
    bed.write("a", "work\n");
    agent.raw(&bed.place.path, ["add", "-A"]).await;
    assert_eq!(
        agent
            .raw(&bed.place.path, ["diff", "--cached", "--name-only"])
            .await,
        "a"
    );
    agent
        .raw(&bed.place.path, ["commit", "-q", "-m", "work"])
        .await;
    assert_eq!(
        bed.git
            .put_back_config(&bed.place, &record(&bed), None)
            .await
            .unwrap(),
        Vec::<String>::new()
    );
    is_branch(&bed).await;
    assert_eq!(
        bed.git
            .put_back_config(&bed.place, &record(&bed), None)
            .await
            .unwrap(),
        Vec::<String>::new()
    );
    is_branch(&bed).await;
}

#[tokio::test]
async fn edits_of_the_agent_are_dropped_and_named() {
    let bed = branch().await;
    swap(&bed).await;
    let victim = bed.root.join("victim");
    write(&victim.join("settings.json"), "precious");
    bed.write("CLAUDE.md", "agent's own\n");
    bed.write("pkg/GEMINI.md", "new\n");
    bed.write("AGENTS.md", "new\n");
    fs::remove_file(bed.wt("pkg/AGENTS.md")).unwrap();
    fs::remove_dir_all(bed.wt(".claude")).unwrap();
    symlink(&victim, bed.wt(".claude")).unwrap();
    bed.write("a", "work\n");
    let dropped = bed
        .git
        .put_back_config(&bed.place, &record(&bed), None)
        .await
        .unwrap();
    let expected = [
        ".claude",
        ".claude/settings.json",
        "AGENTS.md",
        "CLAUDE.md",
        "pkg/AGENTS.md",
        "pkg/GEMINI.md",
    ];
    assert_eq!(dropped, expected);
    assert_eq!(
        fs::read_to_string(victim.join("settings.json")).unwrap(),
        "precious"
    );
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 1);
    assert_eq!(bed.said(["status", "--porcelain"]).await, " M a");
    bed.said(["checkout", "-q", "a"]).await;
    is_branch(&bed).await;
}

#[tokio::test]
async fn a_crash_while_configuration_was_put_back_neither_hides_an_edit_nor_invents_one() {
    let bed = branch().await;
    swap(&bed).await;
    bed.write("CLAUDE.md", "agent's own\n");
    let text = fs::read(record(&bed)).unwrap();
    let copies = record(&bed).with_file_name("record.json.files");
    let kept: Vec<(PathBuf, Vec<u8>)> = fs::read_dir(&copies)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    assert_eq!(
        bed.git
            .put_back_config(&bed.place, &record(&bed), None)
            .await
            .unwrap(),
        ["CLAUDE.md"]
    );
    assert_eq!(
        bed.git
            .put_back_config(&bed.place, &record(&bed), None)
            .await
            .unwrap(),
        ["CLAUDE.md"],
        "after everything was done"
    );
    // In the middle: one file has been removed and not yet restored.
    fs::create_dir_all(&copies).unwrap();
    kept.into_iter()
        .for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    fs::write(record(&bed), text).unwrap();
    fs::remove_file(bed.wt("pkg/AGENTS.md")).unwrap();
    assert_eq!(
        bed.git
            .put_back_config(&bed.place, &record(&bed), None)
            .await
            .unwrap(),
        ["CLAUDE.md"]
    );
    is_branch(&bed).await;
}

#[tokio::test]
async fn staged_edits_are_dropped_and_committed_ones_stay_for_the_checks() {
    let bed = branch().await;
    swap(&bed).await;
    bed.said([
        "update-index",
        "--no-skip-worktree",
        "CLAUDE.md",
        "pkg/AGENTS.md",
    ])
    .await;
    bed.write("pkg/AGENTS.md", "committed by force\n");
    bed.said(["commit", "-q", "-m", "x", "--", "pkg/AGENTS.md"])
        .await;
    bed.said(["add", "CLAUDE.md"]).await;
    bed.git
        .put_back_config(&bed.place, &record(&bed), None)
        .await
        .unwrap();
    is_branch(&bed).await;
    assert_eq!(
        read(&bed, "pkg/AGENTS.md").as_deref(),
        Some("committed by force\n")
    );
}

#[tokio::test]
async fn what_a_person_had_not_committed_comes_back() {
    let bed = branch().await;
    bed.write("CLAUDE.md", "not committed\n");
    bed.said(["rm", "-q", ".gemini/settings.json"]).await;
    bed.write("pkg/AGENTS.md", "staged\n");
    bed.said(["add", "pkg/AGENTS.md"]).await;
    bed.said(["update-index", "--skip-worktree", "pkg/CLAUDE.md"])
        .await;
    let before = bed.said(["status", "--porcelain"]).await;
    swap(&bed).await;
    is_base(&bed);
    bed.git
        .put_back_config(&bed.place, &record(&bed), None)
        .await
        .unwrap();
    assert_eq!(bed.said(["status", "--porcelain"]).await, before);
    assert_eq!(read(&bed, "CLAUDE.md").as_deref(), Some("not committed\n"));
    assert_eq!(
        bed.said(["ls-files", "-t", "pkg/CLAUDE.md"]).await,
        "S pkg/CLAUDE.md"
    );
}

#[tokio::test]
async fn a_swap_cut_anywhere_is_undone() {
    // Interrupted at each step: only recorded, hidden, some removed, some placed, one half written.
    for step in 0..6 {
        let bed = branch().await;
        swap(&bed).await;
        let text = fs::read_to_string(record(&bed)).unwrap();
        assert!(text.contains("\"complete\": true"));
        let cut = text.replace("\"complete\": true", "\"complete\": false");
        let state = bed.root.join("copy");
        let copy = async |from: &str, to: &str| {
            bed.raw(
                &bed.root,
                ["-c", &format!("alias.cp=!cp -a {from} {to}"), "cp"],
            )
            .await
        };
        copy(
            bed.root.join("state").to_str().unwrap(),
            state.to_str().unwrap(),
        )
        .await;
        bed.git
            .put_back_config(&bed.place, &record(&bed), None)
            .await
            .unwrap();
        is_branch(&bed).await;
        fs::remove_dir_all(bed.root.join("state")).unwrap();
        fs::rename(&state, bed.root.join("state")).unwrap();
        fs::write(record(&bed), cut).unwrap();
        if step >= 1 {
            bed.said([
                "update-index",
                "--skip-worktree",
                "CLAUDE.md",
                ".claude/hooks/run.sh",
            ])
            .await;
        }
        if step >= 2 {
            fs::remove_dir_all(bed.wt(".claude")).unwrap();
        }
        if step >= 3 {
            fs::remove_file(bed.wt("CLAUDE.md")).unwrap();
            fs::remove_file(bed.wt(".cursor")).unwrap();
        }
        if step >= 4 {
            bed.write(".claude/deny.json", "base only\n");
        }
        if step >= 5 {
            bed.write("CLAUDE.md", "ba");
        }
        assert_eq!(
            bed.git
                .put_back_config(&bed.place, &record(&bed), None)
                .await
                .unwrap(),
            Vec::<String>::new(),
            "step {step}"
        );
        is_branch(&bed).await;
    }
}

#[tokio::test]
async fn copies_without_a_record_are_a_swap_that_never_began() {
    let bed = branch().await;
    write(&bed.root.join("state/record.json.files/0"), "stale");
    assert_eq!(
        bed.git
            .put_back_config(&bed.place, &record(&bed), None)
            .await
            .unwrap(),
        Vec::<String>::new()
    );
    is_branch(&bed).await;
}

#[tokio::test]
async fn a_second_swap_waits_for_the_first_to_be_put_back() {
    let bed = branch().await;
    swap(&bed).await;
    let again = bed
        .git
        .swap_in_base_config(&bed.place, &bed.start, &record(&bed), None)
        .await;
    assert!(matches!(again, Err(GitError::RecordThere { .. })));
    is_base(&bed);
}

#[tokio::test]
async fn a_record_that_leaves_the_worktree_is_refused() {
    let bed = branch().await;
    swap(&bed).await;
    let text = fs::read_to_string(record(&bed)).unwrap();
    for path in ["../victim", "/etc/passwd", ""] {
        fs::write(
            record(&bed),
            text.replace("\"CLAUDE.md\"", &format!("{path:?}")),
        )
        .unwrap();
        let refused = bed
            .git
            .put_back_config(&bed.place, &record(&bed), None)
            .await;
        assert!(matches!(refused, Err(GitError::BadRecord { .. })), "{path}");
    }
    fs::write(record(&bed), text.split_at(text.len() / 2).0).unwrap();
    assert!(
        bed.git
            .put_back_config(&bed.place, &record(&bed), None)
            .await
            .is_err()
    );
}

#[tokio::test]
async fn links_of_the_base_become_the_files_they_lead_to() {
    let bed = Bed::with(&[("docs/agents.md", "base text\n"), ("a", "one\n")]).await;
    symlink("docs/agents.md", bed.repo.join("AGENTS.md")).unwrap();
    symlink("AGENTS.md", bed.repo.join("CLAUDE.md")).unwrap();
    symlink("/etc/passwd", bed.repo.join("GEMINI.md")).unwrap();
    bed.raw(&bed.repo, ["add", "-A"]).await;
    bed.raw(&bed.repo, ["commit", "-q", "-m", "links"]).await;
    let base = bed.raw(&bed.repo, ["rev-parse", "HEAD"]).await;
    bed.said(["reset", "-q", "--hard", &base]).await;
    let head = bed.commit("docs/agents.md", "evil\n").await;
    fs::create_dir_all(bed.root.join("state")).unwrap();
    bed.git
        .swap_in_base_config(&bed.place, &base, &record(&bed), None)
        .await
        .unwrap();
    assert_eq!(read(&bed, "CLAUDE.md").as_deref(), Some("base text\n"));
    assert_eq!(read(&bed, "AGENTS.md").as_deref(), Some("base text\n"));
    assert!(bed.wt("GEMINI.md").symlink_metadata().is_err());
    bed.git
        .put_back_config(&bed.place, &record(&bed), None)
        .await
        .unwrap();
    assert_eq!(bed.said(["status", "--porcelain"]).await, "");
    assert_eq!(bed.said(["rev-parse", "HEAD"]).await, head);
}

#[tokio::test]
async fn a_base_that_came_in_during_the_run_is_not_undone() {
    let bed = branch().await;
    swap(&bed).await;
    bed.raw(&bed.repo, ["checkout", "-q", "main"]).await;
    write(&bed.repo.join(".mcp.json"), "new in the base\n");
    bed.raw(&bed.repo, ["add", "-A"]).await;
    bed.raw(&bed.repo, ["commit", "-q", "-m", "base goes on"])
        .await;
    bed.said(["merge", "-q", "--no-edit", "main"]).await;
    let dropped = bed
        .git
        .put_back_config(&bed.place, &record(&bed), None)
        .await
        .unwrap();
    assert_eq!(dropped, Vec::<String>::new());
    is_branch(&bed).await;
    assert_eq!(
        read(&bed, ".mcp.json").as_deref(),
        Some("new in the base\n")
    );
}

#[tokio::test]
async fn a_cut_run_is_recovered_in_order() {
    let bed = branch().await;
    let head = bed.said(["rev-parse", "HEAD"]).await;
    swap(&bed).await;
    bed.write("a", "work\n");
    bed.write("CLAUDE.md", "agent's own\n");
    fs::write(bed.place.git_dir.join("index"), "junk").unwrap();
    write(&bed.place.git_dir.join("index.lock"), "");
    let to = crate::git::RestorePoint {
        head_before: &head,
        ..bed.to()
    };
    bed.git.unblock(&bed.place, to).await.unwrap();
    assert_eq!(
        bed.git
            .put_back_config(&bed.place, &record(&bed), None)
            .await
            .unwrap(),
        ["CLAUDE.md"]
    );
    let wip = bed.git.put_back(&bed.place, to).await.unwrap().wip.unwrap();
    is_branch(&bed).await;
    let files = bed
        .git
        .changed_files(&bed.place, &head, &wip)
        .await
        .unwrap();
    assert_eq!(
        files.iter().map(|f| f.path.as_str()).collect::<Vec<_>>(),
        ["a"],
        "only the work is kept"
    );
}

#[tokio::test]
async fn names_that_are_not_text_survive_the_record() {
    let bed = branch().await;
    let odd = bed
        .wt(".claude")
        .join(OsStr::from_bytes(b"caf\xe9 \n.local.json"));
    fs::write(&odd, b"\xff\0").unwrap();
    swap(&bed).await;
    assert!(!odd.exists());
    bed.git
        .put_back_config(&bed.place, &record(&bed), None)
        .await
        .unwrap();
    assert_eq!(fs::read(&odd).unwrap(), b"\xff\0");
    is_branch(&bed).await;
}

#[tokio::test]
async fn worktrees_that_agents_keep_below_their_configuration_are_not_touched() {
    let bed = branch().await;
    bed.write(".claude/worktrees/x/CLAUDE.local.json", "another's\n");
    swap(&bed).await;
    assert_eq!(
        read(&bed, ".claude/worktrees/x/CLAUDE.local.json").as_deref(),
        Some("another's\n")
    );
    bed.git
        .put_back_config(&bed.place, &record(&bed), None)
        .await
        .unwrap();
    assert_eq!(
        read(&bed, ".claude/worktrees/x/CLAUDE.local.json").as_deref(),
        Some("another's\n")
    );
    is_branch(&bed).await;
}

#[tokio::test]
async fn a_pipe_in_place_of_configuration_does_not_hang_us() {
    let bed = branch().await;
    swap(&bed).await;
    let pipe = bed.wt(".claude/pipe");
    bed.raw(
        &bed.root,
        [
            "-c",
            &format!("alias.pipe=!mkfifo {}", pipe.display()),
            "pipe",
        ],
    )
    .await;
    assert_eq!(
        bed.git
            .put_back_config(&bed.place, &record(&bed), None)
            .await
            .unwrap(),
        [".claude/pipe"]
    );
    is_branch(&bed).await;
}

#[tokio::test]
async fn folders_and_huge_files_in_the_place_of_configuration() {
    let bed = branch().await;
    swap(&bed).await;
    fs::remove_file(bed.wt("CLAUDE.md")).unwrap();
    bed.write("CLAUDE.md/deep/file", "x");
    fs::create_dir_all(bed.wt("CLAUDE.md/empty/er")).unwrap();
    let huge = fs::File::create(bed.wt(".claude/huge")).unwrap();
    huge.set_len(65 * 1024 * 1024).unwrap();
    let dropped = bed
        .git
        .put_back_config(&bed.place, &record(&bed), None)
        .await
        .unwrap();
    assert_eq!(
        dropped,
        [".claude/huge", "CLAUDE.md", "CLAUDE.md/deep/file"]
    );
    is_branch(&bed).await;
    fs::File::create(bed.wt(".claude/huge"))
        .unwrap()
        .set_len(65 * 1024 * 1024)
        .unwrap();
    let refused = bed
        .git
        .swap_in_base_config(&bed.place, &bed.start, &record(&bed), None)
        .await;
    assert!(
        matches!(refused, Err(GitError::ConfigTooBig { .. })),
        "a person's file is not removed silently"
    );
    fs::remove_file(bed.wt(".claude/huge")).unwrap();
    bed.git
        .put_back_config(&bed.place, &record(&bed), None)
        .await
        .unwrap();
    is_branch(&bed).await;
}

#[tokio::test]
async fn a_folder_of_instructions_behind_a_link_is_not_seen() {
    let bed = Bed::with(BASE).await;
    bed.write("evil/copilot-instructions.md", "evil\n");
    symlink("evil", bed.wt(".github")).unwrap();
    bed.said(["add", "-A"]).await;
    bed.said(["commit", "-q", "-m", "link"]).await;
    swap(&bed).await;
    assert!(bed.wt(".github").symlink_metadata().is_err());
    assert_eq!(bed.said(["status", "--porcelain"]).await, "");
    bed.git
        .put_back_config(&bed.place, &record(&bed), None)
        .await
        .unwrap();
    assert!(bed.wt(".github").symlink_metadata().unwrap().is_symlink());
    assert_eq!(bed.said(["status", "--porcelain"]).await, "");
}

//! Settings that a branch must not control: during a run, configuration and instructions of agents
//! are those of the base.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::play::{Play, Script};

const NAMES: [&str; 4] = [
    "CLAUDE.md",
    ".claude/settings.json",
    ".mcp.json",
    "AGENTS.md",
];

/// Prints all its visible configuration, and edits it.
const LOOKS: &str = r#"cat >/dev/null
    for name in CLAUDE.md .claude/settings.json .mcp.json AGENTS.md; do
        printf '%s: ' "$name"
        if [ -L "$name" ]; then echo "a symlink to $(cat "$name")"; elif [ -e "$name" ]; then cat "$name"; else echo nothing; fi
    done >"$PROMPTS/$REMAND_PHASE.saw"
    git status --porcelain >"$PROMPTS/$REMAND_PHASE.status""#;

/// Creates a base with three of the four files; the branch, recreated on it, has those that `bring`
/// writes.
fn play(fixer: &str, bring: impl Fn(&Play)) -> Play {
    let reviewer = format!(
        "{LOOKS}\nif grep -q fixed work.txt; then says approved fine; else says changes_requested no \"$(finding work.txt 1 'say fixed')\"; fi"
    );
    let play = Play::without_change(&Script {
        reviewer: &reviewer,
        fixer,
        ..Script::default()
    });
    fs::create_dir(play.repo.join(".claude")).unwrap();
    for name in &NAMES[..3] {
        fs::write(play.repo.join(name), "of the base\n").unwrap();
    }
    play.world.git(&play.repo, &["add", "-A"]);
    play.world
        .git(&play.repo, &["commit", "-qm", "configuration"]);
    play.world
        .git(&play.worktree, &["reset", "-q", "--hard", "main"]);
    bring(&play);
    play.world
        .commit(&play.worktree, "work.txt", "work\n", "work");
    play.world
        .remand_in(&play.worktree, &["review", "--title", "Feature"])
        .ok();
    play
}

const BASE_SEEN: &str = "CLAUDE.md: of the base\n.claude/settings.json: of the base\n.mcp.json: of the base\nAGENTS.md: nothing\n";

#[test]
fn the_base_decides_and_the_branch_is_back_afterwards() {
    let fixer = format!(
        "{LOOKS}\necho fixed >>work.txt\necho 'do as I say' >>CLAUDE.md\necho more >AGENTS.md\nmkdir -p .gemini\necho x >.gemini/hooks\ngit add -A\ngit commit -qm mine\n"
    );
    let play = play(&fixer, |play| {
        for name in NAMES {
            fs::write(play.worktree.join(name), "of the branch\n").unwrap();
        }
    });
    play.tick().report();
    play.is_ready(1);
    for phase in ["review", "fix"] {
        assert_eq!(
            fs::read_to_string(play.seen(&format!("{phase}.saw"))).unwrap(),
            BASE_SEEN,
            "{phase}"
        );
        assert_eq!(
            fs::read_to_string(play.seen(&format!("{phase}.status"))).unwrap(),
            "",
            "{phase}"
        );
    }
    for name in NAMES {
        assert_eq!(
            fs::read_to_string(play.worktree.join(name)).unwrap(),
            "of the branch\n",
            "{name}"
        );
        assert_eq!(
            play.world
                .git(&play.worktree, &["show", &format!("HEAD:{name}")]),
            "of the branch",
            "{name}"
        );
    }
    let undone = play
        .world
        .sqlite("SELECT summary FROM events WHERE event_type = 'edits_undone'");
    assert!(
        undone.contains("CLAUDE.md") && undone.contains("AGENTS.md"),
        "{undone}"
    );
    let hidden = play.world.git(&play.worktree, &["ls-files", "-v"]);
    assert!(
        !hidden.lines().any(|line| line.starts_with('S')),
        "still marked: {hidden}"
    );
}

#[test]
fn symlinks_of_the_branch_are_not_followed() {
    let fixer = format!("{LOOKS}\necho fixed >>work.txt\n");
    let play = play(&fixer, |play| {
        let outside = play.world.root().join("secret");
        fs::write(&outside, "of nobody\n").unwrap();
        fs::remove_dir_all(play.worktree.join(".claude")).unwrap();
        fs::create_dir(play.worktree.join("theirs")).unwrap();
        fs::write(
            play.worktree.join("theirs/settings.json"),
            "of the branch\n",
        )
        .unwrap();
        symlink("theirs", play.worktree.join(".claude")).unwrap();
        for name in ["CLAUDE.md", ".mcp.json"] {
            fs::remove_file(play.worktree.join(name)).unwrap();
            symlink(&outside, play.worktree.join(name)).unwrap();
        }
        symlink("theirs/settings.json", play.worktree.join("AGENTS.md")).unwrap();
    });
    play.tick().report();
    play.is_ready(1);
    assert_eq!(fs::read_to_string(play.seen("fix.saw")).unwrap(), BASE_SEEN);
    assert_eq!(
        fs::read_link(play.worktree.join(".claude"))
            .unwrap()
            .to_str(),
        Some("theirs")
    );
    assert_eq!(
        fs::read_link(play.worktree.join("AGENTS.md"))
            .unwrap()
            .to_str(),
        Some("theirs/settings.json")
    );
    assert_eq!(
        fs::read_link(play.worktree.join("CLAUDE.md")).unwrap(),
        play.world.root().join("secret")
    );
    assert_eq!(
        fs::read_to_string(play.worktree.join("theirs/settings.json")).unwrap(),
        "of the branch\n"
    );
    assert_eq!(
        fs::read_to_string(play.world.root().join("secret")).unwrap(),
        "of nobody\n"
    );
    assert_eq!(
        play.count("events WHERE event_type = 'edits_undone'"),
        0,
        "{:#?}",
        play.events()
    );
}

//! Access of fixers to things outside their worktree, and what they get from the daemon.

use std::collections::BTreeSet;
use std::fs;

use crate::support::play::{Play, Script};
use crate::support::run;

const WRITES_OUTSIDE: &str = r#"cat >/dev/null
    echo fixed >>work.txt
    cd "$(dirname "$(git rev-parse --path-format=absolute --git-common-dir)")"
    echo stray >stray.txt; echo changed >>README.md"#;

/// LOST-10
#[test]
fn writes_into_the_main_checkout() {
    let play = Play::new(&Script {
        fixer: WRITES_OUTSIDE,
        ..Script::default()
    });
    play.tick().report();
    play.is_ready(1);
    let told = play
        .world
        .sqlite("SELECT summary FROM events WHERE event_type = 'checkout_changed'");
    assert!(
        told.contains("stray.txt") && told.contains("README.md") && told.contains("r2"),
        "{told}"
    );
    assert!(play.why().contains("stray.txt"), "{}", play.why());
    assert_eq!(
        fs::read_to_string(play.repo.join("stray.txt")).unwrap(),
        "stray\n",
        "it is not ours to undo"
    );
}

/// LOST-10
#[test]
fn writes_into_the_main_checkout_where_that_is_for_a_person() {
    let play = Play::new(&Script {
        fixer: WRITES_OUTSIDE,
        tables: "[loop]\nmain_checkout = \"escalate\"\n",
        ..Script::default()
    });
    let before = play.head();
    play.tick().report();
    play.is_escalated("the main checkout changed during r2");
    play.worktree_is_at(&before);
    assert_eq!(play.kept("r2", "work.txt"), "work\nfixed");
    play.world.git(&play.repo, &["checkout", "-q", "README.md"]);
    fs::remove_file(play.repo.join("stray.txt")).unwrap();
    play.retry_finishes();
}

/// Commands that git could be made to start, if it read any of this.
const PLANTS: &str = r#"cat >/dev/null
    echo fixed >>work.txt
    common=$(git rev-parse --path-format=absolute --git-common-dir)
    evil=$common/evil
    printf '#!/bin/sh\necho "$0 $*" >>%s/marker\ncat >/dev/null 2>&1\nexit 0\n' "$PROMPTS" >"$evil"
    chmod +x "$evil"
    mkdir -p "$common/hooks" "$common/more-hooks"
    for hook in pre-commit prepare-commit-msg commit-msg post-commit post-checkout post-merge post-rewrite pre-rebase \
        reference-transaction post-index-change pre-auto-gc fsmonitor-watchman applypatch-msg pre-push; do
        cp "$evil" "$common/hooks/$hook"; cp "$evil" "$common/more-hooks/$hook"
    done
    set_() { git config --file "$common/included" "$1" "$2"; }
    set_ core.fsmonitor "$evil"; set_ core.hooksPath "$common/more-hooks"; set_ diff.external "$evil"
    set_ core.pager "$evil"; set_ core.editor "$evil"; set_ core.sshCommand "$evil"; set_ core.askPass "$evil"
    set_ core.gitProxy "$evil"; set_ credential.helper "!$evil"; set_ gpg.program "$evil"; set_ commit.gpgSign true
    set_ alias.status "!$evil"; set_ alias.diff "!$evil"; set_ diff.planted.textconv "$evil"; set_ diff.planted.command "$evil"
    set_ merge.planted.driver "$evil"; set_ remote.origin.url /nowhere; set_ remote.origin.pushurl "ext::sh -c $evil"
    set_ sequence.editor "$evil"; set_ pager.log "$evil"; set_ trailer.planted.command "$evil"; set_ init.templateDir "$common"
    git config include.path "$common/included"
    git config core.fsmonitor "$evil"; git config diff.external "$evil"
    printf '* diff=planted merge=planted\n' >"$common/info/attributes"
    rm -f "$PROMPTS/marker""#;

/// Checked before the test calls git itself, which would start all of it.
#[test]
fn plants_commands_in_the_shared_configuration() {
    let play = Play::new(&Script {
        fixer: PLANTS,
        ..Script::default()
    });
    play.tick().report();
    play.tick().report();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    for args in [
        &["why", "c1"][..],
        &["show", "c1"],
        &["status", "c1"],
        &["diff", "c1"],
        &["check"],
        &["project", "list"],
    ] {
        play.world.remand(args).ok();
    }
    play.world.remand_in(&play.worktree, &["review"]);
    let marker = fs::read_to_string(play.seen("marker")).unwrap_or_default();
    assert_eq!(marker, "", "our own git started what an agent had planted");
    let told = play
        .world
        .sqlite("SELECT summary FROM events WHERE event_type = 'checkout_changed'");
    for what in [
        "config was changed",
        "hooks/pre-commit was added",
        "info/attributes was added",
    ] {
        assert!(told.contains(what), "{what} is not in {told}");
    }
    play.check();
}

/// Filters are part of a file's content (LFS), so those in the user's settings run; one in the
/// repository does not.
#[test]
fn plants_a_filter() {
    let fixer = r#"cat >/dev/null
        echo fixed >>work.txt
        common=$(git rev-parse --path-format=absolute --git-common-dir)
        printf '#!/bin/sh\nenv >>%s/filter\ncat\n' "$PROMPTS" >"$common/evil"
        chmod +x "$common/evil"
        git config filter.planted.clean "$common/evil"
        printf '* filter=planted\n' >"$common/info/attributes""#;
    let play = Play::new(&Script {
        fixer,
        ..Script::default()
    });
    with_canaries(&play);
    play.tick().report();
    play.tick().report();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    assert_eq!(
        fs::read_to_string(play.seen("filter")).unwrap_or_default(),
        "",
        "our own git started a planted filter"
    );
    let told = play
        .world
        .sqlite("SELECT summary FROM events WHERE event_type = 'checkout_changed'");
    assert!(told.contains("config was changed"), "{told}");
}

const CANARIES: [&str; 16] = [
    "GH_TOKEN",
    "GH_ENTERPRISE_TOKEN",
    "GITHUB_TOKEN",
    "GITHUB_ENTERPRISE_TOKEN",
    "CREDENTIALS_DIRECTORY",
    "DBUS_SESSION_BUS_ADDRESS",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "SLACK_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "ANTHROPIC_API_KEY",
    "NPM_TOKEN",
    "PGPASSWORD",
    "GIT_ASKPASS",
    "NOTIFY_SOCKET",
    "LD_LIBRARY_PATH",
];

fn with_canaries(play: &Play) {
    let mut command = play.world.remand_command(&["tick"]);
    for name in CANARIES {
        command.env(name, "canary");
    }
    run(&mut command).report();
}

/// Prints the names of its environment and its open files.
const LOOKS: &str =
    r#"env >"$PROMPTS/env.$REMAND_PHASE"; ls -l /proc/self/fd >"$PROMPTS/fd.$REMAND_PHASE""#;

#[test]
fn agents_and_gates_have_a_closed_environment_and_three_files() {
    let play = Play::without_change(&Script::default());
    let prompts = play.seen("");
    let reviewer = format!(
        "{LOOKS}\nif grep -q fixed work.txt; then says approved fine; else says changes_requested no \"$(finding work.txt 1 'say fixed')\"; fi"
    );
    let fixer = format!("cat >/dev/null\n{LOOKS}\necho fixed >>work.txt\n");
    let gate = format!("PROMPTS='{}'; {LOOKS}", prompts.display()).replace('"', "\\\"");
    let settings = format!("gates = [[\"sh\", \"-c\", \"{gate}\"]]");
    let play = Play::new(&Script {
        reviewer: &reviewer,
        fixer: &fixer,
        settings: &settings,
        ..Script::default()
    });
    with_canaries(&play);
    play.is_ready(1);
    let of_every = [
        "HOME",
        "LC_ALL",
        "PATH",
        "PWD",
        "REMAND_PHASE",
        "REMAND_RUN",
        "REMAND_RUN_DIR",
        "TERM",
    ];
    let of_agents = [
        "REMAND_BASE",
        "REMAND_BRANCH",
        "REMAND_CHANGE",
        "REMAND_CYCLE",
        "REMAND_HEAD",
        "REMAND_ITEM",
        "REMAND_RESULT",
    ];
    for (phase, own, more) in [
        ("review", &play, &of_agents[..]),
        ("fix", &play, &of_agents),
        ("gate", &play, &[]),
    ] {
        let folder = if phase == "gate" {
            prompts.clone()
        } else {
            own.seen("")
        };
        let env = fs::read_to_string(folder.join(format!("env.{phase}"))).unwrap();
        let names: BTreeSet<&str> = env
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, _)| name)
            .collect();
        let expected: BTreeSet<&str> = of_every.iter().chain(more).copied().collect();
        assert_eq!(names, expected, "{phase}");
        assert!(!env.contains("canary"), "{env}");
        assert!(env.contains("TERM=dumb"), "{env}");
        let open = fs::read_to_string(folder.join(format!("fd.{phase}"))).unwrap();
        let open: Vec<&str> = open
            .lines()
            .filter(|line| line.contains(" -> ") && !line.contains(" -> /proc/"))
            .collect();
        assert_eq!(open.len(), 3, "{phase}: {open:#?}");
    }
}

#[test]
fn a_prompt_of_a_megabyte_of_feedback_is_on_stdin() {
    let reviewer = "says approved fine";
    let fixer = r#"cat >"$PROMPTS/prompt"; ps -eo args >"$PROMPTS/ps"; cat /proc/[0-9]*/environ >"$PROMPTS/environ" 2>/dev/null; echo fixed >>work.txt"#;
    let tables = "[limits]\nfeedback_kb = 1100\n";
    let play = Play::new(&Script {
        reviewer,
        fixer,
        tables,
        ..Script::default()
    });
    play.tick().report();
    let file = play.world.root().join("feedback.md");
    let line = "the marmalade cat sat on `work.txt` and $(said) \"nothing\"; it should say fixed\n";
    fs::write(&file, line.repeat((1 << 20) / line.len())).unwrap();
    play.world
        .remand(&["reject", "c1", "--file", file.to_str().unwrap()])
        .ok();
    play.tick().report();
    play.is_ready(1);
    let prompt = fs::read_to_string(play.seen("prompt")).unwrap();
    assert_eq!(prompt, play.prompt_of_run("r2"), "all of it arrived");
    assert!(
        prompt.len() > 1 << 20 && prompt.contains("the marmalade cat"),
        "{}",
        prompt.len()
    );
    let stored = play
        .world
        .sqlite("SELECT max(length(metadata)) FROM events WHERE event_type = 'work_rejected'");
    assert!(
        stored.parse::<usize>().unwrap() > 1_000_000,
        "the whole text is on the blackboard: {stored}"
    );
    for name in ["ps", "environ"] {
        let seen = fs::read(play.seen(name)).unwrap();
        assert!(
            !String::from_utf8_lossy(&seen).contains("marmalade"),
            "the prompt is in {name}"
        );
    }
}

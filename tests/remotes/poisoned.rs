//! A repository full of traps: none of them sees the forge's token, and none redirects the push.

use std::fs;
use std::path::PathBuf;

use super::{FIXES, Remotes};
use crate::support::play::Script;
use crate::support::pull_play::rejecting;
use crate::support::run;

const CANARY: &str = "canary-of-the-forge-0123";

/// All hooks known to git.
const HOOKS: &str = "applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg \
    commit-msg post-commit pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive \
    post-update reference-transaction push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman \
    p4-changelist p4-prepare-changelist p4-post-changelist p4-pre-submit post-index-change";

/// Settings that start a command, each with the trap as its value, and some that redirect. `TRAP
/// NAME` records its environment and passes its input on.
const SETTINGS: &str = "
core.fsmonitor=TRAP fsmonitor
core.sshCommand=TRAP ssh
core.pager=TRAP pager
core.editor=TRAP editor
sequence.editor=TRAP sequence
core.askPass=TRAPFILE
core.gitProxy=TRAPFILE
core.alternateRefsCommand=TRAP alternate
core.hooksPath=COMMON/hooks
credential.helper=!TRAP helper
diff.external=TRAP external
diff.trap.textconv=TRAP textconv
diff.trap.command=TRAP command
filter.trap.clean=TRAP clean
filter.trap.smudge=TRAP smudge
filter.trap.process=TRAP process
filter.trap.required=true
filter.lfs.clean=TRAP lfs
filter.lfs.required=true
merge.trap.driver=TRAP merge
merge.default=trap
merge.trap.recursive=trap
core.attributesFile=COMMON/attributes
gpg.program=TRAPFILE
gpg.ssh.program=TRAPFILE
commit.gpgSign=true
push.gpgSign=if-asked
tag.gpgSign=true
trailer.trap.command=TRAP trailer
interactive.diffFilter=TRAP interactive
alias.push=!TRAP alias
alias.status=!TRAP alias
alias.fetch=!TRAP alias
submodule.trap.update=!TRAP submodule
submodule.trap.url=EVIL
submodule.recurse=true
remote.origin.pushurl=EVIL
remote.origin.url=EVIL
remote.origin.uploadpack=TRAP uploadpack
remote.origin.receivepack=TRAP receivepack
remote.origin.vcs=trap
remote.pushDefault=evil
remote.evil.url=EVIL
branch.feature.pushRemote=evil
push.default=matching
url.EVIL.insteadOf=REMOTE
url.EVIL.pushInsteadOf=REMOTE
protocol.allow=always
protocol.ext.allow=always
uploadpack.packObjectsHook=TRAP pack
receive.procReceiveRefs=refs
maintenance.auto=true
extensions.worktreeConfig=true
include.path=COMMON/more
includeIf.gitdir:/.path=COMMON/more
";

/// Returns a script that plants all of it from a worktree.
fn plant(stage: &Remotes) -> String {
    let root = stage.play.world.root();
    let trap = stage.play.world.script(
        "trap",
        &format!(
            "mkdir -p '{0}'\nenv >\"{0}/${{1:-bare}}.$$\"\n[ -t 0 ] || cat\n",
            root.join("sprung").display()
        ),
    );
    let evil = evil(stage);
    stage
        .play
        .world
        .git(root, &["init", "--quiet", "--bare", evil.to_str().unwrap()]);
    let mut script = "common=$(git rev-parse --path-format=absolute --git-common-dir)\n".to_owned();
    script += "mkdir -p \"$common/hooks\" \"$common/info\"\n";
    for hook in HOOKS.split_whitespace() {
        script += &format!(
            "printf '#!/bin/sh\\nexec {} hook-{hook} </dev/null\\n' >\"$common/hooks/{hook}\"; chmod +x \"$common/hooks/{hook}\"\n",
            trap.display()
        );
    }
    script += "printf '* diff=trap filter=trap merge=trap\\nwork.txt filter=more\\nREADME.md filter=lfs\\n' >\"$common/info/attributes\"\n";
    script += &format!(
        "printf '[core]\\n\\tsshCommand = {0} more\\n[filter \"more\"]\\n\\tclean = {0} more\\n' >\"$common/more\"\n",
        trap.display()
    );
    for setting in SETTINGS.lines().filter(|line| !line.is_empty()) {
        let (key, value) = setting.split_once('=').unwrap();
        let fill = |text: &str| {
            text.replace("TRAPFILE", trap.to_str().unwrap())
                .replace("TRAP", trap.to_str().unwrap())
                .replace("EVIL", evil.to_str().unwrap())
                .replace("REMOTE", stage.remote.to_str().unwrap())
                .replace("COMMON", "'\"$common\"'")
        };
        script += &format!(
            "git config --file \"$common/config\" '{}' '{}'\n",
            fill(key),
            fill(value)
        );
    }
    script + "cp \"$common/more\" \"$(git rev-parse --absolute-git-dir)/config.worktree\"\n"
}

fn evil(stage: &Remotes) -> PathBuf {
    stage.play.world.root().join("evil.git")
}

/// Returns the names of the triggered traps, without duplicates.
fn sprung(stage: &Remotes) -> Vec<String> {
    let Ok(entries) = fs::read_dir(stage.play.world.root().join("sprung")) else {
        return Vec::new();
    };
    let mut names = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let seen = fs::read_to_string(entry.path()).unwrap_or_default();
        assert!(!seen.contains(CANARY), "{name} saw the token:\n{seen}");
        names.push(name.split('.').next().unwrap().to_owned());
    }
    names.sort();
    names.dedup();
    names
}

#[track_caller]
fn nothing_went_elsewhere(stage: &Remotes) {
    assert_eq!(
        stage.play.world.git(&evil(stage), &["for-each-ref"]),
        "",
        "the evil remote got something"
    );
    assert_eq!(sprung(stage), [""; 0], "git started what was planted");
}

/// Checks the traps with git as people use it.
#[track_caller]
fn the_traps_work(stage: &Remotes) {
    let naive = format!(
        "git status; git push '{}' HEAD:refs/heads/naive",
        stage.remote.display()
    );
    let mut command = stage.play.world.command("sh");
    run(command
        .arg("-c")
        .arg(naive)
        .env("GH_TOKEN", CANARY)
        .current_dir(&stage.play.worktree));
    let traps = fs::read_dir(stage.play.world.root().join("sprung"))
        .unwrap()
        .flatten();
    let told = traps.filter(|trap| fs::read_to_string(trap.path()).unwrap().contains(CANARY));
    let told: Vec<String> = told
        .map(|trap| trap.file_name().to_string_lossy().into_owned())
        .collect();
    for name in ["fsmonitor.", "hook-pre-push."] {
        assert!(
            told.iter().any(|trap| trap.starts_with(name)),
            "{name} did not go off: {told:?}"
        );
    }
    assert!(
        stage
            .play
            .world
            .git(&evil(stage), &["for-each-ref"])
            .contains("refs/heads/naive")
    );
}

#[test]
fn traps_that_an_agent_plants_during_its_run_see_no_token_and_lead_the_push_nowhere() {
    let stage = Remotes::new(&rejecting());
    let traps = plant(&stage);
    stage.play.fixer(&format!("{FIXES}{traps}"));
    stage.tick_with_token(CANARY);
    assert_eq!(
        stage.play.state(),
        "ready_for_human_review",
        "{}\n{:#?}",
        stage.play.why(),
        stage.play.events()
    );
    assert_eq!(stage.moves("feature"), [stage.remote_head("feature")]);
    assert_eq!(stage.runs(), 1);
    assert!(
        stage
            .play
            .count("events WHERE event_type = 'checkout_changed'")
            > 0,
        "it is told"
    );
    nothing_went_elsewhere(&stage);
    the_traps_work(&stage);
}

#[test]
fn traps_that_were_there_before_see_no_token_and_lead_the_push_nowhere() {
    let stage = Remotes::new(&Script {
        fixer: FIXES,
        ..rejecting()
    });
    let traps = plant(&stage);
    stage.play.sh(&stage.play.worktree, &traps);
    stage.tick_with_token(CANARY);
    assert_eq!(
        stage.play.state(),
        "ready_for_human_review",
        "{}\n{:#?}",
        stage.play.why(),
        stage.play.events()
    );
    assert_eq!(stage.moves("feature"), [stage.remote_head("feature")]);
    nothing_went_elsewhere(&stage);
}

/// A person's commit on top makes remand replay the fix in the poisoned repository, in its own
/// worktree.
#[test]
fn traps_see_no_token_when_a_fix_is_replayed() {
    let stage = Remotes::new(&rejecting());
    let traps = plant(&stage);
    let theirs = stage.by_person(
        "echo theirs >other.txt; git add -A; git commit --quiet -m Theirs; git push --quiet",
    );
    stage.play.fixer(&format!("{theirs}{FIXES}{traps}"));
    stage.tick_with_token(CANARY);
    assert_eq!(
        stage.play.state(),
        "ready_for_human_review",
        "{}\n{:#?}",
        stage.play.why(),
        stage.play.events()
    );
    assert_eq!(stage.moves("feature").len(), 2);
    nothing_went_elsewhere(&stage);
}

/// The configuration claims that the repository itself is elsewhere.
#[test]
fn a_common_dir_that_leads_elsewhere_is_not_followed_with_the_token() {
    let stage = Remotes::new(&rejecting());
    let traps = plant(&stage);
    let before = stage.remote_head("feature");
    let other = stage.play.world.root().join("other.git");
    run(stage
        .play
        .world
        .command("cp")
        .arg("-r")
        .arg(stage.play.repo.join(".git"))
        .arg(&other))
    .ok();
    stage.play.sh(
        &stage.play.repo,
        &format!(
            "cd '{}' && GIT_DIR=. && export GIT_DIR && {traps}",
            other.display()
        ),
    );
    let lead = format!(
        "echo '{}' >\"$(git rev-parse --absolute-git-dir)/commondir\"\n",
        other.display()
    );
    stage.play.fixer(&format!(
        "{FIXES}git commit --quiet -am 'By the agent'\n{lead}"
    ));
    stage.tick_with_token(CANARY);
    stage.is_ready();
    assert_eq!(stage.moves("feature"), [stage.remote_head("feature")]);
    assert_eq!(stage.subjects(), ["add work.txt", "By the agent"]);
    nothing_went_elsewhere(&stage);
    assert_eq!(
        stage
            .play
            .world
            .git(&other, &["rev-parse", "refs/heads/feature"]),
        before,
        "nothing was written to the other one"
    );
}

//! Decisions of a person at any stage, through the binary: skip, ready, waive, reopen, and a takeover
//! with its handback, with a running daemon, without one, and after one was killed.

use std::path::Path;

use crate::support::play::{Daemon, FIXES, NEVER_SATISFIED, Play, Script};
use crate::support::pull_play::PullPlay;
use crate::support::run;

/// Commits a file, leaves another one uncommitted, and waits to be ended.
const WORKS_AND_WAITS: &str = r#"
cat >/dev/null
echo committed >agent.txt
git add agent.txt
git commit --quiet --message "by the agent"
echo half >half.txt
touch "$PROMPTS/began"
while :; do sleep 0.1; done
"#;

/// Leaves a file uncommitted, and waits to be ended.
const EDITS_AND_WAITS: &str = r#"
cat >/dev/null
echo half >half.txt
touch "$PROMPTS/began"
while :; do sleep 0.1; done
"#;

/// Like the last one, in the middle of a `git add`.
const LOCKS_AND_WAITS: &str = r#"
cat >/dev/null
echo half >half.txt
: >"$(git rev-parse --git-dir)/index.lock"
touch "$PROMPTS/began"
while :; do sleep 0.1; done
"#;

fn with_fixer(fixer: &str) -> Script<'_> {
    Script {
        fixer,
        ..Script::default()
    }
}

/// Starts a daemon and waits until its agent has written its files.
fn in_the_middle(play: &Play) -> Daemon {
    let daemon = play.daemon();
    play.until("the agent has begun", || play.seen("began").exists());
    daemon
}

/// Kills the daemon, and waits until its shim has ended the agent.
fn killed_in_the_middle(play: &Play) {
    in_the_middle(play).kill();
    play.until("the agent has ended", || play.alive().is_empty());
}

fn because(play: &Play) -> String {
    play.world.why("c1")["because"].as_str().unwrap().to_owned()
}

fn read(worktree: &Path, file: &str) -> String {
    std::fs::read_to_string(worktree.join(file)).unwrap_or_default()
}

fn worktree_of(play: &Play) -> std::path::PathBuf {
    play.world
        .sqlite("SELECT worktree FROM changes WHERE change_id = 'c1'")
        .into()
}

/// S0-62, S1-25, GZ-11: a person continues where the agent was, while the daemon runs on.
#[test]
fn a_running_agent_is_ended_and_its_work_stays_for_the_person() {
    let play = Play::new(&with_fixer(WORKS_AND_WAITS));
    let daemon = in_the_middle(&play);
    let taken = play
        .world
        .json(&["takeover", "c1", "--why", "I know better"]);
    assert_eq!(taken["agent_ended"], true, "{taken:#}");
    assert_eq!(taken["why"]["because"], "taken_over");
    assert_eq!(taken["taken_over"], true);
    assert_eq!(play.alive(), [""; 0], "the agent is ended");
    assert_eq!(read(&play.worktree, "agent.txt"), "committed\n");
    assert_eq!(read(&play.worktree, "half.txt"), "half\n");
    let branch = play
        .world
        .git(&play.worktree, &["rev-parse", "--abbrev-ref", "HEAD"]);
    assert_eq!(branch, "feature");
    assert_eq!(play.kept("r2", "half.txt"), "half");
    assert_eq!(play.kept("r2", "agent.txt"), "committed");
    assert_eq!(play.count("runs WHERE ended IS NULL"), 0);

    let answer = play.answer();
    let worktree = play.worktree.to_str().unwrap();
    for part in [
        "taken over by",
        "I know better",
        worktree,
        "`remand handback c1`",
    ] {
        assert!(answer.contains(part), "{part:?} is not in {answer}");
    }
    let status = play.world.remand(&["status", "c1"]).ok().words();
    assert!(status.contains("taken over by"), "{status}");
    play.world
        .remand(&["takeover", "c1"])
        .fails(1, "already taken over");

    // Not while something is uncommitted; the commits become the new head.
    play.world
        .remand(&["handback", "c1"])
        .fails(1, "uncommitted changes: half.txt");
    let head = play
        .world
        .commit(&play.worktree, "work.txt", "fixed\n", "by hand");
    play.world
        .git(&play.worktree, &["switch", "--quiet", "--detach"]);
    play.world
        .remand(&["handback", "c1"])
        .fails(1, "is on a detached HEAD, not on feature");
    play.world
        .git(&play.worktree, &["switch", "--quiet", "feature"]);
    play.world.remand(&["handback", "c1"]).ok();
    play.wait_for_state("ready_for_human_review");
    assert_eq!(play.world.sqlite("SELECT head FROM changes"), head);
    assert_eq!(
        play.world
            .sqlite("SELECT state || ' ' || ended_by FROM rejections"),
        "skipped head_moved"
    );
    assert_eq!(
        play.world.sqlite(
            "SELECT metadata ->> 'action' FROM events WHERE event_type = 'instructed' ORDER BY id"
        ),
        "takeover\nhandback"
    );
    drop(daemon);
    play.check();
}

/// S0-62, S0-113, GZ-11: the daemon was killed, a person takes over, and a new daemon starts: it
/// touches nothing of theirs.
#[test]
fn a_new_daemon_does_not_touch_what_was_taken_over_after_the_old_one_was_killed() {
    let play = Play::without_change(&with_fixer(LOCKS_AND_WAITS));
    let world = &play.world;
    world.commit(&play.repo, "CLAUDE.md", "the base's\n", "rules");
    world.git(&play.worktree, &["rebase", "-q", "main"]);
    world.commit(&play.worktree, "CLAUDE.md", "the branch's\n", "other rules");
    world.remand_in(&play.worktree, &["review"]).ok();
    let head = play.head();
    killed_in_the_middle(&play);
    assert_eq!(read(&play.worktree, "CLAUDE.md"), "the base's\n");
    world.remand(&["takeover", "c1"]).ok();
    assert_eq!(
        play.count("runs WHERE ended IS NULL"),
        0,
        "{:#?}",
        play.events()
    );
    assert_eq!(read(&play.worktree, "CLAUDE.md"), "the branch's\n");
    assert_eq!(play.kept("r2", "half.txt"), "half");
    std::fs::write(play.worktree.join("mine.txt"), "by hand\n").unwrap();

    let daemon = play.daemon();
    play.becomes_quiet(&daemon);
    assert_eq!(because(&play), "taken_over");
    assert_eq!(read(&play.worktree, "mine.txt"), "by hand\n");
    assert_eq!(read(&play.worktree, "half.txt"), "half\n");
    assert_eq!(play.head(), head);

    // Without commits, the interrupted fix starts again.
    play.fixer(FIXES);
    world.git(&play.worktree, &["stash", "--quiet", "--include-untracked"]);
    let back = world
        .remand(&["handback", "c1", "--text", "say fixed"])
        .ok();
    assert!(
        back.stdout.contains("without new commits"),
        "{}",
        back.stdout
    );
    play.wait_for_state("ready_for_human_review");
    assert_eq!(play.count("work_items WHERE source = 'review_fix'"), 1);
    let prompt = play.prompt_of_run("r3");
    assert!(prompt.contains("say fixed"), "{prompt}");
    drop(daemon);
    play.is_ready(1);
}

/// S0-113: wherever the takeover is cut, the work stays, a copy is kept, and the run ends once.
#[test]
fn a_takeover_that_is_killed_is_finished_by_whoever_comes_next() {
    for point in [
        "takeover.recorded",
        "takeover.settle.before",
        "takeover.settle.after",
    ] {
        let play = Play::new(&with_fixer(EDITS_AND_WAITS));
        killed_in_the_middle(&play);
        let cut = run(play
            .world
            .remand_command(&["takeover", "c1"])
            .env("REMAND_CRASH_AT", point));
        assert_ne!(cut.status, 0, "{point} was not crossed");
        std::fs::write(play.worktree.join("mine.txt"), "by hand\n").unwrap();
        play.tick().report();
        assert_eq!(because(&play), "taken_over", "{point}");
        assert_eq!(play.count("runs WHERE ended IS NULL"), 0, "{point}");
        assert_eq!(read(&play.worktree, "mine.txt"), "by hand\n", "{point}");
        assert_eq!(read(&play.worktree, "half.txt"), "half\n", "{point}");
        assert_eq!(play.kept("r2", "half.txt"), "half", "{point}");
        play.check();
    }
}

/// S0-113: the daemon dies while it leaves the work to the person.
#[test]
fn a_daemon_that_dies_during_a_takeover_leaves_the_work_too() {
    for point in ["takeover.wip.before", "takeover.wip.after"] {
        let play = Play::new(&with_fixer(EDITS_AND_WAITS));
        let mut armed = play.world.remand_command(&["run"]);
        armed.env("REMAND_CRASH_AT", point);
        let mut daemon = play.daemon_from(armed);
        play.until("the agent has begun", || play.seen("began").exists());
        play.world.remand(&["takeover", "c1"]).ok();
        assert!(
            !daemon.child.wait().unwrap().success(),
            "{point} was not crossed"
        );
        assert_eq!(play.count("runs WHERE ended IS NULL"), 0, "{point}");
        assert_eq!(read(&play.worktree, "half.txt"), "half\n", "{point}");
        assert_eq!(play.kept("r2", "half.txt"), "half", "{point}");
        play.check();
    }
}

/// S0-62, S1-25: on a pull request, the commits of the person must be pushed first.
#[test]
fn commits_of_a_pull_request_are_pushed_before_the_handback() {
    let stage = PullPlay::new(&with_fixer(EDITS_AND_WAITS));
    let play = &stage.play;
    let before = stage.remote_head("feature");
    killed_in_the_middle(play);
    play.world.remand(&["takeover", "c1"]).ok();
    stage.due();
    std::fs::remove_file(play.worktree.join("half.txt")).unwrap();
    let head = play
        .world
        .commit(&play.worktree, "work.txt", "fixed\n", "by hand");
    stage.tick();
    assert_eq!(
        stage.remote_head("feature"),
        before,
        "nothing is pushed meanwhile"
    );
    assert_eq!(
        stage.bodies("/comments"),
        [""; 0],
        "nothing is posted meanwhile"
    );
    let refused = play.world.remand(&["handback", "c1"]);
    let push = refused.stderr.split('`').nth(1).unwrap().to_owned();
    refused.fails(1, "is not pushed");
    play.sh(play.world.root(), &push);
    assert_eq!(stage.remote_head("feature"), head);
    play.world.remand(&["handback", "c1"]).ok();
    stage.tick();
    let told = play.events().join("\n");
    assert_eq!(play.state(), "ready_for_human_review", "{told}");
    assert_eq!(stage.fixes(), (1, 0), "{told}");
    assert_eq!(play.world.sqlite("SELECT head FROM changes"), head);
    assert_eq!(play.count("work_items WHERE status = 'cancelled'"), 1);
    play.worktree_is_at(&head);
    play.check();
}

/// S0-1, S0-62, GZ-3: a person finishes the implementation of a task by hand.
#[test]
fn the_implementation_of_a_task_is_finished_by_hand() {
    let play = Play::without_change(&with_fixer(EDITS_AND_WAITS));
    let world = &play.world;
    world
        .remand_in(&play.repo, &["add", "Add a work file", "-a", "--local"])
        .ok();
    world
        .remand(&["takeover", "c1"])
        .fails(1, "no worktree yet");
    let daemon = in_the_middle(&play);
    world.remand(&["takeover", "c1"]).ok();
    let worktree = worktree_of(&play);
    assert_eq!(read(&worktree, "half.txt"), "half\n");
    std::fs::remove_file(worktree.join("half.txt")).unwrap();
    world.commit(&worktree, "work.txt", "fixed\n", "by hand");
    world.remand(&["handback", "c1"]).ok();
    play.wait_for_state("ready_for_human_review");
    let told = world.sqlite("SELECT (actor_id <> 'remand') || ' ' || (metadata ->> 'commits') FROM events WHERE event_type = 'implemented'");
    assert_eq!(told, "1 1");
    drop(daemon);
    play.check();
}

/// S1-25: the session of an interrupted Claude Code is resumed by hand.
#[test]
fn the_session_of_claude_code_is_offered() {
    let play = Play::without_change(&Script::default());
    let seen = play.seen("");
    let text = format!("PROMPTS='{}'\n{EDITS_AND_WAITS}", seen.display());
    let own = play.world.script("claudia", &text);
    let config = play.world.root().join("config/remand/config.toml");
    let before = std::fs::read_to_string(&config).unwrap();
    let tables = format!(
        "[agents.claudia]\nkind = \"claude\"\ncommand = [\"{}\"]\n\n[projects.calc]\nagent = \"claudia\"\n",
        own.display()
    );
    std::fs::write(&config, format!("{before}\n{tables}")).unwrap();
    play.world.remand_in(&play.worktree, &["review"]).ok();
    let daemon = in_the_middle(&play);
    let taken = play.world.json(&["takeover", "c1"]);
    let session = play
        .world
        .sqlite("SELECT session FROM runs WHERE run_id = 'r2'");
    assert!(!session.is_empty());
    let command = format!(
        "cd {} && {} --resume {session}",
        play.worktree.display(),
        own.display()
    );
    assert_eq!(taken["why"]["commands"][0], command.as_str(), "{taken:#}");
    let why = play.world.remand(&["why", "c1"]).ok().words();
    assert!(why.contains(&format!("--resume {session}")), "{why}");
    drop(daemon);
    play.check();
}

/// S0-53, S0-62, S0-96: the review is skipped, and the pull request tells what is open.
#[test]
fn a_skipped_review_opens_the_pull_request_with_its_open_findings() {
    let stage = PullPlay::unwatched(&Script {
        reviewer: NEVER_SATISFIED,
        fixer: "cat >/dev/null\necho more >>work.txt\n",
        tables: "[loop]\nmax_fix_cycles = 1\n",
        ..Script::default()
    });
    let play = &stage.play;
    play.world
        .remand_in(&play.repo, &["add", "Add a work file", "-a"])
        .ok();
    play.world
        .remand(&["skip", "c1"])
        .fails(1, "is not implemented yet");
    for args in [&["approve", "c1"][..], &["verdict", "c1", "APPROVED"]] {
        let refused = play.world.remand(args);
        assert!(refused.stderr.contains("remand why c1"), "{refused:?}");
        refused.fails(1, "is not implemented yet");
    }
    let refused = play.world.remand(&["review", "c1"]);
    assert!(!refused.stderr.contains("--worktree"), "{refused:?}");
    assert!(refused.stderr.contains("remand why c1"), "{refused:?}");
    refused.fails(1, "cannot start a review");
    stage.tick();
    assert_eq!(play.state(), "escalated", "{:#?}", play.events());
    let advice = "accept it (`remand approve c1`, or `remand skip c1` to open its PR)";
    assert!(play.answer().contains(advice), "{}", play.answer());
    play.world
        .remand(&["skip", "c1", "--why", "good enough"])
        .ok();
    assert_eq!(play.state(), "self_review_passed");
    let ended = "SELECT DISTINCT state || ' ' || ended_by FROM rejections WHERE state <> 'fixed'";
    assert_eq!(play.world.sqlite(ended), "skipped review_skipped");
    stage.tick();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    let number: i64 = play
        .world
        .sqlite("SELECT pr_number FROM changes")
        .parse()
        .unwrap();
    let pull = stage.forge.pull(number);
    let body = pull["body"].as_str().unwrap();
    assert!(body.contains("make it better"), "{body}");
    play.world
        .remand(&["skip", "c1"])
        .fails(1, "already has a PR");
    play.check();
}

/// S0-62, GZ-3: a task that a person accepts before its pull request can get it later, and is told so.
#[test]
fn a_task_that_was_accepted_before_its_pull_request_can_have_it_opened() {
    let stage = PullPlay::unwatched(&Script::default());
    let play = &stage.play;
    let run = |args: &[&str]| play.world.remand_in(&play.repo, args);
    for (id, accept) in [("c1", "approve"), ("c2", "ready")] {
        run(&["add", "Add a work file"]).ok();
        stage.tick();
        let accepted = run(&[accept, id]).ok();
        let words = accepted.words();
        assert!(
            words.contains("without a PR: none will be opened"),
            "{words}"
        );
        let skip = format!("remand skip {id}");
        let why = play.world.why(id);
        let answer = why["answer"].as_str().unwrap();
        assert!(
            answer.contains(&format!("no PR is opened unless you run `{skip}`")),
            "{answer}"
        );
        assert!(why["commands"].to_string().contains(&skip), "{why}");
        let waits = run(&["add", "Next", "--after", id]);
        assert!(waits.stderr.contains(&skip), "{}", waits.stderr);
        waits.fails(1, "has no pull request whose merge remand would see");
        run(&["skip", id]).ok();
        stage.tick();
        let opened = play.count("changes WHERE pr_number IS NULL");
        assert_eq!(opened, 0, "{:#?}", play.events());
        run(&["skip", id]).fails(1, "already has a PR");
    }
    run(&["add", "Local", "--local"]).ok();
    stage.tick();
    run(&["ready", "c3"]).ok();
    run(&["skip", "c3"]).fails(1, "there is no review to skip");
    play.check();
}

/// S0-62, GZ-3: what `why` offers for a change without automatic reviews works.
#[test]
fn an_unreviewed_change_can_skip_its_review_as_why_offers() {
    let play = Play::without_change(&Script::default());
    play.world
        .remand_in(&play.repo, &["add", "Add a work file", "--local"])
        .ok();
    play.tick().ok();
    assert_eq!(because(&play), "waits_for_start");
    let offered = play.world.why("c1")["commands"].to_string();
    assert!(offered.contains("remand skip c1"), "{offered}");
    play.world.remand(&["skip", "c1"]).ok();
    assert_eq!(play.state(), "ready_for_human_review");
    play.check();
}

/// S0-62, S0-96: a rejected change is marked as ready; nothing more is done for it.
#[test]
fn a_change_that_is_marked_as_ready_is_not_fixed() {
    let play = Play::new(&with_fixer(EDITS_AND_WAITS));
    let head = play.head();
    let daemon = in_the_middle(&play);
    play.world.remand(&["ready", "c1", "--why", "enough"]).ok();
    play.until("the agent has ended", || play.alive().is_empty());
    play.becomes_quiet(&daemon);
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    assert_eq!(
        play.world
            .sqlite("SELECT state || ' ' || ended_by FROM rejections"),
        "skipped marked_ready"
    );
    assert!(
        play.answer().contains("marked it as ready"),
        "{}",
        play.answer()
    );
    play.worktree_is_at(&head);
    play.world
        .remand(&["ready", "c1"])
        .fails(1, "already ready");
    drop(daemon);
    play.check();
}

/// S0-62, S0-96, S1-25: a waived finding is not fixed, is named to reviewers, and does not prevent
/// the approval.
#[test]
fn a_waived_finding_does_not_prevent_the_approval() {
    let play = Play::new(&Script {
        reviewer: r#"says changes_requested "work.txt is not fixed" "$(finding work.txt 1 'say fixed here')""#,
        fixer: "cat >/dev/null\necho more >>work.txt\n",
        tables: "[loop]\nmax_fix_cycles = 1\n",
        ..Script::default()
    });
    play.tick().report();
    assert_eq!(play.state(), "escalated", "{:#?}", play.events());
    play.world.remand(&["waive", "f1"]).fails(2, "--reason");
    play.world
        .remand(&["waive", "f9", "--reason", "so"])
        .fails(4, "no finding `f9`");
    let reason = "the old words are needed";
    play.world.remand(&["waive", "f1", "--reason", reason]).ok();
    assert_eq!(play.state(), "pending_self_review");
    play.tick().report();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    let last = play
        .world
        .sqlite("SELECT run_id FROM runs ORDER BY rowid DESC LIMIT 1");
    let prompt = play.prompt_of_run(&last);
    assert!(prompt.contains("## Waived findings"), "{prompt}");
    assert!(prompt.contains(reason), "{prompt}");
    assert_eq!(
        play.world.sqlite(
            "SELECT verdict || ' ' || raw_verdict FROM reviews ORDER BY rowid DESC LIMIT 1"
        ),
        "approved changes_requested"
    );
    assert_eq!(play.world.sqlite("SELECT outcome FROM findings"), "waived");
    play.world
        .remand(&["waive", "f1", "--reason", reason])
        .fails(1, "already waived");
    play.check();
}

/// S0-62, S0-96: a finding that is waived before its fix starts is not given to the fixer.
#[test]
fn a_fixer_is_not_given_a_waived_finding() {
    let two = r#"says changes_requested "two things" "$(finding work.txt 1 'say fixed here'), $(finding other.txt 1 'remove this file')""#;
    let reviewer = format!("if grep -q fixed work.txt; then says approved fine; else {two}; fi");
    let play = Play::new(&Script {
        reviewer: &reviewer,
        ..Script::default()
    });
    play.world.remand(&["work"]).ok();
    play.world
        .remand(&["waive", "f2", "--reason", "it stays"])
        .ok();
    assert_eq!(play.state(), "self_review_failed", "f1 is still asked for");
    play.tick().report();
    let prompt = play.prompt_of_run("r2");
    let feedback = prompt.split("f2 (waived)").next().unwrap();
    assert!(prompt.contains("say fixed here"), "{prompt}");
    assert!(
        feedback.contains("A person has waived this finding"),
        "{prompt}"
    );
    play.is_ready(1);
    assert_eq!(
        play.world.sqlite(
            "SELECT group_concat(outcome) FROM (SELECT outcome FROM findings ORDER BY finding_id)"
        ),
        "resolved,waived"
    );
}

/// S0-62, S0-96: a cancelled change continues with its review.
#[test]
fn a_closed_change_is_reopened_with_the_commits_made_since() {
    let play = Play::new(&Script::default());
    play.world.remand(&["reopen", "c1"]).fails(1, "not closed");
    // The approval of a person is not a review.
    play.world.remand(&["approve", "c1"]).ok();
    play.world.remand(&["cancel", "c1"]).ok();
    play.world
        .remand(&["approve", "c1"])
        .fails(1, "c1 is closed");
    play.world.remand(&["reopen", "c1"]).ok();
    assert_eq!(play.state(), "pending_self_review");
    play.world.remand(&["cancel", "c1"]).ok();
    let head = play
        .world
        .commit(&play.worktree, "work.txt", "fixed\n", "by hand");
    play.world
        .remand(&["reopen", "c1", "--why", "needed after all"])
        .ok();
    assert_eq!(play.world.sqlite("SELECT head FROM changes"), head);
    play.tick().report();
    play.is_ready(0);
    // A head that was approved is not reviewed again.
    play.world.remand(&["cancel", "c1"]).ok();
    play.world.remand(&["reopen", "c1"]).ok();
    assert_eq!(play.state(), "ready_for_human_review");
    play.world.remand(&["cancel", "c1"]).ok();
    play.world.git(
        &play.repo,
        &["worktree", "remove", play.worktree.to_str().unwrap()],
    );
    let gone = play.world.remand(&["reopen", "c1"]);
    let restore = gone.stderr.split('`').nth(1).unwrap().to_owned();
    gone.fails(1, "no longer exists");
    play.sh(play.world.root(), &restore);
    play.world.remand(&["reopen", "c1"]).ok();
    play.check();
}

/// S0-62: a task that never ran, a closed and a merged pull request are not reopened.
#[test]
fn what_cannot_be_reopened_says_what_to_do() {
    let stage = PullPlay::new(&Script::default());
    let play = &stage.play;
    stage.tick();
    stage.forge.close(stage.number);
    stage.tick();
    assert_eq!(play.state(), "closed", "{:#?}", play.events());
    let refused = play.world.remand(&["reopen", "c1"]);
    assert!(refused.stderr.contains("on GitHub"), "{}", refused.stderr);
    refused.fails(1, "is closed");
    play.world
        .remand_in(&play.repo, &["add", "-a", "--", "-$(touch x) it's"])
        .ok();
    play.world.remand(&["cancel", "c2"]).ok();
    let refused = play.world.remand(&["reopen", "c2"]);
    let quoted = r"`remand add -- '-$(touch x) it'\''s'`";
    assert!(refused.stderr.contains(quoted), "{}", refused.stderr);
    refused.fails(1, "before it was implemented");
    play.check();
}

/// A rejection during a takeover is fixed after it: the fix that was queued for it meanwhile is
/// cancelled by the new head, and queued again.
#[test]
fn what_is_rejected_during_a_takeover_is_fixed_after_the_handback() {
    let play = Play::new(&Script::default());
    play.tick().ok();
    play.is_ready(1);
    play.world.remand(&["takeover", "c1"]).ok();
    play.world
        .commit(&play.worktree, "mine.txt", "mine\n", "by hand");
    play.world
        .remand(&["reject", "c1", "use the other parser"])
        .report();
    play.tick().report();
    play.world.remand(&["handback", "c1"]).ok();
    play.tick().ok();
    play.is_ready(2);
    assert_eq!(play.count("rejections WHERE state = 'pending'"), 0);
    assert_eq!(
        play.count("work_items WHERE source = 'review_fix' AND status = 'completed'"),
        2
    );
}

//! Lost or duplicated work, as observed elsewhere: none of it happens here.

use std::time::{Duration, Instant};

use crate::support::play::{FIXES, Play, Script, WAITS_AND_FIXES};

/// LOST-1: at any moment, a reader sees a finished item with its event and its consequences, or
/// none of them.
#[test]
fn a_finished_item_is_never_seen_without_what_follows() {
    let play = Play::new(&Script::default());
    let half_done = "
        SELECT w.item_id FROM work_items w WHERE w.source = 'review_fix' AND w.status = 'completed' AND NOT (
            EXISTS (SELECT 1 FROM work_items n WHERE n.idempotency_key = 'code_review:' || w.item_id)
            AND EXISTS (SELECT 1 FROM events e WHERE e.event_type = 'fix_committed' AND e.target_id = w.item_id)
            AND EXISTS (SELECT 1 FROM rejections j WHERE j.item_id = w.item_id AND j.state = 'fixed')
            AND EXISTS (SELECT 1 FROM changes c WHERE c.change_id = w.change_id AND c.total_fixes = 1))
        UNION ALL
        SELECT w.item_id FROM work_items w WHERE w.source = 'code_review' AND w.status = 'completed' AND NOT (
            EXISTS (SELECT 1 FROM reviews r WHERE r.item_id = w.item_id)
            AND EXISTS (SELECT 1 FROM events e WHERE e.event_type IN ('work_rejected', 'work_approved')
                AND e.metadata ->> 'item_id' = w.item_id))
        UNION ALL
        SELECT j.rejection_id FROM rejections j WHERE j.state = 'in_fix' AND NOT EXISTS (
            SELECT 1 FROM events e WHERE e.event_type = 'fix_created' AND e.target_id = j.item_id)";
    let db = play.world.db();
    let over = std::sync::atomic::AtomicBool::new(false);
    let looks = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let conn = rusqlite::Connection::open(&db).unwrap();
            let mut statement = conn.prepare(half_done).unwrap();
            let mut looks = 0;
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                let found: Option<String> = statement
                    .query([])
                    .unwrap()
                    .next()
                    .unwrap()
                    .map(|row| row.get(0).unwrap());
                assert_eq!(found, None, "half done");
                looks += 1;
            }
            looks
        });
        play.tick().report();
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        watcher.join().unwrap()
    });
    assert_eq!(play.state(), "ready_for_human_review");
    assert!(looks > 1, "only {looks} looks were taken");
}

/// LOST-2: a run whose claim has ended by the time it ends writes nothing; its work is saved, and
/// that of the next one counts.
#[test]
fn a_run_that_lost_its_claim_writes_nothing() {
    let play = Play::new(&Script {
        fixer: WAITS_AND_FIXES,
        ..Script::default()
    });
    let daemon = play.daemon();
    play.until("the fixer begins", || !play.noted("began").is_empty());
    // As if another process had claimed it meanwhile.
    play.world
        .sqlite("UPDATE work_items SET epoch = epoch + 1 WHERE source = 'review_fix'");
    play.let_go("go");
    play.wait_for("SELECT count(*) FROM runs WHERE ended IS NULL", "0");
    play.until("nothing of it is alive", || play.alive().is_empty());
    assert_eq!(
        play.world
            .sqlite("SELECT status FROM work_items WHERE source = 'review_fix'"),
        "claimed"
    );
    assert_eq!(play.count("events WHERE event_type = 'fix_committed'"), 0);
    assert_eq!(play.world.sqlite("SELECT total_fixes FROM changes"), "0");
    assert!(daemon.stop().success());

    // Its holder is known to be dead now.
    play.tick().report();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    assert_eq!(play.world.sqlite("SELECT total_fixes FROM changes"), "1");
    assert_eq!(play.count("events WHERE event_type = 'fix_committed'"), 1);
    assert_eq!(
        play.world
            .git(&play.worktree, &["log", "--oneline", "main..HEAD"])
            .lines()
            .count(),
        2
    );
    play.check();
}

/// LOST-3, LOST-4: the daemon dies, and its agent's tools in their own sessions continue: they are
/// gone before the next run starts.
#[test]
fn what_a_killed_daemon_left_alive_is_ended_before_anything_else() {
    let fixer = r#"
cat >/dev/null
echo "run $REMAND_RUN" >>"$PROMPTS/began"
for left in "$PROMPTS"/tool.*; do
    [ -e "$left" ] && kill -0 "$(cat "$left")" 2>/dev/null && echo overlap >>"$PROMPTS/overlap"
done
setsid sh -c 'echo $$ >"$0/tool.$1"; while :; do sleep 0.1; done' "$PROMPTS" "$REMAND_RUN" >/dev/null 2>&1 &
until [ -e "$PROMPTS/tool.$REMAND_RUN" ]; do sleep 0.02; done
[ "$(wc -l <"$PROMPTS/began")" -gt 1 ] || sleep 60
echo fixed >>work.txt
"#;
    let play = Play::new(&Script {
        fixer,
        ..Script::default()
    });
    let daemon = play.daemon();
    play.until("the tool runs", || {
        std::fs::read_dir(play.world.root().join("prompts-seen"))
            .unwrap()
            .flatten()
            .any(|f| f.file_name().to_string_lossy().starts_with("tool."))
    });
    daemon.kill();
    let daemon = play.daemon();
    play.wait_for_state("ready_for_human_review");
    assert!(daemon.stop().success());
    assert_eq!(play.noted("began").lines().count(), 2);
    assert_eq!(
        play.noted("overlap"),
        "",
        "the second run met what the first had left"
    );
    play.check();
}

/// LOST-4: a process that an agent leaves behind in its own session is terminated with the run, and
/// reported.
#[test]
fn a_tool_that_an_agent_leaves_behind_is_ended() {
    let fixer = format!("setsid sleep 300 >/dev/null 2>&1 &\n{FIXES}");
    let play = Play::new(&Script {
        fixer: &fixer,
        ..Script::default()
    });
    play.tick().report();
    assert_eq!(play.state(), "ready_for_human_review");
    assert_eq!(play.alive(), Vec::<String>::new());
    let told = play.world.sqlite(
        "SELECT summary FROM events WHERE event_type = 'run_finished' AND target_id = 'r2'",
    );
    assert_eq!(told, "r2 ended (agent): 1 leftover process was killed");
}

/// LOST-5: a grandchild that holds stdout open does not extend the run until it ends.
#[test]
fn a_grandchild_that_holds_stdout_does_not_delay_the_end() {
    let fixer = format!("sleep 300 &\n{FIXES}");
    let play = Play::new(&Script {
        fixer: &fixer,
        ..Script::default()
    });
    let begun = Instant::now();
    play.tick().report();
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(play.state(), "ready_for_human_review");
    play.check();
}

/// LOST-6: an agent's own commits count, and so do its uncommitted changes.
#[test]
fn an_agents_own_commits_and_the_rest_beside_them_count() {
    let fixer = "cat >/dev/null\necho one >one.txt\ngit add one.txt\ngit commit -qm 'my own'\necho fixed >>work.txt\n";
    let play = Play::new(&Script {
        fixer,
        ..Script::default()
    });
    play.tick().report();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    let log = play
        .world
        .git(&play.worktree, &["log", "-3", "--format=%s"]);
    assert_eq!(
        log,
        "Address review feedback (cycle 1)\nmy own\nadd work.txt"
    );
    let told = play
        .world
        .sqlite("SELECT summary FROM events WHERE event_type = 'fix_committed'");
    assert_eq!(told, "fix 1 committed: 2 files in 2 commits");

    // The agent commits everything: nothing is left for remand to commit, and it still counts as a
    // fix.
    let fixer = "cat >/dev/null\necho fixed >>work.txt\ngit commit -qam 'all by myself'\n";
    let play = Play::new(&Script {
        fixer,
        ..Script::default()
    });
    play.tick().report();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    assert_eq!(
        play.world
            .git(&play.worktree, &["log", "-1", "--format=%s"]),
        "all by myself"
    );
    play.check();
}

/// LOST-7: someone's uncommitted work in the worktree is neither overwritten nor committed for
/// them: a person is asked.
#[test]
fn unsaved_work_of_a_person_is_never_touched() {
    let play = Play::new(&Script::default());
    play.world.remand(&["work"]).report();
    std::fs::write(play.worktree.join("work.txt"), "mine, not saved\n").unwrap();
    std::fs::write(play.worktree.join("new.txt"), "mine too\n").unwrap();
    play.tick().report();
    assert_eq!(play.state(), "escalated");
    assert!(
        play.why()
            .contains("has uncommitted changes: work.txt, new.txt"),
        "{}",
        play.why()
    );
    assert_eq!(
        std::fs::read_to_string(play.worktree.join("work.txt")).unwrap(),
        "mine, not saved\n"
    );
    assert_eq!(
        std::fs::read_to_string(play.worktree.join("new.txt")).unwrap(),
        "mine too\n"
    );
    assert_eq!(
        play.count("runs JOIN work_items USING (item_id) WHERE source = 'review_fix'"),
        0
    );
    play.check();
}

/// LOST-7: the work of an agent that failed is kept on a ref, completely.
#[test]
fn the_work_of_a_failed_run_is_kept_on_a_ref() {
    let fixer = "cat >/dev/null\necho committed >>work.txt\ngit commit -qam half\necho dirty >>work.txt\necho new >new.txt\nexit 9\n";
    let play = Play::new(&Script {
        fixer,
        ..Script::default()
    });
    let head = play.world.git(&play.worktree, &["rev-parse", "HEAD"]);
    play.tick().report();
    assert_eq!(play.state(), "escalated");
    assert_eq!(play.world.git(&play.worktree, &["rev-parse", "HEAD"]), head);
    assert_eq!(
        play.world.git(&play.worktree, &["status", "--porcelain"]),
        ""
    );
    let kept = |file: &str| {
        play.world
            .git(&play.repo, &["show", &format!("refs/remand/wip/r2:{file}")])
    };
    assert_eq!(kept("work.txt"), "work\ncommitted\ndirty");
    assert_eq!(kept("new.txt"), "new");
    let told = play
        .world
        .sqlite("SELECT metadata ->> 'wip' FROM events WHERE event_type = 'work_failed'");
    assert_eq!(
        told,
        play.world
            .git(&play.repo, &["rev-parse", "refs/remand/wip/r2"])
    );
}

/// LOST-8: no branch is deleted, not by a cancel, not by an escalation, not by the end of the loop.
#[test]
fn no_branch_is_ever_deleted() {
    let play = Play::new(&Script::default());
    play.another("second");
    play.another("third");
    let branches = play
        .world
        .git(&play.repo, &["branch", "--format=%(refname:short)"]);
    assert_eq!(branches, "feature\nmain\nsecond\nthird");
    play.tick().report();
    play.world.remand(&["cancel", "c1"]).ok();
    play.world.remand(&["approve", "c2"]).ok();
    play.world
        .remand(&["verdict", "c3", "NEEDS_DISCUSSION"])
        .ok();
    play.tick().report();
    assert_eq!(
        play.world
            .git(&play.repo, &["branch", "--format=%(refname:short)"]),
        branches
    );
    assert!(play.worktree.join("work.txt").exists(), "nor a worktree");
    play.check();
}

/// LOST-9: a recorded commit is not made again: if killed while the gates ran, only the gates run
/// again.
#[test]
fn a_recorded_commit_is_not_made_again() {
    let script = Script {
        fixer: "cat >/dev/null\necho ran >>\"$PROMPTS/began\"\necho fixed >>work.txt\n",
        ..Script::default()
    };
    let play = Play::without_change(&script);
    let seen = play.world.root().join("prompts-seen");
    let gate = play.world.script(
        "gate",
        &format!(
            "echo ran >>'{0}/gates'\nuntil [ -e '{0}/go' ]; do sleep 0.02; done\n",
            seen.display()
        ),
    );
    let config = play.world.root().join("config/remand/config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(
        &config,
        format!("gates = [[\"{}\"]]\n{text}", gate.display()),
    )
    .unwrap();
    play.world.remand_in(&play.worktree, &["review"]).ok();
    for rounds in 1..=2 {
        let daemon = play.daemon();
        play.until("the gate runs", || {
            play.noted("gates").lines().count() == rounds
        });
        daemon.kill();
    }
    let head = play
        .world
        .sqlite("SELECT head_after FROM runs WHERE head_after IS NOT NULL");
    play.let_go("go");
    play.tick().report();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    assert_eq!(
        play.world.git(&play.worktree, &["rev-parse", "HEAD"]),
        head,
        "the same commit"
    );
    assert_eq!(
        play.world
            .git(&play.worktree, &["log", "--oneline", "main..HEAD"])
            .lines()
            .count(),
        2
    );
    assert_eq!(play.noted("began").lines().count(), 1, "the agent ran once");
    play.check();
}

/// LOST-10: an agent that writes into the main checkout by its absolute path is detected.
#[test]
fn a_write_into_the_main_checkout_is_found_out() {
    let play = Play::without_change(&Script::default());
    let reaches_out = |play: &Play| {
        let fixer = format!(
            "cat >/dev/null\necho fixed >>work.txt\necho oops >>'{}/README.md'\n",
            play.repo.display()
        );
        play.world.script("fixer", &fixer);
    };
    reaches_out(&play);
    play.world.remand_in(&play.worktree, &["review"]).ok();
    play.tick().report();
    let told = play
        .world
        .sqlite("SELECT summary FROM events WHERE event_type = 'checkout_changed'");
    assert!(
        told.starts_with("changed outside the worktree during r2: ") && told.contains("README.md"),
        "{told}"
    );
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "reported, as configured"
    );

    let tables = "[loop]\nmain_checkout = \"escalate\"\n";
    let play = Play::without_change(&Script {
        tables,
        ..Script::default()
    });
    reaches_out(&play);
    play.world.remand_in(&play.worktree, &["review"]).ok();
    play.tick().report();
    assert_eq!(play.state(), "escalated");
    assert!(
        play.why().contains("the main checkout changed during r2"),
        "{}",
        play.why()
    );
}

/// LOST-11: a failed `git status` is not a clean worktree: no agent is run because of it.
#[test]
fn a_look_that_failed_is_no_proof() {
    let play = Play::new(&Script::default());
    play.world.remand(&["work"]).report();
    let git = which("git");
    let broken = play.world.root().join("broken");
    std::fs::write(&broken, "").unwrap();
    play.world.script(
        "git",
        &format!(
            "if [ -e '{}' ]; then for word; do [ \"$word\" = status ] && {{ echo 'fatal: index file corrupt' >&2; exit 128; }}; done; fi\nexec {git} \"$@\"\n",
            broken.display()
        ),
    );
    play.tick().report();
    assert_eq!(
        play.count("runs JOIN work_items USING (item_id) WHERE source = 'review_fix'"),
        0,
        "no agent ran"
    );
    assert_eq!(play.state(), "escalated");
    assert!(play.why().contains("index file corrupt"), "{}", play.why());
    std::fs::remove_file(broken).unwrap();
    play.world.remand(&["retry", "c1"]).ok();
    play.tick().report();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    play.check();
}

/// LOST-3: every blackboard counts its runs from r1; one that terminates leftovers of its own r1
/// must not terminate another's.
#[test]
fn a_run_of_the_same_name_on_another_blackboard_is_left_alone() {
    let waits = format!(
        "echo began >\"$PROMPTS/reviewing\"\nuntil [ -e \"$PROMPTS/go\" ]; do sleep 0.02; done\n{}",
        crate::support::play::REVIEWS_FIXED
    );
    let script = || Script {
        reviewer: &waits,
        ..Script::default()
    };
    let (first, second) = (Play::new(&script()), Play::new(&script()));
    let daemons = (first.daemon(), second.daemon());
    for play in [&first, &second] {
        play.until("the review begins", || !play.noted("reviewing").is_empty());
    }
    for play in [&first, &second] {
        play.let_go("go");
        play.wait_for_state("ready_for_human_review");
    }
    assert!(daemons.0.stop().success() && daemons.1.stop().success());
    for play in [&first, &second] {
        let ends = play
            .world
            .sqlite("SELECT group_concat(run_id || ' ' || ended, ', ') FROM (SELECT * FROM runs ORDER BY started_at)");
        assert_eq!(ends, "r1 agent, r2 agent, r3 agent");
    }
}

fn which(program: &str) -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file());
    found
        .unwrap_or_else(|| panic!("there is no {program}"))
        .display()
        .to_string()
}

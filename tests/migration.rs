//! Blackboards of version 2, as that version left them: one that was stopped in the middle of a fix
//! continues, and every command reads all of them. The rows are in `fixtures/blackboard-v2-*.sql`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::support::play::{Play, Script};
use crate::support::pull_play::{PullPlay, rejecting};
use crate::support::{Output, World};

const SCHEMA: &str = include_str!("fixtures/blackboard-v2-schema.sql");
const FIX: &str = include_str!("fixtures/blackboard-v2-fix.sql");
const PUSH: &str = include_str!("fixtures/blackboard-v2-push.sql");
const PUSH_FORGE: &str = include_str!("fixtures/blackboard-v2-push-forge.json");
const STORIES: [&str; 4] = [
    include_str!("fixtures/blackboard-v2-stories-1.sql"),
    include_str!("fixtures/blackboard-v2-stories-2.sql"),
    include_str!("fixtures/blackboard-v2-stories-3.sql"),
    include_str!("fixtures/blackboard-v2-stories-4.sql"),
];

/// The agents of the stopped fix: `first` is requested and written, then `fixed`.
const REVIEWER: &str = r#"
if grep -q fixed work.txt; then says approved "it is fixed now"
elif grep -q first work.txt; then says changes_requested "work.txt is not fixed" "$(finding work.txt 2 'say fixed here')"
else says changes_requested "the first is missing" "$(finding work.txt 1 'say first here')"; fi
"#;
const FIXER: &str = "cat >/dev/null\necho fixed >>work.txt\necho done\n";

const FIRST_FIX: &str = "Address review feedback (cycle 1)

Asked for:
- work.txt:1: say first here

Remand-Change: c1
Remand-Item: w3
Remand-Cycle: 1
";

const PULL_FIX: &str = "Address review feedback (cycle 1)

For pull request #1.

Asked for:
- work.txt:1: this line

Remand-Change: c1
Remand-Item: w2
Remand-Cycle: 1
";

#[test]
fn a_local_fix_that_version_2_was_killed_in_is_finished_by_a_tick() {
    let play = killed_in_a_fix();
    play.tick().report();
    play.is_ready(2);
    finished_once(&play);
}

#[test]
fn a_local_fix_that_version_2_was_killed_in_is_finished_by_the_daemon() {
    let play = killed_in_a_fix();
    let daemon = play.daemon();
    play.wait_for_state("ready_for_human_review");
    assert!(daemon.stop().success(), "{}", play.log());
    play.is_ready(2);
    finished_once(&play);
}

#[test]
fn a_program_killed_while_it_migrates_leaves_a_blackboard_that_goes_on() {
    for point in ["commit.migrate.before", "commit.migrate.after"] {
        let play = killed_in_a_fix();
        let mut first = play.world.remand_command(&["tick"]);
        // Nothing is crossed, and the program does not die, if version 2 is the newest.
        first.env("REMAND_CRASH_AT", point).output().unwrap();
        play.world.remand(&["check"]).ok();
        play.tick().report();
        play.is_ready(2);
        finished_once(&play);
    }
}

/// Asserts that the second fix of c1 was made once, with its complete prompt; the paused change was
/// left alone.
#[track_caller]
fn finished_once(play: &Play) {
    let world = &play.world;
    let log = world.git(&play.repo, &["log", "--format=%B", "main..feature"]);
    for (trailer, count) in [("Remand-Item: w3", 1), ("Remand-Item: w6", 1)] {
        assert_eq!(log.matches(trailer).count(), count, "{log}");
    }
    let text = fs::read_to_string(play.worktree.join("work.txt")).unwrap();
    assert_eq!(text, "work\nfirst\nfixed\n");
    assert_eq!(
        world.sqlite("SELECT run_id, ended IS NOT NULL AND ended <> 'agent' FROM runs WHERE item_id = 'w6' ORDER BY 1"),
        "r5|1\nr6|0"
    );
    let prompt = play.prompt_of_run("r6");
    for told in ["say fixed here", "and no tabs"] {
        assert!(prompt.contains(told), "{told:?} is not in {prompt}");
    }
    assert_eq!(
        world.sqlite("SELECT rejection_id, state, item_id FROM rejections ORDER BY 1"),
        "j1|fixed|w3\nj2|in_fix|w4\nj3|fixed|w6"
    );
    assert_eq!(
        world.sqlite("SELECT finding_id, outcome FROM findings WHERE change_id = 'c1' ORDER BY 1"),
        "f1|resolved\nf3|resolved"
    );
    assert_eq!(
        world.sqlite(
            "SELECT state, fix_cycle, total_fixes, final_verdict FROM changes ORDER BY change_id"
        ),
        "ready_for_human_review|2|2|APPROVED\nrefining|0|0|CHANGES_REQUESTED"
    );
    assert_eq!(
        world.sqlite("SELECT status, attempt FROM work_items WHERE item_id = 'w4'"),
        "blocked|0"
    );
    world.remand(&["approve", "c1"]).ok();
    assert_eq!(play.state(), "approved");
    world.remand(&["resume", "c2"]).ok();
    play.tick().report();
    assert_eq!(
        world.sqlite("SELECT state FROM changes WHERE change_id = 'c2'"),
        "ready_for_human_review"
    );
    play.check();
}

#[test]
fn a_push_that_version_2_wrote_down_and_did_not_make_is_made_once() {
    let stage = killed_in_a_push();
    assert_eq!(stage.pushes(), 0);
    pushed_and_answered_once(&stage);
}

#[test]
fn a_push_that_version_2_made_and_did_not_write_down_is_not_made_again() {
    let stage = killed_in_a_push();
    let remote = stage.remote.to_str().unwrap();
    stage
        .play
        .world
        .git(&stage.play.worktree, &["push", "-q", remote, "feature"]);
    assert_eq!(stage.pushes(), 1);
    pushed_and_answered_once(&stage);
}

#[track_caller]
fn pushed_and_answered_once(stage: &PullPlay) {
    let (play, fix) = (&stage.play, stage.play.head());
    stage.tick();
    stage.tick();
    stage.is_ready(1);
    assert_eq!(stage.pushes(), 1);
    assert_eq!(stage.remote_head("feature"), fix, "no other fix was made");
    assert_eq!(stage.subjects().len(), 2, "{:?}", stage.subjects());
    assert_eq!(
        play.world
            .sqlite("SELECT result IS NOT NULL FROM intents WHERE kind = 'push'"),
        "1"
    );
    assert_eq!(
        stage.posted("POST", "/replies").len(),
        1,
        "bob is answered once"
    );
    assert_eq!(stage.posted("POST", "/requested_reviewers").len(), 1);
    stage.review("bob", "APPROVED", "", &[]);
    stage.tick();
    assert_eq!(play.state(), "approved", "{:#?}", play.events());
    stage.forge.merge(stage.number, "bob");
    stage.tick();
    assert_eq!(play.state(), "merged", "{:#?}", play.events());
    play.check();
}

#[test]
fn every_command_reads_the_blackboard_of_a_fix_that_was_killed() {
    let play = killed_in_a_fix();
    reads_everything(&play.world, FIX);
    reads_the_repository(&play.world);
    has_keys(&play.world, &[STATUS_KEYS, STATUS_KEYS_OF_REVIEWS]);
}

#[test]
fn every_command_reads_the_blackboard_of_a_push_that_was_killed() {
    let stage = killed_in_a_push();
    reads_everything(&stage.play.world, PUSH);
    reads_the_repository(&stage.play.world);
    has_keys(&stage.play.world, &[STATUS_KEYS, STATUS_KEYS_OF_A_PULL]);
}

/// It opens the blackboard in its own way, and changes nothing.
#[test]
fn doctor_reads_a_blackboard_that_nobody_has_migrated_yet() {
    let play = killed_in_a_fix();
    let output = play.world.remand(&["doctor", "--json"]);
    is_well("doctor --json", &output);
    let report = &output.stdout;
    assert!(report.contains("blackboard"), "{report}");
}

#[test]
fn a_backup_of_a_blackboard_that_nobody_has_migrated_yet_is_made() {
    let play = killed_in_a_fix();
    let copy = play.world.root().join("copy.db");
    play.world.remand(&["backup", copy.to_str().unwrap()]).ok();
    let conn = rusqlite::Connection::open(&copy).unwrap();
    let version: i64 = conn
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(version, 2, "the copy is as the blackboard was");
}

#[test]
fn every_command_reads_the_first_quarter_of_the_stories() {
    read_stories(STORIES[0]);
}

#[test]
fn every_command_reads_the_second_quarter_of_the_stories() {
    read_stories(STORIES[1]);
}

#[test]
fn every_command_reads_the_third_quarter_of_the_stories() {
    read_stories(STORIES[2]);
}

#[test]
fn every_command_reads_the_last_quarter_of_the_stories() {
    read_stories(STORIES[3]);
}

/// Contents of the fixtures: a reader that is tested on them is tested on all of this.
#[test]
fn the_stories_have_the_types_and_codes_that_version_2_wrote() {
    let mut found = BTreeSet::new();
    for rows in all_stories() {
        let conn = memory(rows);
        found.extend(CODES.iter().flat_map(|sql| column(&conn, sql)));
    }
    for line in CODES_OF_VERSION_2
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let (kind, codes) = line.split_once(": ").unwrap();
        for code in codes.split(", ") {
            assert!(
                found.remove(&format!("{kind}: {code}")),
                "{kind}: {code} is in no story"
            );
        }
    }
    assert!(found.is_empty(), "not listed: {found:#?}");
}

const CODES: &[&str] = &[
    "SELECT 'event: ' || event_type FROM events",
    "SELECT 'change: ' || state FROM changes",
    "SELECT 'hold: ' || hold_kind FROM changes WHERE hold_kind IS NOT NULL",
    "SELECT 'item: ' || source || ' ' || status FROM work_items",
    "SELECT 'rejection: ' || state FROM rejections",
    "SELECT 'run: ' || coalesce(ended, 'open') FROM runs",
    "SELECT 'review: ' || verdict FROM reviews",
    "SELECT 'finding: ' || outcome || coalesce(' ' || resolution, '') FROM findings",
    "SELECT 'feedback: ' || kind || coalesce(' ' || state, '') || ' ' || trust FROM feedback",
    "SELECT 'intent: ' || kind || ' ' || coalesce(result, 'open') FROM intents",
    "SELECT 'proposal: ' || iif(outcome = 'done', 'done', 'refused') FROM proposals",
    "SELECT 'shadow: ' || iif(prompt IS NULL, 'without a prompt', 'with a prompt') FROM shadows",
    "SELECT 'shadow review: ' || coalesce(verdict, 'none') FROM shadow_reviews",
    "SELECT 'escalated by: ' || (metadata ->> 'bound') FROM events WHERE event_type = 'escalated' AND metadata ->> 'bound' IS NOT NULL",
    "SELECT 'held for: ' || (metadata ->> 'kind') FROM events WHERE event_type = 'held' AND metadata ->> 'kind' IS NOT NULL",
    "SELECT 'instructed: ' || (metadata ->> 'action') FROM events WHERE event_type = 'instructed' AND metadata ->> 'action' IS NOT NULL",
    "SELECT 'PR changed: ' || (metadata ->> 'what') FROM events WHERE event_type = 'pr_changed'",
    "SELECT 'review posted as: ' || (metadata ->> 'as') FROM events WHERE event_type = 'review_posted'",
    "SELECT 'reloaded: ' || (metadata ->> 'cause') FROM events WHERE event_type = 'reloaded'",
    "SELECT 'configuration: ' || coalesce(changed_kind, 'in effect') FROM configuration",
];

const CODES_OF_VERSION_2: &str = "
    event: checkout_changed, daemon_ended, edits_undone, escalated, feedback_received, fix_committed, fix_created, fix_pushed, gate_failed, head_moved, held, instructed, posted, pr_adopted, pr_changed, pruned, reloaded, resumed, review_posted, review_requeued, review_unclear, run_finished, run_lost, run_started, setup_run, shadowed, skipped, state_changed, work_approved, work_cancelled, work_claimed, work_completed, work_created, work_failed, work_rejected, worktree_made
    change: addressing_feedback, approved, awaiting_pr_feedback, closed, escalated, merged, pending_self_review, ready_for_human_review, refining, reviewing_pr, self_reviewing
    hold: environment, no_agent
    item: code_review available, code_review blocked, code_review cancelled, code_review completed, code_review failed, manual available, review_fix blocked, review_fix cancelled, review_fix claimed, review_fix completed, review_fix failed
    rejection: escalated, fixed, in_fix, pending, skipped, superseded
    run: agent, daemon_gone, idle_limit, lost, not_started, open, stopped, total_limit
    review: approved, changes_requested, needs_discussion, unclear
    finding: addressed, disputed, open, resolved judged, resolved not_raised_again
    feedback: issue_comment may_make_work, issue_comment ours, issue_comment shown_only, person may_make_work, review APPROVED may_make_work, review CHANGES_REQUESTED may_make_work, review CHANGES_REQUESTED ours, review CHANGES_REQUESTED shown_only, review COMMENTED ours, review COMMENTED shown_only, review DISMISSED may_make_work, review DISMISSED ours, review DISMISSED shown_only, review_comment may_make_work, review_comment ours, review_comment shown_only
    intent: answer done, ask done, ask open, note done, note not_needed, note open, push done, push given_up, push moved, push open, push taken_back, review comment, review dismissed, review given_up, review issue_comment, review open, review request_changes
    proposal: done, refused
    shadow: with a prompt
    shadow review: changes_requested, unclear
    escalated by: cycles, money, no_progress, prompt_size, reverted, time, tokens, total_fixes, unreadable
    held for: configuration, environment, no_agent
    instructed: accept_git_settings, approve, budget, cancel, max_fix_cycles, pause, post, refine, reload, resume, retry, shadow, start, stop, verdict
    PR changed: closed, dismissed, merged, reopened, retargeted, unwanted, wanted
    review posted as: comment, dismissed, issue_comment, request_changes
    reloaded: noticed, request, signal
    configuration: in effect
";

/// Sentences by which version 2 distinguished cases: later versions have codes for them.
#[test]
fn the_stories_have_the_sentences_that_version_2_told_cases_by() {
    let boards: Vec<_> = all_stories().map(memory).collect();
    for (table, text, likes) in SENTENCES {
        let sql = format!("SELECT count(*) FROM {table} WHERE {text} LIKE ?1");
        for like in *likes {
            let is_there = boards.iter().any(|conn| {
                conn.query_row(&sql, [like], |row| row.get::<_, i64>(0))
                    .unwrap()
                    > 0
            });
            assert!(is_there, "{table}.{text}: {like}");
        }
    }
}

const SENTENCES: &[(&str, &str, &[&str])] = &[
    (
        "rejections",
        "reason",
        &[
            "the PR was closed",
            "the PR was merged",
            "somebody pushed while the PR was closed",
            "the review was dismissed%",
            "superseded by j%",
            "cancelled by ada%",
            "approved by ada",
            "ada moved the head to %",
            "github moved the head to %",
            "% is closed",
            "% exceeded max fix cycles (%",
            "% makes no progress: %",
            "% used all % fixes of its life %",
            "the agent changed nothing%",
            "the gates are red%",
            "the fix must not be pushed: %",
            "the fix agent % failed: %",
            "% wants a discussion: %",
            "% took our fix % back with %",
            "% runs in a row vanished %",
            "the branch feature is gone from the remote",
        ],
    ),
    (
        "feedback",
        "outcome",
        &[
            "ours",
            "context",
            "rejected",
            "approved",
            "it was dismissed",
            "it says nothing",
            "it came with a review that %",
            "it requests changes and does not say which",
            "% requests changes, and that still stands",
            "it approves %, and the head is % now",
            "it is about %, and the head is % now%",
            "it was said before % came%",
        ],
    ),
    (
        "feedback",
        "trust_reason",
        &[
            "remand wrote it",
            "its author's permission on the repository is %",
            "its author has no permission on the repository",
            "its author's account is gone",
            "the bot % is listed",
            "the bot % is not listed",
            "it is by another remand%",
        ],
    ),
    (
        "proposals",
        "outcome",
        &[
            "there is no change %",
            "missing field %",
            "% lines in a day are no proposals%",
        ],
    ),
    ("intents", "trouble", &["%"]),
    ("evaluator_troubles", "reason", &["%"]),
];

/// Version 2 stored only a sentence for rejections that it left behind at a bound.
#[test]
fn rejections_that_version_2_skipped_have_the_code_of_their_reason() {
    let world = World::new();
    let (_, rows) = stories(STORIES[1]).next().unwrap();
    let skipped = "UPDATE rejections SET state = 'skipped', reason = ";
    load(
        &world,
        &format!(
            "{rows}
            {skipped}'c1 exceeded max fix cycles (2)' WHERE rejection_id = 'j1';
            INSERT INTO events (event_type, actor_id, target_type, target_id, change_id, summary, metadata)
            SELECT 'skipped', 'remand', 'change', change_id, change_id, reason || '; going on as on_max_cycles says',
                json_object('reason', reason, 'bound', 'cycles')
            FROM rejections WHERE rejection_id = 'j1';
            UPDATE work_items SET status = 'cancelled', claimed_by = NULL, lease_expires_at = NULL,
                completed_at = created_at, failure_reason = 'no move'
            WHERE item_id = (SELECT item_id FROM rejections WHERE rejection_id = 'j2');
            {skipped}'no move' WHERE rejection_id = 'j2';
            {skipped}'c1 is merged' WHERE rejection_id = 'j3';\n"
        ),
        &[],
    );
    let ended = |id| world.json(&["show", id])["ended_by"].clone();
    assert_eq!(
        ["j1", "j2", "j3"].map(ended),
        ["bound_passed", "not_runnable", "change_over"]
    );
}

#[test]
fn a_bare_rejection_in_an_old_blackboard_is_fixed_like_any_other() {
    let play = ready_after_version_2();
    play.insert("work_rejected", "change", "c1", "say please at the end");
    is_fixed_for(&play, "say please at the end");
}

#[test]
fn a_bare_approval_in_an_old_blackboard_counts() {
    let play = ready_after_version_2();
    play.insert("work_approved", "change", "c1", "good");
    play.tick().report();
    assert_eq!(play.state(), "approved", "{:#?}", play.events());
    play.check();
}

/// Events by another program, in another form: unusable parts are left out, the summary is the
/// feedback.
#[test]
fn a_rejection_with_unknown_and_wrongly_typed_keys_is_fixed_for_its_summary() {
    for metadata in [
        r#"{"colour": "blue", "nested": {"a": [1, null, true]}}"#,
        r#"{"findings": "none", "line": "twelve", "verdict": 7, "body": ["x"], "head": 3, "gate": 3, "base": []}"#,
        r#"{"findings": {"text": "x"}, "feedback": "g1", "supersedes": "yes", "left_out": "many", "review_id": 4, "item_id": 9}"#,
        r#"{"findings": [{"path": 5, "line": "12", "severity": "dreadful", "text": "in words"}, "only words", 7, null], "reason_code": "x"}"#,
    ] {
        let play = ready_after_version_2();
        play.world.sqlite(&format!(
            "INSERT INTO events (event_type, target_type, target_id, summary, metadata)
             VALUES ('work_rejected', 'change', 'c1', 'say please at the end', '{metadata}')"
        ));
        is_fixed_for(&play, "say please at the end");
        for command in [
            &["status", "c1"][..],
            &["why", "c1"],
            &["show", "j4"],
            &["events"],
        ] {
            is_well(metadata, &play.world.remand(command));
            is_well(
                metadata,
                &play.world.remand(&[command, &["--json"]].concat()),
            );
        }
    }
}

/// They were appended after the program of version 2 was killed, and have not been read yet.
#[test]
fn bare_events_that_version_2_had_not_read_yet_are_read_after_the_migration() {
    let play = killed_in_a_fix();
    play.insert("work_approved", "change", "c2", "good as it is");
    play.insert("work_rejected", "change", "c1", "say please at the end");
    play.fixer("cat >/dev/null\necho fixed please >>work.txt\necho done\n");
    play.tick().report();
    assert_eq!(
        play.world
            .sqlite("SELECT rejection_id, state, item_id, by_person FROM rejections ORDER BY 1"),
        "j1|fixed|w3|0\nj2|skipped|w4|0\nj3|fixed|w6|0\nj4|fixed|w8|1",
        "{:#?}",
        play.events()
    );
    assert_eq!(
        play.world
            .sqlite("SELECT state FROM changes ORDER BY change_id"),
        "ready_for_human_review\napproved"
    );
    let prompt = play.prompt_of_run("r8");
    assert!(prompt.contains("say please at the end"), "{prompt}");
    play.check();
}

/// Asserts that a fix is made for the newest rejection, with this text in its prompt.
#[track_caller]
fn is_fixed_for(play: &Play, words: &str) {
    play.fixer("cat >/dev/null\necho please >>work.txt\necho done\n");
    play.tick().report();
    let newest = "FROM rejections JOIN work_items USING (item_id) ORDER BY event_id DESC LIMIT 1";
    assert_eq!(
        play.world.sqlite(&format!(
            "SELECT rejections.state, by_person, status {newest}"
        )),
        "fixed|1|completed",
        "{:#?}",
        play.events()
    );
    let item = play.world.sqlite(&format!("SELECT item_id {newest}"));
    let run = play
        .world
        .sqlite(&format!("SELECT run_id FROM runs WHERE item_id = '{item}'"));
    let prompt = play.prompt_of_run(&run);
    assert!(prompt.contains(words), "{prompt}");
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    play.check();
}

fn ready_after_version_2() -> Play {
    let play = killed_in_a_fix();
    play.tick().report();
    play.is_ready(2);
    play
}

/// The keys of `status c1 --json` in version 2: of any change, of one that was reviewed here, and
/// of one with a pull request.
const STATUS_KEYS: &str = "
    adopted_by auto_fix base branch budget budget.added_fix_cycles budget.cost_micros budget.fix_cycle
    budget.max_cost_micros budget.max_fix_cycles budget.max_run_ms budget.max_tokens budget.max_total_fixes
    budget.own_max_fix_cycles budget.run_ms budget.tokens budget.total_fixes change_id column created_at cycle
    decision detached doing escalated_from feedback final_verdict first_hold_at head held_until hold_kind
    hold_reason hold_repeats holds host human_review_required implementation_item_id last_hold last_run
    last_run.agent last_run.change_id last_run.cost_micros last_run.dir last_run.discarded last_run.ended
    last_run.ended_at last_run.epoch last_run.exit_status last_run.gate_output last_run.gate_rules last_run.gates
    last_run.head_after last_run.head_before last_run.item_id last_run.model last_run.rebased_onto
    last_run.refused last_run.run_id last_run.session last_run.started_at last_run.tokens on_max_cycles
    open_findings open_item open_item.asked_again open_item.attempt open_item.change_id open_item.claimed_by
    open_item.completed_at open_item.created_at open_item.epoch open_item.failure_reason open_item.fix_cycle
    open_item.gate_rounds open_item.item_id open_item.lease_expires_at open_item.lost_runs open_item.metadata
    open_item.metadata.branch open_item.metadata.fix_cycle open_item.metadata.implementation_work_item_id
    open_item.metadata.max_fix_cycles open_item.metadata.pr_number open_item.metadata.project_id
    open_item.metadata.repo open_item.metadata.review_comments open_item.metadata.worktree_path
    open_item.not_before open_item.priority open_item.project_id open_item.rejection_id open_item.source
    open_item.status open_item.title open_item.worktree own_worktree paused paused_by_person paused_by_rules
    pending_rejections pr pr_number project_id pull reviews setup_done shadow shadow_mode shadow_word state
    stopped title updated_at why why.answer why.because why.commands why.since why.until worktree";
const STATUS_KEYS_OF_REVIEWS: &str = "
    open_findings[].category open_findings[].finding_id open_findings[].line open_findings[].note
    open_findings[].outcome open_findings[].path open_findings[].resolution open_findings[].severity
    open_findings[].suggestion open_findings[].text reviews[].base reviews[].blocking reviews[].body
    reviews[].created_at reviews[].cycle reviews[].dialect reviews[].files reviews[].head reviews[].item_id
    reviews[].raw_verdict reviews[].reason reviews[].review_id reviews[].summary reviews[].tree reviews[].verdict";
const STATUS_KEYS_OF_A_PULL: &str = "
    feedback[].author feedback[].author_id feedback[].body feedback[].change_id feedback[].commit
    feedback[].created_at feedback[].event_id feedback[].feedback_id feedback[].forge_id feedback[].hunk
    feedback[].in_reply_to feedback[].is_person feedback[].kind feedback[].line feedback[].outcome feedback[].path
    feedback[].review feedback[].state feedback[].taken_in feedback[].trust feedback[].trust_reason feedback[].url
    pull.acted_on pull.author pull.base_ref pull.change_id pull.draft pull.failures pull.head_ref pull.head_sha
    pull.head_since pull.labels pull.next_read pull.number pull.opened_at pull.passed_over pull.project_id
    pull.read_at pull.state pull.title pull.trouble pull.url";

/// c1 is in its second fix, whose agent and daemon were killed; c2 is paused.
fn killed_in_a_fix() -> Play {
    let play = Play::without_change(&Script {
        reviewer: REVIEWER,
        fixer: FIXER,
        ..Script::default()
    });
    let (world, tree) = (&play.world, &play.worktree);
    let work = world.git(tree, &["rev-parse", "HEAD"]);
    let other = world.root().join("src/calc-other");
    let other = other.to_str().unwrap();
    world.git(
        &play.repo,
        &["worktree", "add", "-q", "-b", "other", other, &work],
    );
    let head = world.commit(tree, "work.txt", "work\nfirst\n", FIRST_FIX);
    let base = world.git(&play.repo, &["rev-parse", "main"]);
    load(
        world,
        FIX,
        &[("HEAD", &head), ("WORK", &work), ("BASE", &base)],
    );
    play
}

/// The fix of the pull request is committed, and its push is an intent.
fn killed_in_a_push() -> PullPlay {
    let stage = PullPlay::unwatched(&rejecting());
    let (world, tree) = (&stage.play.world, &stage.play.worktree);
    let head = world.git(tree, &["rev-parse", "HEAD"]);
    let fix = world.commit(tree, "work.txt", "work\nfixed\n", PULL_FIX);
    let base = world.git(&stage.play.repo, &["rev-parse", "main"]);
    let commits = [("FIX", fix.as_str()), ("HEAD", &head), ("BASE", &base)];
    load(world, PUSH, &commits);
    let forge = fill(world, PUSH_FORGE, &commits);
    fs::write(world.root().join("forge.json"), forge).unwrap();
    stage
}

/// Replaces the test's blackboard by these rows of version 2, and writes the output of each run
/// into its directory.
fn load(world: &World, rows: &str, commits: &[(&str, &str)]) {
    let db = world.db();
    for ending in ["", "-wal", "-shm"] {
        // Only the blackboard itself always exists.
        drop(fs::remove_file(format!("{}{ending}", db.display())));
    }
    fs::create_dir_all(db.parent().unwrap()).unwrap();
    let conn = rusqlite::Connection::open(&db).unwrap();
    fs::set_permissions(&db, fs::Permissions::from_mode(0o600)).unwrap();
    conn.execute_batch(&format!(
        "{SCHEMA}BEGIN;\n{}COMMIT;",
        fill(world, rows, commits)
    ))
    .unwrap();
    let mut runs = conn.prepare("SELECT dir FROM runs").unwrap();
    let dirs = runs.query_map([], |row| row.get::<_, String>(0)).unwrap();
    for dir in dirs.map(Result::unwrap) {
        fs::create_dir_all(&dir).unwrap();
        fs::write(format!("{dir}/stdout.0"), "done\n").unwrap();
    }
}

fn fill(world: &World, text: &str, commits: &[(&str, &str)]) -> String {
    let uname = rustix::system::uname();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut text = text
        .replace("@ROOT@", world.root().to_str().unwrap())
        .replace("@HOST@", uname.nodename().to_str().unwrap())
        .replace("@BOOT@", boot.trim())
        .replace("@REMAND@", env!("CARGO_BIN_EXE_remand"));
    for (name, sha) in commits {
        text = text
            .replace(&format!("@{name}@"), sha)
            .replace(&format!("@{name}_SHORT@"), &sha[..10]);
    }
    text
}

fn memory(rows: &str) -> rusqlite::Connection {
    let conn = rusqlite::Connection::open_in_memory().unwrap();
    conn.execute_batch(&format!("{SCHEMA}{rows}")).unwrap();
    conn
}

fn stories(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("-- story: ")
        .skip(1)
        .map(|story| story.split_once('\n').unwrap())
}

fn all_stories() -> impl Iterator<Item = &'static str> {
    let told = STORIES
        .into_iter()
        .flat_map(|text| stories(text).map(|(_, rows)| rows));
    told.chain([FIX, PUSH])
}

fn read_stories(text: &str) {
    for (name, rows) in stories(text) {
        println!("{name}");
        let world = World::new();
        world.config("[sandbox]\nkind = \"off\"\n");
        load(&world, rows, &[]);
        reads_everything(&world, rows);
    }
}

/// Runs every read-only command, and compares the output with the rows of version 2.
#[track_caller]
fn reads_everything(world: &World, rows: &str) {
    let old = memory(rows);
    world.remand(&["check"]).ok();
    keeps_every_row(world, &old);
    for command in looks(&old) {
        let words: Vec<&str> = command.split(' ').filter(|word| !word.is_empty()).collect();
        let output = world.remand(&words);
        is_well(&command, &output);
        if !words.contains(&"--json") {
            continue;
        }
        let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&output.stdout)
            .into_iter()
            .collect();
        let values =
            values.unwrap_or_else(|error| panic!("remand {command}: {error}: {}", output.stdout));
        if command == ALL_EVENTS {
            let found = values
                .iter()
                .map(|event| format!("{} {}", event["id"], event["event_type"].as_str().unwrap()));
            let stored = column(
                &old,
                "SELECT id || ' ' || event_type FROM events ORDER BY id",
            );
            assert_eq!(found.collect::<Vec<_>>(), stored);
        }
    }
}

#[track_caller]
fn keeps_every_row(world: &World, old: &rusqlite::Connection) {
    let now = rusqlite::Connection::open(world.db()).unwrap();
    assert_eq!(column(&now, "PRAGMA integrity_check"), ["ok"]);
    assert!(column(&now, "PRAGMA foreign_key_check").is_empty());
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('migrations', 'sqlite_sequence')";
    for table in column(old, tables) {
        let count = format!("SELECT count(*) FROM {table}");
        assert_eq!(column(&now, &count), column(old, &count), "{table}");
    }
}

const ALL_EVENTS: &str = "events --limit 100000 --json";

/// Returns the commands that read these rows: about everything as text and as JSON, about single
/// rows mostly as JSON.
fn looks(old: &rusqlite::Connection) -> Vec<String> {
    let mut both: Vec<String> = [
        "",
        "list",
        "list --all",
        "status",
        "events --limit 100000",
        "stats",
        "stats --shadow",
        "item list",
        "project list",
        "check",
        "evaluators list",
    ]
    .map(str::to_owned)
    .to_vec();
    for id in column(old, "SELECT change_id FROM changes") {
        both.extend(
            ["status", "show", "why", "events --change"].map(|command| format!("{command} {id}")),
        );
    }
    let pulls = "SELECT repo || '#' || number FROM pulls JOIN projects USING (project_id) WHERE repo IS NOT NULL";
    both.extend(column(old, pulls).iter().map(|pull| format!("why {pull}")));
    let mut json = Vec::new();
    for (table, id) in [
        ("work_items", "item_id"),
        ("runs", "run_id"),
        ("reviews", "review_id"),
        ("findings", "finding_id"),
        ("rejections", "rejection_id"),
    ] {
        let ids = column(old, &format!("SELECT {id} FROM {table}"));
        let of_one = match table {
            "work_items" => &["show", "item show"][..],
            "runs" => &["show", "log"],
            _ => &["show"],
        };
        both.extend(
            ids.iter()
                .take(1)
                .flat_map(|id| of_one.iter().map(move |command| format!("{command} {id}"))),
        );
        json.extend(ids.iter().skip(1).map(|id| format!("show {id} --json")));
    }
    let as_json: Vec<String> = both
        .iter()
        .map(|command| format!("{command} --json"))
        .collect();
    [both, as_json, json].concat()
}

/// Commands that also read the repository or the machine.
#[track_caller]
fn reads_the_repository(world: &World) {
    for command in ["diff c1", "doctor", "log c1"] {
        for json in [&[][..], &["--json"]] {
            let words: Vec<&str> = command.split(' ').chain(json.iter().copied()).collect();
            is_well(command, &world.remand(&words));
        }
    }
}

#[track_caller]
fn is_well(command: &str, output: &Output) {
    assert!(
        [0, 5].contains(&output.status),
        "remand {command}: {output:?}"
    );
    for bad in [
        "panicked",
        "cannot be read",
        "can't be read",
        "cannot read",
        "warn",
        "error:",
    ] {
        assert!(!output.stderr.contains(bad), "remand {command}: {output:?}");
    }
}

fn column(conn: &rusqlite::Connection, sql: &str) -> Vec<String> {
    let mut statement = conn.prepare(sql).unwrap();
    let cell = |row: &rusqlite::Row<'_>| {
        let value: rusqlite::types::Value = row.get(0)?;
        Ok(match value {
            rusqlite::types::Value::Integer(number) => number.to_string(),
            rusqlite::types::Value::Text(text) => text,
            value @ (rusqlite::types::Value::Null
            | rusqlite::types::Value::Real(_)
            | rusqlite::types::Value::Blob(_)) => panic!("{sql}: {value:?}"),
        })
    };
    statement
        .query_map([], cell)
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

/// Asserts that `status c1 --json` has at least these.
#[track_caller]
fn has_keys(world: &World, expected: &[&str]) {
    let output = world.remand(&["status", "c1", "--json"]);
    let found = keys(&serde_json::from_str(&output.stdout).unwrap());
    for key in expected.iter().flat_map(|text| text.split_whitespace()) {
        assert!(found.contains(key), "{key} is not in {found:#?}");
    }
}

/// Returns the keys of an object and of nested objects, as paths.
fn keys(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![(String::new(), value)];
    while let Some((path, value)) = open.pop() {
        match value {
            Value::Object(entries) => {
                for (key, value) in entries {
                    let path = format!("{path}.{key}").trim_start_matches('.').to_owned();
                    found.insert(path.clone());
                    open.push((path, value));
                }
            }
            Value::Array(entries) => {
                open.extend(entries.iter().map(|value| (format!("{path}[]"), value)));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    found
}

//! Read-only commands: `list status show why events log diff check`, and `remand` alone.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use super::{FIXER, Site};
use crate::support::{World, wait_for};

#[test]
fn an_empty_board_says_what_to_do() {
    let world = World::new();
    let output = world.remand(&[]).ok();
    assert_eq!(output.stdout, "The board is empty.\n");
    assert!(
        output.stderr.contains("remand project add"),
        "{}",
        output.stderr
    );
    assert_eq!(world.json(&[]), serde_json::json!([]));
    let site = Site::new();
    assert!(site.remand(&[]).ok().stderr.contains("remand review"));
}

#[test]
fn the_whole_loop_as_people_see_it() {
    let site = Site::with_agents(FIXER);
    insta::assert_snapshot!(site.shows(&[]), @"
    no daemon is running: start it with `remand run` or `remand service install`
    CHANGE  BOARD        FIX  TITLE         WHY                                             SINCE
    c1      Code review  0/2  add work.txt  code_review w1 is queued, no daemon is running  just now
    ");
    site.remand(&["tick"]).report();
    insta::assert_snapshot!(site.shows(&["list"]), @"
    no daemon is running: start it with `remand run` or `remand service install`
    CHANGE  BOARD             FIX  TITLE         WHY                        SINCE
    c1      Waiting approval  1/2  add work.txt  waiting for your approval  just now
    ");
    let status = site.shows(&["status", "c1"]);
    let (spent, rest): (Vec<&str>, Vec<&str>) =
        status.lines().partition(|line| line.starts_with("spent"));
    assert!(
        spent[0].contains("1 of 8 fixes") && spent[0].contains("of 4 h run time, $0.00 of $10.00"),
        "{spent:?}"
    );
    let silent = "(the run of fixer and the 2 runs of reviewer reported no cost: only the limits on time and fixes apply)";
    assert!(spent[0].ends_with(silent), "{spent:?}");
    insta::assert_snapshot!(rest.join("\n"), @"
    no daemon is running: start it with `remand run` or `remand service install`
    c1  add work.txt
      its review passed and it is waiting for your approval (approved: all is well, just now)  (just now)
        remand diff c1
        remand approve c1
        remand reject c1 --text …

    state      ready_for_human_review, Waiting approval (fix 1/2)
    project    site
    branch     feature/login → main
    head       SHA
    worktree   WORLD/src/site-feature-login
    review     v1 of SHA by reviewer: changes_requested, work.txt is wrong
    review     v2 of SHA by reviewer: approved, all is well
    fix        fix 1 committed: 2 files in 1 commit
    ");
    insta::assert_snapshot!(site.shows(&["status"]), @"
    no daemon is running: start it with `remand run` or `remand service install`
    changes    1 waiting approval
    items      0 available, 0 claimed, 0 blocked
    projects   1
    blackboard WORLD/state/remand/blackboard.db
    daemon     not running
    ");
    insta::assert_snapshot!(site.shows(&["why", "c1"]), @"
    no daemon is running: start it with `remand run` or `remand service install`
    c1
      its review passed and it is waiting for your approval (approved: all is well,
      just now)  (just now)
        remand diff c1
        remand approve c1
        remand reject c1 --text …
      maximum fixes per round: 2 (2 from `loop.max_fix_cycles` (default))

    EVENT  WHEN      TYPE           BY               WHAT
    8      just now  work_rejected  remand           changes requested: work.txt is
                                                     wrong
    9      just now  state_changed  remand           self_reviewing →
                                                     self_review_failed
                                                     (review_rejected)
    11     just now  state_changed  review_feedback  self_review_failed → refining
                                                     (fix_created)
    12     just now  fix_created    review_feedback  fix 1 of 2 created from 1
                                                     rejection
    15     just now  run_finished   remand           r2 ended (agent)
    17     just now  fix_committed  remand           fix 1 committed: 2 files in 1
                                                     commit
    18     just now  state_changed  remand           refining → pending_self_review
                                                     (fix_finished)
    21     just now  state_changed  remand           pending_self_review →
                                                     self_reviewing (review_claimed)
    24     just now  run_finished   remand           r3 ended (agent)
    26     just now  work_approved  remand           approved: all is well
    27     just now  state_changed  remand           self_reviewing →
                                                     self_review_passed
                                                     (review_approved)
    28     just now  state_changed  remand           self_review_passed →
                                                     ready_for_human_review
                                                     (local_only)
    ");
    let shown = site.shows(&["show", "v1"]);
    let name = "-c1-review-1.md";
    let (before, after) = shown.split_once(name).unwrap();
    let before = &before[..before.len() - "2026-11-16".len()];
    insta::assert_snapshot!(format!("{before}DATE{name}{after}"), @r#"
    v1  review 1 of c1, changes_requested
    summary    work.txt is wrong
    parsed as  contract: The review says changes_requested.
    reviewer   reviewer
    commit     SHA against SHA
    item       w1
    when       TIME (just now)
    file       WORLD/state/remand/reviews/site/DATE-c1-review-1.md

      The file is wrong.

      ```json
      {"findings":[{"severity":"high","category":"logic","file":"work.txt","line":1,"message":"work.txt is wrong","suggestion":"write better"}]}
      ```
      REVIEW_RESULT: changes_requested
      FINDINGS_COUNT: 1
      SEVERITY: high
      SUMMARY: work.txt is wrong
    "#);
    insta::assert_snapshot!(site.shows(&["show", "f1"]), @"
    f1 [resolved] high work.txt:1 work.txt is wrong
    change     c1
    category   logic
    suggestion write better
    resolution judged
    ");
    insta::assert_snapshot!(site.shows(&["show", "j1"]), @r#"
    j1  changes requested: work.txt is wrong
    state      fixed
    change     c1
    fix        w2
    event      8
    finding    f1 high work.txt:1 work.txt is wrong
    suggestion write better

      The file is wrong.

      ```json
      {"findings":[{"severity":"high","category":"logic","file":"work.txt","line":1,"message":"work.txt is wrong","suggestion":"write better"}]}
      ```
      REVIEW_RESULT: changes_requested
      FINDINGS_COUNT: 1
      SEVERITY: high
      SUMMARY: work.txt is wrong
    "#);
    insta::assert_snapshot!(site.shows(&["show", "w2"]), @r#"
    w2  Fix add work.txt
    source     review_fix
    status     completed
    priority   P1
    change     c1
    created    TIME (just now)
    attempt    1 (epoch 1)
    run        r2 by fixer: agent, status 0
    rejection  j1 (fixed): changes requested: work.txt is wrong

      {
        "branch": "feature/login",
        "fix_cycle": 0,
        "implementation_work_item_id": null,
        "max_fix_cycles": 2,
        "pr_number": null,
        "project_id": "site",
        "repo": null,
        "review_comments": "The file is wrong.\n\n```json\n{\"findings\":[{\"severity\":\"high\",\"category\":\"logic\",\"file\":\"work.txt\",\"line\":1,\"message\":\"work.txt is wrong\",\"suggestion\":\"write better\"}]}\n```\nREVIEW_RESULT: changes_requested\nFINDINGS_COUNT: 1\nSEVERITY: high\nSUMMARY: work.txt is wrong\n\n- [high] work.txt:1 work.txt is wrong\n\n",
        "worktree_path": "WORLD/src/site-feature-login"
      }
    "#);
    insta::assert_snapshot!(site.shows(&["why", "j1"]).lines().skip(1).take(2).collect::<Vec<_>>().join("\n"), @"
    j1
      the fix w2 addressed it
    ");
    insta::assert_snapshot!(site.shows(&["diff", "c1", "--cycle", "1"]), @"
    diff --git a/fixed b/fixed
    new file mode 100644
    index SHA..SHA
    diff --git a/work.txt b/work.txt
    index SHA..SHA 100644
    --- a/work.txt
    +++ b/work.txt
    @@ -1 +1 @@
    -work
    +better
    ");
    assert_eq!(site.shows(&["log", "r2"]), "done\n");
    assert_eq!(site.shows(&["log", "w2", "--stderr"]), "careful\n");
    assert!(
        site.shows(&["log", "c1"])
            .starts_with("REVIEW_RESULT: approved")
    );
    assert_eq!(
        site.shows(&["log", "c1", "-f"]),
        site.shows(&["log", "c1", "--raw"])
    );
    assert!(site.shows(&["show", "r2"]).contains("agent, status 0"));
    insta::assert_snapshot!(site.shows(&["check"]), @"ok  WORLD/state/remand/blackboard.db");
}

#[test]
fn json_has_the_shapes_that_are_documented() {
    let site = Site::with_agents(FIXER);
    site.remand(&["tick"]).report();
    let json = |args: &[&str]| site.world.json(args);
    let board = json(&["list", "--all"]);
    assert_eq!(board[0]["change_id"], "c1");
    assert_eq!(board[0]["state"], "ready_for_human_review");
    assert_eq!(board[0]["column"], "Waiting approval");
    assert_eq!(board[0]["cycle"], "fix 1/2");
    assert_eq!(board[0]["why"]["because"], "waits_for_approval");
    assert_eq!(board, json(&[]));
    let status = json(&["status", "c1"]);
    assert_eq!(status["reviews"].as_array().unwrap().len(), 2);
    assert_eq!(status["open_findings"], serde_json::json!([]));
    for shown in [
        &board[0],
        &status,
        &json(&["status"]),
        &json(&["why", "r1"]),
    ] {
        assert_eq!(shown["daemon_running"], false);
    }
    assert_eq!(status, json(&["show", "feature/login"]));
    assert_eq!(json(&["status"])["columns"]["Waiting approval"], 1);
    assert_eq!(json(&["show", "w2"])["runs"][0]["run_id"], "r2");
    assert_eq!(json(&["show", "r2"])["ended"], "agent");
    assert_eq!(json(&["show", "v1"])["change_id"], "c1");
    assert_eq!(json(&["show", "j1"])["state"], "fixed");
    assert_eq!(json(&["show", "f1"])["outcome"], "resolved");
    assert_eq!(json(&["show", "1"])["event_type"], "state_changed");
    assert_eq!(json(&["show", "site"])["project_id"], "site");
    let why = json(&["why", "c1"]);
    assert_eq!(why["id"], "c1");
    assert!(
        why["commands"][1]
            .as_str()
            .unwrap()
            .starts_with("remand approve")
    );
    assert!(!why["events"].as_array().unwrap().is_empty());
    assert!(is_time(why["since"].as_str().unwrap()));
    assert_eq!(json(&["log", "r2"])["text"], "done\n");
    let diff = json(&["diff", "c1"]);
    assert_eq!(diff["files"][1]["path"], "work.txt");
    assert_eq!(diff["to"], status["head"]);
    assert_eq!(json(&["check"])["ok"], true);
    let lines = site
        .remand(&["events", "--json", "--limit", "3"])
        .ok()
        .stdout;
    let events: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events.len(), 3);
    assert!(events[0]["id"].as_i64() < events[2]["id"].as_i64());
}

#[test]
fn a_huge_event_does_not_push_the_answer_of_why_off_the_screen() {
    let site = Site::under_review();
    let long = "word ".repeat(1_000);
    for _ in 0..12 {
        site.world.sqlite(&format!(
            "INSERT INTO events (event_type, target_type, target_id, change_id, summary)
             VALUES ('escalated', 'change', 'c1', 'c1', '{long}')"
        ));
    }
    let why = site.remand(&["why", "c1"]).ok().stdout;
    assert!(why.contains('…') && why.lines().count() < 60, "{why}");
    assert!(site.remand(&["events", "--limit", "1"]).stdout.len() > 1_900);
    let json = site.world.json(&["why", "c1"]);
    assert_eq!(json["events"][11]["summary"], long.as_str());
}

fn is_time(text: &str) -> bool {
    text.len() == 24 && text.ends_with('Z') && text.contains('T')
}

#[test]
fn what_is_not_there_is_not_found() {
    let site = Site::under_review();
    for (args, said) in [
        (&["show", "w7"][..], "no such work item: `w7`"),
        (&["show", "r7"], "no such run: `r7`"),
        (&["show", "v7"], "no such review: `v7`"),
        (&["show", "j7"], "no such rejection: `j7`"),
        (&["show", "f7"], "no such finding: `f7`"),
        (&["show", "7000"], "no such event: `7000`"),
        (&["show", "feature/logn"], "did you mean `feature/login`?"),
        (&["why", "nonsense at all"], "no such change"),
        (&["status", "c2"], "did you mean `c1`?"),
        (&["events", "--change", "c2"], "did you mean `c1`?"),
        (&["log", "r1"], "no such run: `r1`"),
        (&["log", "c1"], "`c1` has no run yet"),
        (&["diff", "c1", "--cycle", "1"], "c1 has no fix 1"),
        (&["diff", "x"], "no such change: `x`"),
    ] {
        site.remand(args).fails(4, said);
    }
    site.remand(&["log", "1"]).fails(2, "`1` is not a run");
    site.remand(&["diff", "c1", "--cycle", "0"]).fails(2, "0");
    site.remand(&["events", "--limit", "0"]).fails(2, "0");
    site.remand(&["log", "c1", "-f", "--json"])
        .fails(2, "cannot be used with");
}

/// Returns the first words of `why`, and the commands that it suggests.
fn why(site: &Site, id: &str) -> (String, String, Vec<String>) {
    let told = site.world.why(id);
    let commands = told["commands"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c.as_str().unwrap().to_owned())
        .collect();
    (
        told["because"].as_str().unwrap().to_owned(),
        told["answer"].as_str().unwrap().to_owned(),
        commands,
    )
}

#[test]
fn why_answers_for_whatever_a_change_waits_for() {
    let site = Site::under_review();
    let set = |sql: &str| site.world.sqlite(sql);
    let (because, answer, commands) = why(&site, "c1");
    assert_eq!(
        (because.as_str(), commands.join(", ").as_str()),
        ("queued", "remand run, remand tick")
    );
    assert_eq!(answer, "code_review w1 is queued; no daemon is running");

    set("UPDATE work_items SET not_before = '2999-01-01T00:00:00.000Z'");
    let (because, answer, _) = why(&site, "c1");
    assert_eq!(because, "delayed");
    assert!(
        answer.contains("is delayed until 2999-01-01T00:00:00.000Z (in "),
        "{answer}"
    );
    set("UPDATE work_items SET not_before = NULL");

    set("UPDATE changes SET held_until = '2999-01-01T00:00:00.000Z', hold_reason = 'no network'");
    let (because, answer, commands) = why(&site, "feature/login");
    assert_eq!(
        (because.as_str(), commands[0].as_str()),
        ("held", "remand resume c1")
    );
    assert!(
        answer.contains("held until 2999-01-01T00:00:00.000Z (in ")
            && answer.ends_with("no network"),
        "{answer}"
    );
    set("UPDATE changes SET held_until = NULL, hold_reason = NULL");

    set(
        "UPDATE work_items SET status = 'claimed', claimed_by = 'boot:1:1', lease_expires_at = '2999-01-01T00:00:00.000Z'",
    );
    let (because, answer, _) = why(&site, "c1");
    assert_eq!(because, "holder_died");
    assert!(
        answer.starts_with("the process that ran code_review w1 is dead"),
        "{answer}"
    );
    set("UPDATE work_items SET claimed_by = 'somebody'");
    assert!(
        why(&site, "c1")
            .1
            .contains("cannot tell whether that process is alive")
    );
    set("UPDATE work_items SET status = 'available', claimed_by = NULL, lease_expires_at = NULL");

    set("UPDATE work_items SET status = 'blocked'");
    assert_eq!(why(&site, "c1").0, "blocked");
    set("UPDATE work_items SET status = 'available'");

    site.world.config("[dispatch]\nslots = 1\n");
    let other = site.world.worktree(&site.repo, "other");
    site.world.remand_in(&other, &["review"]).ok();
    set(
        "UPDATE work_items SET status = 'claimed', claimed_by = 'boot:1:1', lease_expires_at = '2999-01-01T00:00:00.000Z' WHERE item_id = 'w2'",
    );
    let (because, answer, _) = why(&site, "c1");
    assert_eq!(
        (because.as_str(), answer.contains("1 of 1 are in use")),
        ("waits_for_slot", true),
        "{answer}"
    );
}

#[test]
fn why_answers_for_an_end() {
    let site = Site::with_agents("true\n");
    site.remand(&["tick"]).report();
    let (because, answer, commands) = why(&site, "c1");
    assert_eq!(because, "needs_you");
    assert!(answer.contains("Decide: "), "{answer}");
    assert!(
        commands
            .iter()
            .all(|command| command.starts_with("remand "))
            && !commands.is_empty(),
        "{commands:?}"
    );
    // The path of the world decides where the rest is wrapped.
    insta::assert_snapshot!(site.remand(&["why", "c1"]).held().stdout.lines().skip(1)
        .take(3).collect::<Vec<_>>().join("\n"), @"
    c1
      it needs you: the agent changed nothing. Decide: read the review and the
      agent's log (`remand log r2`); then `remand refine c1 --text …`,
    ");
    assert_eq!(
        site.world.json(&["status"])["needs_you"],
        serde_json::json!(["c1"])
    );
    site.remand(&["approve", "c1"]).ok();
    assert_eq!(
        why(&site, "c1").1,
        "it was approved by ada: ready to merge feature/login"
    );
    site.remand(&["cancel", "c1", "--why", "done elsewhere"])
        .ok();
    let (because, answer, _) = why(&site, "c1");
    assert_eq!(because, "closed");
    assert!(
        answer.ends_with("ada requested cancel: done elsewhere"),
        "{answer}"
    );
}

#[test]
fn why_answers_for_a_running_agent() {
    let site = Site::with_agents(FIXER);
    let gate = site.world.root().join("gate");
    let script = format!(
        "cat > /dev/null\necho thinking\nwhile [ ! -e {} ]; do sleep 0.05; done\n",
        gate.display()
    );
    site.world.script("reviewer", &script);
    let mut tick = site
        .world
        .remand_command(&["tick"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the run", || {
        site.world
            .sqlite("SELECT count(*) FROM runs WHERE pid IS NOT NULL")
            == "1"
    });
    let mut follow = site
        .world
        .remand_command(&["log", "r1", "-f"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut lines = BufReader::new(follow.stdout.take().unwrap());
    lines.read_line(&mut first).unwrap();
    assert_eq!(first, "thinking\n");
    let (because, answer, commands) = why(&site, "c1");
    assert_eq!(
        (because.as_str(), commands.join("").as_str()),
        ("running", "remand log r1 -f")
    );
    assert_eq!(answer, "code_review w1 is being run by reviewer (r1)");
    site.remand(&["pause", "c1"]).ok();
    assert!(why(&site, "c1").1.contains("may still finish"));
    std::fs::write(&gate, "").unwrap();
    tick.wait().unwrap();
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(follow.wait().unwrap().code(), Some(0));
}

#[test]
fn why_answers_for_an_event_that_made_no_work() {
    let site = Site::under_review();
    let event = |target: &str| {
        let insert = format!(
            "INSERT INTO events (event_type, target_type, target_id, summary) VALUES ('work_rejected', 'change', '{target}', 'no'); SELECT last_insert_rowid()"
        );
        site.world.sqlite(&insert)
    };
    let unknown = event("c99");
    assert_eq!(why(&site, &unknown).0, "waits_for_heartbeat");
    let known = event("c1");
    site.remand(&["reject", "c1", "--text", "so that the heartbeat looks"])
        .ok();
    let (because, answer, _) = why(&site, &unknown);
    assert_eq!(because, "skipped");
    assert!(answer.contains("unknown change `c99`"), "{answer}");
    let (because, answer, _) = why(&site, &known);
    assert_eq!(
        (because.as_str(), answer.as_str()),
        ("pending", "it became j2: it is waiting for its fix")
    );
    assert_eq!(why(&site, "1").0, "event");
}

#[test]
fn events_are_followed_and_filtered() {
    let site = Site::under_review();
    let other = site.world.worktree(&site.repo, "other");
    site.world.remand_in(&other, &["review"]).ok();
    assert_eq!(site.shows(&["events"]).lines().count(), 4);
    let ids = |args: &[&str]| {
        let mut all = vec!["events", "--json"];
        all.extend(args);
        let lines = site.remand(&all).ok().stdout;
        let id =
            |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].to_string();
        lines.lines().map(id).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ids(&["--change", "c2"]), "3 4");
    assert_eq!(ids(&["--since", "1", "--limit", "2"]), "2 3");
    assert_eq!(ids(&["--change", "c2", "--since", "3"]), "4");
    assert_eq!(ids(&["--limit", "1"]), "4");

    let mut follow = site
        .world
        .remand_command(&["events", "-f", "--change", "c1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    lines.next().unwrap().unwrap();
    site.remand(&["pause", "c2"]).ok();
    site.remand(&["pause", "c1", "--why", "seen live"]).ok();
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains("ada requested pause: seen live"), "{line}");
    follow.kill().unwrap();
    follow.wait().unwrap();
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let site = Site::under_review();
    site.world.sqlite(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
         INSERT INTO events (event_type, target_type, target_id, change_id, summary)
         SELECT 'skipped', 'change', 'c1', 'c1', hex(randomblob(500)) FROM n",
    );
    let mut child = site
        .world
        .remand_command(&["events", "--limit", "500"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap().as_str()
        ),
        (Some(0), "")
    );
}

//! Many tasks of one project: their order, and one run at a time in each worktree.

use std::fs;

use crate::support::play::Script;
use crate::support::pull_play::PullPlay;

/// Marks its worktree while it is at work there, and reports another mark.
const MARKS: &str = r#"
cat >/dev/null
mkdir "$PROMPTS/at-$(basename "$PWD")" || echo "$REMAND_CHANGE" >>"$PROMPTS/clashes"
echo "by $REMAND_CHANGE" >"$REMAND_CHANGE.txt"
git log -1 --format=%s >/dev/null
rmdir "$PROMPTS/at-$(basename "$PWD")"
"#;

/// S0-58, S1-76: ten tasks on three slots, two of them after others. They start by priority, age and id, never more than
/// three at a time, never two in one worktree, and each ends with its branch and pull request.
#[test]
fn ten_tasks_run_in_order_on_three_slots() {
    let stage = PullPlay::unwatched(&Script {
        fixer: MARKS,
        tables: "[dispatch]\nslots = 3\n",
        ..Script::default()
    });
    let play = &stage.play;
    let more: [&[&str]; 10] = [
        &["--priority", "P3"],
        &["--priority", "P3"],
        &[],
        &[],
        &["--after", "c1"],
        &["--after", "c2", "--priority", "P1"],
        &[],
        &[],
        &["--priority", "P1"],
        &["--priority", "P1"],
    ];
    for (number, more) in more.iter().enumerate() {
        let title = format!("Task {}", number + 1);
        let mut args = vec!["add", &title, "--no-review"];
        args.extend(*more);
        play.world.remand_in(&play.repo, &args).ok();
    }
    stage.tick();
    let ready = "changes WHERE state = 'ready_for_human_review'";
    assert_eq!(play.count(ready), 8, "{:#?}", play.events());
    for id in ["c1", "c2"] {
        let sql = format!("SELECT pr_number FROM changes WHERE change_id = '{id}'");
        stage
            .forge
            .merge(play.world.sqlite(&sql).parse().unwrap(), "ada");
    }
    stage.tick();
    let begun = play.world.sqlite(
        "SELECT group_concat(change_id, ' ') FROM (SELECT change_id FROM events WHERE event_type = 'work_claimed'
             AND metadata ->> 'source' = 'manual' ORDER BY id)",
    );
    assert_eq!(begun, "c9 c10 c3 c4 c7 c8 c1 c2 c6 c5");
    let overlaps = |of: &str| {
        play.count(&format!(
            "runs AS a JOIN runs AS b ON a.run_id <> b.run_id AND a.started_at < b.ended_at AND b.started_at < a.ended_at {of}"
        ))
    };
    assert_eq!(overlaps("AND a.worktree = b.worktree"), 0);
    assert_eq!(
        fs::read_to_string(play.seen("clashes")).unwrap_or_default(),
        ""
    );
    // At the start of each run, at most two others are running.
    let at_once = "(SELECT count(*) AS others FROM runs AS a JOIN runs AS b ON a.run_id <> b.run_id AND b.started_at <= a.started_at
         AND a.started_at < b.ended_at GROUP BY a.run_id HAVING others > 2)";
    assert_eq!(play.count(at_once), 0);
    let branches = play.world.git(
        &stage.remote,
        &[
            "for-each-ref",
            "--format=%(refname:short)",
            "refs/heads/remand",
        ],
    );
    assert_eq!(branches.lines().count(), 10, "{branches}");
    for number in 1..=10 {
        let files = play.world.git(
            &stage.remote,
            &["ls-tree", "--name-only", &format!("remand/task-{number}")],
        );
        assert!(files.contains(&format!("c{number}.txt")), "{files}");
    }
    play.check();
}

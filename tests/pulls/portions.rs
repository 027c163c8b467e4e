//! More feedback than fits in one prompt goes into further runs of the same fix; feedback that was
//! in no prompt is never answered.

use serde_json::{Value, json};

use crate::support::play::Script;
use crate::support::pull_play::{PullPlay, quiet};

/// Changes `work.txt` in every run, and answers every finding of its prompt.
const ANSWERS_ALL: &str = r#"
prompt="$PROMPTS/fix.$$"
cat >"$prompt"
echo fixed >>work.txt
ids=$(sed -nE 's/^([a-z0-9.]+) \([a-z]+, [a-z]+\)$/{"id": "\1", "answer": "fixed", "reason": "Done as \1."}/p' "$prompt" | paste -sd, -)
printf '```json\n{"answers": [%s]}\n```\n' "$ids"
"#;

fn answering() -> Script<'static> {
    Script {
        fixer: ANSWERS_ALL,
        ..quiet()
    }
}

/// Returns `n` inline comments of about 1.4 KB, each with its own name.
fn comments(n: usize) -> Vec<String> {
    (1..=n)
        .map(|n| format!("comment-{n:03}- {}", "rename this variable ".repeat(66)))
        .collect()
}

fn inline(texts: &[String]) -> Vec<(&str, i64, &str)> {
    texts
        .iter()
        .map(|text| ("work.txt", 1, text.as_str()))
        .collect()
}

/// Returns the prompts of all fixes, oldest first.
fn prompts(stage: &PullPlay) -> Vec<String> {
    let runs = stage.play.world.sqlite(
        "SELECT run_id FROM runs JOIN work_items USING (item_id) WHERE source = 'review_fix' ORDER BY runs.rowid",
    );
    runs.lines()
        .map(|run| stage.play.prompt_of_run(run))
        .collect()
}

/// Returns the payloads of the replies to inline comments.
fn answers(stage: &PullPlay) -> Vec<Value> {
    let payloads = stage
        .play
        .world
        .sqlite("SELECT payload FROM intents WHERE kind = 'answer' ORDER BY rowid");
    payloads
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn rejections(stage: &PullPlay) -> String {
    stage
        .play
        .world
        .sqlite("SELECT group_concat(state, ' ') FROM rejections")
}

#[track_caller]
fn pushed_once(stage: &PullPlay) {
    assert_eq!(
        stage.play.count("events WHERE event_type = 'fix_pushed'"),
        1,
        "{:#?}",
        stage.play.events()
    );
    assert_eq!(stage.pushes(), 1, "one push for all runs of the fix");
    assert_eq!(
        stage.play.count("work_items WHERE source = 'review_fix'"),
        1
    );
}

/// US-4, FR-2, FR-3: 45 inline comments of 1.4 KB and the review's own text are all in prompts, and
/// all answered.
#[test]
fn forty_five_comments_and_the_review_itself_are_told_and_answered() {
    let stage = PullPlay::new(&answering());
    let texts = comments(45);
    stage.review(
        "bob",
        "CHANGES_REQUESTED",
        "The names are misleading everywhere.",
        &inline(&texts),
    );
    stage.tick();

    assert_eq!(
        stage.play.state(),
        "ready_for_human_review",
        "{:#?}",
        stage.play.events()
    );
    let all = prompts(&stage).join("\n");
    assert!(
        all.contains("The names are misleading everywhere."),
        "the review's own text is in no prompt"
    );
    for n in 1..=45 {
        assert!(
            all.contains(&format!("comment-{n:03}-")),
            "comment {n} is in no prompt"
        );
    }
    let answers = answers(&stage);
    assert_eq!(answers.len(), 45);
    assert!(
        answers
            .iter()
            .all(|answer| answer["answer"] == json!("fixed")),
        "{answers:#?}"
    );
    assert_eq!(rejections(&stage), "fixed");
    pushed_once(&stage);
}

/// US-4, FR-2, FR-3: 300 comments need several runs of one fix: one push, one review, and every
/// answer is kept.
#[test]
fn three_hundred_comments_are_told_in_several_runs_of_one_fix() {
    let stage = PullPlay::new(&answering());
    // Posts are checked on the blackboard: 300 calls of the fake take long.
    stage.play.world.sqlite(
        "CREATE TRIGGER later AFTER INSERT ON intents WHEN NEW.kind = 'answer' BEGIN
             UPDATE intents SET not_before = '2099-01-01T00:00:00.000Z' WHERE key = NEW.key; END",
    );
    let texts = comments(300);
    stage.review(
        "bob",
        "CHANGES_REQUESTED",
        "The names are misleading everywhere.",
        &inline(&texts),
    );
    let reviews = stage.play.count("work_items WHERE source = 'code_review'");
    stage.tick();

    assert_eq!(
        stage.play.state(),
        "ready_for_human_review",
        "{:#?}",
        stage.play.events()
    );
    let prompts = prompts(&stage);
    assert!((2..=5).contains(&prompts.len()), "{} runs", prompts.len());
    assert!(
        prompts[0].contains("The names are misleading everywhere."),
        "the review's own text comes first"
    );
    for n in 1..=300 {
        let name = format!("comment-{n:03}-");
        assert_eq!(
            prompts
                .iter()
                .filter(|prompt| prompt.contains(&name))
                .count(),
            1,
            "comment {n}"
        );
    }
    let answers = answers(&stage);
    assert_eq!(answers.len(), 300);
    assert!(
        answers
            .iter()
            .all(|answer| answer["answer"] == json!("fixed")),
        "an answer of an earlier run is lost"
    );
    assert_eq!(rejections(&stage), "fixed");
    pushed_once(&stage);
    assert_eq!(
        stage.play.count("work_items WHERE source = 'code_review'"),
        reviews + 1,
        "one review at the end"
    );
}

/// US-4, FR-3: a short review after four long ones is in a prompt, and so are the long ones.
#[test]
fn a_short_review_after_four_long_ones_is_told() {
    let stage = PullPlay::new(&answering());
    for n in 1..=4 {
        let body = format!(
            "long-{n}-begins {} long-{n}-ends",
            "this function is too long ".repeat(2_300)
        );
        stage.review("bob", "CHANGES_REQUESTED", &body, &[]);
    }
    stage.review("bob", "CHANGES_REQUESTED", "you drop the table users", &[]);
    stage.tick();

    assert_eq!(
        stage.play.state(),
        "ready_for_human_review",
        "{:#?}",
        stage.play.events()
    );
    let prompts = prompts(&stage);
    assert!(
        prompts[0].contains("you drop the table users"),
        "the short review is not in the first prompt"
    );
    let all = prompts.join("\n");
    for n in 1..=4 {
        assert!(
            all.contains(&format!("long-{n}-begins")) && all.contains(&format!("long-{n}-ends")),
            "review {n}"
        );
    }
    assert_eq!(rejections(&stage), "fixed fixed fixed fixed fixed");
    pushed_once(&stage);
}

/// Two comments of `comments` fit into one prompt, besides a short review.
const SMALL: &str = "[limits]\nfeedback_kb = 4\n";

fn small() -> Script<'static> {
    Script {
        tables: SMALL,
        ..answering()
    }
}

/// Returns those of `n` comments that are in a prompt.
fn told(prompts: &[String], n: usize) -> Vec<usize> {
    let all = prompts.join("\n");
    (1..=n)
        .filter(|n| all.contains(&format!("comment-{n:03}-")))
        .collect()
}

/// FR-2, FR-3, US-4: five runs are the maximum; feedback that did not fit is not answered, is
/// listed for a person, and the next fix starts with it.
#[test]
fn what_five_runs_have_no_room_for_is_left_to_a_person() {
    let stage = PullPlay::new(&small());
    let play = &stage.play;
    let texts = comments(16);
    stage.review(
        "bob",
        "CHANGES_REQUESTED",
        "The names are misleading.",
        &inline(&texts),
    );
    stage.tick();

    let first = prompts(&stage);
    assert_eq!(first.len(), 5);
    assert!(first[0].contains("The names are misleading."));
    let seen = told(&first, 16);
    assert_eq!(seen.len(), 10, "{seen:?}");
    play.is_escalated("6 comments were not given to an agent");
    assert!(
        play.why()
            .contains("there is not enough room in 5 prompts of 4 KB"),
        "{}",
        play.why()
    );
    pushed_once(&stage);
    assert_eq!(rejections(&stage), "escalated", "not all of it was told");
    assert_eq!(
        play.count("work_items WHERE source = 'code_review' AND status = 'available'"),
        0
    );
    let answered: Vec<String> = answers(&stage)
        .iter()
        .map(|one| one["text"].to_string())
        .collect();
    assert_eq!(answered.len(), 10);
    for n in &seen {
        assert!(
            answered
                .iter()
                .any(|text| text.contains(&format!("comment-{n:03}-"))),
            "comment {n} is not answered"
        );
    }
    let listed = play.world.sqlite(
        "SELECT metadata FROM events WHERE event_type = 'skipped' AND target_type = 'work_item' AND metadata ->> 'left_out' IS NOT NULL",
    );
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["left_out"].as_array().unwrap().len(), 6, "{listed}");
    let note = stage.bodies("issues/1/comments").join("\n");
    for n in (1..=16).filter(|n| !seen.contains(n)) {
        let name = format!("comment-{n:03}-");
        assert!(
            listed.to_string().contains(&name) && note.contains(&name),
            "comment {n} is not listed: {note}"
        );
    }
    assert!(
        !note.contains(&format!("comment-{:03}-", seen[0])),
        "{note}"
    );

    play.world.remand(&["refine", "c1"]).ok();
    stage.tick();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    let second = prompts(&stage).split_off(5);
    let rest = told(&second, 16);
    assert_eq!(rest.len(), 6, "{rest:?}");
    assert!(
        rest.iter().all(|n| !seen.contains(n)),
        "a comment was told twice: {rest:?}"
    );
    assert_eq!(answers(&stage).len(), 16);
}

/// A kill between the runs of a fix, or in the second one, loses nothing and repeats nothing.
#[test]
fn a_kill_between_the_runs_of_a_fix_goes_on_where_it_was() {
    for point in ["next_run.before", "spawn.after#2", "exit.seen#2"] {
        let stage = PullPlay::new(&small());
        let texts = comments(4);
        stage.review(
            "bob",
            "CHANGES_REQUESTED",
            "The names are misleading.",
            &inline(&texts),
        );
        stage.due();
        let mut command = stage.play.world.remand_command(&["tick"]);
        let killed = command.env("REMAND_CRASH_AT", point).output().unwrap();
        assert!(!killed.status.success(), "{point} was not crossed");
        stage.tick();

        assert_eq!(
            stage.play.state(),
            "ready_for_human_review",
            "{point}: {:#?}",
            stage.play.events()
        );
        let counted = stage.play.count(
            "runs JOIN work_items USING (item_id) WHERE source = 'review_fix' AND NOT discarded",
        );
        assert_eq!(counted, 2, "{point}");
        assert_eq!(answers(&stage).len(), 4, "{point}");
        let twice = stage.play.count(
            "(SELECT 1 FROM run_feedback JOIN runs USING (run_id)
              WHERE NOT discarded AND rejection_id IS NOT NULL AND end_byte > start_byte GROUP BY piece HAVING count(*) > 1)",
        );
        assert_eq!(twice, 0, "{point}");
        assert_eq!(rejections(&stage), "fixed", "{point}");
        pushed_once(&stage);
        stage.play.check();
    }
}

/// A fix without changes is judged over all its runs together.
#[test]
fn a_run_that_changes_nothing_is_fine_if_another_one_does() {
    let once = ANSWERS_ALL.replace(
        "echo fixed >>work.txt",
        "grep -q 'comment-004-' \"$prompt\" && echo fixed >>work.txt",
    );
    let stage = PullPlay::new(&Script {
        fixer: &once,
        ..small()
    });
    let texts = comments(4);
    stage.review(
        "bob",
        "CHANGES_REQUESTED",
        "The names are misleading.",
        &inline(&texts),
    );
    stage.tick();
    assert_eq!(
        stage.play.state(),
        "ready_for_human_review",
        "{:#?}",
        stage.play.events()
    );
    assert_eq!((prompts(&stage).len(), answers(&stage).len()), (2, 4));
    pushed_once(&stage);

    let never = ANSWERS_ALL.replace("echo fixed >>work.txt", "true");
    let stage = PullPlay::new(&Script {
        fixer: &never,
        ..small()
    });
    stage.review(
        "bob",
        "CHANGES_REQUESTED",
        "The names are misleading.",
        &inline(&texts),
    );
    stage.tick();
    stage.play.is_escalated("the agent changed nothing");
    assert_eq!(
        (prompts(&stage).len(), stage.pushes(), answers(&stage).len()),
        (2, 0, 0)
    );
}

/// The gates run once, after the last run; their output goes back to the agent, and the answers
/// stay.
#[test]
fn red_gates_after_several_runs_are_fixed_in_one_more() {
    let gate = "gates = [[\"sh\", \"-c\", \"echo gate >>../gates-ran; test $(grep -c fixed work.txt) -ge 3\"]]";
    let stage = PullPlay::new(&Script {
        settings: gate,
        ..small()
    });
    let texts = comments(4);
    stage.review(
        "bob",
        "CHANGES_REQUESTED",
        "The names are misleading.",
        &inline(&texts),
    );
    stage.tick();
    assert_eq!(
        stage.play.state(),
        "ready_for_human_review",
        "{:#?}",
        stage.play.events()
    );
    assert_eq!(prompts(&stage).len(), 3);
    assert_eq!(
        stage.play.count("events WHERE event_type = 'gate_failed'"),
        1,
        "{:#?}",
        stage.play.events()
    );
    let answers = answers(&stage);
    assert!(
        answers.len() == 4
            && answers
                .iter()
                .all(|answer| answer["answer"] == json!("fixed")),
        "{answers:#?}"
    );
    pushed_once(&stage);
}

/// A budget that ends between two runs leaves the rest to a person; finished parts are pushed and
/// answered.
#[test]
fn a_budget_that_ends_between_two_runs_leaves_the_rest_to_a_person() {
    let slow = format!("sleep 1.1\n{ANSWERS_ALL}");
    let stage = PullPlay::new(&Script {
        fixer: &slow,
        tables: "[loop]\nmax_run_s = 1\n[limits]\nfeedback_kb = 4\n",
        ..quiet()
    });
    let texts = comments(4);
    stage.review(
        "bob",
        "CHANGES_REQUESTED",
        "The names are misleading.",
        &inline(&texts),
    );
    stage.tick();
    stage
        .play
        .is_escalated("2 comments were not given to an agent");
    assert!(
        stage.play.why().contains("of agent time"),
        "{}",
        stage.play.why()
    );
    assert_eq!((prompts(&stage).len(), answers(&stage).len()), (1, 2));
    pushed_once(&stage);
}

/// Findings that did not fit into the prompt of a re-review are not closed by its approval.
#[test]
fn an_approval_closes_no_finding_that_was_not_in_its_prompt() {
    let reviewer = r#"
if grep -q fixed work.txt; then says approved "all is well"; else
    finding() { printf '{"severity": "high", "category": "logic", "path": "work.txt", "line": 1, "text": "problem-%s %s"}' "$1" "$(printf 'it is wrong %.0s' $(seq 130))"; }
    printf 'REVIEW_RESULT: changes_requested\nFINDINGS_COUNT: 5\nSEVERITY: high\nSUMMARY: five problems\n\n```json\n{"findings": [%s, %s, %s, %s, %s]}\n```\n' \
        "$(finding one)" "$(finding two)" "$(finding three)" "$(finding four)" "$(finding five)"
fi
"#;
    let stage = PullPlay::new(&Script {
        reviewer,
        tables: "[loop]\nmax_fix_cycles = 1\n[limits]\nfeedback_kb = 4\n",
        ..answering()
    });
    let play = &stage.play;
    stage.tick();
    play.is_escalated("exceeded max fix cycles");
    let (resolved, open) = (
        play.count("findings WHERE outcome = 'resolved'"),
        play.count("findings WHERE outcome = 'open'"),
    );
    assert_eq!((resolved, open), (2, 3), "{:#?}", play.events());
    // NFR-4: feedback left out of a prompt is an event.
    let left_out = play
        .world
        .sqlite("SELECT metadata ->> '$.left_out' FROM events WHERE event_type = 'skipped' AND target_type = 'run'");
    let expected = json!([{ "what": "open_findings", "left_out": 3, "unit": "findings" }]);
    assert_eq!(serde_json::from_str::<Value>(&left_out).unwrap(), expected);
}

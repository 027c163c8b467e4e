//! Opening the pull request of a task: whatever stands in the way is named with a code and can be removed, and
//! whatever fails, there is one branch and one pull request.

mod real_gh;

use serde_json::{Value, json};

use crate::support::play::{REVIEWS_FIXED, Script};
use crate::support::pull_play::{APPROVES, PullPlay};
use crate::support::run;

const BRANCH: &str = "remand/add-a-file";
const OPENS: &str = "POST repos/ada/calc/pulls";

/// Implements in a file of its own.
const IMPLEMENTS: &str = "cat >/dev/null\necho made >made.txt\necho done\n";

fn script() -> Script<'static> {
    Script {
        reviewer: APPROVES,
        fixer: IMPLEMENTS,
        ..Script::default()
    }
}

/// A task that was just added.
fn added(args: &[&str]) -> PullPlay {
    let stage = PullPlay::unwatched(&script());
    let all = [&["add", "Add a file", "-a"], args].concat();
    stage.play.world.remand_in(&stage.play.repo, &all).ok();
    stage
}

/// Lets the remote refuse every push with these lines.
fn refuse_pushes(stage: &PullPlay, lines: &str) {
    let hook = stage.remote.join("hooks/pre-receive");
    let script = stage.play.world.script("hook", &format!("{lines}exit 1\n"));
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::rename(script, hook).unwrap();
}

fn accept_pushes(stage: &PullPlay) {
    std::fs::remove_file(stage.remote.join("hooks/pre-receive")).unwrap();
}

/// A task whose work is done and reviewed, and whose branch the remote does not take yet.
fn stopped(args: &[&str]) -> PullPlay {
    let stage = added(args);
    refuse_pushes(&stage, "echo 'not today' >&2\n");
    stage.tick();
    is_refused(&stage, "push_declined", "not today");
    accept_pushes(&stage);
    stage
}

fn retry(stage: &PullPlay) {
    stage.play.world.remand(&["retry", "c1"]).ok();
    stage.tick();
}

/// Asserts that the change needs a person for this reason, and that nothing was opened.
#[track_caller]
fn is_refused(stage: &PullPlay, code: &str, reason: &str) {
    stage.play.is_escalated(reason);
    let last = "SELECT metadata ->> 'refusal' FROM events WHERE event_type = 'escalated' ORDER BY id DESC LIMIT 1";
    assert_eq!(stage.play.world.sqlite(last), code);
    assert_eq!(opened(stage), 0);
}

/// Number of pull requests that remand opened.
fn opened(stage: &PullPlay) -> usize {
    let writes = stage.forge.writes();
    writes.iter().filter(|write| *write == OPENS).count()
}

fn head(stage: &PullPlay) -> String {
    let head = "SELECT head FROM changes WHERE change_id = 'c1'";
    stage.play.world.sqlite(head)
}

/// Asserts that the change has its pull request, and that the branch has its head.
#[track_caller]
fn is_open(stage: &PullPlay, pulls: usize) -> i64 {
    let told = stage.play.events().join("\n");
    assert_eq!(stage.play.state(), "ready_for_human_review", "{told}");
    assert_eq!(opened(stage), pulls, "{told}");
    assert_eq!(stage.remote_head(BRANCH), head(stage), "{told}");
    assert_eq!(
        stage.play.count("events WHERE event_type = 'pr_created'"),
        1
    );
    stage.play.check();
    let number = "SELECT pr_number FROM changes WHERE change_id = 'c1'";
    stage.play.world.sqlite(number).parse().unwrap()
}

/// Pushes the branch of the task by hand.
fn push_by_hand(stage: &PullPlay, what: &str) {
    let to = format!("{what}:refs/heads/{BRANCH}");
    let args = ["push", "--quiet", "origin", &to];
    stage.play.world.git(&stage.play.repo, &args);
}

fn delete_on_remote(stage: &PullPlay, branch: &str) {
    let name = format!("refs/heads/{branch}");
    let args = ["update-ref", "-d", &name];
    stage.play.world.git(&stage.remote, &args);
}

/// Response of GitHub to the next request that opens a pull request.
fn answer(stage: &PullPlay, status: u16, body: &Value) {
    let then = json!({ "status": { "status": status, "body": body.to_string() } });
    fault(stage, &then);
}

fn fault(stage: &PullPlay, then: &Value) {
    let fault = json!({ "method": "POST", "path": "repos/ada/calc/pulls", "then": then });
    stage.forge.fault(fault);
}

fn invalid(field: &str) -> Value {
    let error = json!({ "resource": "PullRequest", "field": field, "code": "invalid" });
    json!({ "message": "Validation Failed", "errors": [error] })
}

/// S0-56, S0-91: each rule is named by the code that GitHub sends with it; once it is changed, `retry` continues.
#[test]
fn a_rule_of_the_remote_is_named() {
    let stage = added(&[]);
    for (lines, code, reason) in [
        (
            "echo 'error: GH006: Protected branch update failed for refs/heads/x.' >&2\n",
            "protected_branch",
            "a branch protection rule",
        ),
        (
            "echo 'error: GH013: Repository rule violations found for refs/heads/x.' >&2\necho '- Cannot create ref due to creations being restricted.' >&2\n",
            "ruleset",
            "Cannot create ref due to creations being restricted",
        ),
        (
            "echo 'error: GH002: Sorry, this branch name is not allowed.' >&2\n",
            "branch_name",
            "a rule for names of branches",
        ),
    ] {
        refuse_pushes(&stage, lines);
        if stage.play.state() == "escalated" {
            retry(&stage);
        } else {
            stage.tick();
        }
        is_refused(&stage, code, reason);
        assert!(
            stage.play.answer().contains("--branch"),
            "{}",
            stage.play.answer()
        );
        assert_eq!(stage.remote_head(BRANCH), "");
    }
    accept_pushes(&stage);
    retry(&stage);
    is_open(&stage, 1);
    assert_eq!(stage.play.count("runs"), 2, "nothing was paid for twice");
}

/// S0-56, S1-30: other branches of the remote, and its missing base.
#[test]
fn what_stands_in_the_way_on_the_remote_is_named() {
    let stage = stopped(&[]);
    let world = &stage.play.world;
    let theirs = world.commit(
        &stage.elsewhere,
        "theirs.txt",
        "theirs\n",
        "Write theirs.txt",
    );
    let to = |branch: &str| format!("{theirs}:refs/heads/{branch}");
    world.git(
        &stage.elsewhere,
        &["push", "--quiet", "origin", &to(BRANCH)],
    );
    retry(&stage);
    is_refused(
        &stage,
        "branch_taken",
        "with commits that are not in the worktree",
    );
    assert_eq!(stage.remote_head(BRANCH), theirs, "nothing is overwritten");
    let why = stage.play.why();
    for command in ["remand retry c1", "remand cancel c1"] {
        assert_eq!(why.matches(command).count(), 1, "{why}");
    }

    delete_on_remote(&stage, BRANCH);
    world.git(
        &stage.elsewhere,
        &["push", "--quiet", "origin", &to("remand")],
    );
    retry(&stage);
    is_refused(
        &stage,
        "name_conflict",
        "has a branch remand, which leaves no room",
    );

    delete_on_remote(&stage, "remand");
    let base = stage.remote_head("main");
    delete_on_remote(&stage, "main");
    retry(&stage);
    is_refused(&stage, "base_gone", "the base branch main no longer exists");

    world.git(&stage.remote, &["update-ref", "refs/heads/main", &base]);
    answer(&stage, 422, &invalid("base"));
    retry(&stage);
    is_refused(&stage, "base_gone", "has no branch main to merge into");

    retry(&stage);
    is_open(&stage, 1);
}

/// S0-56: commits after the review are not published unreviewed.
#[test]
fn a_branch_that_moved_after_its_review_is_reviewed_again() {
    let stage = stopped(&[]);
    let world = &stage.play.world;
    let worktree = world.sqlite("SELECT worktree FROM changes WHERE change_id = 'c1'");
    let mine = world.commit(worktree.as_ref(), "mine.txt", "mine\n", "Write mine.txt");
    retry(&stage);
    is_refused(&stage, "branch_moved", "after its review");
    world.remand(&["review", "--worktree", &worktree]).ok();
    stage.tick();
    is_open(&stage, 1);
    assert_eq!(head(&stage), mine);
    assert_eq!(stage.play.count("reviews"), 2);
}

/// S0-56: the work is merged already, by a merge or squashed.
#[test]
fn work_that_is_merged_already_is_not_offered_again() {
    let stage = stopped(&[]);
    let world = &stage.play.world;
    push_by_hand(&stage, BRANCH);
    let number = stage.forge.open_pull(BRANCH, "main", "carol");
    let base = stage.remote_head("main");
    stage.forge.merge(number, "carol");
    retry(&stage);
    is_refused(
        &stage,
        "nothing_to_merge",
        "there is nothing between main and",
    );

    world.git(&stage.remote, &["update-ref", "refs/heads/main", &base]);
    retry(&stage);
    is_refused(
        &stage,
        "already_merged",
        "is about the same commit and was merged",
    );
    world.remand(&["cancel", "c1"]).ok();
    assert_eq!(stage.play.state(), "closed");
    stage.play.check();
}

/// S0-56, S0-58: a pull request by somebody else is used if it is open, and its text stays; a closed one is a decision
/// of a person.
#[test]
fn a_pull_request_that_a_person_opened_is_used_as_it_is() {
    let stage = stopped(&[]);
    push_by_hand(&stage, BRANCH);
    let number = stage.forge.open_pull(BRANCH, "main", "carol");
    stage.forge.describe(number, "By hand.");
    stage.forge.close(number);
    retry(&stage);
    is_refused(
        &stage,
        "pull_closed",
        "is about the same commit and was closed",
    );
    stage.forge.reopen(number);
    retry(&stage);
    assert_eq!(is_open(&stage, 0), number);
    assert_eq!(stage.forge.pull(number)["body"], "By hand.");
    let found = "SELECT metadata ->> 'found' FROM events WHERE event_type = 'pr_created'";
    assert_eq!(stage.play.world.sqlite(found), "1");
}

/// S0-56: a second pull request, into the base of the task, would be about the same commits.
#[test]
fn a_pull_request_into_another_base_is_used_too() {
    let stage = stopped(&[]);
    let world = &stage.play.world;
    let main = stage.remote_head("main");
    world.git(&stage.remote, &["update-ref", "refs/heads/next", &main]);
    push_by_hand(&stage, BRANCH);
    let number = stage.forge.open_pull(BRANCH, "next", "carol");
    retry(&stage);
    stage.tick();
    assert_eq!(is_open(&stage, 0), number);
    assert_eq!(
        world.sqlite("SELECT base FROM changes WHERE change_id = 'c1'"),
        "next"
    );
}

/// S0-91, S0-112: what was asked, what changed, what the reviews found, and the gates, after the template of the base. What
/// others wrote mentions nobody and closes nothing.
#[test]
fn the_description_tells_the_story() {
    let stage = PullPlay::unwatched(&Script {
        reviewer: REVIEWS_FIXED,
        fixer: "cat >/dev/null\necho \"$REMAND_PHASE\" | sed s/fix/fixed/ >>work.txt\ngit add -A\ngit commit -q -m \"Fixes #7 with @bob\"\n",
        settings: "gates = [[\"test\", \"-e\", \"README.md\"]]\n",
        ..Script::default()
    });
    let world = &stage.play.world;
    let template = "## Checklist\n\n- [ ] I have read it\n";
    std::fs::create_dir(stage.elsewhere.join(".github")).unwrap();
    let file = ".github/pull_request_template.md";
    world.commit(&stage.elsewhere, file, template, "Add a template");
    world.git(
        &stage.elsewhere,
        &["push", "--quiet", "origin", "HEAD:main"],
    );
    let text = format!("Closes #7, says @bob.\n{}", "More of it.\n".repeat(9_000));
    let args = ["add", "Add a file", "-a", "--body", &text];
    world.remand_in(&stage.play.repo, &args).ok();
    stage.tick();
    let number = is_open(&stage, 1);
    let pull = stage.forge.pull(number);
    let body = pull["body"].as_str().unwrap();
    assert!(body.starts_with(template.trim_end()), "{body}");
    assert!(body.chars().count() <= 60_000, "{}", body.chars().count());
    for part in [
        "> Add a file",
        "(shortened; the full text is on the blackboard)",
        "2 commits, 1 file changed",
        "Review 1 of ",
        ": requests changes, 1 finding",
        ": no objections, 0 findings",
        "**high** `work.txt:1`: say fixed here (f1: resolved",
        "These commands pass on the last commit:\n\n- `test -e README.md`",
        "remand why c1",
    ] {
        assert!(body.contains(part), "{part:?} is not in {body}");
    }
    for part in ["#7", "@bob"] {
        assert!(!body.contains(part), "{part:?} is in {body}");
    }
    let before = body.to_owned();
    stage.tick();
    assert_eq!(
        stage.forge.pull(number)["body"],
        before.as_str(),
        "it is not edited"
    );
}

/// S0-56: the offer names the command that opens it as a normal one.
#[test]
fn drafts_that_are_not_available_are_named() {
    let stage = PullPlay::unwatched(&script());
    stage.forge.refuse_drafts();
    let args = ["add", "Add a file", "-a", "--draft"];
    stage.play.world.remand_in(&stage.play.repo, &args).ok();
    stage.tick();
    is_refused(&stage, "draft", "Draft pull requests are not supported");
    let offers = "SELECT metadata ->> '$.commands[0]' FROM events WHERE event_type = 'escalated'";
    assert_eq!(
        stage.play.world.sqlite(offers),
        "remand item edit w3 --no-draft"
    );
    assert_eq!(
        stage.remote_head(BRANCH),
        head(&stage),
        "the branch is there"
    );
}

/// S0-56: other refusals have GitHub's message.
#[test]
fn any_other_refusal_is_told_as_it_is() {
    let stage = added(&[]);
    let error = json!({ "message": "Validation Failed", "errors": [{ "code": "custom", "message": "No work today" }] });
    answer(&stage, 422, &error);
    stage.tick();
    is_refused(&stage, "pull_refused", "No work today");
    answer(
        &stage,
        403,
        &json!({ "message": "Repository was archived so is read-only." }),
    );
    retry(&stage);
    is_refused(
        &stage,
        "pull_refused",
        "Repository was archived so is read-only.",
    );
    retry(&stage);
    is_open(&stage, 1);
}

/// S0-56: what may pass is waited for: a token without a scope, a rate limit, a failure before or after the pull request
/// was created, a branch that GitHub shows late. There is one pull request in the end.
#[test]
fn what_may_pass_is_waited_for_and_one_pull_request_is_opened() {
    let scope = json!({ "status": { "status": 403, "headers": {
        "X-OAuth-Scopes": "read:org", "X-Accepted-OAuth-Scopes": "repo",
    }, "body": json!({ "message": "Must have write access." }).to_string() } });
    let late = json!({ "status": { "status": 422, "body": invalid("head").to_string() } });
    for (then, reason) in [
        (
            scope,
            "the token needs the scope repo; its scopes: read:org",
        ),
        (
            json!({ "rate_limited": { "reset_in_s": 600 } }),
            "rate limit",
        ),
        (json!("html502"), "HTTP 502"),
        (json!("dropped_after_write"), "failed"),
        (late, "does not show the branch"),
    ] {
        let stage = added(&[]);
        fault(&stage, &then);
        stage.tick();
        stage.play.is_held(reason);
        stage.tick();
        is_open(&stage, 1);
    }
}

/// S0-56: a branch that a person deletes between its push and its pull request is pushed again only on demand.
#[test]
fn a_branch_that_vanishes_after_its_push_is_named() {
    let stage = added(&[]);
    fault(&stage, &json!("html502"));
    stage.tick();
    stage.play.is_held("HTTP 502");
    delete_on_remote(&stage, BRANCH);
    stage.tick();
    is_refused(
        &stage,
        "branch_gone",
        "was deleted on the remote after it was pushed",
    );
    assert_eq!(stage.remote_head(BRANCH), "");
    retry(&stage);
    is_open(&stage, 1);
}

/// S0-56, NFR-2: killed at each step, one branch and one pull request.
#[test]
fn a_kill_at_each_step_opens_one_pull_request() {
    for at in ["push.before", "push.after", "pull.before", "pull.after"] {
        let stage = added(&[]);
        let mut tick = stage.play.world.remand_command(&["tick"]);
        tick.env("REMAND_CRASH_AT", at);
        let killed = run(&mut tick);
        assert!(
            ![0, 5].contains(&killed.status),
            "{at} was not crossed: {}",
            killed.stderr
        );
        stage.tick();
        is_open(&stage, 1);
        let intents = "intents WHERE kind = 'push' AND result = 'done'";
        assert_eq!(stage.play.count(intents), 1, "{at}");
    }
}

/// S1-9, GZ-1: an item that its change cannot use is not requeued.
#[test]
fn a_pull_request_is_not_queued_again_where_it_cannot_be_opened() {
    let stage = stopped(&[]);
    let play = &stage.play;
    let item = play
        .world
        .sqlite("SELECT item_id FROM work_items WHERE source = 'pull_request'");
    let requeue = ["item", "requeue", &item];
    play.world.remand(&["approve", "c1"]).ok();
    let refused = play.world.remand(&requeue);
    assert!(refused.stderr.contains("remand skip c1"), "{refused:?}");
    refused.fails(1, "c1 is approved: its pull request cannot be opened now");
    let refused = play
        .world
        .remand(&["item", "add", "pull_request", "--change", "c1"]);
    assert!(refused.stderr.contains("remand skip c1"), "{refused:?}");
    refused.fails(1, "remand queues the pull request");
    play.world.remand(&["skip", "c1"]).ok();
    play.world
        .remand(&requeue)
        .fails(1, "c1 already has an open pull_request");
    stage.tick();
    is_open(&stage, 1);
    play.world.remand(&requeue).fails(1, "c1 already has PR #");
    play.check();
}

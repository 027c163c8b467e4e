//! `remand project` and `remand review`: how work is added, and what is refused.

use std::fs;

use super::{FIXER, Site};
use crate::support::World;

#[test]
fn a_project_is_added_once_and_listed() {
    let world = World::new();
    let repo = world.repo("site");
    let path = repo.to_str().unwrap();
    let added = world.remand(&["project", "add", path]).ok();
    assert!(
        added.stderr.contains("`site` has no agent yet"),
        "{}",
        added.stderr
    );
    insta::assert_snapshot!(world.plain(&added.stdout), @"site is WORLD/src/site; work is merged into main");
    world
        .remand(&["project", "add", path])
        .fails(1, "is already known as project `site`");
    let listed = world.json(&["project", "list"]);
    assert_eq!(listed[0]["project_id"], "site");
    assert_eq!(listed[0]["default_branch"], "main");
    assert_eq!(listed[0]["path"], path);
    // The width of the path depends on the machine.
    let table = world.plain(&world.remand(&["project", "list"]).ok().stdout);
    let words: Vec<&str> = table.split_whitespace().collect();
    assert_eq!(
        words.join(" "),
        "PROJECT PATH BRANCH REPO site WORLD/src/site main -"
    );
}

#[test]
fn a_project_must_be_a_repository_with_a_name_and_a_branch() {
    let world = World::new();
    let folder = world.root().join("src/plain");
    fs::create_dir_all(&folder).unwrap();
    world
        .remand(&["project", "add", "nowhere"])
        .fails(4, "no such directory");
    world
        .remand(&["project", "add", folder.to_str().unwrap()])
        .fails(1, "is not in a git repository");
    world.git(&folder, &["init", "-q"]);
    world
        .remand(&["project", "add", folder.to_str().unwrap()])
        .fails(1, "--default-branch");
    let repo = world.repo("site");
    let path = repo.to_str().unwrap();
    world
        .remand(&["project", "add", path, "--name", "a b"])
        .fails(2, "invalid project name");
    world
        .remand(&["project", "add", path, "--repo", "nobody"])
        .fails(2, "use owner/name");
    world
        .remand(&["project", "add", path, "--default-branch", "a..b"])
        .fails(2, "a..b");
    world.git(
        &repo,
        &["remote", "add", "origin", "git@github.com:ada/site.git"],
    );
    world
        .remand(&["project", "add", path, "--name", "mine"])
        .ok();
    assert_eq!(world.json(&["project", "list"])[0]["repo"], "ada/site");
    let other = world.repo("other");
    let taken = world.remand(&["project", "add", other.to_str().unwrap(), "--name", "mine"]);
    taken.fails(1, "project `mine` already exists");
}

#[test]
fn the_url_that_is_pushed_to_is_pinned() {
    let world = World::new();
    let repo = world.repo("site");
    let path = repo.to_str().unwrap();
    for (url, why) in [
        (
            "https://ada:hunter2@github.com/ada/site",
            "credential helper",
        ),
        ("ext::sh -c whoami", "https://HOST/PATH"),
        ("-oProxyCommand=x", "starts with `-`"),
        ("../site", "scheme is not supported"),
    ] {
        let refused = world
            .remand(&["project", "add", path, "--url", url])
            .fails(2, why);
        assert!(!refused.stderr.contains("hunter2"), "{}", refused.stderr);
    }
    world.git(
        &repo,
        &[
            "remote",
            "add",
            "origin",
            "https://hunter2@github.com/ada/site",
        ],
    );
    let refused = world
        .remand(&["project", "add", path])
        .fails(1, "`gh auth setup-git`");
    assert!(!refused.stderr.contains("hunter2"), "{}", refused.stderr);
    assert_eq!(world.json(&["project", "list"]), serde_json::json!([]));
    world.git(
        &repo,
        &["remote", "set-url", "origin", "http://github.com/ada/site"],
    );
    let added = world.remand(&["project", "add", path]).ok();
    let what = "note: cannot push to pull requests of ada/site: no push URL is set";
    assert!(added.stderr.contains(what), "{}", added.stderr);
    assert_eq!(
        world.json(&["project", "list"])[0]["remote_url"],
        serde_json::Value::Null
    );
    let url = "https://github.com/ada/site.git";
    world
        .remand(&["project", "add", path, "--url", url, "--name", "x"])
        .fails(1, "is already known");
    let pinned = world
        .remand(&["project", "add", path, "--url", url])
        .ok()
        .stdout;
    assert!(
        pinned.contains("pushes go to https://github.com/ada/site.git"),
        "{pinned}"
    );
    world.git(
        &repo,
        &[
            "remote",
            "set-url",
            "origin",
            "https://example.org/elsewhere",
        ],
    );
    assert_eq!(
        world.json(&["project", "list"])[0]["remote_url"],
        url,
        "whatever the repository says later"
    );
    let mut inside = world.remand_command(&["project", "add", path, "--url", "/elsewhere"]);
    assert!(
        !inside
            .env("REMAND_RUN_DIR", "/x")
            .output()
            .unwrap()
            .status
            .success(),
        "no agent pins another"
    );
    assert_eq!(world.json(&["project", "list"])[0]["remote_url"], url);
}

#[test]
fn the_url_of_origin_is_the_default() {
    let world = World::new();
    let repo = world.repo("site");
    world.git(
        &repo,
        &["remote", "add", "origin", "git@github.com:ada/site.git"],
    );
    let added = world
        .remand(&["project", "add", repo.to_str().unwrap()])
        .ok();
    insta::assert_snapshot!(world.plain(&added.stdout), @"
    site is WORLD/src/site; work is merged into main
    pushes go to git@github.com:ada/site.git
    ");
    assert_eq!(
        world.json(&["project", "list"])[0]["remote_url"],
        "git@github.com:ada/site.git"
    );
}

#[test]
fn a_worktree_enters_with_its_review() {
    let site = Site::new();
    let output = site.world.remand_in(&site.worktree, &["review"]).ok();
    insta::assert_snapshot!(site.world.plain(&output.stdout), @"
    c1 will be reviewed
      code_review w1 is queued; no daemon is running  (just now)
        remand run
        remand tick
    ");
    let row = site.world.sqlite(
        "SELECT title, branch, base, state, worktree, max_fix_cycles, max_total_fixes FROM changes",
    );
    assert_eq!(
        row,
        format!(
            "add work.txt|feature/login|main|pending_self_review|{}|2|8",
            site.worktree.display()
        )
    );
    assert_eq!(
        site.world
            .sqlite("SELECT item_id, source, status, change_id FROM work_items"),
        "w1|code_review|available|c1"
    );
    assert_eq!(
        site.world
            .sqlite("SELECT count(*) FROM events WHERE actor_id = 'ada'"),
        "2"
    );
    site.remand(&["check"]).ok();
}

#[test]
fn a_worktree_is_found_from_below_by_path_and_by_branch() {
    for args in [
        &["review", "--worktree", "src/site-feature-login/deep"][..],
        &[
            "review",
            "--worktree",
            "src/site",
            "--branch",
            "feature/login",
        ],
    ] {
        let site = Site::new();
        fs::create_dir_all(site.worktree.join("deep")).unwrap();
        let mut all = args.to_vec();
        all.extend(["--title", "Login", "--max-cycles", "12"]);
        site.remand(&all).ok();
        assert_eq!(
            site.world
                .sqlite("SELECT title, max_fix_cycles, max_total_fixes FROM changes"),
            "Login|12|12"
        );
    }
}

#[test]
fn a_new_project_is_added_only_when_asked() {
    let world = World::new();
    let repo = world.repo("site");
    let worktree = world.worktree(&repo, "feature/login");
    world
        .remand_in(&worktree, &["review"])
        .fails(1, "hint: add it with `remand project add");
    assert!(!world.db().exists(), "nothing was begun");
    world
        .remand_in(&worktree, &["review", "--add-project"])
        .ok();
    assert_eq!(
        world.sqlite("SELECT project_id FROM projects JOIN changes USING (project_id)"),
        "site"
    );
}

#[test]
fn what_can_not_be_reviewed_is_refused_and_nothing_is_written() {
    let site = Site::new();
    let (world, repo, worktree) = (&site.world, &site.repo, &site.worktree);
    let review = |folder: &std::path::Path, args: &[&str]| {
        let mut all = vec!["review"];
        all.extend(args);
        world.remand_in(folder, &all)
    };
    review(world.root(), &[]).fails(1, "is not in a git repository");
    review(world.root(), &["--worktree", "nowhere"]).fails(4, "no such directory");
    review(repo, &[]).fails(1, "is on main, the branch that work is merged into");
    review(repo, &["--branch", "nobody"]).fails(4, "no worktree of");
    review(worktree, &["--base", "nothing"]).fails(4, "the base branch nothing does not exist");
    review(worktree, &["--title", " "]).fails(2, "the title is empty");
    review(worktree, &["--max-cycles", "101"]).fails(2, "101");
    review(worktree, &["--max-cycles", "many"]).fails(2, "many");

    fs::write(worktree.join("work.txt"), "half").unwrap();
    fs::write(worktree.join("new.txt"), "new").unwrap();
    review(worktree, &[])
        .fails(1, "is not clean: work.txt, new.txt")
        .stderr
        .contains("git stash -u");
    world.git(worktree, &["stash", "-q", "-u"]);

    world.git(worktree, &["checkout", "-q", "--detach"]);
    review(worktree, &[]).fails(1, "has a detached HEAD");
    world.git(worktree, &["switch", "-q", "feature/login"]);

    world.git(repo, &["branch", "-q", "empty"]);
    let empty = world.root().join("src/site-empty");
    world.git(
        repo,
        &["worktree", "add", "-q", empty.to_str().unwrap(), "empty"],
    );
    review(&empty, &[]).fails(1, "nothing to review");
    world.commit(&empty, "x", "x", "there");
    fs::remove_file(empty.join("x")).unwrap();
    world.git(&empty, &["commit", "-q", "-am", "and back"]);
    review(&empty, &[]).fails(1, "nothing to review");

    let outside = world.root().join("elsewhere");
    world.git(
        repo,
        &[
            "worktree",
            "add",
            "-q",
            "-b",
            "far",
            outside.to_str().unwrap(),
        ],
    );
    world.commit(&outside, "x", "x", "far");
    review(&outside, &[])
        .fails(1, "is not in an allowed directory for worktrees")
        .stderr
        .contains("worktree_roots");

    world.git(repo, &["switch", "-q", "-c", "own"]);
    world.commit(repo, "x", "x", "own");
    review(repo, &[])
        .fails(1, "main checkout")
        .stderr
        .contains("git worktree add");

    assert_eq!(world.sqlite("SELECT count(*) FROM changes"), "0");
    world.config(&format!("worktree_roots = [{:?}]\n", world.root()));
    review(&outside, &[]).ok();
}

#[test]
fn a_change_under_way_says_how_it_stands() {
    let site = Site::under_review();
    let again = site.world.remand_in(&site.worktree, &["review"]).ok();
    assert!(
        again
            .stdout
            .starts_with("c1 already has a review in progress"),
        "{}",
        again.stdout
    );
    assert_eq!(site.world.sqlite("SELECT count(*) FROM work_items"), "1");

    let head = site
        .world
        .commit(&site.worktree, "more.txt", "more", "more");
    let moved = site.world.remand_in(&site.worktree, &["review"]).ok();
    assert!(
        moved.stdout.starts_with("c1 has a new head"),
        "{}",
        moved.stdout
    );
    let items = site
        .world
        .sqlite("SELECT status, json_extract(metadata, '$.head') = (SELECT head FROM changes) FROM work_items");
    assert_eq!(items, "cancelled|0\navailable|1");
    assert_eq!(site.world.sqlite("SELECT head FROM changes"), head);

    site.world
        .git(&site.worktree, &["switch", "-q", "-c", "another"]);
    site.world
        .remand_in(&site.worktree, &["review"])
        .fails(1, "but is now on another");
    site.remand(&["check"]).ok();
}

#[test]
fn a_branch_is_not_taken_twice() {
    let site = Site::under_review();
    let elsewhere = site.world.root().join("src/again");
    site.world
        .git(&site.worktree, &["switch", "-q", "--detach"]);
    site.world.git(
        &site.repo,
        &[
            "worktree",
            "add",
            "-q",
            elsewhere.to_str().unwrap(),
            "feature/login",
        ],
    );
    site.world
        .remand_in(&elsewhere, &["review"])
        .fails(1, "branch feature/login already belongs to c1");
}

#[test]
fn a_head_with_a_verdict_is_not_reviewed_again_until_it_moves() {
    let site = Site::with_agents(FIXER);
    site.remand(&["tick"]).report();
    assert_eq!(site.state("c1"), "ready_for_human_review");
    let judged = site.world.remand_in(&site.worktree, &["review"]).ok();
    assert!(
        judged
            .stdout
            .starts_with("c1 already has a verdict for this head"),
        "{}",
        judged.stdout
    );
    let items = site.world.sqlite("SELECT count(*) FROM work_items");

    site.world
        .commit(&site.worktree, "more.txt", "more", "more");
    site.world.remand_in(&site.worktree, &["review"]).ok();
    assert_eq!(site.state("c1"), "pending_self_review");
    assert_ne!(site.world.sqlite("SELECT count(*) FROM work_items"), items);
    site.remand(&["check"]).ok();
    site.remand(&["tick"]).report();
    assert_eq!(site.state("c1"), "ready_for_human_review");
}

/// S1-49: a commit by anyone on a branch that was already judged is detected without a command.
#[test]
fn a_commit_on_an_approved_branch_takes_the_approval_back() {
    let site = Site::with_agents(FIXER);
    site.remand(&["tick"]).report();
    site.remand(&["approve", "c1"]).ok();
    let judged = site.world.sqlite("SELECT head FROM changes");
    let events = site.world.sqlite("SELECT count(*) FROM events");
    site.remand(&["tick"]).report();
    assert_eq!(
        site.world.sqlite("SELECT count(*) FROM events"),
        events,
        "nothing moved"
    );

    let other = site.world.worktree(&site.repo, "elsewhere");
    site.world
        .commit(&other, "other.txt", "other", "not on its branch");
    site.remand(&["tick"]).report();
    assert_eq!(site.state("c1"), "approved");

    site.world
        .commit(&site.worktree, "more.txt", "more", "more");
    let tip = site.world.git(&site.worktree, &["rev-parse", "HEAD"]);
    site.remand(&["tick"]).report();
    let moved = "SELECT metadata ->> 'from' || ' ' || (metadata ->> 'to') FROM events WHERE event_type = 'head_moved'";
    assert_eq!(site.world.sqlite(moved).trim(), format!("{judged} {tip}"));
    let states = "SELECT group_concat(metadata ->> 'to', ' ') FROM (SELECT * FROM events WHERE event_type = 'state_changed' ORDER BY id DESC LIMIT 5)";
    let states = site.world.sqlite(states);
    assert!(
        states.ends_with("pending_self_review") || states.contains(" pending_self_review "),
        "{states}"
    );
    assert_eq!(
        site.state("c1"),
        "ready_for_human_review",
        "it was reviewed again, and waits for a person again"
    );
    assert_eq!(site.world.sqlite("SELECT count(*) FROM reviews"), "3");
    assert_eq!(site.world.sqlite("SELECT head FROM changes"), tip);
    site.remand(&["check"]).ok();

    // Commits that were merged into its base need no review.
    site.remand(&["approve", "c1"]).ok();
    site.world.git(
        &site.repo,
        &[
            "merge",
            "--quiet",
            "--no-ff",
            "-m",
            "merged",
            "feature/login",
        ],
    );
    site.world
        .git(&site.worktree, &["merge", "--quiet", "--ff-only", "main"]);
    site.remand(&["tick"]).report();
    assert_eq!(site.state("c1"), "approved");
}

#[test]
fn a_person_who_fixed_an_escalated_change_has_it_reviewed() {
    let site = Site::with_agents("true\n");
    site.remand(&["tick"]).report();
    assert_eq!(site.state("c1"), "escalated");
    site.world
        .remand_in(&site.worktree, &["review"])
        .fails(5, "c1 needs you, and its head has not changed");
    site.world.commit(&site.worktree, "fixed", "", "by hand");
    site.world.remand_in(&site.worktree, &["review"]).ok();
    assert_eq!(site.state("c1"), "pending_self_review");
    site.remand(&["check"]).ok();
    site.remand(&["tick"]).report();
    assert_eq!(site.state("c1"), "ready_for_human_review");
    site.remand(&["check"]).ok();
}

#[test]
fn a_repository_with_sha256_is_refused_with_the_reason() {
    let world = World::new();
    let path = world.root().join("src/new");
    fs::create_dir_all(&path).unwrap();
    world.git(&path, &["init", "-q", "--object-format=sha256"]);
    world.commit(&path, "a", "a\n", "first");
    let said = "uses the object format sha256; only sha1 repositories are supported";
    world
        .remand(&["project", "add", path.to_str().unwrap()])
        .fails(1, said);
    world
        .remand_in(&path, &["review", "--add-project"])
        .fails(1, said);
    assert!(!world.db().exists() || world.sqlite("SELECT count(*) FROM projects") == "0");
}

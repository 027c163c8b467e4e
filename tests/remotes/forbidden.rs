//! Contents that must not be pushed, whatever the agent does: they are saved and reported, and a
//! person is asked.

use super::{FIXES, Remotes};
use crate::support::play::Script;
use crate::support::pull_play::{REPO, rejecting};

const CANARY: &str = "canary-of-the-forge-0123";
/// `printf %s "x$CANARY" | base64`.
const CODED: &str = "eGNhbmFyeS1vZi10aGUtZm9yZ2UtMDEyMw==";

const TABLES: &str = "[push]\nmax_file_kb = 64\nmax_files = 5\n";

/// Actions of an agent, the reported reason, and something that is saved.
struct Case {
    does: String,
    reason: &'static str,
    kept: &'static str,
}

fn case(does: impl Into<String>, reason: &'static str, kept: &'static str) -> Case {
    Case {
        does: does.into(),
        reason,
        kept,
    }
}

fn cases() -> Vec<Case> {
    let commits = "git add -A && git commit --quiet -m 'By the agent'";
    let token = format!("gh{}_{}", "p", "0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R");
    let orders = "it changes files with instructions for agents";
    vec![
        case(
            "mkdir -p .github/workflows; echo on >.github/workflows/x.yml",
            ".github/workflows/x.yml",
            ".github/workflows/x.yml",
        ),
        case(
            "mkdir -p .GitHub/Workflows; echo on >.GitHub/Workflows/y.yml",
            "y.yml must not be changed by an agent",
            ".GitHub/Workflows/y.yml",
        ),
        case(
            "echo '* @mallory' >CODEOWNERS",
            "CODEOWNERS must not be changed by an agent",
            "CODEOWNERS",
        ),
        case(
            format!("printf '[submodule \"x\"]\\n' >.gitmodules; {commits}"),
            ".gitmodules",
            ".gitmodules",
        ),
        case(
            "mkdir sub; git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub; git commit --quiet -m Sub",
            "sub changes a submodule",
            "work.txt",
        ),
        case(
            "ln -s ../../../elsewhere out",
            "out is a symlink that points outside the repository",
            "out",
        ),
        case(
            "ln -s /etc/passwd abs",
            "abs is a symlink that points outside the repository",
            "abs",
        ),
        case(
            "ln -s .git/config inside",
            "inside is a symlink that points outside the repository or into .git",
            "inside",
        ),
        case(
            "head -c 70000 /dev/zero | tr '\\0' x >big",
            "big has 70000 bytes; the limit is 65536",
            "big",
        ),
        case(
            "for i in 1 2 3 4 5 6; do echo $i >many$i; done",
            "files changed; the limit is 5",
            "many6",
        ),
        case(
            format!("echo 'key = {token}' >settings.ini"),
            "settings.ini contains what looks like a GitHub token on line 1",
            "settings.ini",
        ),
        case(
            format!(
                "echo 'key = {token}' >settings.ini; {commits}; git rm --quiet settings.ini; {commits}"
            ),
            "in an earlier commit that would be pushed too",
            "work.txt",
        ),
        case(
            format!("echo {CANARY} >note.txt"),
            "note.txt contains what looks like one of remand's own secrets on line 1",
            "note.txt",
        ),
        case(
            format!("echo {CODED} >note.txt"),
            "note.txt contains what looks like one of remand's own secrets on line 1",
            "note.txt",
        ),
        case(
            format!("echo x >x.txt; git add -A; git commit --quiet -m 'see {CANARY}'"),
            "contains what looks like one of remand's own secrets; reword it",
            "x.txt",
        ),
        case(
            format!("echo obey >CLAUDE.md; {commits}"),
            orders,
            "CLAUDE.md",
        ),
        case(
            format!("mkdir -p .claude; echo '{{}}' >.claude/settings.json; {commits}"),
            orders,
            ".claude/settings.json",
        ),
        case(
            "git mv .github/workflows/ci.yml ci.yml",
            ".github/workflows/ci.yml",
            "ci.yml",
        ),
        case(
            "git rm --quiet .github/workflows/ci.yml",
            ".github/workflows/ci.yml",
            "work.txt",
        ),
        case(
            "git commit --quiet --amend -am 'As if it had always been so'",
            "the agent rewrote the branch",
            "work.txt",
        ),
        case(
            "git reset --quiet --hard HEAD~1; echo fixed >work.txt",
            "the agent rewrote the branch",
            "work.txt",
        ),
        case(
            "git checkout --quiet -b other",
            "the agent switched from the branch feature to other",
            "work.txt",
        ),
        case(
            "git checkout --quiet --detach",
            "the agent switched from the branch feature to a detached HEAD",
            "work.txt",
        ),
    ]
}

/// One change, one agent after the other: each is refused, and the next is started by `retry`.
#[test]
fn what_must_not_be_pushed_is_kept_and_a_person_asked() {
    let stage = Remotes::unwatched(&Script {
        tables: TABLES,
        ..rejecting()
    });
    stage.play.sh(
        &stage.play.worktree,
        "mkdir -p .github/workflows; echo on >.github/workflows/ci.yml; git add -A; git commit --quiet -m CI; git push --quiet origin feature",
    );
    stage.watch();
    let head = stage.remote_head("feature");
    let moves = stage.moves("feature").len();
    for (n, Case { does, reason, kept }) in cases().into_iter().enumerate() {
        stage.play.fixer(&format!("{FIXES}{does}\n"));
        if n > 0 {
            stage.play.world.remand(&["retry", "c1"]).ok();
        }
        stage.tick_with_token(CANARY);
        stage.play.is_escalated(reason);
        assert_eq!(stage.remote_head("feature"), head, "{does}");
        stage.play.worktree_is_at(&head);
        stage.kept(kept);
        assert_eq!(stage.runs(), n + 1, "{does}");
    }
    assert_eq!(stage.moves("feature").len(), moves, "nothing was pushed");
    let told = stage.play.world.sqlite("SELECT * FROM events") + &stage.play.why();
    assert!(
        !told.contains(CANARY) && !told.contains(CODED),
        "a secret is told"
    );
    assert!(!told.contains("0a1B2c3D4e5F6g7H8i9J"), "a secret is told");
    // Allowed contents are pushed.
    stage.play.fixer(FIXES);
    stage.play.world.remand(&["retry", "c1"]).ok();
    stage.tick_with_token(CANARY);
    stage.is_ready();
    assert_eq!(stage.moves("feature").len(), moves + 1);
}

#[test]
fn a_pull_request_from_the_default_branch_is_not_taken_over() {
    let stage = Remotes::unwatched(&rejecting());
    let number = stage.forge.open_pull("main", "feature", "carol");
    let said = stage
        .play
        .world
        .remand(&["watch", &format!("{REPO}#{number}")])
        .fails(1, "its branch is the project's default branch");
    assert!(
        said.stderr.contains("open the PR from a separate branch"),
        "{}",
        said.stderr
    );
    assert_eq!(stage.play.count("changes"), 0);
}

/// It may: the state of the remote counts. Nothing is pushed twice.
#[test]
fn an_agent_that_pushes_a_good_fix_by_itself_is_done() {
    let stage = Remotes::new(&rejecting());
    stage.play.fixer(&format!(
        "{FIXES}git commit --quiet -am 'By the agent'\ngit push --quiet origin HEAD:feature\n"
    ));
    stage.tick();
    stage.is_ready();
    assert_eq!((stage.moves("feature").len(), stage.runs()), (1, 1));
    assert_eq!(stage.subjects(), ["add work.txt", "By the agent"]);
}

/// Forbidden contents are on the remote: this is reported, and not treated as a person's answer.
#[test]
fn an_agent_that_pushes_by_itself_what_it_must_not_is_found_out() {
    let stage = Remotes::new(&rejecting());
    let before = stage.remote_head("feature");
    stage.play.fixer(&format!(
        "{FIXES}mkdir -p .github/workflows; echo on >.github/workflows/x.yml; git add -A\n\
         git commit --quiet -m 'By the agent'\ngit push --quiet origin HEAD:feature\n"
    ));
    stage.tick();
    let theirs = stage.remote_head("feature");
    assert_ne!(theirs, before);
    stage.is_escalated(&format!("{} is already on the remote", &theirs[..10]));
    assert!(
        stage.play.answer().contains(".github/workflows/x.yml"),
        "{}",
        stage.play.answer()
    );
    assert_eq!((stage.moves("feature").len(), stage.runs()), (1, 1));
    stage.play.worktree_is_at(&before);
    // The person removes it, and the change continues from there.
    stage.person(&format!("git push --quiet --force origin {before}:feature"));
    stage.play.fixer(FIXES);
    stage.tick();
    stage.is_ready();
    assert_eq!(
        stage.subjects(),
        ["add work.txt", "Address review feedback (cycle 1)"]
    );
}

const FEW: &str = "[push]\nmax_files = 5\n";
const LITTLE: &str = "[push]\nmax_total_kb = 100\n";

/// A fix is measured before it is copied: copying a gigabyte would hit a time limit every time.
/// Here copying is not possible at all.
#[test]
fn a_fix_that_is_too_large_is_handed_over_before_it_is_copied() {
    let many = "for i in 1 2 3 4 5 6 7 8; do echo $i >many$i; done";
    let commits = "git add -A; git commit -q -m 'By the agent'";
    let cases = [
        (
            FEW,
            many.to_owned(),
            "9 files changed; the limit is 5",
            "many8",
        ),
        (
            FEW,
            format!("{many}; {commits}"),
            "9 files changed; the limit is 5",
            "many8",
        ),
        (
            LITTLE,
            "head -c 300000 /dev/zero >big".to_owned(),
            "bytes in total; the limit is 102400",
            "big",
        ),
        (
            LITTLE,
            format!("head -c 300000 /dev/zero >big; {commits}"),
            "bytes in total; the limit is 102400",
            "big",
        ),
        (
            LITTLE,
            format!(
                "head -c 300000 /dev/urandom >big; {commits}; git rm -q big; git commit -q -m Smaller"
            ),
            "bytes in total; the limit is 102400",
            "work.txt",
        ),
    ];
    for (tables, does, reason, kept) in cases {
        let fixer = format!("{FIXES}{does}\n");
        let stage = Remotes::new(&Script {
            fixer: &fixer,
            tables,
            ..rejecting()
        });
        let world = &stage.play.world;
        let git = stage.play.sh(world.root(), "command -v git");
        let real = git.trim();
        let copies = "case \"$*\" in *refs/remand/taken/*) kill -9 $$ ;; esac";
        world.script("git", &format!("{copies}\nexec {real} \"$@\"\n"));
        stage.tick();
        stage.is_escalated(reason);
        assert_eq!(
            (stage.moves("feature").len(), stage.runs()),
            (0, 1),
            "{does}"
        );
        assert!(!stage.play.kept("r2", kept).is_empty(), "{does}");
    }
}

//! Number of git processes of a whole loop: each costs milliseconds in a small repository and
//! tenths of a second in a large one.

use std::collections::BTreeMap;

use crate::support::play::{FIXES, Play, REVIEWS_FIXED, Script};

/// Maximum number for a review, a fix and another review without gates: 60 for their work, and 2 to
/// keep the reviewed commits.
const MOST: usize = 62;

#[test]
fn a_review_a_fix_and_a_review_start_few_git_processes() {
    let play = Play::without_change(&Script {
        reviewer: &format!("echo '== review' >>\"$PROMPTS/git.log\"\n{REVIEWS_FIXED}"),
        fixer: &format!("echo '== fix' >>\"$PROMPTS/git.log\"\n{FIXES}"),
        ..Script::default()
    });
    play.world
        .remand_in(&play.worktree, &["review", "--title", "Feature"])
        .ok();
    log_git(&play);
    play.tick().report();
    play.is_ready(1);
    let log = play.noted("git.log");
    let calls = log.lines().filter(|line| !line.starts_with("== ")).count();
    assert!(calls > 0, "the log is empty");
    assert!(
        calls <= MOST,
        "{calls} git processes, {MOST} are allowed\n{}",
        table(&log)
    );
}

/// A repository that defines drivers costs more: git is asked about them, and not once per call.
#[test]
fn drivers_of_a_repository_are_asked_for_once_per_item() {
    let play = Play::new(&Script::default());
    play.world.git(
        &play.repo,
        &["config", "core.excludesFile", "/nonexistent/ignore"],
    );
    log_git(&play);
    play.tick().report();
    play.is_ready(1);
    let log = play.noted("git.log");
    let asked = log.lines().filter(|line| line.contains("show-scope"));
    // Two reviews and a fix.
    assert_eq!(asked.count(), 3, "{}", table(&log));
}

/// Installs a git that writes down each call of remand.
fn log_git(play: &Play) {
    let real = play.sh(play.world.root(), "command -v git");
    let log = play.seen("git.log");
    play.world.script(
        "git",
        &format!(
            "case \"$1\" in --no-pager) printf '%s\\n' \"$*\" >>'{}';; esac\nexec {} \"$@\"\n",
            log.display(),
            real.trim(),
        ),
    );
}

/// Returns the number of each command between two runs of agents, and all calls in order.
fn table(log: &str) -> String {
    let (mut text, mut section) = (String::new(), "before the first run");
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let end = ["== end"];
    for line in log.lines().chain(end) {
        if let Some(agent) = line.strip_prefix("== ") {
            text.push_str(&format!("{section}: {counts:?}\n"));
            section = if agent == "fix" {
                "after the fixer"
            } else {
                "after a reviewer"
            };
            counts.clear();
        } else {
            *counts.entry(command(line)).or_default() += 1;
        }
    }
    let calls = log.lines().map(|line| match line.strip_prefix("== ") {
        Some(_) => line.to_owned(),
        None => format!("  {}", after_settings(line)),
    });
    text + &calls.collect::<Vec<_>>().join("\n")
}

/// Returns the name of the git command of a logged call.
fn command(line: &str) -> &str {
    after_settings(line).split(' ').next().unwrap_or_default()
}

/// Returns a call from its command on.
fn after_settings(line: &str) -> &str {
    let mut rest = line.trim_start_matches("--no-pager ");
    while let Some(after) = rest.strip_prefix("-c ") {
        rest = after.split_once(' ').map_or("", |(_, rest)| rest);
    }
    rest
}

/// Flags keep files out of what git reports as changed on disk, and not out of the commit.
#[test]
fn a_large_file_that_only_the_index_has_is_measured() {
    let fixer = "cat >/dev/null\necho fixed >>work.txt\n\
        id=$(head -c 3000000 /dev/zero | git hash-object -w --stdin)\n\
        git update-index --add --cacheinfo 100644,$id,large\n\
        git update-index --skip-worktree large\n";
    let play = Play::new(&Script {
        fixer,
        tables: "[push]\nmax_total_kb = 1000\n",
        ..Script::default()
    });
    play.tick().report();
    play.is_escalated("3000011 bytes in total");
}

//! Git processes of a whole loop (a review, a fix, another review) by scripted agents: their number, and their time
//! against the git commands that a person would type for the same work. `cargo bench --bench git_processes` prints a
//! table for a small repository and for one with 50,000 files, and fails if a figure misses its target.
//!
//! `-- --files N` sets the number of files, `-- --program FILE` measures another program than the one that cargo built.
//! Figures are the best of three: other work on the machine only ever adds to them.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a bench is a test: it may fail, print, and start children"
)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Commands for the same work: a look before each of three runs and after it, the diff for each reviewer, and the
/// commit.
const BARE: &[&[&str]] = &[
    &["status", "--porcelain"],
    &["diff", "main...feature"],
    &["status", "--porcelain"],
    &["status", "--porcelain"],
    &["add", "-A"],
    &["commit", "-q", "-m", "fix"],
    &["status", "--porcelain"],
    &["diff", "main...feature"],
    &["status", "--porcelain"],
    &["log", "-1"],
];

const MOST_PROCESSES: f64 = 62.0;
const MOST_TIMES_BARE: f64 = 6.0;
const MOST_LARGE_MS: f64 = 2_500.0;

fn main() {
    let mut files = 50_000;
    let mut program = PathBuf::from(env!("CARGO_BIN_EXE_remand"));
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--files" => files = args.next().unwrap().parse().unwrap(),
            "--program" => program = args.next().map(PathBuf::from).unwrap(),
            // What cargo passes on.
            _ => {}
        }
    }
    println!("{:<48} {:>10} {:>12}", "figure", "target", "measured");
    let mut missed = 0;
    let mut row = |figure: String, target: Option<f64>, measured: f64, unit: &str| {
        let is_missed = target.is_some_and(|target| measured > target);
        missed += usize::from(is_missed);
        let target = target.map_or_else(String::new, |target| format!("≤ {target} {unit}"));
        let mark = if is_missed { "  MISSED" } else { "" };
        println!("{figure:<48} {target:>10} {measured:>9.1} {unit}{mark}");
    };
    for (files, is_large) in [(0, false), (files, true)] {
        let best = (0..3)
            .map(|_| measure(&program, files))
            .reduce(Measured::best)
            .unwrap();
        let name = format!("{files} files");
        row(
            format!("{name}: git processes"),
            Some(MOST_PROCESSES),
            best.processes as f64,
            "",
        );
        row(
            format!("{name}: their time"),
            is_large.then_some(MOST_LARGE_MS),
            best.git_ms,
            "ms",
        );
        row(format!("{name}: bare commands"), None, best.bare_ms, "ms");
        row(
            format!("{name}: times the bare commands"),
            Some(MOST_TIMES_BARE),
            best.git_ms / best.bare_ms,
            "×",
        );
        row(format!("{name}: whole tick"), None, best.tick_ms, "ms");
    }
    assert_eq!(missed, 0, "figures that miss their target");
}

#[derive(Debug, Clone, Copy)]
struct Measured {
    processes: usize,
    git_ms: f64,
    bare_ms: f64,
    tick_ms: f64,
}

impl Measured {
    fn best(self, other: Self) -> Self {
        Self {
            processes: self.processes.max(other.processes),
            git_ms: self.git_ms.min(other.git_ms),
            bare_ms: self.bare_ms.min(other.bare_ms),
            tick_ms: self.tick_ms.min(other.tick_ms),
        }
    }
}

fn measure(program: &Path, files: usize) -> Measured {
    let folder = tempfile::tempdir().unwrap();
    let place = Place {
        root: folder.path().canonicalize().unwrap(),
        program: program.to_owned(),
    };
    place.fill(files);
    let worktree = place.root.join("calc-feature");
    place.run(&place.root, &place.program, &["project", "add", "calc"]);
    place.run(&worktree, &place.program, &["review", "--title", "Feature"]);
    let log = place.log_git();
    let bare_ms = place.bare(&worktree, &log);
    let begun = Instant::now();
    place.run(&place.root, &place.program, &["tick"]);
    let tick_ms = begun.elapsed().as_secs_f64() * 1000.0;
    let times = logged_ms(&log);
    Measured {
        processes: times.len(),
        git_ms: times.iter().sum(),
        bare_ms,
        tick_ms,
    }
}

/// Returns the time of each call that was logged.
fn logged_ms(log: &Path) -> Vec<f64> {
    let text = fs::read_to_string(log).unwrap();
    let micros = text.lines().map(|line| line.parse::<f64>().unwrap());
    micros.map(|micros| micros / 1000.0).collect()
}

struct Place {
    root: PathBuf,
    program: PathBuf,
}

impl Place {
    fn command(&self, folder: &Path, program: impl AsRef<OsStr>, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = std::iter::once(self.root.join("bin")).chain(std::env::split_paths(&path));
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::join_paths(own).unwrap())
            .env("HOME", self.root.join("home"))
            .env("XDG_CONFIG_HOME", self.root.join("config"))
            .env("XDG_STATE_HOME", self.root.join("state"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    fn run(&self, folder: &Path, program: impl AsRef<OsStr>, args: &[&str]) {
        let status = self.command(folder, program, args).status().unwrap();
        assert!(status.success(), "{args:?}");
    }

    fn script(&self, name: &str, text: &str) {
        let path = self.root.join("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Creates a repository with a worktree on a branch, and agents.
    fn fill(&self, files: usize) {
        for folder in ["home", "config/remand", "state", "bin", "calc"] {
            fs::create_dir_all(self.root.join(folder)).unwrap();
        }
        let user = "[user]\n\tname = Ada\n\temail = ada@example.org\n";
        fs::write(self.root.join("home/.gitconfig"), user).unwrap();
        let repo = self.root.join("calc");
        self.run(&repo, "git", &["init", "-q", "-b", "main"]);
        for number in 0..files {
            let folder = repo.join(format!("d{}", number / 100));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(format!("f{number}")), format!("{number}\n")).unwrap();
        }
        fs::write(repo.join("README.md"), "hello\n").unwrap();
        self.run(&repo, "git", &["add", "-A"]);
        self.run(&repo, "git", &["commit", "-q", "-m", "first"]);
        let add = ["worktree", "add", "-q", "-b", "feature", "../calc-feature"];
        self.run(&repo, "git", &add);
        let worktree = self.root.join("calc-feature");
        fs::write(worktree.join("work.txt"), "work\n").unwrap();
        self.run(&worktree, "git", &["add", "-A"]);
        self.run(&worktree, "git", &["commit", "-q", "-m", "add work.txt"]);
        let says = |verdict: &str, finding: &str, previous: &str| {
            let count = usize::from(!finding.is_empty());
            format!(
                "printf 'REVIEW_RESULT: {verdict}\\nFINDINGS_COUNT: {count}\\nSEVERITY: high\\nSUMMARY: looked at\\n\\n\
                 ```json\\n{{\"findings\": [{finding}], \"previous\": [{previous}]}}\\n```\\n'"
            )
        };
        let finding = r#"{"severity": "high", "category": "logic", "path": "work.txt", "line": 1, "text": "say fixed"}"#;
        let approves = says("approved", "", r#"{"id": "f1", "status": "resolved"}"#)
            .replace("SEVERITY: high", "SEVERITY: none");
        self.script(
            "reviewer",
            &format!(
                "cat >/dev/null\nif grep -q fixed work.txt; then {approves}; else {}; fi\n",
                says("changes_requested", finding, "")
            ),
        );
        self.script("fixer", "cat >/dev/null\necho fixed >>work.txt\n");
        let agent = |name: &str| {
            let path = self.root.join("bin").join(name);
            format!(
                "[agents.{name}]\nkind = \"command\"\ncommand = [\"{}\"]\n",
                path.display()
            )
        };
        let config = format!(
            "agent = \"fixer\"\nreview_agent = \"reviewer\"\n{}{}[sandbox]\nkind = \"off\"\n",
            agent("reviewer"),
            agent("fixer")
        );
        fs::write(self.root.join("config/remand/config.toml"), config).unwrap();
    }

    /// Returns the time of a person's commands, which are undone again. They are measured like those of the loop, and
    /// leave the log empty.
    fn bare(&self, worktree: &Path, log: &Path) -> f64 {
        self.run(worktree, "git", &["status"]);
        fs::write(worktree.join("work.txt"), "work\nbare\n").unwrap();
        fs::write(log, "").unwrap();
        for args in BARE {
            self.run(worktree, "git", args);
        }
        let took = logged_ms(log).iter().sum();
        self.run(worktree, "git", &["reset", "-q", "--hard", "HEAD~1"]);
        fs::write(log, "").unwrap();
        took
    }

    /// Installs a git that writes down the time of each call.
    fn log_git(&self) -> PathBuf {
        let found = self.command(&self.root, "sh", &["-c", "command -v git"]);
        let mut found = found;
        let real = found.stdout(Stdio::piped()).output().unwrap().stdout;
        let real = String::from_utf8(real).unwrap();
        let log = self.root.join("git.log");
        self.script(
            "git",
            &format!(
                "begun=$(date +%s%N)\n{} \"$@\"\nstatus=$?\necho $((($(date +%s%N) - begun) / 1000)) >>'{}'\nexit $status\n",
                real.trim(),
                log.display()
            ),
        );
        log
    }
}

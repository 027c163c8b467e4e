//! An isolated environment for each test: a home directory, git, a blackboard, repositories,
//! scripted agents.
//!
//! Nothing from the machine except the programs on its PATH has an effect, and everything is
//! deleted when the test ends.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub(crate) mod forge;
pub(crate) mod model;
pub(crate) mod play;
pub(crate) mod pull_play;

pub(crate) struct World {
    dir: TempDir,
    root: PathBuf,
    /// Environment variables of every command, besides those that are always set.
    pub(crate) variables: Vec<(&'static str, &'static str)>,
}

/// Status and output of a program.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        // Paths are compared with the output of git and remand, which is canonical.
        let root = dir.path().canonicalize().unwrap();
        for folder in ["home", "config/remand", "state", "src", "bin"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let config = "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n[commit]\n\tgpgsign = false\n";
        fs::write(root.join("home/.gitconfig"), config).unwrap();
        Self {
            dir,
            root,
            variables: Vec::new(),
        }
    }

    /// Directory that contains everything.
    pub(crate) fn root(&self) -> &Path {
        debug_assert!(self.dir.path().exists());
        &self.root
    }

    pub(crate) fn db(&self) -> PathBuf {
        self.root.join("state/remand/blackboard.db")
    }

    /// Creates a command in this environment: only variables named here are passed on.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = std::iter::once(self.root.join("bin")).chain(std::env::split_paths(&path));
        command
            .env_clear()
            .env("PATH", std::env::join_paths(own).unwrap())
            .env("HOME", self.root.join("home"))
            .env("XDG_CONFIG_HOME", self.root.join("config"))
            .env("XDG_STATE_HOME", self.root.join("state"))
            .env("XDG_DATA_HOME", self.root.join("data"))
            .env("XDG_CACHE_HOME", self.root.join("cache"))
            .env("GIT_CONFIG_GLOBAL", self.root.join("home/.gitconfig"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("REMAND_ACTOR", "ada")
            .env("LC_ALL", "C.UTF-8")
            .envs(self.variables.iter().copied())
            .current_dir(&self.root)
            .stdin(Stdio::null());
        command
    }

    /// Creates a command for `remand`, to be extended and started.
    pub(crate) fn remand_command(&self, args: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_remand"));
        command.args(args);
        command
    }

    /// Runs remand in the top directory.
    pub(crate) fn remand(&self, args: &[&str]) -> Output {
        run(&mut self.remand_command(args))
    }

    pub(crate) fn remand_in(&self, folder: &Path, args: &[&str]) -> Output {
        let mut command = self.remand_command(args);
        command.current_dir(folder);
        run(&mut command)
    }

    pub(crate) fn remand_with_stdin(&self, args: &[&str], stdin: &str) -> Output {
        feed(self.remand_command(args), stdin)
    }

    /// Runs remand, which must succeed, and parses its JSON.
    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        let mut all = args.to_vec();
        all.push("--json");
        self.remand(&all).ok().json()
    }

    /// Like [`Self::json`], for a report on a change that is held or needs a person.
    #[track_caller]
    pub(crate) fn held_json(&self, args: &[&str]) -> serde_json::Value {
        let mut all = args.to_vec();
        all.push("--json");
        self.remand(&all).held().json()
    }

    /// Returns the answer of `why`, whether the change is held or not.
    #[track_caller]
    pub(crate) fn why(&self, id: &str) -> serde_json::Value {
        self.remand(&["why", id, "--json"]).report().json()
    }

    /// Writes the config file.
    pub(crate) fn config(&self, toml: &str) {
        fs::write(self.root.join("config/remand/config.toml"), toml).unwrap();
    }

    pub(crate) fn git(&self, folder: &Path, args: &[&str]) -> String {
        let mut command = self.command("git");
        command.args(args).current_dir(folder);
        run(&mut command).ok().stdout.trim_end().to_owned()
    }

    /// Creates a repository with one commit on `main`, in `src/NAME`.
    pub(crate) fn repo(&self, name: &str) -> PathBuf {
        let path = self.root.join("src").join(name);
        fs::create_dir_all(&path).unwrap();
        self.git(&path, &["init", "-q"]);
        self.commit(&path, "README.md", "hello\n", "first");
        path
    }

    /// Creates a worktree next to its repository, on a new branch with one commit.
    pub(crate) fn worktree(&self, repo: &Path, branch: &str) -> PathBuf {
        let name = format!(
            "{}-{}",
            repo.file_name().unwrap().to_str().unwrap(),
            branch.replace('/', "-")
        );
        let path = repo.parent().unwrap().join(name);
        self.git(
            repo,
            &[
                "worktree",
                "add",
                "-q",
                "-b",
                branch,
                path.to_str().unwrap(),
                "main",
            ],
        );
        self.commit(&path, "work.txt", "work\n", "add work.txt");
        path
    }

    /// Writes a file and commits it; returns the commit's id.
    pub(crate) fn commit(&self, folder: &Path, file: &str, text: &str, subject: &str) -> String {
        fs::write(folder.join(file), text).unwrap();
        self.git(folder, &["add", "-A"]);
        self.git(folder, &["commit", "-q", "-m", subject]);
        self.git(folder, &["rev-parse", "HEAD"])
    }

    /// Queries or changes the blackboard without remand; returns rows with `|` between columns.
    pub(crate) fn sqlite(&self, sql: &str) -> String {
        let mut command = self.command("sqlite3");
        command
            .arg("-cmd")
            .arg(".timeout 5000")
            .arg(self.db())
            .arg(sql);
        match command.output() {
            Ok(output) => told(&output).ok().stdout.trim_end().to_owned(),
            Err(_) => self.rusqlite(sql),
        }
    }

    /// For machines without the `sqlite3` command.
    fn rusqlite(&self, sql: &str) -> String {
        let conn = rusqlite::Connection::open(self.db()).unwrap();
        let mut statement = conn.prepare(sql).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        let mut lines = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            let cell = |at: usize| match row.get_ref(at).unwrap() {
                rusqlite::types::ValueRef::Null => String::new(),
                rusqlite::types::ValueRef::Integer(n) => n.to_string(),
                rusqlite::types::ValueRef::Real(n) => n.to_string(),
                rusqlite::types::ValueRef::Text(text) | rusqlite::types::ValueRef::Blob(text) => {
                    String::from_utf8_lossy(text).into_owned()
                }
            };
            lines.push((0..columns).map(cell).collect::<Vec<_>>().join("|"));
        }
        lines.join("\n")
    }

    /// Writes a program for the test, such as a fake agent: a script for `sh`.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.join("bin").join(name);
        // Written by a child: a file that this process has open for writing, or that another test's
        // child inherited for a moment, cannot be executed ("text file busy").
        let mut writer = self.command("sh");
        writer
            .arg("-c")
            .arg("cat > \"$1.new\" && chmod 755 \"$1.new\" && mv \"$1.new\" \"$1\"")
            .arg("sh")
            .arg(&path);
        let written = feed(writer, &format!("#!/bin/sh\n{text}"));
        assert_eq!(written.status, 0, "{}", written.stderr);
        path
    }

    /// Replaces paths, commits and times of this environment, so that the text fits a snapshot.
    pub(crate) fn plain(&self, text: &str) -> String {
        let text = text.replace(self.root.to_str().unwrap(), "WORLD");
        let text = replace_runs(&text, 40, |c| c.is_ascii_hexdigit(), "SHA");
        let text = replace_runs(&text, 10, |c| c.is_ascii_hexdigit(), "SHA");
        replace_times(&text)
    }
}

impl Output {
    /// Asserts that it succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        self.ends_with(&[0])
    }

    /// Asserts that it reported on a change that is held or needs a person.
    #[track_caller]
    pub(crate) fn held(self) -> Self {
        self.ends_with(&[5])
    }

    /// Asserts that it reported on a change, whether that is held or not.
    #[track_caller]
    pub(crate) fn report(self) -> Self {
        self.ends_with(&[0, 5])
    }

    #[track_caller]
    fn ends_with(self, statuses: &[i32]) -> Self {
        assert!(
            statuses.contains(&self.status),
            "status {}\nstdout: {}\nstderr: {}",
            self.status,
            self.stdout,
            self.stderr
        );
        self
    }

    /// Parses its output.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }

    /// Its text without line breaks, which depend on the width.
    pub(crate) fn words(&self) -> String {
        let words: Vec<&str> = self.stdout.split_whitespace().collect();
        words.join(" ")
    }

    /// Asserts that it ended with this status, printed this to stderr, and nothing to stdout.
    #[track_caller]
    pub(crate) fn fails(self, status: i32, said: &str) -> Self {
        assert_eq!(
            self.status, status,
            "stdout: {}\nstderr: {}",
            self.stdout, self.stderr
        );
        assert!(
            self.stderr.contains(said),
            "{said:?} is not in {}",
            self.stderr
        );
        assert_eq!(self.stdout, "", "a failure has no result");
        self
    }
}

/// True for the exit status of a `tick` that did its work, whether a change is held or not.
pub(crate) fn is_report(status: std::process::ExitStatus) -> bool {
    matches!(status.code(), Some(0 | 5))
}

/// Waits until a condition holds, with a time limit.
#[track_caller]
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "waited in vain: {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Reports that a test could not run here, and why; `tests/run` lists it at its end.
pub(crate) fn skip(name: &str, why: &str) {
    println!("skipped: {name}: {why}");
    if let Some(list) = std::env::var_os("REMAND_SKIPS") {
        let mut list = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(list)
            .unwrap();
        writeln!(list, "{name}\t{why}").unwrap();
    }
}

/// Returns a file that `tests/run` installs.
pub(crate) fn tool(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("target/tools")
        .join(path);
    path.exists().then_some(path)
}

pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    told(&output)
}

/// Runs a command with this stdin.
pub(crate) fn feed(mut command: Command, stdin: &str) -> Output {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(stdin.as_bytes())
        .unwrap();
    told(&child.wait_with_output().unwrap())
}

fn told(output: &std::process::Output) -> Output {
    Output {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout.clone()).unwrap(),
        stderr: String::from_utf8(output.stderr.clone()).unwrap(),
    }
}

/// Replaces separate sequences of exactly `length` matching characters.
fn replace_runs(text: &str, length: usize, fits: fn(char) -> bool, with: &str) -> String {
    let mut out = String::new();
    let mut run = String::new();
    let end = |run: &mut String, out: &mut String| {
        let is_id = run.len() == length && run.chars().any(|c| c.is_ascii_digit());
        out.push_str(if is_id { with } else { run });
        run.clear();
    };
    for c in text.chars() {
        if fits(c) {
            run.push(c);
        } else {
            end(&mut run, &mut out);
            out.push(c);
        }
    }
    end(&mut run, &mut out);
    out
}

/// Replaces `2026-11-16T02:29:53.123Z` and `2026-11-16 02:29:53` by TIME, and `3 s ago` by
/// `just now`.
fn replace_times(text: &str) -> String {
    let mut out = text.to_owned();
    for form in ["0000-00-00T00:00:00.000Z", "0000-00-00 00:00:00"] {
        while let Some(at) = find_time(&out, form) {
            out.replace_range(at..at + form.len(), "TIME");
        }
    }
    for seconds in 5..120 {
        out = out.replace(&format!("{seconds} s ago"), "just now");
    }
    out
}

fn find_time(text: &str, form: &str) -> Option<usize> {
    let shape = |bytes: &[u8]| {
        bytes
            .iter()
            .zip(form.as_bytes())
            .all(|(found, wanted)| match wanted {
                b'0' => found.is_ascii_digit(),
                other => found == other,
            })
    };
    text.as_bytes().windows(form.len()).position(shape)
}

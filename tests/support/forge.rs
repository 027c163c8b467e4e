//! Test interface of the fake GitHub: people who push, review, comment and merge independently of
//! remand, planned faults, and a record of remand's requests.
//!
//! It edits the same file as `remand __gh`, under the same lock. A request that the fake does not
//! know fails the test when the forge is dropped, since remand itself may treat it as an outage and
//! continue.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

use super::run;

mod checks;
mod late;
mod server;

pub(crate) use server::Server;

pub(crate) struct Forge {
    path: PathBuf,
    repo: String,
    git_dir: PathBuf,
}

/// Review by a user.
pub(crate) struct Review<'a> {
    pub(crate) by: &'a str,
    /// `APPROVED`, `CHANGES_REQUESTED`, `COMMENTED` or `DISMISSED`.
    pub(crate) state: &'a str,
    /// `None`: the current head of the branch.
    pub(crate) commit: Option<&'a str>,
    pub(crate) body: &'a str,
    /// Path, line, text.
    pub(crate) inline: &'a [(&'a str, i64, &'a str)],
}

impl Default for Review<'_> {
    fn default() -> Self {
        Self {
            by: "bob",
            state: "CHANGES_REQUESTED",
            commit: None,
            body: "",
            inline: &[],
        }
    }
}

/// Request that was sent to the forge.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Logged {
    pub(crate) method: String,
    pub(crate) path: String,
    /// `None` if a fault prevented it.
    pub(crate) status: Option<i64>,
    /// Body of the request.
    pub(crate) body: Value,
}

impl Forge {
    /// Creates a forge with one public repository, `owner/name`, whose branches are those of a bare
    /// git repository. Its owner is an admin, and logged in; a user `bob` may write; a user
    /// `mallory` may only read.
    pub(crate) fn new(folder: &Path, repo: &str, git_dir: &Path) -> Self {
        let owner = repo.split('/').next().unwrap();
        let state = json!({
            "me": owner,
            "users": { owner: { "id": 11 } },
            "repos": { repo: {
                "id": 7001, "git_dir": git_dir, "default_branch": "main", "permissions": { owner: "admin" },
            } },
            "now": "2026-11-16T08:00:00Z",
            "next_id": 1001,
        });
        let path = folder.join("forge.json");
        fs::write(&path, state.to_string()).unwrap();
        let forge = Self {
            path,
            repo: repo.to_owned(),
            git_dir: git_dir.to_owned(),
        };
        forge.add_user("bob", "write");
        forge.add_user("mallory", "read");
        forge
    }

    /// Command line that replaces `gh`.
    pub(crate) fn gh_argv(&self) -> Vec<String> {
        vec![
            env!("CARGO_BIN_EXE_remand").into(),
            "__gh".into(),
            self.path.to_str().unwrap().into(),
        ]
    }

    /// Adds a user with a permission (`admin`, `maintain`, `write`, `triage`, `read` or `none`) on
    /// the repository; returns their id.
    pub(crate) fn add_user(&self, login: &str, permission: &str) -> i64 {
        let id = self.add(login, "User");
        self.set_permission(login, permission);
        id
    }

    /// Adds an app's account, `name[bot]`, for which GitHub reports no permissions.
    pub(crate) fn add_bot(&self, login: &str) -> i64 {
        self.add(login, "Bot")
    }

    fn add(&self, login: &str, kind: &str) -> i64 {
        self.change(|state| {
            let id = new_id(state);
            state["users"][login] = json!({ "id": id, "type": kind });
            id
        })
    }

    pub(crate) fn set_permission(&self, login: &str, permission: &str) {
        self.change(|state| state["repos"][&self.repo]["permissions"][login] = json!(permission));
        self.check();
    }

    /// Deletes an account: its contributions stay, without an author.
    pub(crate) fn remove_user(&self, login: &str) {
        self.change(|state| {
            state["users"].as_object_mut().unwrap().remove(login);
        });
    }

    /// Sets the user who is logged in from now on.
    pub(crate) fn log_in(&self, login: &str) {
        self.change(|state| state["me"] = json!(login));
    }

    pub(crate) fn log_out(&self) {
        self.change(|state| state["me"] = Value::Null);
    }

    /// Renames the repository; the old name redirects to the new one.
    pub(crate) fn rename(&mut self, name: &str) {
        let old = std::mem::replace(&mut self.repo, name.to_owned());
        self.change(|state| {
            let mut repo = state["repos"]
                .as_object_mut()
                .unwrap()
                .remove(&old)
                .unwrap();
            let mut formerly = repo["formerly"].as_array().cloned().unwrap_or_default();
            formerly.push(json!(old));
            repo["formerly"] = json!(formerly);
            for pull in repo["pulls"]
                .as_object_mut()
                .into_iter()
                .flat_map(|pulls| pulls.values_mut())
            {
                if pull["head_repo"] == json!(old) {
                    pull["head_repo"] = json!(name);
                }
            }
            state["repos"][name] = repo;
        });
    }

    /// Opens a pull request for a branch in the repository; returns its number.
    pub(crate) fn open_pull(&self, branch: &str, base: &str, author: &str) -> i64 {
        self.open_pull_from(Some(&self.repo), branch, base, author)
    }

    /// Opens a pull request from a fork, which stays at the commit that the branch of this name has
    /// here now. `None`: the fork was deleted.
    pub(crate) fn open_pull_from(
        &self,
        head_repo: Option<&str>,
        branch: &str,
        base: &str,
        author: &str,
    ) -> i64 {
        let (head, base_sha) = (self.sha(branch), self.sha(base));
        self.change(|state| {
            let (id, at) = (new_id(state), stamp(state));
            let repo = &mut state["repos"][&self.repo];
            let last =
                repo["pulls"].as_object().into_iter().flatten().filter_map(|(number, _)| number.parse().ok()).max();
            let number = last.unwrap_or(0_i64) + 1;
            repo["pulls"][number.to_string()] = json!({
                "id": id, "title": format!("Add {branch}"), "body": null, "author": author,
                "head_ref": branch, "head_repo": head_repo, "head_sha": head,
                "base_ref": base, "base_sha": base_sha, "created_at": at, "updated_at": at,
                "labels": [], "requested_reviewers": [], "reviews": [], "comments": [], "issue_comments": [],
            });
            number
        })
    }

    /// Opens an issue; returns its number. They are counted from 101, so that no pull request of a
    /// test has the same number.
    pub(crate) fn open_issue(&self, author: &str, title: &str, body: &str) -> i64 {
        self.change(|state| {
            let (id, at) = (new_id(state), stamp(state));
            let issues = &mut state["repos"][&self.repo]["issues"];
            let number = 101 + issues.as_object().map_or(0, |known| i64::try_from(known.len()).unwrap());
            issues[number.to_string()] = json!({
                "id": id, "title": title, "body": body, "author": author, "created_at": at, "updated_at": at,
            });
            number
        })
    }

    /// Adds a comment to an issue that is not a pull request.
    pub(crate) fn comment_on_issue(&self, number: i64, by: &str, body: &str) {
        self.change(|state| {
            let (id, at) = (new_id(state), stamp(state));
            let issue = &mut state["repos"][&self.repo]["issues"][number.to_string()];
            let made =
                json!({ "id": id, "author": by, "body": body, "created_at": at, "updated_at": at });
            push(&mut issue["comments"], made);
        });
    }

    pub(crate) fn close_issue(&self, number: i64) {
        self.change(|state| {
            let at = stamp(state);
            let issue = &mut state["repos"][&self.repo]["issues"][number.to_string()];
            issue["closed_at"] = json!(at);
        });
    }

    /// Turns off drafts, as in private repositories of some plans.
    pub(crate) fn refuse_drafts(&self) {
        self.change(|state| state["repos"][&self.repo]["no_drafts"] = json!(true));
    }

    /// Sets the description of a pull request, as its author.
    pub(crate) fn describe(&self, number: i64, body: &str) {
        self.on_pull(number, |pull, _, _| pull["body"] = json!(body));
    }

    /// Adds a review with its inline comments; returns its id.
    pub(crate) fn review(&self, number: i64, review: &Review<'_>) -> i64 {
        let commit = review
            .commit
            .map_or_else(|| self.head(number), str::to_owned);
        self.on_pull(number, |pull, ids, at| {
            let id = ids();
            push(
                &mut pull["reviews"],
                json!({
                    "id": id, "author": review.by, "state": review.state, "commit": commit, "body": review.body,
                    "submitted_at": at,
                }),
            );
            for (path, line, body) in review.inline {
                push(&mut pull["comments"], inline(ids(), Some(id), (review.by, &commit), (path, *line, body), at));
            }
            id
        })
    }

    /// Adds a comment on a line, outside of any review; returns its id.
    pub(crate) fn review_comment(
        &self,
        number: i64,
        by: &str,
        path: &str,
        line: i64,
        body: &str,
    ) -> i64 {
        let commit = self.head(number);
        self.on_pull(number, |pull, ids, at| {
            let id = ids();
            push(
                &mut pull["comments"],
                inline(id, None, (by, &commit), (path, line, body), at),
            );
            id
        })
    }

    /// Adds a comment to the conversation; returns its id.
    pub(crate) fn issue_comment(&self, number: i64, by: &str, body: &str) -> i64 {
        self.on_pull(number, |pull, ids, at| {
            let id = ids();
            let made =
                json!({ "id": id, "author": by, "body": body, "created_at": at, "updated_at": at });
            push(&mut pull["issue_comments"], made);
            id
        })
    }

    /// Changes the text of a review or comment.
    pub(crate) fn edit_comment(&self, id: i64, body: &str) {
        self.on_comment(id, |comment, at| {
            comment["body"] = json!(body);
            if comment.get("updated_at").is_some() {
                comment["updated_at"] = json!(at);
            }
        });
    }

    /// Dismisses a review.
    pub(crate) fn dismiss(&self, number: i64, id: i64) {
        self.on_pull(number, |pull, _, _| {
            let reviews = pull["reviews"].as_array_mut().unwrap();
            let review = reviews.iter_mut().find(|review| review["id"] == json!(id));
            review.unwrap_or_else(|| panic!("there is no review {id}"))["state"] =
                json!("DISMISSED");
        });
    }

    pub(crate) fn delete_comment(&self, id: i64) {
        self.change(|state| {
            for pull in pulls(state) {
                for list in ["comments", "issue_comments"] {
                    pull[list]
                        .as_array_mut()
                        .unwrap()
                        .retain(|comment| comment["id"] != json!(id));
                }
            }
        });
    }

    /// Marks a comment as outdated: its line has changed.
    pub(crate) fn outdate(&self, id: i64) {
        self.on_comment(id, |comment, _| comment["is_outdated"] = json!(true));
    }

    /// Sets the diff hunk of all inline comments.
    pub(crate) fn set_hunks(&self, number: i64, hunk: &str) {
        self.on_pull(number, |pull, _, _| {
            pull["comments"]
                .as_array_mut()
                .unwrap()
                .iter_mut()
                .for_each(|comment| comment["hunk"] = json!(hunk));
        });
    }

    /// Merges the branch into its base, in git and on the forge.
    pub(crate) fn merge(&self, number: i64, by: &str) {
        let pull = self.pull(number);
        let (branch, base) = (
            pull["head_ref"].as_str().unwrap(),
            pull["base_ref"].as_str().unwrap(),
        );
        let tree = self.git(&["merge-tree", "--write-tree", base, branch]);
        let commit = self.git(&[
            "commit-tree",
            &tree,
            "-p",
            base,
            "-p",
            branch,
            "-m",
            "Merge a pull request",
        ]);
        let head = self.sha(branch);
        self.git(&["update-ref", &format!("refs/heads/{base}"), &commit]);
        self.on_pull(number, |pull, _, at| {
            for key in ["closed_at", "merged_at"] {
                pull[key] = json!(at);
            }
            pull["head_sha"] = json!(head);
            pull["merged_by"] = json!(by);
            pull["merge_commit_sha"] = json!(commit);
        });
    }

    pub(crate) fn close(&self, number: i64) {
        self.on_pull(number, |pull, _, at| pull["closed_at"] = json!(at));
    }

    pub(crate) fn reopen(&self, number: i64) {
        self.on_pull(number, |pull, _, _| pull["closed_at"] = Value::Null);
    }

    pub(crate) fn label(&self, number: i64, label: &str) {
        self.on_pull(number, |pull, _, _| push(&mut pull["labels"], json!(label)));
    }

    pub(crate) fn unlabel(&self, number: i64, label: &str) {
        self.on_pull(number, |pull, _, _| {
            pull["labels"]
                .as_array_mut()
                .unwrap()
                .retain(|known| known != label);
        });
    }

    pub(crate) fn convert_to_draft(&self, number: i64) {
        self.on_pull(number, |pull, _, _| pull["draft"] = json!(true));
    }

    pub(crate) fn mark_ready(&self, number: i64) {
        self.on_pull(number, |pull, _, _| pull["draft"] = json!(false));
    }

    /// Makes a pull request look as if it had been opened so many days ago.
    pub(crate) fn age(&self, number: i64, days: i64) {
        let at = (chrono::Utc::now() - chrono::Duration::days(days))
            .format("%Y-%m-%dT%H:%M:%SZ")
            .to_string();
        self.on_pull(number, |pull, _, _| pull["created_at"] = json!(at));
    }

    /// Changes the base.
    pub(crate) fn retarget(&self, number: i64, base: &str) {
        self.on_pull(number, |pull, _, _| pull["base_ref"] = json!(base));
    }

    pub(crate) fn set_default_branch(&self, branch: &str) {
        self.change(|state| state["repos"][&self.repo]["default_branch"] = json!(branch));
    }

    /// Plans trouble: `{"method", "path", "skip", "times", "then"}`, as in `crates/fake-github/src/fault.rs`.
    pub(crate) fn fault(&self, fault: Value) {
        self.change(|state| push(&mut state["faults"], fault));
        self.check();
    }

    pub(crate) fn clear_faults(&self) {
        self.change(|state| state["faults"] = json!([]));
    }

    /// Sets the number of remaining requests, and the seconds until the window ends.
    pub(crate) fn set_rate(&self, remaining: i64, reset_in_s: i64) {
        let now = chrono::Utc::now().timestamp();
        self.change(|state| {
            state["rate"] =
                json!({ "limit": 5000, "remaining": remaining, "reset": now + reset_in_s });
        });
    }

    pub(crate) fn log(&self) -> Vec<Logged> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let logged = |line: &Value| Logged {
            method: text(&line["method"]),
            path: text(&line["path"]),
            status: line["status"].as_i64(),
            body: line["body"].clone(),
        };
        self.state()["log"]
            .as_array()
            .map(|log| log.iter().map(logged).collect())
            .unwrap_or_default()
    }

    /// Lists completed writes: `POST repos/ada/engine/pulls/1/reviews`, oldest first.
    pub(crate) fn writes(&self) -> Vec<String> {
        let is_done =
            |line: &Logged| line.method != "GET" && line.status.is_some_and(|status| status < 300);
        let done = self.log().into_iter().filter(is_done);
        done.map(|line| format!("{} {}", line.method, line.path))
            .collect()
    }

    /// Counts completed writes to paths that contain this.
    pub(crate) fn writes_to(&self, part: &str) -> usize {
        self.writes()
            .iter()
            .filter(|line| line.contains(part))
            .count()
    }

    pub(crate) fn clear_log(&self) {
        self.change(|state| state["log"] = json!([]));
    }

    /// A pull request as the forge keeps it: see `crates/fake-github/src/state.rs`.
    pub(crate) fn pull(&self, number: i64) -> Value {
        self.state()["repos"][&self.repo]["pulls"][number.to_string()].clone()
    }

    /// Returns the numbers of all pull requests.
    pub(crate) fn numbers(&self) -> Vec<String> {
        let state = self.state();
        let pulls = state["repos"][&self.repo]["pulls"].as_object().unwrap();
        pulls.keys().cloned().collect()
    }

    pub(crate) fn reviews(&self, number: i64) -> Vec<Value> {
        self.pull(number)["reviews"].as_array().unwrap().clone()
    }

    pub(crate) fn comments(&self, number: i64) -> Vec<Value> {
        self.pull(number)["comments"].as_array().unwrap().clone()
    }

    pub(crate) fn issue_comments(&self, number: i64) -> Vec<Value> {
        self.pull(number)["issue_comments"]
            .as_array()
            .unwrap()
            .clone()
    }

    /// Returns the complete state, to be restored later.
    pub(crate) fn snapshot(&self) -> String {
        self.state().to_string()
    }

    pub(crate) fn restore(&self, snapshot: &str) {
        self.change(|state| *state = serde_json::from_str(snapshot).unwrap());
    }

    /// Returns requests that the fake does not know, and clears them.
    pub(crate) fn take_misuse(&self) -> Vec<String> {
        let texts = |list: &Value| -> Vec<String> {
            serde_json::from_value(list.clone()).unwrap_or_default()
        };
        self.change(|state| {
            texts(&std::mem::take(&mut state["misuse"]))
                .into_iter()
                .collect()
        })
    }

    /// Serves the forge to the real `gh` until the guard is dropped.
    pub(crate) fn serve(&self) -> Server {
        Server::start(&self.gh_argv(), self.path.with_extension("gh"))
    }

    fn head(&self, number: i64) -> String {
        let pull = self.pull(number);
        self.sha(pull["head_ref"].as_str().unwrap())
    }

    fn sha(&self, branch: &str) -> String {
        self.git(&["rev-parse", "--verify", &format!("refs/heads/{branch}")])
    }

    fn git(&self, args: &[&str]) -> String {
        let mut command = Command::new("git");
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("GIT_DIR", &self.git_dir)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1");
        for who in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{who}_NAME"), "Bob")
                .env(format!("GIT_{who}_EMAIL"), "bob@example.org");
        }
        run(command.args(args)).ok().stdout.trim().to_owned()
    }

    fn state(&self) -> Value {
        self.change(|state| state.clone())
    }

    /// Edits the file under its lock.
    fn change<T>(&self, edit: impl FnOnce(&mut Value) -> T) -> T {
        let lock = self.path.with_extension("json.lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(lock)
            .unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let before = fs::read_to_string(&self.path).unwrap();
        let mut state: Value = serde_json::from_str(&before).unwrap();
        let result = edit(&mut state);
        let new = self.path.with_extension("json.new");
        fs::write(&new, state.to_string()).unwrap();
        fs::rename(new, &self.path).unwrap();
        result
    }

    /// Edits a pull request and updates its time.
    fn on_pull<T>(
        &self,
        number: i64,
        edit: impl FnOnce(&mut Value, &mut dyn FnMut() -> i64, &str) -> T,
    ) -> T {
        self.change(|state| {
            let at = stamp(state);
            let mut next = state["next_id"].as_i64().unwrap();
            let pull = &mut state["repos"][&self.repo]["pulls"][number.to_string()];
            assert!(pull.is_object(), "there is no pull request {number}");
            let mut ids = || {
                next += 1;
                next - 1
            };
            let result = edit(pull, &mut ids, &at);
            pull["updated_at"] = json!(at);
            state["next_id"] = json!(next);
            result
        })
    }

    fn on_comment(&self, id: i64, edit: impl FnOnce(&mut Value, &str)) {
        self.change(|state| {
            let at = stamp(state);
            let lists = ["reviews", "comments", "issue_comments"];
            let mut all = pulls(state).flat_map(|pull| {
                let lists = pull
                    .as_object_mut()
                    .unwrap()
                    .iter_mut()
                    .filter(|(name, _)| lists.contains(&name.as_str()));
                lists
                    .flat_map(|(_, list)| list.as_array_mut().unwrap().iter_mut())
                    .collect::<Vec<_>>()
            });
            let comment = all.find(|comment| comment["id"] == json!(id));
            edit(
                comment.unwrap_or_else(|| panic!("there is no comment {id}")),
                &at,
            );
        });
    }

    /// Checks that the fake can read its file, so that a typo in a test is found where it was made.
    #[track_caller]
    fn check(&self) {
        let argv = self.gh_argv();
        run(Command::new(&argv[0])
            .args(&argv[1..])
            .arg("check")
            .env_clear())
        .ok();
    }
}

impl Drop for Forge {
    fn drop(&mut self) {
        if !std::thread::panicking() && self.path.exists() {
            let misuse = self.take_misuse();
            assert!(
                misuse.is_empty(),
                "asked of the stand-in for GitHub, which does not know it: {misuse:?}"
            );
        }
    }
}

fn pulls(state: &mut Value) -> impl Iterator<Item = &mut Value> {
    let repos = state["repos"].as_object_mut().unwrap().values_mut();
    repos.flat_map(|repo| {
        repo["pulls"]
            .as_object_mut()
            .into_iter()
            .flat_map(|pulls| pulls.values_mut())
    })
}

fn inline(
    id: i64,
    review: Option<i64>,
    (by, commit): (&str, &str),
    what: (&str, i64, &str),
    at: &str,
) -> Value {
    let (path, line, body) = what;
    json!({
        "id": id, "review": review, "author": by, "body": body, "path": path, "line": line, "commit": commit,
        "hunk": format!("@@ -{line},1 +{line},1 @@\n the line"), "created_at": at, "updated_at": at,
    })
}

fn push(list: &mut Value, item: Value) {
    if list.is_null() {
        *list = json!([]);
    }
    list.as_array_mut().unwrap().push(item);
}

fn new_id(state: &mut Value) -> i64 {
    let id = state["next_id"].as_i64().unwrap();
    state["next_id"] = json!(id + 1);
    id
}

/// Advances the forge's clock by a second.
fn stamp(state: &mut Value) -> String {
    let now = state["now"]
        .as_str()
        .unwrap()
        .parse::<chrono::DateTime<chrono::Utc>>()
        .unwrap();
    let at = (now + chrono::Duration::seconds(1))
        .format("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    state["now"] = json!(at);
    at
}

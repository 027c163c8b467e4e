//! Checks of commits on the fake GitHub.

use serde_json::{Value, json};

use super::{Forge, new_id, push, stamp};

/// App and workflow run of the checks of a test, unless it names another app.
const ACTIONS: &str = "github-actions";
const WORKFLOW: i64 = 500;

impl Forge {
    /// Makes a rule set require these checks of pull requests into a branch.
    pub(crate) fn require(&self, branch: &str, names: &[&str]) {
        self.change(|state| state["repos"][&self.repo]["rules"][branch] = json!(names));
        self.check();
    }

    /// Makes the protection of a branch require these checks.
    pub(crate) fn protect(&self, branch: &str, names: &[&str]) {
        self.change(|state| state["repos"][&self.repo]["protection"][branch] = json!(names));
        self.check();
    }

    /// Sets the result of a job of GitHub Actions; `None` while it runs. A job that has ended gets a new run, as if a
    /// person ran it again. Returns its number.
    pub(crate) fn set_check(&self, sha: &str, name: &str, conclusion: Option<&str>) -> i64 {
        self.set_check_of((ACTIONS, Some(WORKFLOW)), sha, name, conclusion)
    }

    /// Sets the result of a check run of another app.
    pub(crate) fn set_check_by(
        &self,
        app: &str,
        sha: &str,
        name: &str,
        conclusion: Option<&str>,
    ) -> i64 {
        self.set_check_of((app, None), sha, name, conclusion)
    }

    fn set_check_of(
        &self,
        (app, workflow): (&str, Option<i64>),
        sha: &str,
        name: &str,
        conclusion: Option<&str>,
    ) -> i64 {
        let id = self.change(|state| {
            let (new, at) = (new_id(state), stamp(state));
            let runs = &mut state["repos"][&self.repo]["checks"][sha]["runs"];
            let status = conclusion.map_or("in_progress", |_| "completed");
            let completed_at = conclusion.map(|_| at.clone());
            let is_open = |run: &&mut Value| {
                run["name"] == name && run["app"] == app && run["status"] != "completed"
            };
            let mut open = runs.as_array_mut().into_iter().flatten();
            if let Some(run) = open.find(is_open) {
                run["status"] = json!(status);
                run["conclusion"] = json!(conclusion);
                run["completed_at"] = json!(completed_at);
                return run["id"].as_i64().unwrap();
            }
            let run = json!({
                "id": new, "name": name, "app": app, "status": status, "conclusion": conclusion,
                "started_at": at, "completed_at": completed_at, "workflow": workflow,
            });
            push(runs, run);
            new
        });
        self.check();
        id
    }

    /// Sets the status of a context.
    pub(crate) fn set_status(&self, sha: &str, context: &str, status: &str) {
        self.change(|state| {
            let (id, at) = (new_id(state), stamp(state));
            let statuses = &mut state["repos"][&self.repo]["checks"][sha]["statuses"];
            if let Some(all) = statuses.as_array_mut() {
                all.retain(|known| known["context"] != context);
            }
            let made = json!({
                "id": id, "context": context, "state": status, "description": null,
                "target_url": format!("https://ci.example.org/{context}"), "created_at": at,
            });
            push(statuses, made);
        });
        self.check();
    }

    /// Sets the log of a job, after lines of this many bytes.
    pub(crate) fn set_log(&self, job: i64, text: &str, padding_bytes: usize) {
        self.change(|state| {
            state["repos"][&self.repo]["logs"][job.to_string()] =
                json!({ "text": text, "padding_bytes": padding_bytes });
        });
        self.check();
    }
}

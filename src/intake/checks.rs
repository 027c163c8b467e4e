//! Reads the checks of a pull request's head, and the evidence about failing ones: their result on the merge base, and
//! their logs. A right that the login does not have is no error of the pull request.

use std::ffi::OsString;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Intake;
use super::read::Before;
use crate::blackboard as bb;
use crate::check::{
    Check, CheckKind, CheckSettings, CheckState, FailingStep, FoundEvidence, LOG_BYTES,
    OptionalChecks, ReportedCheck, end_of_log, without_ansi,
};
use crate::clock::{self, Time};
use crate::github::{Answer, Fetch, GithubError, Marks, RequiredChecks};
use crate::process::{self, Short};
use crate::sanitize;
use crate::secret_scan;

/// Time for which the names of required checks are cached.
const REQUIRED_HOLDS: Duration = Duration::from_secs(10 * 60);

/// Time for which a refusal is cached: unlike an unchanged response, it counts against the rate limit.
const REFUSAL_HOLDS: Duration = Duration::from_secs(60 * 60);

/// Time limit of the command that prints a log.
const LOG_COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// Shortest known secret that is masked; a shorter one would be found in ordinary text.
const SHORTEST_SECRET: usize = 8;

/// Marks of the last read of the checks of a pull request, so that only changes are requested.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CheckMarks {
    runs: Marks,
    statuses: Marks,
    rules: Required,
    protection: Required,
    /// Time when the forge refused to show the checks.
    refused_at: Option<Time>,
}

/// Names of the checks that a branch requires, as last read.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Required {
    base: String,
    names: Vec<String>,
    etag: Option<String>,
    asked_at: Option<Time>,
    is_refused: bool,
}

/// Head and base of a pull request.
pub(super) struct Ends<'a> {
    pub(super) repo: &'a str,
    pub(super) head: &'a str,
    pub(super) base: &'a str,
}

/// Place where the names of required checks are.
#[derive(Clone, Copy)]
enum Source {
    Rules,
    Protection,
}

impl Intake {
    /// Reads the checks of a head. `None` if the forge has no checks for it, or does not know it yet.
    pub(super) async fn checks(
        &self,
        fetch: &mut Fetch,
        before: &Before,
        ends: &Ends<'_>,
        known: &CheckMarks,
    ) -> super::Result<(Option<bb::ReadChecks>, CheckMarks)> {
        let now = clock::now();
        let settings = (self.settings.rules)(&before.project.project_id).checks;
        let mut marks = known.clone();
        let reported = match self.reported(fetch, ends, &mut marks, now).await {
            Ok(reported) => Ok(reported),
            Err(GithubError::NotFound { .. } | GithubError::Refused { .. }) => {
                return Ok((None, known.clone()));
            }
            Err(error @ GithubError::Auth { .. }) => {
                marks.refused_at = Some(now);
                Err(format!("{error}; {}", error.hint()))
            }
            Err(error) => return Err(error.into()),
        };
        let mut required = settings.required.clone();
        for source in [Source::Rules, Source::Protection] {
            let place = match source {
                Source::Rules => &mut marks.rules,
                Source::Protection => &mut marks.protection,
            };
            self.required(fetch, ends, source, place, now).await?;
            required.extend(place.names.iter().cloned());
        }
        required.sort();
        required.dedup();
        let evidence = self.evidence(before, ends, &settings).await?;
        let (reported, trouble) = match reported {
            Ok(reported) => (reported, None),
            Err(trouble) => (Vec::new(), Some(trouble)),
        };
        let read = bb::ReadChecks {
            head: ends.head.to_owned(),
            reported,
            required,
            all_count: settings.optional == OptionalChecks::Fix,
            may_rerun: settings.rerun_red,
            evidence,
            trouble,
        };
        Ok((Some(read), marks))
    }

    /// Returns the checks on pages that have changed.
    async fn reported(
        &self,
        fetch: &mut Fetch,
        ends: &Ends<'_>,
        marks: &mut CheckMarks,
        now: Time,
    ) -> Result<Vec<ReportedCheck>, GithubError> {
        let is_known = |at: Time| !clock::is_due(at.plus(REFUSAL_HOLDS), now, REFUSAL_HOLDS);
        if marks.refused_at.is_some_and(is_known) {
            let message = "the token may not read checks (asked again every hour)".to_owned();
            return Err(GithubError::Auth { message, url: None });
        }
        let github = &self.github;
        let (repo, head) = (ends.repo, ends.head);
        let runs = github.check_runs_in(fetch, repo, head, &marks.runs).await?;
        let statuses = github.statuses_in(fetch, repo, head, &marks.statuses);
        let statuses = statuses.await?;
        (marks.runs, marks.statuses) = (runs.marks, statuses.marks);
        marks.refused_at = None;
        let mut reported = runs.items;
        reported.extend(statuses.items);
        // Oldest first: the newest run of a name and app counts.
        reported.sort_by_key(|check| check.forge_id);
        Ok(reported)
    }

    /// Updates the names of required checks, unless they were read recently.
    async fn required(
        &self,
        fetch: &Fetch,
        ends: &Ends<'_>,
        source: Source,
        known: &mut Required,
        now: Time,
    ) -> Result<(), GithubError> {
        if known.base != ends.base {
            *known = Required::default();
        }
        let holds = if known.is_refused {
            REFUSAL_HOLDS
        } else {
            REQUIRED_HOLDS
        };
        let is_known = |at: Time| !clock::is_due(at.plus(holds), now, holds);
        if known.asked_at.is_some_and(is_known) {
            return Ok(());
        }
        let (github, etag) = (&self.github, known.etag.as_deref());
        let (repo, base) = (ends.repo, ends.base);
        let answer = match source {
            Source::Rules => github.required_by_rules(fetch, repo, base, etag).await,
            Source::Protection => github.required_by_protection(fetch, repo, base, etag).await,
        };
        known.is_refused = false;
        match answer {
            Ok(Answer::Unchanged) => {}
            Ok(Answer::New {
                value: RequiredChecks(names),
                etag,
            }) => (known.names, known.etag) = (names, etag),
            Err(error) if is_refusal(&error) => {
                tracing::debug!(base, error = %error, "cannot read the required checks");
                *known = Required {
                    is_refused: true,
                    ..Required::default()
                };
            }
            Err(error) => return Err(error),
        }
        ends.base.clone_into(&mut known.base);
        known.asked_at = Some(now);
        Ok(())
    }

    /// Returns the evidence that was requested about failing checks. What cannot be had is reported with it.
    async fn evidence(
        &self,
        before: &Before,
        ends: &Ends<'_>,
        settings: &CheckSettings,
    ) -> super::Result<Vec<FoundEvidence>> {
        let id = &before.change.change_id;
        let mut wanted = self.db.read_of(id, bb::wanted_evidence).await?;
        wanted.retain(|check| check.head == ends.head);
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let on_base = self.checks_on_base(ends).await?;
        let mut found = Vec::new();
        for check in wanted {
            let Some(forge_id) = check.forge_id else {
                continue;
            };
            let same = |other: &&ReportedCheck| {
                (other.kind, &other.name, &other.app) == (check.kind, &check.name, &check.app)
            };
            let newest = on_base.iter().filter(same).max_by_key(|one| one.forge_id);
            let state_on_base: Option<CheckState> = newest.map(|one| one.state);
            // An agent is not given what the change did not cause.
            let log = if state_on_base == Some(CheckState::Failing) {
                Err("not read, because the check fails on the merge base too".to_owned())
            } else {
                self.log(&check, ends, settings).await?
            };
            let (log, log_trouble) = match log {
                Ok(log) => (Some(log), None),
                Err(trouble) => (None, Some(trouble)),
            };
            found.push(FoundEvidence {
                forge_id,
                kind: check.kind,
                on_base: state_on_base,
                log,
                log_trouble,
            });
        }
        Ok(found)
    }

    /// Returns the checks of the merge base; none if they cannot be read.
    async fn checks_on_base(&self, ends: &Ends<'_>) -> Result<Vec<ReportedCheck>, GithubError> {
        let read = async {
            let (repo, github) = (ends.repo, &self.github);
            let base = github.merge_base(repo, ends.base, ends.head).await?;
            github.checks_of(repo, &base).await
        };
        match read.await {
            Err(error) if !ends_read(&error) => {
                tracing::warn!(error = %error, "cannot read the checks of the merge base");
                Ok(Vec::new())
            }
            read => read,
        }
    }

    /// Returns the end of the log of a check, or the reason why there is none.
    async fn log(
        &self,
        check: &Check,
        ends: &Ends<'_>,
        settings: &CheckSettings,
    ) -> Result<Result<String, String>, GithubError> {
        let bytes = match (check.job(), settings.log_command.split_first()) {
            (Some(job), _) => match self.github.job_log(ends.repo, job.id).await {
                Err(error) if !ends_read(&error) => Err(error.to_string()),
                read => Ok(read?),
            },
            (None, Some(command)) => self.log_by_command(check, command).await,
            (None, None) => {
                let what = match check.kind {
                    CheckKind::Run => "an app other than GitHub Actions",
                    CheckKind::Status | CheckKind::Missing => "a commit status",
                };
                Err(format!(
                    "it is by {what}; `github.log_command` can print it"
                ))
            }
        };
        Ok(bytes.map(|bytes| self.harmless(&bytes)))
    }

    /// Runs the user's command for the log of a check, outside of every worktree and with no secrets of remand.
    async fn log_by_command(
        &self,
        check: &Check,
        (program, args): (&String, &[String]),
    ) -> Result<Vec<u8>, String> {
        let own = [
            ("REMAND_CHECK_NAME", check.name.clone()),
            ("REMAND_CHECK_URL", check.url.clone().unwrap_or_default()),
            ("REMAND_CHECK_HEAD", check.head.clone()),
        ];
        let mut env = process::os_variables(self.settings.log_env.clone());
        env.extend(own.map(|(name, value)| {
            // A zero byte would make the whole environment invalid.
            (
                OsString::from(name),
                OsString::from(value.replace('\0', "")),
            )
        }));
        let command = Short {
            program: program.into(),
            args: args.iter().map(OsString::from).collect(),
            cwd: self.settings.log_dir.clone(),
            env,
            stdin: None,
            limit: LOG_COMMAND_LIMIT,
            cap: LOG_BYTES,
            is_wrapped: false,
        };
        let mut step = FailingStep::default();
        let output = process::stream(&command, &mut |bytes| step.push(bytes)).await;
        let output = output.map_err(|error| sanitize::chain(&error))?;
        if output.status == Some(0) {
            return Ok(step.end());
        }
        let status = output.status.map_or_else(
            || "a signal".to_owned(),
            |status| format!("status {status}"),
        );
        let stderr = String::from_utf8_lossy(&output.stderr);
        let first = self.harmless(stderr.lines().next().unwrap_or_default().as_bytes());
        Err(format!("`{program}` ended with {status}: {first}"))
    }

    /// Returns a log without escape sequences and without secrets.
    fn harmless(&self, bytes: &[u8]) -> String {
        let plain = without_ansi(&String::from_utf8_lossy(bytes));
        let mut masked = secret_scan::hide(&plain);
        for secret in &self.settings.secrets {
            let secret = secret.reveal().trim();
            if secret.len() >= SHORTEST_SECRET {
                masked = masked.replace(secret, "***");
            }
        }
        end_of_log(&masked, LOG_BYTES).to_owned()
    }
}

/// True if the login may not read something, or it does not exist.
fn is_refusal(error: &GithubError) -> bool {
    match error {
        GithubError::Auth { .. } | GithubError::NotFound { .. } | GithubError::Refused { .. } => {
            true
        }
        GithubError::NoGh
        | GithubError::LoggedOut
        | GithubError::Limited { .. }
        | GithubError::Transient { .. }
        | GithubError::Broken { .. } => false,
    }
}

/// True for an error that any further request would meet: the evidence is requested again later.
fn ends_read(error: &GithubError) -> bool {
    matches!(
        error,
        GithubError::NoGh | GithubError::LoggedOut | GithubError::Limited { .. }
    )
}

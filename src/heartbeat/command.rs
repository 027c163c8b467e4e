//! Evaluators that are the user's own programs. Each has its own loop and must not delay another
//! one: the program runs outside any transaction, and its proposals, events and cursor commit
//! together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Beat, LOOK_AGAIN};
use crate::blackboard::{self as bb, Conn, Db, Result};
use crate::change::ProjectId;
use crate::clock::{self, Time};
use crate::evaluator::command::{
    Line, MOST_BYTES, MOST_EVENTS, MOST_ROWS, ShownChange, ShownItem, ShownProject, ShownPull,
    Snapshot, VERSION, read,
};
use crate::evaluator::definition::{Command, Need};
use crate::evaluator::{Config, Definition};
use crate::failpoint::crash_point;
use crate::process::{
    self, CommandEnd, FinishedCommand, Job, Limits, ProcessError, ProcessId, SETTLE, Stream,
};
use crate::{files, sanitize, secret_scan, text};

/// Pause between two passes of one evaluator: two that react to each other must not spin.
const BREATH: Duration = Duration::from_secs(1);

/// Maximum number of lines that one pass reports individually.
const MOST_UNREAD: usize = 20;

/// Parameters for running programs.
#[derive(Debug, Clone)]
pub(crate) struct Kit {
    /// The program of the shims: this one.
    pub(crate) program: PathBuf,
    /// Closed environment, without secrets.
    pub(crate) env: BTreeMap<String, String>,
    /// Directories of the passes, one per process that runs them and evaluator.
    pub(crate) dir: PathBuf,
    /// This process.
    pub(crate) holder: String,
    /// Time from SIGTERM to SIGKILL.
    pub(crate) grace: Duration,
    pub(crate) backoff_first: Duration,
    pub(crate) backoff_max: Duration,
}

/// Input of an evaluator, and its cursor after that input.
pub(crate) struct View {
    snapshot: Snapshot,
    cursor: i64,
}

/// Result of a program: its lines, or the reason why none are used.
pub(crate) type Printed = std::result::Result<Vec<Line>, String>;

/// True if the evaluator has something to look at.
pub(crate) fn is_due(conn: &Conn, definition: &Definition, now: Time) -> Result<bool> {
    let name = &definition.name;
    // No result could be started, and running the program would be a start too.
    if bb::is_all_stopped(conn)? {
        return Ok(false);
    }
    if bb::trouble_of(conn, name)?.is_some_and(|trouble| trouble.try_again > now) {
        return Ok(false);
    }
    if definition.needs.contains(&Need::PrFeedback) && bb::any_read_due(conn, now)? {
        return Ok(false);
    }
    if super::is_due(conn, definition, now)? {
        return Ok(true);
    }
    let after = bb::looks_after(conn, name)?;
    for event_type in &definition.on {
        if bb::any_by_others(conn, *event_type, after, name)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the evaluator's current input.
pub(crate) fn look(conn: &Conn, definition: &Definition, now: Time) -> Result<View> {
    let after = bb::looks_after(conn, &definition.name)?;
    let mut events = bb::shown_events(conn, &definition.on, after, MOST_EVENTS + 1)?;
    let most = usize::try_from(MOST_EVENTS).unwrap_or(usize::MAX);
    let more_events = events.len() > most;
    events.truncate(most);
    let cursor = match events.last() {
        Some(last) if more_events => last.id,
        Some(_) | None => bb::newest_event(conn)?,
    };
    let projects = bb::list_projects(conn)?;
    let stops = bb::stops(conn)?;
    let is_stopped = |id: &ProjectId| {
        let mut stopped = stops.iter().map(|stop| stop.project_id.as_ref());
        stopped.any(|stopped| stopped.is_none_or(|one| one == id))
    };
    let repo_of = |id: &ProjectId| {
        let project = projects.iter().find(|project| project.project_id == *id);
        project.and_then(|project| project.repo.clone())
    };
    let pulls = bb::open_pulls(conn, MOST_ROWS)?;
    let mut changes = Vec::new();
    for change in bb::live_changes(conn, MOST_ROWS)? {
        let url = bb::pull_of_change(conn, &change.change_id)?.map(|pull| pull.url);
        changes.push(ShownChange::new(change, url, now));
    }
    let snapshot = Snapshot {
        version: VERSION,
        now,
        evaluator: definition.name.clone(),
        events,
        more_events,
        changes,
        items: bb::open_items(conn, MOST_ROWS)?
            .into_iter()
            .map(|item| ShownItem::new(item, now))
            .collect(),
        pulls: pulls
            .into_iter()
            .map(|pull| (repo_of(&pull.project_id), pull))
            .map(|(repo, pull)| ShownPull::new(pull, repo, now))
            .collect(),
        projects: projects
            .into_iter()
            .map(|project| ShownProject {
                stopped: is_stopped(&project.project_id),
                project_id: project.project_id,
                path: project.path,
                repo: project.repo,
                default_branch: project.default_branch,
            })
            .collect(),
    };
    Ok(View { snapshot, cursor })
}

/// Runs the program on its input. An error of the program is reported and affects nothing else.
pub(crate) async fn ask(command: &Command, view: &View, kit: &Kit) -> Printed {
    let dir = kit.dir.join(&kit.holder).join(&view.snapshot.evaluator);
    let printed = run_program(command, view, kit, &dir).await;
    if let Err(error) = process::remove_folder(&dir) {
        tracing::error!(error = ?error, "cannot remove the directory of an evaluator's pass");
    }
    printed
}

async fn run_program(command: &Command, view: &View, kit: &Kit, dir: &Path) -> Printed {
    let mut input = serde_json::to_vec(&view.snapshot).map_err(|error| sanitize::chain(&error))?;
    input.push(b'\n');
    let stdin = dir.join("stdin");
    files::make_private_dir(dir)
        .and_then(|()| files::replace(&stdin, &input))
        .map_err(|error| sanitize::chain(&error))?;
    let (name, home) = (&view.snapshot.evaluator, kit.env.get("HOME").map(Path::new));
    let argv = std::iter::once(command.program(home).to_string_lossy().into_owned());
    let mut env = kit.env.clone();
    env.insert("REMAND_EVALUATOR".into(), name.clone());
    let job = Job {
        run_id: name.clone(),
        argv: argv.chain(command.argv.iter().skip(1).cloned()).collect(),
        cwd: command.folder.clone(),
        env,
        stdin,
        dir: dir.to_owned(),
        limits: Limits {
            idle: command.limit,
            total: command.limit,
            grace: kit.grace,
        },
        is_wrapped: false,
    };
    let ended = async {
        process::start(&kit.program, &job).await?.wait().await?;
        FinishedCommand::of(dir).await
    };
    let finished = ended.await.map_err(|error| sanitize::chain(&error))?;
    let Some(finished) = finished else {
        return Err("stopped from outside".into());
    };
    let stderr =
        process::read_output(dir, Stream::Stderr).map_err(|error| sanitize::chain(&error))?;
    let mut lines = stderr.text.lines().rev().map(str::trim);
    let last = lines.find(|line| !line.is_empty()).map(secret_scan::hide);
    let last = last.map(|line| sanitize::line(&line.chars().take(300).collect::<String>()));
    let shown = text::prefixed(": ", last);
    match finished.end {
        CommandEnd::Passed => {}
        CommandEnd::Failed => {
            let status = text::prefixed(" with status ", finished.status);
            return Err(format!("exited{status}{shown}"));
        }
        CommandEnd::TimedOut => {
            let limit = command.limit.as_secs();
            return Err(format!("stopped after its time limit of {limit} s"));
        }
        CommandEnd::NotStarted(reason) => return Err(sanitize::line(&reason)),
        CommandEnd::Crashed(_) | CommandEnd::Killed | CommandEnd::Vanished => {
            return Err(format!("killed by a signal{shown}"));
        }
    }
    let stdout =
        process::read_output(dir, Stream::Stdout).map_err(|error| sanitize::chain(&error))?;
    if stdout.bytes_seen > MOST_BYTES {
        return Err(format!("it printed more than {} KiB", MOST_BYTES / 1024));
    }
    read(stdout.text.as_bytes()).map_err(|flood| flood.to_string())
}

/// Records the result of a pass: its proposals or its error, and the time of the next one.
pub(crate) fn settle(
    conn: &Conn,
    definition: &Definition,
    (view, printed): (&View, &Printed),
    kit: &Kit,
    now: Time,
) -> Result<Beat> {
    let name = &definition.name;
    let lines = match printed {
        Ok(lines) => lines,
        Err(reason) => {
            let failures = bb::trouble_of(conn, name)?.map_or(0, |trouble| trouble.failures);
            bb::count_trouble(conn, name, reason, kit.try_again(failures, now), now)?;
            return Ok(Beat::default());
        }
    };
    let mut done = Beat {
        taken_in: view.snapshot.events.len(),
        applied: 0,
    };
    let mut unread = 0;
    for line in lines {
        match line {
            Line::Request(request) => {
                done.applied += usize::from(bb::apply_request(conn, name, request, now)?);
            }
            Line::Unread(line) if unread < MOST_UNREAD => {
                unread += 1;
                bb::skip_line(conn, name, (line.number, &line.text), &line.reason, now)?;
            }
            Line::Unread(_) => {}
        }
    }
    bb::end_trouble(conn, name, now)?;
    let next = super::next_run(definition, now);
    let next = next.map(|next| if view.snapshot.more_events { now } else { next });
    bb::set_cursor(conn, name, view.cursor, next, now)?;
    Ok(done)
}

impl Kit {
    /// Ends the programs of killed processes: nobody will read what they print.
    pub(crate) async fn end_left(&self) {
        for holder in files::names(&self.dir).unwrap_or_default() {
            let id = holder.to_str().and_then(|id| id.parse::<ProcessId>().ok());
            let Some(Ok(false)) = id.map(|id| id.is_alive()) else {
                continue;
            };
            if let Err(error) = end_passes(&self.dir.join(holder)).await {
                tracing::error!(error = ?error, "cannot end the evaluator programs of a killed process");
            }
        }
    }

    fn try_again(&self, failures: i64, now: Time) -> Time {
        let backoff = (self.backoff_first, self.backoff_max);
        now.plus(clock::backoff(failures, backoff))
    }
}

/// Ends the passes of a process and removes their directories.
async fn end_passes(of: &Path) -> std::result::Result<(), ProcessError> {
    for name in files::names(of).unwrap_or_default() {
        let dir = of.join(name);
        if process::settle(&dir, SETTLE).await? > 0 {
            tracing::warn!(dir = %dir.display(), "leftover evaluator program ended");
        }
        process::remove_folder(&dir)?;
    }
    process::remove_folder(of).map(drop)
}

/// Runs one pass if it is due.
async fn pass(db: &Db, definition: &Arc<Definition>, kit: &Arc<Kit>) -> Result<Option<Beat>> {
    let Config::Command(command) = &definition.config else {
        return Ok(None);
    };
    let looked = Arc::clone(definition);
    let view = db
        .read(move |conn| {
            let now = clock::now();
            if is_due(conn, &looked, now)? {
                look(conn, &looked, now).map(Some)
            } else {
                Ok(None)
            }
        })
        .await?;
    let Some(view) = view else { return Ok(None) };
    crash_point!("evaluator.before");
    let printed = ask(command, &view, kit).await;
    crash_point!("evaluator.after");
    let name = &definition.name;
    if let Err(reason) = &printed {
        tracing::warn!(evaluator = %name, reason = ?reason, "evaluator failed; its output is not used");
    }
    let (definition, kit) = (Arc::clone(definition), Arc::clone(kit));
    let done = db
        .write("evaluator", move |conn| {
            settle(conn, &definition, (&view, &printed), &kit, clock::now())
        })
        .await?;
    Ok(Some(done))
}

/// Loops of all command evaluators. `after` wakes the readers of their proposals.
pub(crate) struct Commands {
    pub(crate) db: Db,
    pub(crate) definitions: Arc<[Definition]>,
    pub(crate) kit: Arc<Kit>,
    pub(crate) wake: Arc<Notify>,
    pub(crate) after: Arc<Notify>,
}

impl Commands {
    pub(crate) async fn run(self, stop: CancellationToken) {
        self.kit.end_left().await;
        let (mut loops, mut wakes) = (JoinSet::new(), Vec::new());
        for definition in self.definitions.iter().filter(|one| super::is_command(one)) {
            let wake = Arc::new(Notify::new());
            wakes.push(Arc::clone(&wake));
            let around = (
                self.db.clone(),
                Arc::clone(&self.kit),
                Arc::clone(&self.after),
            );
            let definition = Arc::new(definition.clone());
            loops.spawn(run(definition, around, wake, stop.clone()));
        }
        loop {
            tokio::select! {
                () = self.wake.notified() => wakes.iter().for_each(|wake| wake.notify_one()),
                () = stop.cancelled() => break,
            }
        }
        while let Some(ended) = loops.join_next().await {
            if let Err(error) = ended {
                tracing::error!(error = ?error, "an evaluator's loop panicked");
            }
        }
    }
}

/// Runs the loop of one evaluator.
async fn run(
    definition: Arc<Definition>,
    (db, kit, after): (Db, Arc<Kit>, Arc<Notify>),
    wake: Arc<Notify>,
    stop: CancellationToken,
) {
    loop {
        // Dropped on stop: its program is killed then, and nothing of the pass is written.
        let done = tokio::select! {
            done = pass(&db, &definition, &kit) => done,
            () = stop.cancelled() => return,
        };
        let pause = match done {
            Ok(Some(done)) => {
                if done.applied > 0 {
                    tracing::info!(evaluator = %definition.name, applied = done.applied, "evaluator");
                    after.notify_one();
                }
                tokio::select! { () = tokio::time::sleep(BREATH) => continue, () = stop.cancelled() => return }
            }
            Ok(None) => next_look(&db, &definition).await,
            Err(error) => {
                tracing::error!(evaluator = %definition.name, error = ?error, "cannot supervise an evaluator");
                LOOK_AGAIN
            }
        };
        tokio::select! {
            () = wake.notified() => {}
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Returns the time until something can become due by itself.
async fn next_look(db: &Db, definition: &Arc<Definition>) -> Duration {
    let looked = Arc::clone(definition);
    let next = db.read(move |conn| {
        let trouble = bb::trouble_of(conn, &looked.name)?.map(|trouble| trouble.try_again);
        Ok(trouble.max(super::next_firing(conn, std::slice::from_ref(&*looked))?))
    });
    let next = next.await.ok().flatten();
    next.map_or(LOOK_AGAIN, |moment| moment.since(clock::now()))
        .clamp(Duration::from_millis(20), LOOK_AGAIN)
}

/// Runs one pass of each evaluator that is due, concurrently.
pub(crate) async fn all_once(
    db: &Db,
    definitions: &[Definition],
    kit: &Arc<Kit>,
    stop: &CancellationToken,
) -> Result<Beat> {
    let mut passes = JoinSet::new();
    if definitions.iter().any(super::is_command) {
        kit.end_left().await;
    }
    for definition in definitions.iter().filter(|one| super::is_command(one)) {
        let (db, definition, kit) = (db.clone(), Arc::new(definition.clone()), Arc::clone(kit));
        passes.spawn(async move { pass(&db, &definition, &kit).await });
    }
    let mut all = Beat::default();
    loop {
        let ended = tokio::select! {
            ended = passes.join_next() => ended,
            () = stop.cancelled() => return Ok(all),
        };
        match ended {
            None => return Ok(all),
            Some(Ok(done)) => {
                let done = done?.unwrap_or_default();
                all.taken_in += done.taken_in;
                all.applied += done.applied;
            }
            Some(Err(error)) => {
                tracing::error!(error = ?error, "an evaluator's pass panicked");
            }
        }
    }
}

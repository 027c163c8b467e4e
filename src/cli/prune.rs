//! `remand prune`: deletes changes that ended long ago.

mod remove;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::blackboard::{self as bb, BoardError, Pruning, Remnant, SyncDb, Weight, Where};
use crate::change::{Change, ChangeId, ProjectId};
use crate::cli::frame::{
    CommandContext, CommandError, ExitCode, Line, TextStyle, refuse_agents, wait,
};
use crate::clock::Time;
use crate::config::{self, Loaded};
use crate::dispatch::review_folder;
use crate::git::{self, Git, HeadAt, REVIEWED, Sweep, reviewed_ref};
use crate::human_time::read_span;
use crate::text::{bytes, count};
use crate::{sanitize, wake};

pub(crate) use remove::is_file_name;

/// Number of changes that are deleted together. With more of them, their events share more pages of
/// the file; with fewer, the entries of a change in the indexes do.
const TOGETHER: usize = 128;

/// Time after which a transaction is committed: nobody else can write meanwhile.
const AT_ONCE: Duration = Duration::from_millis(3);

/// Interval between progress messages of a prune that takes longer.
const TELL: Duration = Duration::from_secs(1);

/// Delete changes that were merged or closed long ago
///
/// Deletes each change completely, with its items, runs (and their directories), reviews, findings, feedback and events,
/// and records one `pruned` event. A change with open work or recent events is kept. A worktree that remand created is
/// deleted with its change if everything in it is committed; otherwise both are kept. Branches are never touched. Work
/// saved on refs/remand/wip/RUN is kept unless --refs is given. No other command deletes changes.
#[derive(Debug, Args)]
#[command(
    after_help = "Safe to run alongside the daemon: it uses many short transactions, with pauses. After a crash, the next prune finishes the work. \
Freed space in the file is reused; --vacuum returns it to the file system.\n\n\
Examples:\n  remand prune --older-than 90d --dry-run\n  remand prune --older-than 12w --vacuum"
)]
pub(crate) struct PruneArgs {
    /// Minimum time since the change ended, in hours, days or weeks (36h, 90d, 12w)
    #[arg(long, value_name = "TIME", value_parser = read_span)]
    older_than: Duration,

    /// Show what would be deleted, without deleting anything
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Also delete the work that the runs of these changes saved on refs/remand/wip/RUN
    #[arg(long)]
    refs: bool,

    /// Return free space to the file system; slow, and refused while a daemon is running
    #[arg(long, conflicts_with = "dry_run")]
    vacuum: bool,
}

#[derive(Serialize)]
struct PruneReport {
    before: Time,
    dry_run: bool,
    pruned: Vec<Gone>,
    kept: Vec<Kept>,
    /// Number of run directories removed from disk.
    folders: usize,
    /// Number of shadow prompts removed.
    prompts: usize,
    worktrees: Vec<String>,
    /// Number of files of reviews that were removed.
    review_files: usize,
    /// Number of `refs/remand/wip/RUN` of the pruned changes; `wip_refs_removed` were removed.
    wip_refs: usize,
    wip_refs_removed: usize,
    /// Things that could not be removed, or that cannot be proven to belong to the changes.
    left: Vec<Left>,
    vacuumed: bool,
    bytes: u64,
}

#[derive(Serialize)]
struct Gone {
    change_id: ChangeId,
    title: String,
    ended_at: Time,
    #[serde(flatten)]
    weight: Weight,
}

#[derive(Serialize)]
struct Kept {
    change_id: ChangeId,
    reason: String,
}

#[derive(Serialize)]
struct Left {
    path: String,
    reason: String,
}

pub(crate) fn prune(args: &PruneArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    refuse_agents()?;
    let settings = ctx.settings()?;
    if args.vacuum && wake::is_heard(&settings.blackboard) {
        return CommandError::new(
            "--vacuum rewrites the whole blackboard, and a daemon is using it",
        )
        .fail_with_hint("omit --vacuum, or stop the daemon first");
    }
    let age_ms = i64::try_from(args.older_than.as_millis()).unwrap_or(i64::MAX);
    let before = Time::from_millis(ctx.now.millis().saturating_sub(age_ms));
    let state = settings.state_folder();
    let mut broom = Broom {
        board: ctx.board()?,
        git: ctx.git(&settings),
        runs_dir: state.join("runs"),
        shadow_dir: state.join("shadow"),
        reviews_dir: state.join("reviews"),
        settings,
        now: ctx.now,
        refs: args.refs,
        wip: BTreeMap::new(),
        shown: PruneReport {
            before,
            dry_run: args.dry_run,
            pruned: Vec::new(),
            kept: Vec::new(),
            folders: 0,
            prompts: 0,
            worktrees: Vec::new(),
            review_files: 0,
            wip_refs: 0,
            wip_refs_removed: 0,
            left: Vec::new(),
            vacuumed: false,
            bytes: 0,
        },
    };
    wait(async { broom.sweep_all(ctx).await })??;
    if args.vacuum {
        broom.board.vacuum()?;
        broom.shown.vacuumed = true;
    }
    broom.shown.bytes = std::fs::metadata(broom.board.path())
        .map(|meta| meta.len())
        .unwrap_or_default();
    ctx.show(&broom.shown, |ctx, shown| print(ctx, args, shown))
}

struct Broom {
    board: SyncDb,
    git: Git,
    settings: Loaded,
    runs_dir: PathBuf,
    shadow_dir: PathBuf,
    reviews_dir: PathBuf,
    now: Time,
    refs: bool,
    /// Wip refs of each repository, read once.
    wip: BTreeMap<ProjectId, BTreeSet<String>>,
    shown: PruneReport,
}

/// A change that is about to be deleted.
struct Doomed {
    change: Change,
    weight: Weight,
    /// Removed in addition to what its rows name.
    beside: Vec<Remnant>,
    wip: Wip,
}

impl Broom {
    async fn sweep_all(&mut self, ctx: &mut CommandContext) -> Result<()> {
        let before = self.shown.before;
        let unknown = self.board.read(bb::unknown_tables)?;
        if !self.shown.dry_run {
            self.board.use_large_cache()?;
            // Things that an interrupted prune had still to remove.
            self.delete_events()?;
            let left = self.board.read(bb::sweeps)?;
            self.remove(&left).await?;
            self.board
                .write("told", |conn| bb::forget_told(conn, before))?;
        }
        let ids = self.board.read(|conn| bb::over_since(conn, before))?;
        let mut told = Instant::now();
        for (number, some) in ids.chunks(TOGETHER).enumerate() {
            if told.elapsed() >= TELL {
                told = Instant::now();
                let done = number * TOGETHER;
                ctx.out
                    .note(Line::new().faint(format!("{done} of {} changes", ids.len())))?;
            }
            let mut doomed: Vec<Doomed> = Vec::new();
            for id in some {
                if let Some(table) = unknown.first() {
                    // Its rows might refer to deleted ones: foreign keys are not checked here.
                    self.keep(
                        id,
                        format!("the table {table}, unknown to remand, refers to changes"),
                    );
                    continue;
                }
                let mut found = self.look(id).await?;
                if let Some(one) = &found
                    && !self.shown.dry_run
                    && doomed
                        .iter()
                        .any(|it| it.change.worktree == one.change.worktree)
                {
                    // The last of the changes that share a worktree is deleted with it.
                    self.forget(std::mem::take(&mut doomed)).await?;
                    found = self.look(id).await?;
                }
                doomed.extend(found);
            }
            if self.shown.dry_run {
                for one in doomed {
                    self.would_go(one.weight.remnants.iter().chain(&one.beside));
                    self.gone(one);
                }
            } else {
                self.forget(doomed).await?;
                self.delete_events()?;
            }
        }
        Ok(())
    }

    /// Deletes the events of pruned changes. A power cut may bring some of them back; the next
    /// prune deletes those.
    fn delete_events(&mut self) -> Result<()> {
        let ids = self.board.read(bb::events_of_pruned)?;
        let mut left = ids.as_slice();
        while !left.is_empty() {
            let begun = Instant::now();
            let deleted = self.board.write_repeatable("prune_events", |conn| {
                bb::delete_events(conn, left, || begun.elapsed() >= AT_ONCE)
            })?;
            left = left.get(deleted..).unwrap_or_default();
            self.board.breathe(begun.elapsed() / 4);
        }
        self.board
            .write_repeatable("prune_events", bb::forget_pruned)?;
        Ok(())
    }

    fn keep(&mut self, id: &ChangeId, reason: String) {
        let change_id = id.clone();
        self.shown.kept.push(Kept { change_id, reason });
    }

    fn gone(&mut self, one: Doomed) {
        self.shown.wip_refs += one.wip.proven.len() + one.wip.doubtful.len();
        if self.refs {
            self.shown.left.extend(one.wip.doubtful);
        }
        self.shown.pruned.push(Gone {
            change_id: one.change.change_id,
            title: one.change.title,
            ended_at: one.change.updated_at,
            weight: one.weight,
        });
    }

    /// Finds what would be deleted with a change: nothing if another prune was faster, or if it must
    /// be kept, which is recorded with the reason.
    async fn look(&mut self, id: &ChangeId) -> Result<Option<Doomed>> {
        let before = self.shown.before;
        let look = self.board.read(|conn| {
            let Some(change) = bb::still_there(conn, id)? else {
                return Ok(None);
            };
            let weight = bb::weigh(conn, id)?;
            let in_the_way = bb::in_the_way(conn, &change, &weight, before)?;
            let project = bb::project(conn, &change.project_id)?;
            let is_shared = bb::worktree_is_shared(conn, &change)?;
            Ok(Some((weight, change, project, is_shared, in_the_way)))
        })?;
        let Some((weight, change, project, is_shared, in_the_way)) = look else {
            return Ok(None);
        };
        if let Some(reason) = in_the_way {
            self.keep(id, reason);
            return Ok(None);
        }
        let project = git::Project {
            path: PathBuf::from(&project.path),
            common_dir: PathBuf::from(&project.common_dir),
            bare: project.path == project.common_dir,
            default_branch: Some(project.default_branch),
            origin: None,
        };
        let setup = format!("setup-{id}");
        let folder = self.runs_dir.join(&setup);
        let mut beside = Vec::new();
        if folder.exists() {
            let path = folder.display().to_string();
            beside.push(Remnant::named(Where::Run, path, setup));
        }
        if !is_shared {
            match self.worktree(&change, &project).await {
                Ok(found) => beside.extend(found),
                Err(reason) => {
                    self.keep(id, reason);
                    return Ok(None);
                }
            }
        }
        beside.extend(self.review_files(&change));
        let wip = self.wip_refs(&change, &project, &weight).await?;
        beside.extend(wip.reviewed.iter().cloned());
        if self.refs {
            beside.extend(wip.proven.iter().cloned());
        }
        Ok(Some(Doomed {
            change,
            weight,
            beside,
            wip,
        }))
    }

    /// Deletes the rows of the changes, as many per transaction as fit into its time. The checks are repeated in the transaction, in case
    /// something changed. Files and refs are recorded in it, and removed only when the change is
    /// certain to be deleted.
    async fn forget(&mut self, doomed: Vec<Doomed>) -> Result<()> {
        let (before, now, actor) = (self.shown.before, self.now, config::user_name());
        let mut waiting = doomed.into_iter().peekable();
        while waiting.peek().is_some() {
            let begun = Instant::now();
            let ends = self.board.write_unlinked("prune", |conn| {
                let mut ends = Vec::new();
                while ends.is_empty() || begun.elapsed() < AT_ONCE {
                    let Some(one) = waiting.next() else { break };
                    let prunable = bb::Prunable {
                        id: &one.change.change_id,
                        seen: &one.weight,
                        before,
                        beside: &one.beside,
                        actor: &actor,
                    };
                    let prune = || bb::prune(conn, &prunable, now);
                    // A failure affects this change only.
                    let end = bb::apart(conn, prune, |error| {
                        if matches!(error, BoardError::Panicked) {
                            return Err(error);
                        }
                        let reason = sanitize::chain(&error);
                        Ok(Pruning::Kept { reason })
                    })?;
                    ends.push((one, end));
                }
                Ok(ends)
            })?;
            // Others that wait get their turn, even if they only retry now and then.
            self.board.breathe(begun.elapsed() / 4);
            let mut remnants = Vec::new();
            for (mut one, end) in ends {
                match end {
                    Pruning::Removed(weight) => {
                        remnants.extend(weight.remnants.iter().chain(&one.beside).cloned());
                        one.weight = weight;
                        self.gone(one);
                    }
                    Pruning::Kept { reason } => self.keep(&one.change.change_id, reason),
                }
            }
            self.remove(&remnants).await?;
        }
        Ok(())
    }

    /// Returns the worktree made by remand if it can be removed with its change, or the reason for
    /// keeping the change.
    async fn worktree(
        &self,
        change: &Change,
        project: &git::Project,
    ) -> Result<Option<Remnant>, String> {
        let path = Path::new(&change.worktree);
        let settings = self.settings.project(change.project_id.as_str());
        let own = settings.own_worktrees;
        if !change.own_worktree || !path.starts_with(&own) {
            return Ok(None);
        }
        let head_at = if change.detached {
            HeadAt::Detached(change.change_id.as_str())
        } else {
            HeadAt::Branch(&change.branch)
        };
        match self.sweepable(project, path, head_at).await {
            Sweep::Gone => Ok(None),
            Sweep::Stays(why) => Err(format!(
                "its worktree {} cannot be deleted: {why}",
                change.worktree
            )),
            Sweep::Clean => {
                let proof = match head_at {
                    HeadAt::Branch(branch) => branch.to_owned(),
                    HeadAt::Detached(_) => head_at
                        .ref_name()
                        .map_err(|error| sanitize::chain(&error))?,
                };
                let path = change.worktree.clone();
                Ok(Some(remnant(Where::Worktree, path, project, proof)))
            }
        }
    }

    /// Finds the wip refs of a change. People may look for their work there, so they are only
    /// counted unless removal was requested.
    async fn wip_refs(
        &mut self,
        change: &Change,
        project: &git::Project,
        weight: &Weight,
    ) -> Result<Wip> {
        let place = project.repository();
        if !self.wip.contains_key(&change.project_id) {
            // A missing repository has none.
            let found = self.git.refs_below(&place, "refs/remand/wip/").await;
            let reviewed = self.git.refs_below(&place, REVIEWED).await;
            let found = found.into_iter().chain(reviewed).flatten().collect();
            self.wip.insert(change.project_id.clone(), found);
        }
        let known = self.wip.get(&change.project_id);
        let setup = format!("setup-{}", change.change_id);
        let runs = weight.runs.iter().chain([&setup]);
        let names = runs.map(|run| format!("refs/remand/wip/{run}"));
        let names: Vec<String> = names
            .filter(|name| known.is_some_and(|known| known.contains(name)))
            .collect();
        let mut wip = Wip {
            reviewed: self.reviewed_refs(change, project)?,
            ..Wip::default()
        };
        let recorded = if names.is_empty() {
            BTreeSet::new()
        } else {
            self.board.read(|conn| bb::wips(conn, weight))?
        };
        for name in names {
            // Every blackboard numbers its runs from r1, and several may use one repository: a ref
            // that no event of this change names may belong to another blackboard.
            match self.git.kept_on(&place, &name).await {
                Ok(kept) if !kept.is_empty() && kept.iter().all(|sha| recorded.contains(sha)) => {
                    let proof = kept.into_iter().next().unwrap_or_default();
                    wip.proven.push(remnant(Where::Ref, name, project, proof));
                }
                Ok(_) => {
                    let id = &change.change_id;
                    let reason = format!("there is no record that all of it belongs to {id}");
                    wip.doubt(name, reason);
                }
                Err(error) => wip.doubt(name, sanitize::chain(&error)),
            }
        }
        if change.detached {
            self.kept_commits(change, project, &mut wip).await;
        }
        Ok(wip)
    }

    /// Finds the refs that keep the reviewed commits of a change.
    fn reviewed_refs(&mut self, change: &Change, project: &git::Project) -> Result<Vec<Remnant>> {
        let id = &change.change_id;
        let reviews = self.board.read(|conn| bb::numbered_reviews_of(conn, id))?;
        let heads: BTreeSet<String> = reviews.into_iter().map(|review| review.head).collect();
        let known = self.wip.get(&change.project_id);
        let named = heads
            .into_iter()
            .filter_map(|sha| Some((reviewed_ref(id.as_str(), &sha).ok()?, sha)));
        let kept = named.filter(|(name, _)| known.is_some_and(|known| known.contains(name)));
        let remnants = kept.map(|(name, sha)| remnant(Where::Ref, name, project, sha));
        Ok(remnants.collect())
    }

    /// Returns the files of a change's reviews, if there are any.
    fn review_files(&self, change: &Change) -> Option<Remnant> {
        let folder = review_folder(&self.reviews_dir, &change.project_id)?;
        let id = change.change_id.as_str();
        let path = folder.join(id).display().to_string();
        let is_any = !remove::review_names(&folder, id).is_empty();
        is_any.then(|| Remnant::named(Where::Review, path, id.to_owned()))
    }

    /// Finds the ref that keeps the commits of a detached worktree.
    async fn kept_commits(&self, change: &Change, project: &git::Project, wip: &mut Wip) {
        let Ok(name) = HeadAt::Detached(change.change_id.as_str()).ref_name() else {
            return;
        };
        match self.git.resolve(&project.repository(), &name).await {
            Ok(Some(sha)) if sha == change.head => {
                wip.proven.push(remnant(Where::Ref, name, project, sha));
            }
            Ok(Some(_)) => {
                let reason = format!("there is no record that it belongs to {}", change.change_id);
                wip.doubt(name, reason);
            }
            Ok(None) => {}
            Err(error) => wip.doubt(name, sanitize::chain(&error)),
        }
    }
}

/// Refs with the leftovers of the runs of a change.
#[derive(Default)]
struct Wip {
    proven: Vec<Remnant>,
    doubtful: Vec<Left>,
    /// Refs of reviewed commits, which are not counted.
    reviewed: Vec<Remnant>,
}

impl Wip {
    fn doubt(&mut self, path: String, reason: String) {
        self.doubtful.push(Left { path, reason });
    }
}

fn remnant(kind: Where, path: String, project: &git::Project, proof: String) -> Remnant {
    Remnant {
        kind,
        path,
        repository: project.common_dir.display().to_string(),
        proof,
    }
}

fn print(ctx: &mut CommandContext, args: &PruneArgs, shown: &PruneReport) -> Result<()> {
    for gone in &shown.pruned {
        let (at, weight) = (gone.ended_at.local(), &gone.weight);
        let (events, items, runs) = (weight.events, weight.items, weight.runs.len());
        let line = Line::new().strong(&gone.change_id).plain("  ");
        let text = format!(
            "  ended {at}: {}, {}, {}",
            count(events, "event"),
            count(usize::try_from(items).unwrap_or_default(), "item"),
            count(runs, "run")
        );
        ctx.out.line(line.plain(&gone.title).faint(text))?;
    }
    for kept in &shown.kept {
        let line = Line::new().strong(&kept.change_id);
        let line = line.piece(TextStyle::Notice, "  kept: ");
        ctx.out.line(line.plain(&kept.reason))?;
    }
    for path in &shown.worktrees {
        ctx.out.line(format!("worktree {path}"))?;
    }
    for left in &shown.left {
        let line = Line::new().piece(TextStyle::Notice, "not deleted: ");
        ctx.out
            .note(line.plain(format!("{}: {}", left.path, left.reason)))?;
    }
    let verb = match shown.dry_run {
        true => "would be pruned",
        false => "pruned",
    };
    let changes = count(shown.pruned.len(), "change");
    let events: usize = shown.pruned.iter().map(|gone| gone.weight.events).sum();
    let folders = shown.folders;
    let mut said = format!("{changes} {verb}, with {events} events and {folders} run directories");
    let all = shown.wip_refs;
    let is_ref = |left: &&Left| left.path.starts_with("refs/");
    let doubtful = shown.left.iter().filter(is_ref).count();
    let gone = if shown.dry_run && args.refs {
        all.saturating_sub(doubtful)
    } else {
        shown.wip_refs_removed
    };
    if gone > 0 {
        said.push_str(&format!("; {gone} wip refs deleted"));
    }
    if all > gone {
        let how = match args.refs {
            true => "",
            false => " (--refs deletes them)",
        };
        said.push_str(&format!("; {} wip refs kept{how}", all - gone));
    }
    if shown.vacuumed {
        said.push_str(&format!("; the blackboard is now {}", bytes(shown.bytes)));
    }
    Ok(ctx.out.line(said)?)
}

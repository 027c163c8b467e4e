//! `remand backup`: a copy of the blackboard, made while everything goes on.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use rustix::io::Errno;
use serde::Serialize;

use crate::blackboard::{self as bb, Progress, Violation};
use crate::cli::frame::context::CommandContext;
use crate::cli::frame::error::{CommandError, ExitCode};
use crate::cli::frame::ui::{Line, TextStyle, Ui};
use crate::failpoint::crash_point;
use crate::human_time::span;
use crate::{daemon, wake};

/// A backup that takes longer says how far it is, this often.
const TELL: Duration = Duration::from_secs(1);

/// Copy the blackboard into a file, while the daemon goes on
#[derive(Debug, Args)]
#[command(
    after_help = "The copy is the blackboard at one moment, and is checked before it gets its name. It is a blackboard itself:\n\
to go back, stop the daemon and put the copy in the place of the blackboard (remove its -wal and -shm files).\n\
What agents wrote (the folder `runs` beside the blackboard) is not in it.\n\n\
Examples:\n  remand backup ~/backups/remand-$(date +%F).db\n  remand backup --force /mnt/nas/remand.db\n  remand check --db /mnt/nas/remand.db"
)]
pub(crate) struct BackupArgs {
    /// Where the copy goes; only you can read it
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Replace FILE if it is there; it stays as it was until the new copy is whole. Not while anything has it open
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct BackupReport {
    file: PathBuf,
    bytes: u64,
    pages: i64,
    events: i64,
    elapsed_ms: u128,
    violations: Vec<Violation>,
}

pub(crate) fn backup(args: &BackupArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let begun = Instant::now();
    let blackboard = ctx.settings()?.blackboard;
    if !blackboard.is_file() {
        return Err(CommandError::not_found(format!(
            "there is no blackboard {}",
            blackboard.display()
        ))
        .into());
    }
    let target = Target::at(&args.file, &blackboard, args.force)?;
    target.is_quiet()?;
    let part = Part::begin(&target.part)?;
    let mut told = begun;
    let copied = bb::copy(&blackboard, &part.path, |progress| {
        if told.elapsed() >= TELL {
            told = Instant::now();
            tell(&mut ctx.out, progress);
        }
    });
    // With the part it goes away, whatever it was.
    let copied = copied.with_context(|| format!("no backup was made: {}", args.file.display()))?;
    crash_point!("backup.copied");
    // Somebody may have come by while it was copied.
    target.is_quiet()?;
    let bytes = part
        .become_file(&target)
        .with_context(|| format!("cannot write {}", target.file.display()))?;
    crash_point!("backup.named");
    let shown = BackupReport {
        file: target.file,
        bytes,
        pages: copied.pages,
        events: copied.events,
        elapsed_ms: begun.elapsed().as_millis(),
        violations: copied.violations,
    };
    if !shown.violations.is_empty() {
        ctx.out.note(
            Line::default()
                .piece(TextStyle::Notice, "warning:")
                .plain(" the blackboard, and so its copy, is not as it should be: ")
                .command("remand check"),
        )?;
    }
    if ctx.out.is_json() {
        ctx.out.json(&shown)?;
    } else {
        ctx.out.line(
            Line::default()
                .strong(shown.file.display().to_string())
                .plain(format!(
                    ": {} events, {}, in {}",
                    shown.events,
                    size(shown.bytes),
                    span(begun.elapsed())
                )),
        )?;
    }
    Ok(ExitCode::Done)
}

fn tell(out: &mut Ui, progress: Progress) {
    let percent = progress.done.saturating_mul(100) / progress.of.max(1);
    // Whoever does not listen is no reason to stop.
    drop(out.note(Line::default().faint(format!("{percent} % of {} pages", progress.of))));
}

pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..=9_999 => format!("{bytes} bytes"),
        10_000..=9_999_999 => format!("{} kB", bytes / 1_000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

/// Where the copy goes.
struct Target {
    file: PathBuf,
    part: PathBuf,
    may_replace: bool,
}

impl Target {
    fn at(file: &Path, blackboard: &Path, force: bool) -> Result<Self> {
        let shown = file.display();
        if file.is_dir() {
            return Err(CommandError::usage(format!("{shown} is a folder"))
                .hint("name a file in it")
                .into());
        }
        let is_there = file.symlink_metadata().is_ok();
        // A copy goes to where a symlink leads, and not into its place.
        let file = match file.canonicalize() {
            Ok(real) => real,
            Err(_) if is_there => {
                return Err(
                    CommandError::new(format!("{shown} is a symlink that leads nowhere")).into(),
                );
            }
            Err(_) => std::path::absolute(file).with_context(|| format!("cannot find {shown}"))?,
        };
        if parts_of(blackboard).iter().any(|part| is_same(part, &file)) {
            return Err(
                CommandError::usage(format!("{shown} is the blackboard itself"))
                    .hint("name another file")
                    .into(),
            );
        }
        if is_there && !force {
            return Err(CommandError::new(format!("{shown} is there already"))
                .hint("--force replaces it")
                .into());
        }
        if is_there && !file.is_file() {
            return Err(CommandError::usage(format!("{shown} is not a plain file")).into());
        }
        let Some(name) = file.file_name() else {
            return Err(CommandError::usage(format!("{shown} names no file")).into());
        };
        // A name that nobody else gives: what has it and is not locked is what a killed backup left.
        let mut part = OsString::from(".");
        part.push(name);
        part.push(".remand-backup.part");
        let part = file.with_file_name(part);
        if parts_of(blackboard).iter().any(|own| is_same(own, &part)) {
            let what = format!(
                "{shown} would be written as {}, which is the blackboard itself",
                part.display()
            );
            return Err(CommandError::usage(what).hint("name another file").into());
        }
        Ok(Self {
            file,
            part,
            may_replace: force,
        })
    }

    /// Refuses what somebody works on, or was killed working on: SQLite reads a log by its name, whatever file it was
    /// made for, and would play the old one into the new copy. None is removed here: the old copy without its log is
    /// not whole, and whoever has it open would write into the log of the new one.
    fn is_quiet(&self) -> Result<()> {
        let shown = self.file.display();
        if daemon::holder(&self.file).is_some() || wake::is_heard(&self.file) {
            return Err(CommandError::new(format!("a daemon runs on {shown}"))
                .hint("stop it, or name another file")
                .into());
        }
        let logs = LOGS.map(|end| with_end(&self.file, end));
        let Some(log) = logs.iter().find(|log| log.symlink_metadata().is_ok()) else {
            return Ok(());
        };
        let hint = if self.file.symlink_metadata().is_ok() {
            format!(
                "end what has it open; `remand check --db {shown}` tidies up after what was killed; or name another file"
            )
        } else {
            format!(
                "its own file is gone: remove {}, or name another file",
                log.display()
            )
        };
        Err(CommandError::new(format!(
            "{} is there: it would be taken for a part of the copy",
            log.display()
        ))
        .hint(hint)
        .into())
    }
}

/// What SQLite keeps beside a file.
const LOGS: [&str; 3] = ["-wal", "-shm", "-journal"];

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(end);
    path.into()
}

/// The files that are the blackboard, by every name that the settings and the disk have for it.
fn parts_of(blackboard: &Path) -> Vec<PathBuf> {
    let real = blackboard
        .canonicalize()
        .unwrap_or_else(|_| blackboard.to_owned());
    let ends = || LOGS.into_iter().chain(["", ".lock", ".wake"]);
    [blackboard, &real]
        .into_iter()
        .flat_map(|base| ends().map(|end| with_end(base, end)))
        .collect()
}

/// One path, or two hard links of one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| path.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    one == other || id(one).is_some_and(|one| id(other) == Some(one))
}

/// What is being written: taken away again unless it becomes the file.
struct Part {
    path: PathBuf,
    /// Locked while this backup lives, so that another one does not take it for a leftover.
    file: File,
    is_named: bool,
}

impl Part {
    fn begin(path: &Path) -> Result<Self> {
        let shown = path.display();
        if path.symlink_metadata().is_ok() {
            remove_leftover(path).with_context(|| format!("cannot remove {shown}"))?;
        }
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .with_context(|| format!("cannot write {shown}"))?;
        let part = Self {
            path: path.to_owned(),
            file,
            is_named: false,
        };
        flock(&part.file, FlockOperation::NonBlockingLockExclusive)
            .with_context(|| format!("cannot lock {shown}"))?;
        // Between the two another one may have taken it for a leftover.
        let (own, found) = (part.file.metadata()?, path.metadata()?);
        if (own.dev(), own.ino()) != (found.dev(), found.ino()) {
            return Err(busy().into());
        }
        Ok(part)
    }

    /// Made durable, then named: there is a whole file of that name, or the old one, or none.
    fn become_file(mut self, target: &Target) -> io::Result<u64> {
        self.file.sync_all()?;
        let bytes = self.file.metadata()?.len();
        if target.may_replace {
            fs::rename(&self.path, &target.file)?;
        } else {
            rename_if_free(&self.path, &target.file)?;
        }
        self.is_named = true;
        if let Some(folder) = target.file.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(bytes)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_named {
            // The next backup tries again.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Removes what a backup that was killed left behind, and nothing that one is writing now.
fn remove_leftover(path: &Path) -> Result<()> {
    if !path.symlink_metadata()?.is_file() {
        return Err(CommandError::new("it is no file that a backup left")
            .hint("move it away, or name another file")
            .into());
    }
    let left = OpenOptions::new().write(true).open(path)?;
    match flock(&left, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Err(busy().into()),
        other => other?,
    }
    Ok(fs::remove_file(path)?)
}

fn busy() -> CommandError {
    CommandError::new("another backup is writing it").hint("wait for its end, or name another file")
}

fn rename_if_free(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system that can't: looked at before, which leaves a moment in between.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) if to.symlink_metadata().is_err() => {
            fs::rename(from, to)
        }
        other => Ok(other?),
    }
}

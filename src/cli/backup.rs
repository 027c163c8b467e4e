//! `remand backup`: copies the blackboard while it is in use.

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
use crate::cli::frame::{CommandContext, CommandError, ExitCode, Line, Ui};
use crate::failpoint::crash_point;
use crate::human_time::span;
use crate::text::bytes;
use crate::{daemon, wake};

/// Interval between progress messages of a backup that takes longer.
const TELL: Duration = Duration::from_secs(1);

/// Back up the blackboard to a file, even while the daemon is running
#[derive(Debug, Args)]
#[command(
    after_help = "The copy is a consistent snapshot and is checked before it is put in place. To restore it, stop the daemon, \
replace the blackboard with the copy, and remove the blackboard's -wal and -shm files. Agent output (the \
directory `runs` next to the blackboard) is not included.\n\n\
Examples:\n  remand backup ~/backups/remand-$(date +%F).db\n  remand backup --force /mnt/nas/remand.db\n  remand check --db /mnt/nas/remand.db"
)]
pub(crate) struct BackupArgs {
    /// Destination file; the copy is readable only by you
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Atomically replace FILE if it exists; refused while a program has it open
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
        return CommandError::not_found(format!("there is no blackboard {}", blackboard.display()))
            .fail();
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
    // On any error, dropping `part` removes the incomplete copy.
    let copied = copied.with_context(|| format!("no backup was made: {}", args.file.display()))?;
    crash_point!("backup.copied");
    // The file may have been opened while the copy was made.
    target.is_quiet()?;
    let length = part
        .become_file(&target)
        .with_context(|| format!("cannot write {}", target.file.display()))?;
    crash_point!("backup.named");
    let shown = BackupReport {
        file: target.file,
        bytes: length,
        pages: copied.pages,
        events: copied.events,
        elapsed_ms: begun.elapsed().as_millis(),
        violations: copied.violations,
    };
    if !shown.violations.is_empty() {
        let what = "the blackboard failed its checks, and so did the copy: run `remand check`";
        ctx.out.warning(what)?;
    }
    ctx.show(&shown, |ctx, shown| {
        let (size, time) = (bytes(shown.bytes), span(begun.elapsed()));
        let text = format!(": {} events, {size}, in {time}", shown.events);
        let line = Line::new().strong(shown.file.display()).plain(text);
        Ok(ctx.out.line(line)?)
    })
}

fn tell(out: &mut Ui, progress: Progress) {
    let percent = progress.done.saturating_mul(100) / progress.of.max(1);
    // A backup must not fail because its progress cannot be printed.
    drop(out.note(Line::new().faint(format!("{percent} % of {} pages", progress.of))));
}

/// Destination of the copy.
struct Target {
    file: PathBuf,
    part: PathBuf,
    may_replace: bool,
}

impl Target {
    fn at(file: &Path, blackboard: &Path, force: bool) -> Result<Self> {
        let shown = file.display();
        if file.is_dir() {
            return CommandError::usage(format!("{shown} is a directory"))
                .fail_with_hint("give the path of a file in it");
        }
        let is_there = file.symlink_metadata().is_ok();
        // The copy replaces the target of a symlink, not the symlink itself.
        let file = match file.canonicalize() {
            Ok(real) => real,
            Err(_) if is_there => {
                return CommandError::new(format!("{shown} is a broken symlink")).fail();
            }
            Err(_) => std::path::absolute(file).with_context(|| format!("cannot find {shown}"))?,
        };
        if parts_of(blackboard).iter().any(|part| is_same(part, &file)) {
            return CommandError::usage(format!("{shown} is the blackboard itself"))
                .fail_with_hint("choose another file");
        }
        if is_there && !force {
            return CommandError::new(format!("{shown} already exists"))
                .fail_with_hint("use --force to replace it");
        }
        if is_there && !file.is_file() {
            return CommandError::usage(format!("{shown} is not a regular file")).fail();
        }
        let Some(name) = file.file_name() else {
            return CommandError::usage(format!("{shown} is not a file name")).fail();
        };
        // No other program uses this name: an unlocked file that has it was left by a killed
        // backup.
        let mut part = OsString::from(".");
        part.push(name);
        part.push(".remand-backup.part");
        let part = file.with_file_name(part);
        if parts_of(blackboard).iter().any(|own| is_same(own, &part)) {
            let what = format!(
                "the temporary file for {shown} would be {}, which is the blackboard itself",
                part.display()
            );
            return CommandError::usage(what).fail_with_hint("choose another file");
        }
        Ok(Self {
            file,
            part,
            may_replace: force,
        })
    }

    /// Refuses a file that is in use, or was in use by a killed process. SQLite finds a log by its
    /// name, whichever file it was made for, and would replay the old log into the new copy. No log
    /// is removed here: without its log the old copy is incomplete, and a process that has it open
    /// would write into the log of the new one.
    fn is_quiet(&self) -> Result<()> {
        let shown = self.file.display();
        if daemon::holder(&self.file).is_some() || wake::is_heard(&self.file) {
            return CommandError::new(format!("a daemon is using {shown}"))
                .fail_with_hint("stop it, or choose another file");
        }
        let logs = LOGS.map(|end| with_end(&self.file, end));
        let Some(log) = logs.iter().find(|log| log.symlink_metadata().is_ok()) else {
            return Ok(());
        };
        let hint = if self.file.symlink_metadata().is_ok() {
            format!(
                "close the programs that use it; if one was killed, run `remand check --db {shown}` to clean up; or choose another file"
            )
        } else {
            format!(
                "its database is gone: remove {}, or choose another file",
                log.display()
            )
        };
        CommandError::new(format!(
            "{} exists and would be treated as part of the copy",
            log.display()
        ))
        .fail_with_hint(hint)
    }
}

/// Suffixes of the files that SQLite keeps next to a database.
const LOGS: [&str; 3] = ["-wal", "-shm", "-journal"];

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(end);
    path.into()
}

/// Returns the files of the blackboard, by both its configured and its canonical path.
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

/// True if both are the same path, or hard links to the same file.
fn is_same(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| path.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    one == other || id(one).is_some_and(|one| id(other) == Some(one))
}

/// The incomplete copy, removed on drop unless it was renamed to the target.
struct Part {
    path: PathBuf,
    /// Locked while this backup runs, so that another one does not treat it as a leftover.
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
        // Between creation and lock, another backup may have removed it as a leftover.
        let (own, found) = (part.file.metadata()?, path.metadata()?);
        if (own.dev(), own.ino()) != (found.dev(), found.ino()) {
            return busy().fail();
        }
        Ok(part)
    }

    /// Syncs the copy, then renames it: the target is the complete new file, the old one, or
    /// missing.
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

/// Removes the leftover of a killed backup, but not a file that a backup is writing now.
fn remove_leftover(path: &Path) -> Result<()> {
    if !path.symlink_metadata()?.is_file() {
        return CommandError::new("it was not left by a backup")
            .fail_with_hint("move it elsewhere, or choose another file");
    }
    let left = OpenOptions::new().write(true).open(path)?;
    match flock(&left, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return busy().fail(),
        other => other?,
    }
    Ok(fs::remove_file(path)?)
}

fn busy() -> CommandError {
    CommandError::new("another backup is writing it")
        .hint("wait until it has finished, or choose another file")
}

fn rename_if_free(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system does not support this; a check before the rename leaves a short race.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) if to.symlink_metadata().is_err() => {
            fs::rename(from, to)
        }
        other => Ok(other?),
    }
}

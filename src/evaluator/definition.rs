//! Definitions of evaluators: the built-in set and a user's directory, one TOML file each, checked before anything runs.

use std::fs;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use toml::Spanned;

use crate::clock::{Time, Zone};
use crate::closed_enum::{UnknownValue, closed_enum};
use crate::diagnostic::{Origin, Problem};
use crate::evaluator::schedule::Schedule;
use crate::event::EventType;

closed_enum! {
    /// Kind of an evaluator.
    "kind" Kind {
        ReviewFeedback = "review_feedback",
        PrFeedback = "pr_feedback",
        Command = "command",
    }
}

closed_enum! {
    /// Data that has to be fetched before an evaluator judges.
    "need" Need {
        PrFeedback = "pr_feedback",
    }
}

/// One evaluator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Definition {
    /// The file's name without `.toml`.
    pub(crate) name: String,
    pub(crate) on: Vec<EventType>,
    pub(crate) needs: Vec<Need>,
    pub(crate) schedule: Option<Schedule>,
    pub(crate) config: Config,
    pub(crate) origin: Origin,
}

/// The settings of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Config {
    ReviewFeedback(ReviewFeedback),
    PrFeedback,
    Command(Command),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReviewFeedback {
    /// Maximum number of fixes before a person is asked; none: as configured elsewhere.
    pub(crate) max_fix_cycles: Option<i64>,
}

/// The user's own program, in any language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command {
    /// Never empty.
    pub(crate) argv: Vec<String>,
    pub(crate) limit: Duration,
    /// Directory of its file, in which it runs.
    pub(crate) folder: PathBuf,
}

impl Command {
    /// A path is relative to the evaluator's file or, with `~/`, to the home directory; a name is looked up in $PATH.
    pub(crate) fn program(&self, home: Option<&Path>) -> PathBuf {
        let program = Path::new(self.argv.first().map(String::as_str).unwrap_or_default());
        if let (Ok(rest), Some(home)) = (program.strip_prefix("~"), home) {
            return home.join(rest);
        }
        if program.components().count() > 1 {
            self.folder.join(program)
        } else {
            program.to_owned()
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum DefinitionError {
    #[error("cannot read the evaluators directory {}", path.display())]
    Folder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot read the evaluator {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "{} is not an evaluator: the name must consist of lower-case letters, digits and _, followed by `.toml` (programs must be executable, or in a subdirectory)",
        path.display()
    )]
    Name { path: PathBuf },
    /// `report` shows the location.
    #[error("{report}")]
    Fault {
        file: String,
        line: usize,
        fault: Fault,
        report: String,
    },
}

/// Error in a definition.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Not TOML, an unknown key, a missing one, or a value of the wrong type.
    Form,
    Command,
    Schedule,
    MaxFixCycles,
    NeverWoken,
}

impl Definition {
    pub(crate) fn kind(&self) -> Kind {
        match self.config {
            Config::ReviewFeedback(_) => Kind::ReviewFeedback,
            Config::PrFeedback => Kind::PrFeedback,
            Config::Command(_) => Kind::Command,
        }
    }
}

const STOCK: &[(&str, &str)] = &[
    (
        "pr_feedback",
        include_str!("../../evaluators/pr_feedback.toml"),
    ),
    (
        "review_feedback",
        include_str!("../../evaluators/review_feedback.toml"),
    ),
];
const MAX_FIX_CYCLES: RangeInclusive<i64> = 0..=100;
/// A command that takes longer than its limit is ended.
const LIMIT_S: RangeInclusive<i64> = 1..=600;
const DEFAULT_LIMIT: Duration = Duration::from_secs(60);
const EXAMPLE: &str = "the built-in `evaluators/review_feedback.toml` documents every key";

/// The built-in set with the definitions of `folder` added or replaced, without those that are switched off, ordered by
/// name. `now` decides if a schedule will ever fire.
pub(crate) fn load(folder: Option<&Path>, now: Time) -> Result<Vec<Definition>, DefinitionError> {
    let mut all = Vec::new();
    for &(name, source) in STOCK {
        let origin = Origin::Stock;
        let file = SourceFile {
            name,
            origin,
            source,
        };
        all.extend(file.read(now)?);
    }
    for (name, path) in folder.map(files_of).transpose()?.unwrap_or_default() {
        let read = read_file(&name, path, now)?;
        all.retain(|definition: &Definition| definition.name != name);
        all.extend(read);
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// Returns the maximum number of fixes that an evaluator sets, with its name.
pub(crate) fn max_fix_cycles(definitions: &[Definition]) -> Option<(i64, &str)> {
    definitions
        .iter()
        .find_map(|definition| match definition.config {
            Config::ReviewFeedback(config) => config
                .max_fix_cycles
                .map(|most| (most, definition.name.as_str())),
            Config::PrFeedback | Config::Command(_) => None,
        })
}

/// Returns the definition in one file; none if it is switched off. The file need not be in the directory.
pub(crate) fn load_file(path: &Path, now: Time) -> Result<Option<Definition>, DefinitionError> {
    let name = name_of(path).ok_or_else(|| DefinitionError::Name {
        path: path.to_owned(),
    })?;
    read_file(&name, path.to_owned(), now)
}

fn read_file(name: &str, path: PathBuf, now: Time) -> Result<Option<Definition>, DefinitionError> {
    let source = fs::read_to_string(&path).map_err(|source| DefinitionError::File {
        path: path.clone(),
        source,
    })?;
    SourceFile {
        name,
        origin: Origin::File(path),
        source: &source,
    }
    .read(now)
}

/// A file under examination.
struct SourceFile<'a> {
    name: &'a str,
    origin: Origin,
    source: &'a str,
}

/// Contents of a file; `C` is the `[config]` of its kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw<C> {
    enabled: Option<bool>,
    kind: Option<Spanned<Kind>>,
    #[serde(default)]
    on: Vec<Spanned<String>>,
    #[serde(default)]
    needs: Vec<Spanned<String>>,
    schedule: Option<Spanned<String>>,
    timezone: Option<Zone>,
    config: Option<C>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawReviewFeedback {
    max_fix_cycles: Option<Spanned<i64>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawCommand {
    command: Option<Spanned<Vec<String>>>,
    limit_s: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoConfig {}

impl SourceFile<'_> {
    /// None when it is switched off.
    fn read(self, now: Time) -> Result<Option<Definition>, DefinitionError> {
        let raw: Raw<IgnoredAny> = self.parse()?;
        if raw.enabled == Some(false) {
            return Ok(None);
        }
        let on = self.words(&raw.on)?;
        let needs = self.words(&raw.needs)?;
        let allowed = "allowed: review_feedback, pr_feedback, command";
        let Some(kind) = raw.kind else {
            let (title, label) = ("missing key `kind`", "this file has no `kind`");
            return Err(self.fault(Fault::Form, 0..0, title, label, allowed));
        };
        let config = match kind.as_ref() {
            Kind::ReviewFeedback => Config::ReviewFeedback(self.review_feedback()?),
            Kind::PrFeedback => {
                self.parse::<NoConfig>()?;
                Config::PrFeedback
            }
            Kind::Command => Config::Command(self.command(kind.span())?),
        };
        let zone = raw.timezone.unwrap_or(Zone::Utc);
        let schedule = raw
            .schedule
            .map(|text| self.schedule(&text, zone, now))
            .transpose()?;
        if on.is_empty() && schedule.is_none() {
            let title = "this evaluator never runs";
            let help = "add `on = [\"work_rejected\"]`, a `schedule`, or `enabled = false`";
            let label = "no `on` and no `schedule`";
            return Err(self.fault(Fault::NeverWoken, kind.span(), title, label, help));
        }
        Ok(Some(Definition {
            name: self.name.into(),
            on,
            needs,
            schedule,
            config,
            origin: self.origin,
        }))
    }

    fn parse<C: DeserializeOwned>(&self) -> Result<Raw<C>, DefinitionError> {
        toml::from_str(self.source).map_err(|error| {
            let place = error.span().unwrap_or(0..0);
            self.fault(Fault::Form, place, error.message(), "here", EXAMPLE)
        })
    }

    fn words<T: FromStr<Err = UnknownValue>>(
        &self,
        raw: &[Spanned<String>],
    ) -> Result<Vec<T>, DefinitionError> {
        raw.iter()
            .map(|word| {
                word.as_ref().parse().map_err(|error: UnknownValue| {
                    let title = error.to_string();
                    self.fault(Fault::Form, word.span(), &title, "here", EXAMPLE)
                })
            })
            .collect()
    }

    fn review_feedback(&self) -> Result<ReviewFeedback, DefinitionError> {
        let raw: RawReviewFeedback = self.parse()?.config.unwrap_or_default();
        let Some(cycles) = raw.max_fix_cycles else {
            return Ok(ReviewFeedback::default());
        };
        let count = *cycles.as_ref();
        if MAX_FIX_CYCLES.contains(&count) {
            return Ok(ReviewFeedback {
                max_fix_cycles: Some(count),
            });
        }
        let title = "`max_fix_cycles` is out of range";
        Err(self.out_of_range(Fault::MaxFixCycles, cycles.span(), title, &MAX_FIX_CYCLES))
    }

    fn out_of_range(
        &self,
        fault: Fault,
        place: Range<usize>,
        title: &str,
        allowed: &RangeInclusive<i64>,
    ) -> DefinitionError {
        let help = format!("allowed: {} to {}", allowed.start(), allowed.end());
        self.fault(fault, place, title, "here", &help)
    }

    fn command(&self, kind: Range<usize>) -> Result<Command, DefinitionError> {
        let raw: RawCommand = self.parse()?.config.unwrap_or_default();
        let help = "under [config], for example `command = [\"./old_prs.py\"]`: the program, then its arguments";
        let Some(command) = raw.command else {
            let (title, label) = ("missing key `command`", "this kind needs one");
            return Err(self.fault(Fault::Command, kind, title, label, help));
        };
        let program = command.as_ref().first();
        if program.is_none_or(|program| program.trim().is_empty()) {
            let title = "`command` has no program";
            return Err(self.fault(Fault::Command, command.span(), title, "here", help));
        }
        let limit = match raw.limit_s {
            None => DEFAULT_LIMIT,
            Some(seconds) if LIMIT_S.contains(seconds.as_ref()) => {
                Duration::from_secs(seconds.into_inner().unsigned_abs())
            }
            Some(seconds) => {
                let title = "`limit_s` is out of range";
                return Err(self.out_of_range(Fault::Command, seconds.span(), title, &LIMIT_S));
            }
        };
        let folder = match &self.origin {
            Origin::File(path) => path.parent(),
            Origin::Stock => None,
        };
        let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        // A path that cannot be made absolute does not exist, which is reported when the command runs.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        Ok(Command {
            argv: command.into_inner(),
            limit,
            folder,
        })
    }

    fn schedule(
        &self,
        text: &Spanned<String>,
        zone: Zone,
        now: Time,
    ) -> Result<Schedule, DefinitionError> {
        Schedule::parse(text.as_ref(), zone, now).map_err(|error| {
            let (title, label) = ("invalid `schedule`", error.to_string());
            self.fault(Fault::Schedule, text.span(), title, &label, error.hint())
        })
    }

    fn fault(
        &self,
        fault: Fault,
        place: Range<usize>,
        title: &str,
        label: &str,
        help: &str,
    ) -> DefinitionError {
        let file = match &self.origin {
            Origin::Stock => format!("evaluators/{}.toml", self.name),
            Origin::File(path) => path.display().to_string(),
        };
        let before = self.source.bytes().take(place.start);
        let line = before.filter(|&byte| byte == b'\n').count() + 1;
        let problem = Problem::new(title, Some(place)).label(label).help(help);
        let report = problem.report(&file, self.source);
        DefinitionError::Fault {
            file,
            line,
            fault,
            report,
        }
    }
}

/// The name of an evaluator is that of its file.
fn name_of(path: &Path) -> Option<String> {
    let is_name = |stem: &&str| {
        !stem.is_empty()
            && stem
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    path.file_name()?
        .to_str()?
        .strip_suffix(".toml")
        .filter(is_name)
        .map(str::to_owned)
}

/// The definitions of a directory, ordered by name. Hidden files are ignored; subdirectories and programs belong to
/// command evaluators.
fn files_of(folder: &Path) -> Result<Vec<(String, PathBuf)>, DefinitionError> {
    let fail = |source| DefinitionError::Folder {
        path: folder.to_path_buf(),
        source,
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
        if file_name.starts_with('.') {
            continue;
        }
        match name_of(&path) {
            Some(name) => files.push((name, path)),
            None if !file_name.ends_with(".toml") && (path.is_dir() || is_program(&path)) => {}
            None => return Err(DefinitionError::Name { path }),
        }
    }
    files.sort();
    Ok(files)
}

/// An executable file.
pub(crate) fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
#[path = "definition_tests.rs"]
mod tests;

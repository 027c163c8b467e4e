//! What evaluators there are: the stock set and a user's folder, one TOML file each, checked before anything runs.

use std::fmt;
use std::fs;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use toml::Spanned;

use crate::clock::Time;
use crate::evaluator::schedule::{Schedule, Zone};
use crate::event::EventType;
use crate::snippet::{Colour, Problem, Snippet};
use crate::words::{UnknownWord, words};

words! {
    /// What an evaluator does.
    "kind" Kind {
        ReviewFeedback = "review_feedback",
        PrFeedback = "pr_feedback",
        Command = "command",
    }
}

words! {
    /// What an evaluator has to have fetched from outside before it judges.
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
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReviewFeedback {
    /// Fixes before a person is asked; none: as configured elsewhere.
    pub(crate) max_fix_cycles: Option<i64>,
}

/// Where a definition comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Stock,
    File(PathBuf),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum DefinitionError {
    #[error("cannot read the folder of evaluators {}", path.display())]
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
    #[error("{} is not an evaluator; its name has to be lower-case letters, digits and _, then `.toml`", path.display())]
    Name { path: PathBuf },
    /// `report` shows the place.
    #[error("{report}")]
    Fault { file: String, line: usize, fault: Fault, report: String },
}

/// What is wrong with a definition.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Not TOML, an unknown key, a missing one, or a value of the wrong sort.
    Form,
    CommandKind,
    Schedule,
    MaxFixCycles,
    NeverWoken,
}

impl Definition {
    pub(crate) fn kind(&self) -> Kind {
        match self.config {
            Config::ReviewFeedback(_) => Kind::ReviewFeedback,
            Config::PrFeedback => Kind::PrFeedback,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stock => f.write_str("stock"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

const STOCK: &[(&str, &str)] = &[
    ("pr_feedback", include_str!("../../evaluators/pr_feedback.toml")),
    ("review_feedback", include_str!("../../evaluators/review_feedback.toml")),
];
const MAX_FIX_CYCLES: RangeInclusive<i64> = 0..=100;
const EXAMPLE: &str = "`evaluators/review_feedback.toml` among the stock files shows every key";

/// The stock set with those of `folder` added, or in their place; what is switched off is left out. In the order of
/// their names. `now` decides whether a schedule will ever fire.
pub(crate) fn load(folder: Option<&Path>, now: Time) -> Result<Vec<Definition>, DefinitionError> {
    let mut all = Vec::new();
    for &(name, source) in STOCK {
        all.extend(Page { name, origin: Origin::Stock, source }.read(now)?);
    }
    for (name, path) in folder.map(files_of).transpose()?.unwrap_or_default() {
        let source =
            fs::read_to_string(&path).map_err(|source| DefinitionError::File { path: path.clone(), source })?;
        let read = Page { name: &name, origin: Origin::File(path), source: &source }.read(now)?;
        all.retain(|definition: &Definition| definition.name != name);
        all.extend(read);
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// A file under examination.
struct Page<'a> {
    name: &'a str,
    origin: Origin,
    source: &'a str,
}

/// What the file says; `C` is the `[config]` of its kind.
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoConfig {}

impl Page<'_> {
    /// None when it is switched off.
    fn read(self, now: Time) -> Result<Option<Definition>, DefinitionError> {
        let raw: Raw<IgnoredAny> = self.parse()?;
        if raw.enabled == Some(false) {
            return Ok(None);
        }
        let on = self.words(&raw.on)?;
        let needs = self.words(&raw.needs)?;
        let allowed = "allowed: review_feedback, pr_feedback";
        let Some(kind) = raw.kind else {
            return Err(self.fault(Fault::Form, 0..0, "missing key `kind`", "no `kind` in this file", allowed));
        };
        let config = match kind.as_ref() {
            Kind::ReviewFeedback => Config::ReviewFeedback(self.review_feedback()?),
            Kind::PrFeedback => {
                self.parse::<NoConfig>()?;
                Config::PrFeedback
            }
            Kind::Command => {
                let title = "evaluators of kind `command` are not supported yet";
                return Err(self.fault(Fault::CommandKind, kind.span(), title, "cannot be run", allowed));
            }
        };
        let zone = raw.timezone.unwrap_or(Zone::Utc);
        let schedule = raw.schedule.map(|text| self.schedule(&text, zone, now)).transpose()?;
        if on.is_empty() && schedule.is_none() {
            let title = "nothing ever wakes this evaluator";
            let help = "give it `on = [\"work_rejected\"]`, a `schedule`, or `enabled = false`";
            return Err(self.fault(Fault::NeverWoken, kind.span(), title, "no `on` and no `schedule`", help));
        }
        Ok(Some(Definition { name: self.name.into(), on, needs, schedule, config, origin: self.origin }))
    }

    fn parse<C: DeserializeOwned>(&self) -> Result<Raw<C>, DefinitionError> {
        toml::from_str(self.source).map_err(|error| {
            let place = error.span().unwrap_or(0..0);
            self.fault(Fault::Form, place, error.message(), "here", EXAMPLE)
        })
    }

    fn words<T: FromStr<Err = UnknownWord>>(&self, raw: &[Spanned<String>]) -> Result<Vec<T>, DefinitionError> {
        raw.iter()
            .map(|word| {
                word.as_ref().parse().map_err(|error: UnknownWord| {
                    self.fault(Fault::Form, word.span(), &error.to_string(), "here", EXAMPLE)
                })
            })
            .collect()
    }

    fn review_feedback(&self) -> Result<ReviewFeedback, DefinitionError> {
        let raw: RawReviewFeedback = self.parse()?.config.unwrap_or_default();
        let Some(cycles) = raw.max_fix_cycles else { return Ok(ReviewFeedback::default()) };
        let count = *cycles.as_ref();
        if MAX_FIX_CYCLES.contains(&count) {
            return Ok(ReviewFeedback { max_fix_cycles: Some(count) });
        }
        let help = format!("allowed: {} to {}", MAX_FIX_CYCLES.start(), MAX_FIX_CYCLES.end());
        Err(self.fault(Fault::MaxFixCycles, cycles.span(), "`max_fix_cycles` is out of range", "here", &help))
    }

    fn schedule(&self, text: &Spanned<String>, zone: Zone, now: Time) -> Result<Schedule, DefinitionError> {
        Schedule::parse(text.as_ref(), zone, now).map_err(|error| {
            let (label, hint) = (error.to_string(), error.hint());
            self.fault(Fault::Schedule, text.span(), "this `schedule` cannot be used", &label, hint)
        })
    }

    fn fault(&self, fault: Fault, place: Range<usize>, title: &str, label: &str, help: &str) -> DefinitionError {
        let file = match &self.origin {
            Origin::Stock => format!("evaluators/{}.toml", self.name),
            Origin::File(path) => path.display().to_string(),
        };
        let line = self.source.bytes().take(place.start).filter(|&byte| byte == b'\n').count() + 1;
        let report = snippet(&file, self.source, place, title, label, help);
        DefinitionError::Fault { file, line, fault, report }
    }
}

/// The definitions of a folder, in the order of their names. Hidden files are a file manager's business.
fn files_of(folder: &Path) -> Result<Vec<(String, PathBuf)>, DefinitionError> {
    let fail = |source| DefinitionError::Folder { path: folder.to_path_buf(), source };
    let is_name = |stem: &&str| {
        !stem.is_empty() && stem.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let file_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if file_name.starts_with('.') {
            continue;
        }
        match file_name.strip_suffix(".toml").filter(is_name) {
            Some(stem) => files.push((stem.to_string(), path)),
            None => return Err(DefinitionError::Name { path }),
        }
    }
    files.sort();
    Ok(files)
}

fn snippet(file: &str, source: &str, place: Range<usize>, title: &str, label: &str, help: &str) -> String {
    let problem = Problem::new(title, Some(place)).label(label).help(help);
    Snippet { file, source, problem: &problem }.render(Colour::Plain)
}

#[cfg(test)]
#[path = "definition_tests.rs"]
mod tests;

//! Parses a config file: merged over the embedded defaults, then deserialized.
//!
//! All errors are reported at once: a bad key is recorded, removed, and the rest is parsed again.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::check::{self, Complaint};
use super::error::{ConfigError, Report};
use super::push::PushOverrides;
use super::settings::{Agent, Config, ProjectOverrides};
use crate::diagnostic::{Problem, line_column};
use crate::discover::Discover;
use crate::toml_path::{KeyPath, Step, fields_of};

/// Name in error messages if there is no file: then only a default can be wrong.
const EMBEDDED: &str = "config.toml (built in)";

pub(super) struct Read {
    pub(super) config: Config,
    /// Lines that set something, by dotted key.
    pub(super) lines: BTreeMap<String, usize>,
}

pub(super) fn read(file: Option<&Path>, text: &str) -> Result<Read, ConfigError> {
    let defaults = parse(None, super::default_text())?;
    let own = parse(file, text)?;
    let config = deserialise(&defaults, &own)
        .map_err(|problems| ConfigError::Invalid(report(file, text, problems)))?;
    let complaints = check::check(&config);
    if !complaints.is_empty() {
        return Err(refuse(file, text, complaints));
    }
    let mut lines = BTreeMap::new();
    note_lines(&own, &KeyPath::default(), text, &mut lines);
    Ok(Read { config, lines })
}

/// Creates the error for invalid settings, showing the lines that set them, if they are in the
/// file.
pub(super) fn refuse(file: Option<&Path>, text: &str, complaints: Vec<Complaint>) -> ConfigError {
    // The text was parsed before; an error about a key that is not in it is shown without a line.
    let own = parse(file, text).unwrap_or_default();
    let problem = |complaint: Complaint| Problem {
        span: complaint.keys.iter().find_map(|key| mark(key, &own)),
        title: complaint.title,
        label: None,
        help: Some(complaint.help),
    };
    ConfigError::Invalid(report(
        file,
        text,
        complaints.into_iter().map(problem).collect(),
    ))
}

fn report(file: Option<&Path>, text: &str, mut problems: Vec<Problem>) -> Report {
    problems.sort_by_key(|problem| problem.span.as_ref().map(|span| span.start));
    Report {
        file: file.unwrap_or(Path::new(EMBEDDED)).into(),
        source: text.into(),
        problems,
    }
}

fn parse<'t>(file: Option<&Path>, text: &'t str) -> Result<DeTable<'t>, ConfigError> {
    DeTable::parse(text)
        .map(Spanned::into_inner)
        .map_err(|error| {
            let problem = Problem::new("invalid TOML", error.span()).label(error.message());
            ConfigError::Syntax(report(file, text, vec![problem]))
        })
}

fn deserialise(defaults: &DeTable<'_>, own: &DeTable<'_>) -> Result<Config, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut rest = own.clone();
    loop {
        let mut merged = defaults.clone();
        lay_over(&mut merged, &rest);
        let merged = toml::de::Deserializer::from(Spanned::new(0..0, merged));
        match serde_path_to_error::deserialize(merged) {
            Ok(config) if problems.is_empty() => return Ok(config),
            Ok(_) => break,
            Err(error) => {
                let path = KeyPath::from(error.path());
                problems.push(explain(&path, error.inner().message(), defaults, own));
                if !path.take_from(&mut rest) {
                    break;
                }
            }
        }
    }
    Err(problems)
}

/// Merges tables; everything else is replaced.
fn lay_over<'t>(below: &mut DeTable<'t>, above: &DeTable<'t>) {
    for (key, value) in above {
        match (
            below.get_mut(key.get_ref().as_ref()).map(Spanned::get_mut),
            value.get_ref(),
        ) {
            (Some(DeValue::Table(below)), DeValue::Table(above)) => lay_over(below, above),
            _ => {
                below.insert(key.clone(), value.clone());
            }
        }
    }
}

fn explain(path: &KeyPath, message: &str, defaults: &DeTable<'_>, own: &DeTable<'_>) -> Problem {
    let spans = path.find(own);
    if let Some((table, Step::Key(key))) = path.split_last()
        && let Some(allowed) = keys_allowed(&table, defaults)
        && !allowed.contains(&key.as_str())
    {
        return Problem::new(
            format!("unknown setting `{path}`"),
            spans.and_then(|spans| spans.key),
        )
        .did_you_mean(key, &allowed)
        .help(format!(
            "settings {}: {}",
            name_of(&table),
            allowed.join(", ")
        ));
    }
    let problem =
        Problem::new(format!("invalid value for `{path}`"), mark(path, own)).label(message);
    if let Some(keys) = keys_allowed(path, defaults) {
        return problem.help(format!("settings {}: {}", name_of(path), keys.join(", ")));
    }
    match path.find(defaults) {
        Some(spans) if spans.is_table => {
            problem.help(format!("use one table for each: [{path}.NAME]"))
        }
        Some(spans) => {
            let default = super::default_text().get(spans.value).unwrap_or_default();
            problem.help(format!("the default is: {default}"))
        }
        None => problem,
    }
}

/// Returns the keys that the table at `path` may have; `None` if it is not a table, or one whose
/// keys are names.
fn keys_allowed<'d>(path: &KeyPath, defaults: &'d DeTable<'_>) -> Option<Vec<&'d str>> {
    match path.steps() {
        [Step::Key(key)] if key == "agents" || key == "projects" => None,
        [Step::Key(key), Step::Key(_)] if key == "agents" => Some(fields_of::<Agent>().to_vec()),
        [Step::Key(key), Step::Key(_)] if key == "projects" => {
            Some(fields_of::<ProjectOverrides>().to_vec())
        }
        [Step::Key(key), Step::Key(_), Step::Key(table)]
            if key == "projects" && table == "push" =>
        {
            Some(fields_of::<PushOverrides>().to_vec())
        }
        [Step::Key(key), Step::Key(_), Step::Key(table)]
            if key == "projects" && table == "discover" =>
        {
            Some(fields_of::<Discover>().to_vec())
        }
        _ => path.keys_in(defaults),
    }
}

fn name_of(table: &KeyPath) -> String {
    if table.steps().is_empty() {
        "at the top level".into()
    } else {
        format!("in [{table}]")
    }
}

/// Returns the range to highlight: the value, or the key if the value is a whole table.
fn mark(path: &KeyPath, own: &DeTable<'_>) -> Option<Range<usize>> {
    let spans = path.find(own)?;
    if spans.is_table {
        spans.key
    } else {
        Some(spans.value)
    }
}

fn note_lines(table: &DeTable<'_>, at: &KeyPath, text: &str, lines: &mut BTreeMap<String, usize>) {
    for (key, value) in table {
        let path = at.key(key.get_ref().as_ref());
        if let DeValue::Table(inner) = value.get_ref() {
            note_lines(inner, &path, text, lines);
        } else {
            lines.insert(path.to_string(), line_column(text, key.span().start).0);
        }
    }
}

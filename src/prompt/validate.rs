//! Validates a template before it is used: its syntax, the names it uses, and that it keeps
//! untrusted text in fences. Errors are shown at their location in the file.

use std::ops::Range;

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};

use super::{Name, PromptError, fence};
use crate::diagnostic::Problem;

/// The form of a review's result, which `review` and `again` include.
const ANSWER: &str = include_str!("../../prompts/answer.md");

/// Ends a template that would never stop; the built-in ones use less than a hundredth.
const FUEL: u64 = 500_000;

/// Kinds of errors in a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Syntax,
    UnknownVariable,
    /// Well-formed, but fails when rendered.
    Fails,
    Unfenced,
}

/// Returns the environment that renders `source`, if it is valid.
pub(super) fn check(
    name: Name,
    file: &str,
    source: &str,
) -> Result<Environment<'static>, PromptError> {
    let page = TemplateSource { name, file, source };
    let mut environment = environment();
    environment
        .add_template_owned(name.as_str(), source.to_string())
        .map_err(|error| page.failure(Fault::Syntax, &error))?;
    environment
        .add_template("answer.md", ANSWER)
        .map_err(|error| page.failure(Fault::Syntax, &error))?;
    page.known_variables(&environment)?;
    page.trials(&environment)?;
    Ok(environment)
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    environment.add_filter("fence", fence::fence);
    // `debug` prints every value, outside of any fence.
    environment.remove_global("debug");
    if let Ok(syntax) = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build()
    {
        environment.set_syntax(syntax);
    }
    environment
}

/// Template being validated.
struct TemplateSource<'a> {
    name: Name,
    file: &'a str,
    source: &'a str,
}

impl TemplateSource<'_> {
    fn known_variables(&self, environment: &Environment<'_>) -> Result<(), PromptError> {
        let template = environment
            .get_template(self.name.as_str())
            .map_err(|error| self.failure(Fault::Syntax, &error))?;
        let is_global = |path: &str| environment.globals().any(|(global, _)| global == path);
        let unknown = template
            .undeclared_variables(true)
            .into_iter()
            .filter(|path| !self.name.knows(path) && !is_global(path))
            .map(|path| (self.place_of(&path), path))
            .min_by_key(|(place, path)| (place.start, path.clone()));
        match unknown {
            None => Ok(()),
            Some((place, path)) => Err(self.fault(
                Fault::UnknownVariable,
                place,
                &format!("unknown variable `{path}`"),
                &format!("not a variable of `{}`", self.name),
            )),
        }
    }

    fn trials(&self, environment: &Environment<'_>) -> Result<(), PromptError> {
        for trial in self.name.trials() {
            let text = environment
                .get_template(self.name.as_str())
                .and_then(|template| template.render(trial))
                .map_err(|error| self.failure(Fault::Fails, &error))?;
            if let Some(path) = fence::unfenced(&text) {
                return Err(self.fault(
                    Fault::Unfenced,
                    self.place_of(&path),
                    &format!("`{path}` is untrusted text and is not inside a fence"),
                    "an agent would take this for instructions from remand",
                ));
            }
        }
        Ok(())
    }

    fn failure(&self, fault: Fault, error: &Error) -> PromptError {
        let title = match (error.kind(), error.detail()) {
            (ErrorKind::UndefinedError, None) => "unknown field".to_string(),
            (ErrorKind::OutOfFuel, _) => "the template does not terminate".to_string(),
            (kind, None) => kind.to_string(),
            (kind, Some(detail)) => format!("{kind}: {detail}"),
        };
        let place = error.line().map_or(0..0, |line| self.line(line));
        self.fault(fault, place, &title, "here")
    }

    fn fault(&self, fault: Fault, place: Range<usize>, title: &str, label: &str) -> PromptError {
        let before = self.source.bytes().take(place.start);
        let line = 1 + before.filter(|&byte| byte == b'\n').count();
        let help = match fault {
            Fault::Syntax => {
                "template syntax: https://docs.rs/minijinja/3/minijinja/syntax/".to_string()
            }
            Fault::UnknownVariable | Fault::Fails => {
                format!("allowed in `{}`: {}", self.name, self.name.allowed())
            }
            Fault::Unfenced => {
                "wrap it: {% filter fence(\"a label\") %} … {% endfilter %}".to_string()
            }
        };
        let problem = Problem::new(title, Some(place)).label(label).help(help);
        let report = problem.report(self.file, self.source);
        PromptError::Template {
            file: self.file.into(),
            line,
            fault,
            report,
        }
    }

    /// Returns the byte range of a line, counted from 1, without indentation and line end.
    fn line(&self, number: usize) -> Range<usize> {
        let mut lines = self.source.split_inclusive('\n');
        let start: usize = lines
            .by_ref()
            .take(number.saturating_sub(1))
            .map(str::len)
            .sum();
        let line = lines.next().unwrap_or_default();
        let start = start + line.len() - line.trim_start().len();
        start..start + line.trim().len()
    }

    /// Returns the location of the first `path` in a tag; the start of the file if there is none.
    fn place_of(&self, path: &str) -> Range<usize> {
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let last = path.rsplit('.').next().unwrap_or(path);
        [path, last]
            .iter()
            .find_map(|needle| {
                self.source
                    .match_indices(needle)
                    .map(|(at, _)| at..at + needle.len())
                    .find(|place| {
                        let before = self.source.get(..place.start).unwrap_or_default();
                        let after = self.source.get(place.end..).unwrap_or_default();
                        let is_whole = !after.starts_with(is_part)
                            && (*needle != path && before.ends_with('.')
                                || !before.ends_with(is_part));
                        is_whole && in_tag(before)
                    })
            })
            .unwrap_or(0..0)
    }
}

/// True if the text after `before` is inside `{{ … }}` or `{% … %}`.
fn in_tag(before: &str) -> bool {
    let opened = before.rfind("{{").max(before.rfind("{%"));
    let closed = before.rfind("}}").max(before.rfind("%}"));
    opened.is_some() && opened > closed
}

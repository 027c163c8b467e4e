//! Prompts for agents: templates, the values they may use, and the fences around all untrusted
//! text. Template files are read when loaded. Untrusted text must never become part of a template's
//! source.

mod context;
mod fence;
mod portion;
mod sanitize;
#[cfg(test)]
mod tests;
mod validate;
mod variables;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use minijinja::{Environment, Value};

pub(crate) use context::{
    AgainContext, AgentEnvironment, Extent, FixContext, GuidanceText, ImplementContext, IssueText,
    ReviewContext,
};
pub(crate) use validate::Fault;
pub(crate) use variables::Variable;

use crate::closed_enum::closed_enum;
use crate::diagnostic::Origin;
use crate::work::PromptCut;
use context::Tally;

closed_enum! {
    /// Names of the prompts, which are also their file names.
    "prompt" Name {
        Review = "review",
        Fix = "fix",
        Again = "again",
        Implement = "implement",
    }
}

/// All prompts, validated.
#[derive(Debug)]
pub(crate) struct Prompts {
    review: Template,
    fix: Template,
    again: Template,
    implement: Template,
}

/// Prompt for an agent, and the number of bytes of untrusted text that were omitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prompt {
    pub(crate) text: String,
    /// Bytes of invisible characters and hidden comments that were removed: worth showing to a
    /// person.
    pub(crate) stripped: usize,
    /// Bytes that were cut because a text was too long.
    pub(crate) left_out: usize,
    /// Extent of each piece of feedback in the prompt, including those that did not fit.
    pub(crate) extents: Vec<Extent>,
    /// Other sections that were too long.
    pub(crate) cuts: Vec<PromptCut>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PromptError {
    #[error("cannot read the prompts directory {}", path.display())]
    Folder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot read the prompt {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is not a prompt; allowed names: implement.md, review.md, fix.md and again.md", path.display())]
    UnknownFile { path: PathBuf },
    /// A template that cannot be used. `report` shows the location.
    #[error("{report}")]
    Template {
        file: String,
        line: usize,
        fault: Fault,
        report: String,
    },
    #[error("cannot render the prompt `{name}`")]
    Render {
        name: Name,
        #[source]
        source: minijinja::Error,
    },
    #[error("the prompt `{name}` has untrusted text outside a fence: {start:?}…")]
    Unfenced { name: Name, start: String },
}

impl Prompts {
    /// Loads the built-in prompts, replaced by those in `folder`.
    pub(crate) fn load(folder: Option<&Path>) -> Result<Self, PromptError> {
        let mut prompts = Self {
            review: Template::stock(Name::Review)?,
            fix: Template::stock(Name::Fix)?,
            again: Template::stock(Name::Again)?,
            implement: Template::stock(Name::Implement)?,
        };
        if let Some(folder) = folder {
            for (name, path) in files_of(folder)? {
                let source = fs::read_to_string(&path).map_err(|source| PromptError::File {
                    path: path.clone(),
                    source,
                })?;
                *prompts.template_mut(name) = Template::check(name, Origin::File(path), source)?;
            }
        }
        Ok(prompts)
    }

    pub(crate) fn review(&self, context: &ReviewContext) -> Result<Prompt, PromptError> {
        self.review.write(context.values())
    }

    pub(crate) fn fix(&self, context: &FixContext) -> Result<Prompt, PromptError> {
        self.fix.write(context.values())
    }

    pub(crate) fn again(&self, context: &AgainContext) -> Result<Prompt, PromptError> {
        self.again.write(context.values())
    }

    pub(crate) fn implement(&self, context: &ImplementContext) -> Result<Prompt, PromptError> {
        self.implement.write(context.values())
    }

    /// Lists each prompt with its origin and its variables.
    pub(crate) fn list(&self) -> impl Iterator<Item = (Name, &Origin, &'static [Variable])> {
        Name::ALL
            .iter()
            .map(|&name| (name, &self.template(name).origin, name.variables()))
    }

    /// Returns the template that is in effect.
    pub(crate) fn source(&self, name: Name) -> &str {
        &self.template(name).source
    }

    fn template(&self, name: Name) -> &Template {
        match name {
            Name::Review => &self.review,
            Name::Fix => &self.fix,
            Name::Again => &self.again,
            Name::Implement => &self.implement,
        }
    }

    fn template_mut(&mut self, name: Name) -> &mut Template {
        match name {
            Name::Review => &mut self.review,
            Name::Fix => &mut self.fix,
            Name::Again => &mut self.again,
            Name::Implement => &mut self.implement,
        }
    }
}

impl Name {
    fn stock(self) -> &'static str {
        match self {
            Self::Review => include_str!("../../prompts/review.md"),
            Self::Fix => include_str!("../../prompts/fix.md"),
            Self::Again => include_str!("../../prompts/again.md"),
            Self::Implement => include_str!("../../prompts/implement.md"),
        }
    }
}

#[derive(Debug)]
struct Template {
    name: Name,
    origin: Origin,
    source: String,
    /// Holds this template and the built-in `answer.md`, so that `include` finds nothing else.
    environment: Environment<'static>,
}

impl Template {
    fn stock(name: Name) -> Result<Self, PromptError> {
        Self::check(name, Origin::Stock, name.stock().into())
    }

    fn check(name: Name, origin: Origin, source: String) -> Result<Self, PromptError> {
        let file = match &origin {
            Origin::Stock => format!("prompts/{name}.md"),
            Origin::File(path) => path.display().to_string(),
        };
        let environment = validate::check(name, &file, &source)?;
        Ok(Self {
            name,
            origin,
            source,
            environment,
        })
    }

    fn write(&self, (values, tally): (Value, Tally)) -> Result<Prompt, PromptError> {
        let text = self
            .environment
            .get_template(self.name.as_str())
            .and_then(|template| template.render(values))
            .map_err(|source| PromptError::Render {
                name: self.name,
                source,
            })?;
        match fence::unfenced(&text) {
            None => Ok(Prompt {
                text,
                stripped: tally.stripped,
                left_out: tally.left_out,
                extents: tally.extents,
                cuts: tally.cuts,
            }),
            Some(outside) => Err(PromptError::Unfenced {
                name: self.name,
                start: outside.chars().take(40).collect(),
            }),
        }
    }
}

/// Returns the prompts in a directory, sorted by name. Hidden files, as left by file managers, are
/// ignored.
fn files_of(folder: &Path) -> Result<Vec<(Name, PathBuf)>, PromptError> {
    let fail = |source| PromptError::Folder {
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
        let name = file_name
            .strip_suffix(".md")
            .and_then(|stem| stem.parse().ok());
        match name {
            Some(name) => files.push((name, path)),
            None => return Err(PromptError::UnknownFile { path }),
        }
    }
    files.sort();
    Ok(files)
}

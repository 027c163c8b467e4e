//! Checks that the settings, the evaluators and the prompts can be read and refer to things that
//! exist.

use super::{Check, Surroundings};
use crate::config::{self, ConfigError, ConfigLocation, Loaded};
use crate::diagnostic::title;
use crate::evaluator::definition;
use crate::prompt::Prompts;

const NAME: &str = "configuration";

/// Returns the settings; if they cannot be read, the defaults and the error.
pub(super) fn load(place: &ConfigLocation) -> Result<(Loaded, Option<ConfigError>), ConfigError> {
    match config::load(place) {
        Ok(loaded) => Ok((loaded, None)),
        Err(error) => Ok((config::without_file(place)?, Some(error))),
    }
}

pub(super) fn checks(around: &Surroundings, bad: Option<&ConfigError>) -> Vec<Check> {
    if let Some(error) = bad {
        let error_text = error.to_string();
        let says = format!("{}; the other checks use the defaults", title(&error_text));
        let r#do = match error {
            ConfigError::NotFound { .. } => "check the path; `remand init` creates it",
            ConfigError::Unreadable { .. } => "make it readable",
            ConfigError::Syntax(_) | ConfigError::Invalid(_) | ConfigError::NoHome => {
                "`remand config check` shows the error and what is allowed"
            }
        };
        return vec![Check::fail(NAME, says, r#do)];
    }
    let loaded = &around.loaded;
    let known: Vec<String> = around
        .projects
        .iter()
        .map(|project| project.project_id.to_string())
        .collect();
    let strays = loaded
        .strays(&known)
        .into_iter()
        .map(|stray| Check::warn(NAME, stray.what, stray.hint));
    let mut checks = vec![file(around)];
    checks.extend(strays);
    checks.extend(nobody(around));
    checks
}

fn file(around: &Surroundings) -> Check {
    let loaded = &around.loaded;
    let evaluators = definition::load(loaded.evaluators.as_deref(), around.now).err();
    let prompts = Prompts::load(loaded.prompts.as_deref()).err();
    let wrong = evaluators.map(|error| (error.to_string(), "remand evaluators check"));
    let wrong = wrong.or(prompts.map(|error| (error.to_string(), "remand prompts check")));
    if let Some((what, command)) = wrong {
        return Check::fail(NAME, title(&what), format!("`{command}` shows the error"));
    }
    match &loaded.file {
        Some(file) => Check::ok(NAME, file.display().to_string()),
        None => Check::ok(NAME, "no config file: using the defaults"),
    }
}

/// Reports that there is no agent: without one, nothing can be done.
fn nobody(around: &Surroundings) -> Option<Check> {
    let loaded = &around.loaded;
    let lacking: Vec<&str> = around
        .projects
        .iter()
        .map(|project| project.project_id.as_str())
        .filter(|name| loaded.project(name).agent.is_none())
        .collect();
    let r#do = match &loaded.file {
        Some(file) => format!("set `agent` and [agents.NAME] in {}", file.display()),
        None => "run `remand init`".to_owned(),
    };
    if around.projects.is_empty() && loaded.project("").agent.is_none() {
        let says = "none is set: nothing can be reviewed or fixed";
        return Some(Check::warn("agents", says, r#do));
    }
    let names = lacking.join(", ");
    let says = format!("none is set for {names}: nothing can be reviewed or fixed there");
    (!lacking.is_empty()).then(|| Check::warn("agents", says, r#do))
}

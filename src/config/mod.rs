//! The settings: the embedded `config.toml` from the top of the repository has every default, and
//! the user's file overrides it.
//!
//! This module is also the only one that reads the environment. It prints nothing, and never
//! silently accepts a bad value: an error shows the line and what is allowed.

mod check;
mod environment;
mod error;
pub(crate) mod explain;
mod forge_login;
pub(crate) mod github;
mod implement;
mod location;
mod names;
mod owner;
mod parse;
mod project;
mod push;
mod sandbox;
pub(crate) mod settings;
mod sources;
mod weaker;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use environment::Environment;
pub(crate) use environment::{Supervision, is_inside_a_run};
pub(crate) use error::ConfigError;
pub(crate) use location::{ConfigLocation, Origin};
pub(crate) use owner::SettingsOwner;
use settings::{Agent, Config};
pub(crate) use sources::{Sources, Stats, Watched};
pub(crate) use weaker::{Weaker, weaker};

use crate::secret::Secret;

/// The effective settings, and the locations of their files and of the things that they name.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    /// The config file; `None` if there is none, which is not an error.
    pub(crate) file: Option<PathBuf>,
    pub(crate) blackboard: PathBuf,
    pub(crate) blackboard_from: Origin,
    /// Directory of the user's evaluators, if it exists.
    pub(crate) evaluators: Option<PathBuf>,
    /// Directory of the user's prompts, if it exists.
    pub(crate) prompts: Option<PathBuf>,
    /// Locations of the files that all this comes from.
    pub(crate) watched: Watched,
    /// Contents of those files.
    pub(crate) sources: Sources,
    home: Option<PathBuf>,
    /// Lines of `file` that set something, by dotted key.
    lines: BTreeMap<String, usize>,
}

impl Loaded {
    pub(crate) fn agent(&self, name: &str) -> Option<&Agent> {
        self.config.agents.get(name)
    }

    /// Path of the config file, for people and for the blackboard.
    pub(crate) fn file_text(&self) -> Option<String> {
        Some(self.file.as_ref()?.display().to_string())
    }

    /// Directory of the blackboard and the rest of remand's state.
    pub(crate) fn state_folder(&self) -> PathBuf {
        self.blackboard
            .parent()
            .map(PathBuf::from)
            .unwrap_or_default()
    }
}

/// Finds the config file and reads it.
pub(crate) fn load(place: &ConfigLocation) -> Result<Loaded, ConfigError> {
    load_in(place, &Environment::of_process())
}

/// Returns the defaults alone, for commands that must work although the config file cannot be read.
pub(crate) fn without_file(place: &ConfigLocation) -> Result<Loaded, ConfigError> {
    load_from(place, &Environment::of_process(), None)
}

/// Returns the blackboard named by an unusable config file, as far as it can be determined: a
/// person who has to stop everything must not have to fix the file first.
pub(crate) fn blackboard_despite(place: &ConfigLocation) -> Option<PathBuf> {
    blackboard_despite_in(place, &Environment::of_process())
}

fn blackboard_despite_in(place: &ConfigLocation, environment: &Environment) -> Option<PathBuf> {
    let usual = load_from(place, environment, None).ok()?;
    let file = location::config_file(place, environment).ok().flatten();
    let text = file
        .as_deref()
        .and_then(|file| error::read_file(file).ok())
        .unwrap_or_default();
    // A single line can be read even if the file is not TOML.
    let top = text
        .lines()
        .take_while(|line| !line.trim_start().starts_with('['));
    let set = top
        .filter(|line| line.trim_start().starts_with("blackboard"))
        .find_map(|line| {
            let table: toml::Table = line.parse().ok()?;
            Some(table.get("blackboard")?.as_str()?.to_owned()).filter(|set| !set.is_empty())
        });
    match (usual.blackboard_from, set) {
        (Origin::Default | Origin::File { .. }, Some(set)) => Some(location::resolve(
            &set,
            file.as_deref(),
            usual.home.as_deref(),
        )),
        (_, _) => Some(usual.blackboard),
    }
}

/// Returns every setting with its default and description.
pub(crate) fn default_text() -> &'static str {
    include_str!("../../config.toml")
}

/// Returns the closed list of variables that an agent runs with: the common ones and `names`. Names
/// that `load` refuses are left out here too.
pub(crate) fn agent_environment(names: &[String]) -> BTreeMap<String, String> {
    Environment::of_process().for_agent(names)
}

/// Returns the closed list of variables for `gh`, and for git where it must log in: the user's
/// credentials, and nothing that selects a repository. Never for an agent, a gate, or git in a
/// worktree.
pub(crate) fn forge_environment() -> BTreeMap<String, String> {
    Environment::of_process().for_forge()
}

/// Returns the forge's tokens in the environment, so that none of them is ever pushed.
pub(crate) fn forge_secrets() -> Vec<Secret> {
    Environment::of_process().forge_secrets()
}

/// Returns the name of the actor for events: REMAND_ACTOR, otherwise the user name, otherwise the
/// uid.
pub(crate) fn user_name() -> String {
    Environment::of_process().user_name()
}

/// Returns the user's home directory.
pub(crate) fn home() -> Option<PathBuf> {
    Environment::of_process()
        .path("HOME")
        .filter(|path| path.is_absolute())
}

/// Returns the directory in which the user's programs keep their settings.
pub(crate) fn config_home() -> Option<PathBuf> {
    let set = Environment::of_process()
        .path("XDG_CONFIG_HOME")
        .filter(|path| path.is_absolute());
    set.or_else(|| home().map(|home| home.join(".config")))
}

/// Returns the directory of the machine's systemd units, as systemd itself determines it.
pub(crate) fn machine_units() -> PathBuf {
    let set = Environment::of_process().path("SYSTEMD_UNIT_PATH");
    let mut folders = set
        .iter()
        .flat_map(std::env::split_paths)
        .filter(|folder| folder.is_absolute());
    folders
        .next()
        .unwrap_or_else(|| "/etc/systemd/system".into())
}

/// Returns PATH, for looking up programs.
pub(crate) fn search_path() -> Option<String> {
    first_set(&["PATH"])
}

/// Returns the variables that systemctl and launchctl need to find the user's systemd or launchd.
pub(crate) fn session_environment() -> BTreeMap<String, String> {
    let names = [
        "PATH",
        "HOME",
        "USER",
        "LANG",
        "XDG_CONFIG_HOME",
        "XDG_RUNTIME_DIR",
        "DBUS_SESSION_BUS_ADDRESS",
    ];
    Environment::of_process().set(names).collect()
}
/// Returns device and inode of the stream to systemd's journal, if this process or an ancestor got
/// one.
#[cfg(target_os = "linux")]
pub(crate) fn journal() -> Option<(u64, u64)> {
    Environment::of_process().journal()
}

/// Returns the user who started this process with sudo.
pub(crate) fn sudo_user() -> Option<String> {
    first_set(&["SUDO_USER"])
}

/// Returns the login name of the user.
pub(crate) fn login_name() -> Option<String> {
    first_set(&["USER", "LOGNAME"])
}

/// Returns those of the variables that are set, with their values.
pub(crate) fn set_variables(names: &[String]) -> Vec<(String, String)> {
    let names = names.iter().map(String::as_str);
    Environment::of_process().set(names).collect()
}

/// Returns the notification settings of the service manager that started this process.
pub(crate) fn supervision() -> Supervision {
    Environment::of_process().supervision(std::process::id())
}

/// Returns the user's editor, as a shell command.
pub(crate) fn editor() -> Option<String> {
    first_set(&["VISUAL", "EDITOR"])
}

/// Returns the user's pager, as a shell command.
pub(crate) fn pager() -> Option<String> {
    first_set(&["GIT_PAGER", "PAGER"])
}

fn first_set(names: &[&str]) -> Option<String> {
    let environment = Environment::of_process();
    let set = names.iter().find_map(|name| environment.text(name));
    set.map(str::to_owned)
}

/// Returns the whole environment, only for programs that the user works with at the terminal: an editor, a pager.
pub(crate) fn terminal_environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

/// True if the terminal cannot move its cursor.
pub(crate) fn is_dumb_terminal() -> bool {
    first_set(&["TERM"]).is_none_or(|term| term == "dumb")
}

/// Returns the width of the terminal from COLUMNS, if the terminal does not report it.
pub(crate) fn columns() -> Option<usize> {
    first_set(&["COLUMNS"])?.parse().ok()
}

/// Returns the default location of the config file.
pub(crate) fn usual_file() -> Option<PathBuf> {
    location::usual_file(&Environment::of_process())
}

/// Returns the config file to write: the named one, which need not exist yet, or the default one.
pub(crate) fn file_to_write(place: &ConfigLocation) -> Option<PathBuf> {
    let environment = Environment::of_process();
    location::named_file(place, &environment)
        .map(|(path, _)| path)
        .or_else(|| location::usual_file(&environment))
}

fn load_in(place: &ConfigLocation, environment: &Environment) -> Result<Loaded, ConfigError> {
    let file = location::config_file(place, environment)?;
    load_from(place, environment, file)
}

fn load_from(
    place: &ConfigLocation,
    environment: &Environment,
    file: Option<PathBuf>,
) -> Result<Loaded, ConfigError> {
    let text = file
        .as_deref()
        .map_or(Ok(String::new()), error::read_file)?;
    let mut read = parse::read(file.as_deref(), &text)?;
    let home = environment.path("HOME");
    if let Some(home) = home.as_deref() {
        read.config.expand_programs(home);
    }
    let (blackboard, blackboard_from) =
        location::blackboard(place, environment, file.as_deref(), &read)?;
    // A person may have prompts and no settings: their directory is where the file would be.
    let beside = file.clone().or_else(|| location::usual_file(environment));
    let folder =
        |key, set: &str| location::watched_folder(key, set, beside.as_deref(), home.as_deref());
    let watched = Watched {
        config: file
            .clone()
            .or_else(|| location::named_file(place, environment).map(|(path, _)| path))
            .or(beside.clone()),
        evaluators: folder("evaluators", &read.config.evaluators),
        prompts: folder("prompts", &read.config.prompts),
    };
    // Before evaluators and prompts are loaded, so that a change in between is detected.
    let sources = watched.read_beside(file.is_some().then_some(text.as_str()));
    let set = &read.config;
    let evaluators = location::folder("evaluators", &set.evaluators, watched.evaluators.as_ref());
    let prompts = location::folder("prompts", &set.prompts, watched.prompts.as_ref());
    let missing: Vec<_> = [&evaluators, &prompts]
        .into_iter()
        .filter_map(|found| found.as_ref().err().cloned())
        .collect();
    if !missing.is_empty() {
        return Err(parse::refuse(file.as_deref(), &text, missing));
    }
    Ok(Loaded {
        config: read.config,
        file,
        blackboard,
        blackboard_from,
        evaluators: evaluators.unwrap_or_default(),
        prompts: prompts.unwrap_or_default(),
        watched,
        sources,
        home,
        lines: read.lines,
    })
}

#[cfg(test)]
mod tests;

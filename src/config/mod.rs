//! The settings: `config.toml` at the top of the repository, embedded, is every default, and a person's own
//! file is laid over it. This room is also the only one that reads the environment. It prints nothing, and
//! it takes no bad value in silence: what is wrong is an error that shows the line and says what is allowed.

mod check;
mod environment;
mod error;
pub(crate) mod explain;
mod forge_login;
pub(crate) mod github;
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

/// The settings as they hold, and where they and the things that they name are.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    /// None if there is no config file, which is fine.
    pub(crate) file: Option<PathBuf>,
    pub(crate) blackboard: PathBuf,
    pub(crate) blackboard_from: Origin,
    /// A person's own evaluators and prompts, if there are any.
    pub(crate) evaluators: Option<PathBuf>,
    pub(crate) prompts: Option<PathBuf>,
    /// Where the files are that all this comes from, and what was in them.
    pub(crate) watched: Watched,
    pub(crate) sources: Sources,
    home: Option<PathBuf>,
    /// The lines of `file` that set something, by dotted key.
    lines: BTreeMap<String, usize>,
}

impl Loaded {
    pub(crate) fn agent(&self, name: &str) -> Option<&Agent> {
        self.config.agents.get(name)
    }

    /// The folder of the blackboard, with the rest of remand's own state.
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

/// The defaults alone, where the config file can't be read and something is to be looked at all the same.
pub(crate) fn without_file(place: &ConfigLocation) -> Result<Loaded, ConfigError> {
    load_from(place, &Environment::of_process(), None)
}

/// The blackboard of a config file that can't be used, as far as that can be told: whoever has to stop everything must not
/// have to mend the file first.
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
    // One line alone can be read even where the file is no TOML.
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

/// Every setting with its default and what it means.
pub(crate) fn default_text() -> &'static str {
    include_str!("../../config.toml")
}

/// The closed list of variables that an agent runs with: the common ones and `names`. A name that `load`
/// refuses is left out here too.
pub(crate) fn agent_environment(names: &[String]) -> BTreeMap<String, String> {
    Environment::of_process().for_agent(names)
}

/// The closed list of variables for `gh`, and for git where it must log in: the keys of the user, and nothing that
/// says in which repository. Never for an agent, a gate, or git in a worktree.
pub(crate) fn forge_environment() -> BTreeMap<String, String> {
    Environment::of_process().for_forge()
}

/// The forge's tokens in our environment, so that none of them is ever pushed.
pub(crate) fn forge_secrets() -> Vec<Secret> {
    Environment::of_process().forge_secrets()
}

/// Who is speaking, for events: REMAND_ACTOR, else the user's name, else the number.
pub(crate) fn user_name() -> String {
    Environment::of_process().user_name()
}

/// The user's home.
pub(crate) fn home() -> Option<PathBuf> {
    Environment::of_process()
        .path("HOME")
        .filter(|path| path.is_absolute())
}

/// Where the user's programs keep their settings.
pub(crate) fn config_home() -> Option<PathBuf> {
    let set = Environment::of_process()
        .path("XDG_CONFIG_HOME")
        .filter(|path| path.is_absolute());
    set.or_else(|| home().map(|home| home.join(".config")))
}

/// The folder of the machine's own systemd units, as systemd itself finds it.
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

/// Where programs are looked for.
pub(crate) fn search_path() -> Option<String> {
    Environment::of_process().text("PATH").map(str::to_owned)
}

/// What systemctl and launchctl need to find the user's own systemd or launchd.
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
    let environment = Environment::of_process();
    names
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), environment.text(name)?.to_owned())))
        .collect()
}

/// Device and inode of the stream to systemd's journal, if one was given to this process or to one before it.
#[cfg(target_os = "linux")]
pub(crate) fn journal() -> Option<(u64, u64)> {
    Environment::of_process().journal()
}

/// The user who started this process with sudo.
pub(crate) fn sudo_user() -> Option<String> {
    Environment::of_process()
        .text("SUDO_USER")
        .map(str::to_owned)
}

/// The login name of the user.
pub(crate) fn login_name() -> Option<String> {
    let environment = Environment::of_process();
    environment
        .text("USER")
        .or_else(|| environment.text("LOGNAME"))
        .map(str::to_owned)
}

/// The variables that are set here, with their values.
pub(crate) fn set_variables(names: &[String]) -> Vec<(String, String)> {
    let environment = Environment::of_process();
    names
        .iter()
        .filter_map(|name| Some((name.clone(), environment.text(name)?.to_string())))
        .collect()
}

/// What whoever started this process wants to be told of it.
pub(crate) fn supervision() -> Supervision {
    Environment::of_process().supervision(std::process::id())
}

/// How wide the terminal is, where it does not say so itself: COLUMNS.
pub(crate) fn columns() -> Option<usize> {
    Environment::of_process()
        .path("COLUMNS")?
        .to_str()?
        .parse()
        .ok()
}

/// Where the config file is looked for when nobody names one.
pub(crate) fn usual_file() -> Option<PathBuf> {
    location::usual_file(&Environment::of_process())
}

/// Where a config file is to be written: the one that is named, which need not be there yet, or the usual one.
pub(crate) fn file_to_write(place: &ConfigLocation) -> Option<PathBuf> {
    let environment = Environment::of_process();
    location::named_file(place, &environment)
        .map(|(path, _)| path)
        .or_else(|| location::usual_file(&environment))
}

fn load_in(place: &ConfigLocation, environment: &Environment) -> Result<Loaded, ConfigError> {
    load_from(
        place,
        environment,
        location::config_file(place, environment)?,
    )
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
    // A person may have prompts of their own and no settings: their folder is where the file would be.
    let beside = file.clone().or_else(|| location::usual_file(environment));
    let watched = Watched {
        config: file
            .clone()
            .or_else(|| location::named_file(place, environment).map(|(path, _)| path))
            .or(beside.clone()),
        evaluators: location::watched_folder(
            "evaluators",
            &read.config.evaluators,
            beside.as_deref(),
            home.as_deref(),
        ),
        prompts: location::watched_folder(
            "prompts",
            &read.config.prompts,
            beside.as_deref(),
            home.as_deref(),
        ),
    };
    // Before evaluators and prompts are loaded: what changes between is then seen as changed.
    let sources = watched.read_beside(file.is_some().then_some(text.as_str()));
    let folder = |key, set: &str| location::folder(key, set, beside.as_deref(), home.as_deref());
    let (evaluators, prompts) = (
        folder("evaluators", &read.config.evaluators),
        folder("prompts", &read.config.prompts),
    );
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

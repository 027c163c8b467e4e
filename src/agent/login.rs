//! Detects an agent's login where its program stores it.
//!
//! Nothing is called that costs money, and secrets are only checked for presence.

use std::path::{Path, PathBuf};

use super::Agent;
use crate::agent_kind::AgentKind;

/// Result of looking for a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Login {
    /// Found in this variable or file.
    Found(String),
    Missing {
        r#do: &'static str,
    },
    /// The location is unknown or not readable.
    NotLookedAt(&'static str),
}

/// Programs that print their version and do nothing else when called with `--version`.
const TELL_VERSION: [&str; 5] = ["claude", "codex", "gemini", "opencode", "cursor-agent"];

/// Variables that are each a complete login.
const KEYS: [&str; 3] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
];
/// Variables that select another provider, which has its own logins.
const PROVIDERS: [&str; 3] = [
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
];

impl Agent {
    /// Returns the command line that prints its version; `None` if that might do something else.
    pub(crate) fn version_words(&self) -> Option<Vec<String>> {
        let name = Path::new(self.command.first()?).file_name()?.to_str()?;
        let mut words = match self.kind() {
            AgentKind::Claude => self.command.clone(),
            AgentKind::Command if TELL_VERSION.contains(&name) => {
                vec![self.command.first()?.clone()]
            }
            AgentKind::Command => return None,
        };
        words.push("--version".to_owned());
        Some(words)
    }

    pub(crate) fn login(&self) -> Login {
        match self.kind() {
            AgentKind::Command => Login::NotLookedAt("remand does not know how it logs in"),
            AgentKind::Claude => self.claude_login(),
        }
    }

    fn claude_login(&self) -> Login {
        let is_set = |name: &&&str| self.env.get(**name).is_some_and(|value| !value.is_empty());
        if let Some(name) = KEYS.iter().chain(&PROVIDERS).find(is_set) {
            return Login::Found((*name).to_owned());
        }
        let path = |name: &str| self.env.get(name).map(PathBuf::from);
        let default = || path("HOME").unwrap_or_default().join(".claude");
        let folder = path(super::claude::OWN_FOLDER).unwrap_or_else(default);
        let file = folder.join(".credentials.json");
        if file.metadata().is_ok_and(|meta| meta.len() > 2) {
            return Login::Found(file.display().to_string());
        }
        let file = folder.join("settings.json");
        let settings = std::fs::read_to_string(&file).unwrap_or_default();
        if settings.contains("\"apiKeyHelper\"") {
            return Login::Found(format!("the apiKeyHelper of {}", file.display()));
        }
        if cfg!(target_os = "macos") {
            return Login::NotLookedAt(
                "its login may be in the keychain, which remand does not check",
            );
        }
        Login::Missing {
            r#do: "run `claude` once and log in, or set ANTHROPIC_API_KEY in remand's environment",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::agent::{Claude, Protocol};

    fn agent(manner: Protocol, command: &[&str], env: &[(&str, &str)]) -> Agent {
        Agent {
            name: "it".into(),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            model: None,
            env: env
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect::<BTreeMap<_, _>>(),
            manner,
        }
    }

    fn claude() -> Protocol {
        Protocol::Claude(Claude {
            max_turns: None,
            max_cost_micros: None,
            max_retries: 1,
            api_timeout: Duration::from_secs(1),
            allow: Vec::new(),
        })
    }

    #[test]
    fn a_login_is_found_where_the_program_looks_for_it() {
        let home = tempfile::tempdir().unwrap();
        let at = home.path().to_str().unwrap();
        let login = |env: &[(&str, &str)]| agent(claude(), &["claude"], env).login();
        assert!(!matches!(login(&[("HOME", at)]), Login::Found(_)));
        assert_eq!(
            login(&[("HOME", at), ("ANTHROPIC_API_KEY", "k")]),
            Login::Found("ANTHROPIC_API_KEY".into())
        );
        assert!(!matches!(
            login(&[("HOME", at), ("ANTHROPIC_API_KEY", "")]),
            Login::Found(_)
        ));
        assert!(matches!(
            login(&[("HOME", at), ("CLAUDE_CODE_USE_BEDROCK", "1")]),
            Login::Found(_)
        ));
        std::fs::create_dir(home.path().join(".claude")).unwrap();
        std::fs::write(home.path().join(".claude/.credentials.json"), "{}").unwrap();
        assert!(!matches!(login(&[("HOME", at)]), Login::Found(_)), "empty");
        std::fs::write(
            home.path().join(".claude/.credentials.json"),
            "{\"claudeAiOauth\":{}}",
        )
        .unwrap();
        assert!(matches!(login(&[("HOME", at)]), Login::Found(_)));
        let elsewhere = login(&[("HOME", at), ("CLAUDE_CONFIG_DIR", "/nowhere")]);
        assert!(
            !matches!(elsewhere, Login::Found(_)),
            "it is in another directory: {elsewhere:?}"
        );
    }

    #[test]
    fn only_who_is_known_to_tell_a_version_is_asked() {
        let words = |manner, command: &[&str]| agent(manner, command, &[]).version_words();
        assert_eq!(words(Protocol::Command, &["my-agent", "--batch"]), None);
        assert_eq!(
            words(Protocol::Command, &["/opt/codex", "exec"]).unwrap(),
            ["/opt/codex", "--version"]
        );
        assert_eq!(
            words(claude(), &["npx", "claude"]).unwrap(),
            ["npx", "claude", "--version"]
        );
    }
}

//! Environment variables that authenticate the user to a forge: only for `gh`, and for git where it
//! must log in.
//!
//! It excludes variables that change what those programs do: which repository, which output, which
//! pager.

use std::collections::BTreeMap;

use super::environment::Environment;
use crate::secret::Secret;

/// Variables passed on, if they are set.
const NAMES: [&str; 34] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TMPDIR",
    "TZ",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GITHUB_TOKEN",
    "GITHUB_ENTERPRISE_TOKEN",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GNUPGHOME",
    // Location of a keyring.
    "DBUS_SESSION_BUS_ADDRESS",
    "CREDENTIALS_DIRECTORY",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
];

/// Prefixes of further variables that are passed on, except those in [`BENDING`].
const BEGINNINGS: [&str; 3] = ["GH_", "LC_", "XDG_"];

/// Variables that are never passed on, although a prefix matches: they select another repository,
/// write unexpected text between the responses, or start other programs.
const BENDING: [&str; 7] = [
    "GH_REPO",
    "GH_DEBUG",
    "GH_FORCE_TTY",
    "GH_PAGER",
    "GH_BROWSER",
    "GH_EDITOR",
    "GH_PATH",
];

/// Variables whose whole value is a token.
const TOKENS: [&str; 4] = [
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_ENTERPRISE_TOKEN",
    "GITHUB_ENTERPRISE_TOKEN",
];

/// Minimum length of a token. No forge has shorter ones, and a shorter one would be found in every
/// diff.
const SHORTEST_TOKEN: usize = 12;

impl Environment {
    pub(super) fn for_forge(&self) -> BTreeMap<String, String> {
        let is_passed = |name: &str| {
            NAMES.contains(&name)
                || (BEGINNINGS.iter().any(|start| name.starts_with(start))
                    && !BENDING.contains(&name))
        };
        let names = self.vars.keys().map(String::as_str);
        self.set(names.filter(|name| is_passed(name))).collect()
    }

    pub(super) fn forge_secrets(&self) -> Vec<Secret> {
        let tokens = TOKENS
            .into_iter()
            .filter_map(|name| self.text(name))
            .map(str::trim);
        tokens
            .filter(|token| token.len() >= SHORTEST_TOKEN)
            .map(Secret::new)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(vars: &[(&str, &str)]) -> Environment {
        Environment {
            vars: vars
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
        }
    }

    #[test]
    fn the_forge_gets_the_keys_and_nothing_that_bends() {
        let passed = [
            "ALL_PROXY",
            "CREDENTIALS_DIRECTORY",
            "GH_CONFIG_DIR",
            "GH_HOST",
            "GH_TOKEN",
            "GITHUB_TOKEN",
            "GIT_AUTHOR_EMAIL",
            "GIT_CONFIG_GLOBAL",
            "GIT_SSH_COMMAND",
            "HOME",
            "LC_TIME",
            "PATH",
            "SSH_AUTH_SOCK",
            "XDG_RUNTIME_DIR",
            "https_proxy",
        ];
        let kept = [
            "ANTHROPIC_API_KEY",
            "GH_DEBUG",
            "GH_FORCE_TTY",
            "GH_REPO",
            "GITHUB_ACTIONS",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES",
            "GIT_ASKPASS",
            "GIT_AUTHOR_DATE",
            "GIT_CEILING_DIRECTORIES",
            "GIT_COMMON_DIR",
            "GIT_CONFIG",
            "GIT_CONFIG_COUNT",
            "GIT_CONFIG_KEY_0",
            "GIT_CONFIG_PARAMETERS",
            "GIT_DIR",
            "GIT_EXEC_PATH",
            "GIT_INDEX_FILE",
            "GIT_NAMESPACE",
            "GIT_OBJECT_DIRECTORY",
            "GIT_PROXY_COMMAND",
            "GIT_TEMPLATE_DIR",
            "GIT_TRACE",
            "GIT_WORK_TREE",
            "LD_PRELOAD",
            "NOTIFY_SOCKET",
            "REMAND_DB",
            "SLACK_WEBHOOK",
            "TERM",
        ];
        let all: Vec<(&str, &str)> = passed
            .iter()
            .chain(&kept)
            .map(|name| (*name, "x"))
            .collect();
        let given = environment(&all).for_forge();
        assert_eq!(given.keys().map(String::as_str).collect::<Vec<_>>(), passed);
        assert_eq!(
            environment(&[("PATH", "")]).for_forge(),
            BTreeMap::new(),
            "what is empty is not set"
        );
    }

    #[test]
    fn a_secret_is_known_and_never_shown() {
        let set = environment(&[
            ("GH_TOKEN", " ghp_0123456789\n"),
            ("GITHUB_TOKEN", "short"),
            ("GH_HOST", "example.org"),
        ]);
        let secrets = set.forge_secrets();
        assert_eq!(
            secrets.iter().map(Secret::reveal).collect::<Vec<_>>(),
            ["ghp_0123456789"]
        );
        assert_eq!(format!("{secrets:?}"), "[***]");
    }
}

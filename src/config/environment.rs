//! The process environment: read once, in one place, and passed on by name.
//!
//! An agent gets a closed list of variables plus those that its settings name, never any that
//! authenticate the user to a forge, a server or this daemon.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Returns true if this process was started by an agent or a gate, in a run of remand: the caller
/// is then not a person.
#[expect(
    clippy::disallowed_methods,
    reason = "the only place that reads the environment"
)]
pub(crate) fn is_inside_a_run() -> bool {
    std::env::var_os("REMAND_RUN_DIR").is_some()
}

/// Variables that every agent gets, if they are set.
const FOR_EVERY_AGENT: [&str; 10] = [
    "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "USER", "LOGNAME", "SHELL", "TZ",
];

const FORGE: &str =
    "tokens for the forge are never passed to agents: remand pushes and comments, not the agent";
const KEYS: &str = "it would give the agent access to your keys: remand pushes, not the agent";
const SECRETS: &str = "it belongs to remand or another service, and agents read untrusted text";

/// Prefixes of refused names, case-insensitive.
const REFUSED: [(&str, &str); 12] = [
    ("GH_", FORGE),
    ("GITHUB_", FORGE),
    ("GITLAB_", FORGE),
    ("GIT_", KEYS),
    ("SSH_", KEYS),
    ("SLACK", SECRETS),
    ("SMTP", SECRETS),
    ("PG", SECRETS),
    ("NOTIFY_SOCKET", SECRETS),
    ("CREDENTIALS_DIRECTORY", SECRETS),
    ("LISTEN_", SECRETS),
    ("REMAND_", SECRETS),
];

/// Returns the reason why an agent must not have the variable, if it must not.
pub(super) fn refusal(name: &str) -> Option<&'static str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty()
        || name.starts_with(|c: char| c.is_ascii_digit())
        || !name.chars().all(is_name)
    {
        return Some("give only the name of the variable: letters, digits and underscores");
    }
    let upper = name.to_ascii_uppercase();
    REFUSED
        .iter()
        .find(|(start, _)| upper.starts_with(start))
        .map(|(_, reason)| *reason)
}

/// Variables of a process. A test fills them in by hand.
#[derive(Debug, Clone, Default)]
pub(super) struct Environment {
    pub(super) vars: BTreeMap<String, OsString>,
}

impl Environment {
    pub(super) fn of_process() -> Self {
        let known = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value));
        // No setting and no part of remand uses a name that is not UTF-8.
        Self {
            vars: std::env::vars_os().filter_map(known).collect(),
        }
    }

    /// Returns a variable that is set and not empty.
    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        self.vars
            .get(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.vars
            .get(name)
            .and_then(|value| value.to_str())
            .filter(|value| !value.is_empty())
    }

    /// Returns those of the variables that are set, with their values.
    pub(super) fn set<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> impl Iterator<Item = (String, String)> {
        let names = names.into_iter();
        names.filter_map(move |name| Some((name.to_owned(), self.text(name)?.to_owned())))
    }

    pub(super) fn for_agent(&self, names: &[String]) -> BTreeMap<String, String> {
        // `check` refused such names with a message; here they are refused for callers that did not
        // run it.
        let named = names
            .iter()
            .map(String::as_str)
            .filter(|name| refusal(name).is_none());
        let mut passed: BTreeMap<String, String> =
            self.set(FOR_EVERY_AGENT.into_iter().chain(named)).collect();
        passed.insert("TERM".into(), "dumb".into());
        passed
    }

    pub(super) fn user_name(&self) -> String {
        let names = ["REMAND_ACTOR", "USER", "LOGNAME"]
            .into_iter()
            .filter_map(|name| self.text(name));
        let mut clean = names.map(|text| {
            let printable: String = text.chars().filter(|c| !c.is_control()).take(80).collect();
            printable.trim().to_owned()
        });
        clean
            .find(|name| !name.is_empty())
            .unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
    }
}

/// Notification settings of the service manager, as in sd_notify(3).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Supervision {
    /// Socket: a path, or an abstract name after `@`.
    pub(crate) socket: Option<String>,
    /// Time without a notification after which the service manager considers the daemon dead.
    pub(crate) watchdog: Option<Duration>,
}

impl Environment {
    /// Returns device and inode of the stream to the journal, as in systemd.exec(5).
    #[cfg(target_os = "linux")]
    pub(super) fn journal(&self) -> Option<(u64, u64)> {
        let (device, inode) = self.text("JOURNAL_STREAM")?.split_once(':')?;
        Some((device.parse().ok()?, inode.parse().ok()?))
    }

    pub(super) fn supervision(&self, pid: u32) -> Supervision {
        let socket = self.text("NOTIFY_SOCKET").map(str::to_owned);
        // A variable that was meant for the parent process does not apply here.
        let is_ours = self
            .text("WATCHDOG_PID")
            .is_none_or(|of| of.parse() == Ok(pid));
        let usec = self
            .text("WATCHDOG_USEC")
            .and_then(|usec| usec.parse().ok())
            .filter(|usec| *usec > 0);
        let watchdog = usec
            .map(Duration::from_micros)
            .filter(|_| is_ours && socket.is_some());
        Supervision { socket, watchdog }
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
    fn an_agent_gets_the_closed_list_and_what_was_named() {
        let given = environment(&[
            ("PATH", "/bin"),
            ("HOME", "/home/ada"),
            ("LANG", ""),
            ("TERM", "xterm"),
            ("ANTHROPIC_API_KEY", "k"),
            ("GH_TOKEN", "secret"),
            ("EDITOR", "vi"),
            ("DBUS_SESSION_BUS_ADDRESS", "unix:"),
        ]);
        let names = ["ANTHROPIC_API_KEY", "GH_TOKEN", "TERM", "NOT_SET"].map(String::from);
        let passed: Vec<String> = given
            .for_agent(&names)
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        assert_eq!(
            passed,
            [
                "ANTHROPIC_API_KEY=k",
                "HOME=/home/ada",
                "PATH=/bin",
                "TERM=dumb"
            ]
        );
    }

    #[test]
    fn no_name_that_speaks_for_the_user_is_passed() {
        for name in [
            "GH_TOKEN",
            "GITHUB_TOKEN",
            "gh_token",
            "GH_ENTERPRISE_TOKEN",
            "GITLAB_TOKEN",
            "SSH_AUTH_SOCK",
            "GIT_ASKPASS",
            "NOTIFY_SOCKET",
            "SLACK_WEBHOOK",
            "SMTP_PASSWORD",
            "PGPASSWORD",
            "CREDENTIALS_DIRECTORY",
            "REMAND_DB",
            "LISTEN_FDS",
            "",
            "A=B",
            "1A",
            "A B",
            "Ä",
        ] {
            assert!(refusal(name).is_some(), "{name}");
        }
        for name in [
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "RUSTUP_HOME",
            "http_proxy",
            "_X",
            "GHOST",
        ] {
            assert_eq!(refusal(name), None, "{name}");
        }
        for name in FOR_EVERY_AGENT {
            assert_eq!(refusal(name), None, "{name}");
        }
    }

    #[test]
    fn a_watchdog_is_ours_if_it_names_us_or_nobody() {
        let supervision = |vars: &[(&str, &str)]| environment(vars).supervision(7);
        let (socket, usec) = (("NOTIFY_SOCKET", "@x"), ("WATCHDOG_USEC", "3000000"));
        assert_eq!(
            supervision(&[usec]),
            Supervision::default(),
            "nowhere to say it"
        );
        assert_eq!(
            supervision(&[socket]),
            Supervision {
                socket: Some("@x".into()),
                watchdog: None
            }
        );
        let three = Some(Duration::from_secs(3));
        assert_eq!(supervision(&[socket, usec]).watchdog, three);
        assert_eq!(
            supervision(&[socket, usec, ("WATCHDOG_PID", "7")]).watchdog,
            three
        );
        for wrong in [
            [usec, ("WATCHDOG_PID", "8")],
            [("WATCHDOG_USEC", "soon"), socket],
            [("WATCHDOG_USEC", "0"), socket],
        ] {
            assert_eq!(
                supervision(&[socket, wrong[0], wrong[1]]).watchdog,
                None,
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn who_is_speaking() {
        let cases: [(&[(&str, &str)], &str); 4] = [
            (
                &[("USER", "ada"), ("LOGNAME", "x"), ("REMAND_ACTOR", "ci")],
                "ci",
            ),
            (
                &[("USER", "ada"), ("LOGNAME", "x"), ("REMAND_ACTOR", "")],
                "ada",
            ),
            (
                &[("USER", " \u{1b}"), ("LOGNAME", "l\novelace")],
                "lovelace",
            ),
            (&[("USER", "ada\u{1b}[31m")], "ada[31m"),
        ];
        for (vars, expected) in cases {
            assert_eq!(environment(vars).user_name(), expected);
        }
        assert!(environment(&[]).user_name().starts_with("uid "));
    }
}

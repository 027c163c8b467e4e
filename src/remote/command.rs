//! One git call with credentials: always in the bare clone, always with settings that override the
//! user's, and never with a prompt for a person.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::classify::{self, Failure};
use super::url::{self, Way};
use super::{Remote, RemoteError, Result};
use crate::git::{GitError, utf8};
use crate::process::{self, ProcessError, Short};
use crate::text::{joined, shell_quoted};

/// Maximum output size: enough for what a remote reports about one branch; it could be endless.
const CAP: usize = 1024 * 1024;

/// The user's configuration is respected (credential helpers, `insteadOf`); these settings override
/// it.
const CONFIG: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "advice.graftFileDeprecated=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.version=2",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
    "credential.interactive=false",
    "fetch.bundleURI=",
    "fetch.writeCommitGraph=false",
    "push.pushOption=",
    "push.negotiate=false",
    // A silent server is abandoned after a minute.
    "http.lowSpeedLimit=100",
    "http.lowSpeedTime=60",
];

const ENVIRONMENT: [(&str, &str); 9] = [
    ("LC_ALL", "C"),
    ("GIT_TERMINAL_PROMPT", "0"),
    // Always fails, which git distinguishes from an empty answer; it would use that as the name.
    ("GIT_ASKPASS", "false"),
    ("GCM_INTERACTIVE", "never"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "false"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_GRAFT_FILE", "/dev/null"),
];

/// Command for ssh, unless the user has set one: no prompts, no waiting for a host that is down,
/// and no connection that others share and that would end with this call.
const SSH: &str = "ssh -oBatchMode=yes -oConnectTimeout=20 -oControlMaster=no";

/// Result of a call that was started.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: Option<i32>,
    pub(super) is_killed: bool,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Remote {
    /// Returns the output of a call that must succeed.
    pub(super) async fn say(&self, name: &'static str, args: &[&str]) -> Result<String> {
        let ended = self.call(name, args).await?;
        self.output(name, ended)
    }

    /// Returns the output of a call that must have succeeded.
    pub(super) fn output(&self, name: &'static str, ended: Ended) -> Result<String> {
        if ended.status == Some(0) {
            Ok(ended.stdout)
        } else {
            Err(self.trouble(name, &ended))
        }
    }

    pub(super) fn trouble(&self, name: &'static str, ended: &Ended) -> RemoteError {
        if ended.is_killed {
            return RemoteError::Killed { args: name };
        }
        classify::of(&Failure {
            args: name,
            url: &self.reach.url,
            stderr: &ended.stderr,
            hidden: &self.hidden(),
        })
    }

    /// Runs a call that asks about settings; `None` if it fails. A git that was killed by a signal
    /// has no result.
    async fn setting(
        &self,
        name: &'static str,
        args: &[&str],
        env: &BTreeMap<String, String>,
    ) -> Result<Option<String>> {
        let ended = self.run(name, args, &[], env.clone()).await?;
        if ended.is_killed {
            return Err(RemoteError::Killed { args: name });
        }
        Ok((ended.status == Some(0)).then_some(ended.stdout))
    }

    /// Returns the remote's output, fit for display.
    pub(super) fn message(&self, text: &str) -> String {
        classify::message(text, &self.hidden())
    }

    /// Returns the pinned URL without user and password.
    pub(crate) fn shown_url(&self) -> String {
        url::without_userinfo(&self.reach.url)
    }

    /// Runs one call with credentials. `{url}` in `args` stands for the pinned URL.
    pub(super) async fn call(&self, name: &'static str, args: &[&str]) -> Result<Ended> {
        let pinned = self.way(&self.reach.url)?;
        self.check()?;
        let mut env = self.environment();
        // The URL after the user's `insteadOf`: perhaps a mirror, or a path in a test.
        let ask = ["ls-remote", "--get-url", "{url}"];
        let real = self.setting(name, &ask, &env).await?;
        let real = real.and_then(|url| url::way(url.trim_end()).ok());
        let real = real.unwrap_or(pinned);
        let allowed = allowed(pinned, real).to_owned();
        env.insert("GIT_ALLOW_PROTOCOL".to_owned(), allowed);
        let has_own = env.contains_key("GIT_SSH_COMMAND") || env.contains_key("GIT_SSH");
        if real != Way::Path && !has_own {
            let ask = ["config", "--get", "core.sshCommand"];
            if self.setting(name, &ask, &env).await?.is_none() {
                env.insert("GIT_SSH_COMMAND".to_owned(), SSH.to_owned());
            }
        }
        let helper = self.helper(real);
        self.run(name, args, helper.as_slice(), env).await
    }

    fn way(&self, text: &str) -> Result<Way> {
        url::way(text).map_err(|why| RemoteError::BadUrl {
            url: self.shown_url(),
            why,
        })
    }

    /// Returns the setting for the `gh` credential helper. It comes after the user's helpers, so it
    /// is called only if they have no answer.
    pub(super) fn helper(&self, real: Way) -> Option<String> {
        let words = joined(self.reach.gh.iter().map(|word| shell_quoted(word)), " ");
        (real == Way::Https && !words.is_empty())
            .then(|| format!("credential.helper=!{words} auth git-credential"))
    }

    /// Returns the user's environment. Of its `GIT_*` variables, only those that configure how to
    /// reach a host and where the configuration is are kept: the others could redirect git to
    /// another repository, or write tokens into a trace.
    pub(super) fn environment(&self) -> BTreeMap<String, String> {
        const KEPT: [&str; 8] = [
            "GIT_SSH",
            "GIT_SSH_COMMAND",
            "GIT_SSH_VARIANT",
            "GIT_CONFIG_GLOBAL",
            "GIT_CONFIG_SYSTEM",
            "GIT_CONFIG_NOSYSTEM",
            "GIT_HTTP_PROXY_AUTHMETHOD",
            "GIT_HTTP_USER_AGENT",
        ];
        let kept = |name: &str| {
            !name.starts_with("GIT_")
                || KEPT.contains(&name)
                || name.starts_with("GIT_SSL_")
                || name.starts_with("GIT_PROXY_SSL_")
        };
        let mut env = self.reach.env.clone();
        env.retain(|name, _| kept(name));
        env.extend(ENVIRONMENT.map(|(name, value)| (name.to_owned(), value.to_owned())));
        env
    }

    pub(super) async fn run(
        &self,
        name: &'static str,
        args: &[&str],
        settings: &[String],
        mut env: BTreeMap<String, String>,
    ) -> Result<Ended> {
        env.insert("GIT_DIR".to_owned(), utf8(self.path())?);
        let mut all: Vec<OsString> = vec!["--no-pager".into()];
        let settings = settings.iter().map(String::as_str);
        for setting in CONFIG.iter().copied().chain(settings) {
            all.extend(["-c".into(), setting.into()]);
        }
        all.extend(args.iter().map(|arg| match *arg {
            "{url}" => OsString::from(&self.reach.url),
            arg => arg.into(),
        }));
        let short = Short {
            program: "git".into(),
            args: all,
            cwd: self.path().to_owned(),
            env: process::os_variables(env),
            stdin: None,
            limit: self.reach.limit,
            cap: CAP,
            is_wrapped: false,
        };
        let output = process::short(&short).await;
        let output = output.map_err(|error| self.not_run(error))?;
        if output.truncated && output.status == Some(0) {
            return Err(RemoteError::Output { args: name });
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Ended {
            status: output.status,
            is_killed: output.was_killed(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        })
    }

    fn not_run(&self, error: ProcessError) -> RemoteError {
        if let ProcessError::TimedOut { limit, .. } = error {
            return RemoteError::TimedOut {
                url: self.shown_url(),
                limit,
            };
        }
        let is_missing = matches!(error, ProcessError::NotFound { .. });
        RemoteError::Git(if is_missing {
            GitError::NoGit
        } else {
            GitError::Process(error)
        })
    }

    /// Returns values of the environment that no error may show.
    fn hidden(&self) -> Vec<String> {
        let is_secret = |name: &str| {
            let name = name.to_ascii_uppercase();
            ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "KEY", "CREDENTIAL"]
                .iter()
                .any(|word| name.contains(word))
        };
        let values = self.reach.env.iter();
        let values = values.filter(|(name, value)| is_secret(name) && value.len() >= 6);
        values.map(|(_, value)| value.clone()).collect()
    }
}

fn allowed(pinned: Way, real: Way) -> &'static str {
    match (pinned, real) {
        (Way::Path, Way::Path) => "file",
        (Way::Path, _) | (_, Way::Path) => "https:ssh:file",
        (Way::Https | Way::Ssh, Way::Https | Way::Ssh) => "https:ssh",
    }
}

#[cfg(test)]
mod tests {
    use crate::text::shell_quoted;

    #[test]
    fn a_word_stays_one_word() {
        assert_eq!(shell_quoted("/a b/gh"), "'/a b/gh'");
        assert_eq!(shell_quoted("it's; rm"), r"'it'\''s; rm'");
    }
}

//! Settings for GitHub: the program, the share of the rate limit, and the bots that are trusted. It
//! holds no secret.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Loaded;
use super::settings::{Argv, command_or_nothing};
use crate::bounded::whole;
use crate::check::OptionalChecks;
use crate::closed_enum::closed_enum;
use crate::pull_request::PostReviews;

/// `[github]`, key for key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct Github {
    gh: Argv,
    #[serde(deserialize_with = "whole::<_, _, 1, 3_600>")]
    call_s: u64,
    #[serde(deserialize_with = "whole::<_, _, 1, 3_600>")]
    fetch_limit_s: u64,
    #[serde(deserialize_with = "whole::<_, _, 0, 15_000>")]
    reserve: u64,
    #[serde(deserialize_with = "whole::<_, _, 0, 86_400>")]
    permission_s: u64,
    bots: Vec<AccountId>,
    bot_presets: Vec<BotPreset>,
    reviews: PostReviews,
    pub(super) required_checks: Vec<String>,
    pub(super) optional_checks: OptionalChecks,
    pub(super) rerun_red: bool,
    #[serde(deserialize_with = "command_or_nothing")]
    pub(super) log_command: Vec<String>,
}

impl Github {
    pub(super) fn gh_mut(&mut self) -> &mut Argv {
        &mut self.gh
    }
}

/// Resolved settings of the GitHub client; nothing is left to look up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GithubSettings {
    /// The program and its first arguments. Never empty.
    pub(crate) gh: Vec<String>,
    pub(crate) call: Duration,
    /// Time limit for fetching all feedback of a pull request.
    pub(crate) fetch_limit: Duration,
    pub(crate) reserve: u64,
    pub(crate) permission: Duration,
    /// Accounts of all bots that may create work: the configured numbers and those of the presets,
    /// without duplicates.
    pub(crate) bots: Vec<i64>,
    pub(crate) reviews: PostReviews,
}

closed_enum! {
    /// Review bot that many repositories use.
    "bot preset" BotPreset {
        Coderabbit = "coderabbit",
        Codex = "codex",
        Copilot = "copilot",
        Cursor = "cursor",
        GeminiCodeAssist = "gemini-code-assist",
        Greptile = "greptile",
        Qodo = "qodo",
        Sourcery = "sourcery",
    }
}

/// Number of an account: unlike its name, it is never reassigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct AccountId(#[serde(deserialize_with = "whole::<_, _, 1, 9_007_199_254_740_991>")] i64);

impl BotPreset {
    /// Account of the bot, as in `https://api.github.com/user/NUMBER` and in the email addresses of
    /// its commits.
    fn account(self) -> i64 {
        match self {
            // coderabbitai[bot]
            Self::Coderabbit => 136_622_811,
            // chatgpt-codex-connector[bot]
            Self::Codex => 199_175_422,
            // copilot-pull-request-reviewer[bot], whose comments are by `Copilot`: the same
            // account.
            Self::Copilot => 175_728_472,
            // cursor[bot]
            Self::Cursor => 206_951_365,
            // gemini-code-assist[bot]
            Self::GeminiCodeAssist => 176_961_590,
            // greptile-apps[bot]
            Self::Greptile => 165_735_046,
            // qodo-code-review[bot], formerly qodo-merge-pro[bot]
            Self::Qodo => 151_058_649,
            // sourcery-ai[bot]
            Self::Sourcery => 58_596_630,
        }
    }
}

impl Loaded {
    pub(crate) fn github(&self) -> GithubSettings {
        let set = &self.config.github;
        let named = set.bots.iter().map(|account| account.0);
        let preset = set.bot_presets.iter().map(|preset| preset.account());
        GithubSettings {
            gh: set.gh.words().to_vec(),
            call: Duration::from_secs(set.call_s),
            fetch_limit: Duration::from_secs(set.fetch_limit_s),
            reserve: set.reserve,
            permission: Duration::from_secs(set.permission_s),
            bots: named
                .chain(preset)
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
            reviews: set.reviews,
        }
    }
}

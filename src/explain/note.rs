//! Notes that add to the explanation of a change: typed, each with its text and its command.

use std::fmt;

use super::facts::Facts;
use super::shadow::InShadow;
use crate::blackboard::{self as bb, Changed, ChangedKind, Intent, Stopped};
use crate::change::{ChangeId, ProjectId};
use crate::clock::{Time, Zone};
use crate::diagnostic::title;
use crate::human_time::ahead;
use crate::text::{list, prefixed};
use crate::work::{ItemId, RejectionId};

/// Note on a change; its `Display` is the clause of the sentence.
#[derive(Debug, Clone)]
pub(crate) enum Note {
    /// Rejections that arrived meanwhile: they are not forgotten.
    WaitAfter(Vec<RejectionId>),
    /// Item that an evaluator created for a person.
    ForPerson {
        item_id: ItemId,
        title: String,
    },
    /// The pull request cannot be read: it shows nothing new, and nobody would notice.
    NotRead {
        trouble: String,
        again: Again,
    },
    /// The checks of the pull request cannot be read.
    NoChecks(String),
    /// Posts that are not on the pull request yet: nobody sees them there.
    NotPosted {
        posts: Posts,
        again: Again,
    },
    PostRefused {
        posts: Posts,
        change_id: ChangeId,
    },
    /// The changed configuration is not in effect.
    NotInForce(Changed),
    Stopped(Stopped),
    InShadow(InShadow),
    /// Times in the future, which explain unexpected waits.
    ClockSetBack {
        done: Time,
        now: Time,
        zone: Zone,
    },
}

/// First of several posts, and the number of further ones.
#[derive(Debug, Clone)]
pub(crate) struct Posts {
    key: String,
    trouble: String,
    more: usize,
}

/// Time of the next attempt, if known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Again {
    next: Option<Time>,
    now: Time,
}

impl Note {
    pub(super) fn wait_after(facts: &Facts) -> Option<Self> {
        let ids = facts.pending.iter();
        let ids: Vec<_> = ids.map(|one| one.rejection_id.clone()).collect();
        (!ids.is_empty()).then_some(Self::WaitAfter(ids))
    }

    pub(super) fn for_person(facts: &Facts) -> Option<Self> {
        let item = facts.row.open_item.as_ref();
        item.filter(|item| item.is_for_person())
            .map(|item| Self::ForPerson {
                item_id: item.item_id.clone(),
                title: item.title.clone(),
            })
    }

    pub(super) fn not_read(facts: &Facts) -> Option<Self> {
        let pull = facts.pull.as_ref()?;
        Some(Self::NotRead {
            trouble: pull.trouble.clone()?,
            again: Again {
                next: pull.next_read,
                now: facts.now,
            },
        })
    }

    pub(super) fn no_checks(facts: &Facts) -> Option<Self> {
        let trouble = facts.pull.as_ref()?.checks_trouble.clone();
        trouble.map(Self::NoChecks)
    }

    pub(super) fn not_posted(facts: &Facts) -> impl Iterator<Item = Self> {
        let waiting = Posts::of(&facts.unposted).map(|posts| Self::NotPosted {
            posts,
            again: Again {
                next: facts.unposted.first().and_then(|post| post.not_before),
                now: facts.now,
            },
        });
        let refused = Posts::of(&facts.refused).map(|posts| Self::PostRefused {
            posts,
            change_id: facts.row.change.change_id.clone(),
        });
        waiting.into_iter().chain(refused)
    }

    /// Returns one note per stop. The change may still wait for a person, but remand does nothing
    /// for it before the start.
    pub(super) fn stopped(facts: &Facts) -> impl Iterator<Item = Self> {
        facts.stops.iter().cloned().map(Self::Stopped)
    }

    pub(super) fn in_shadow(facts: &Facts) -> Option<Self> {
        let is_in = facts.row.change.shadow;
        is_in.then(|| Self::InShadow(InShadow::of(facts)))
    }

    pub(super) fn clock_set_back(facts: &Facts) -> Option<Self> {
        let read_at = facts.pull.as_ref().and_then(|pull| pull.read_at);
        let done = read_at.max(Some(facts.row.change.updated_at))?;
        bb::is_ahead(done, facts.now).then_some(Self::ClockSetBack {
            done,
            now: facts.now,
            zone: facts.zone,
        })
    }

    /// True if the clause contains the command.
    pub(super) fn contains_command(&self) -> bool {
        matches!(self, Self::PostRefused { .. } | Self::InShadow(_))
    }

    /// Returns the command that a person can type about it.
    pub(super) fn command(&self) -> Option<String> {
        match self {
            Self::PostRefused { change_id, .. } => Some(format!("remand post {change_id}")),
            Self::Stopped(stop) => Some(stop_command(stop)),
            Self::InShadow(shadow) => Some(shadow.command()),
            // The command for a configuration comes before the others: the hold adds it.
            Self::NotInForce(_)
            | Self::WaitAfter(_)
            | Self::ForPerson { .. }
            | Self::NotRead { .. }
            | Self::NoChecks(_)
            | Self::NotPosted { .. }
            | Self::ClockSetBack { .. } => None,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WaitAfter(ids) => {
                let verb = if ids.len() == 1 { "is" } else { "are" };
                write!(f, "{} {verb} waiting until then", list(ids))
            }
            Self::ForPerson { item_id, title } => write!(f, "{item_id} is for a person: {title}"),
            Self::NotRead { trouble, again } => {
                write!(f, "cannot read its PR{again}: {trouble}")
            }
            Self::NoChecks(trouble) => write!(f, "cannot read its checks: {trouble}"),
            Self::NotPosted { posts, again } => {
                write!(f, "cannot post {posts}{again}: {}", posts.trouble)
            }
            Self::PostRefused { posts, change_id } => write!(
                f,
                "{posts} was refused: {}. Retry with `remand post {change_id}`",
                posts.trouble
            ),
            Self::NotInForce(changed) => f.write_str(title(&changed.reason)),
            Self::Stopped(stop) => f.write_str(&stop_sentence(stop)),
            Self::InShadow(shadow) => write!(f, "{shadow}"),
            Self::ClockSetBack { done, now, zone } => write!(
                f,
                "the clock was set back: the last activity was at {}, and it is now {}. Work delayed because \
                 the clock was wrong is retried on the next pass",
                done.text(*zone),
                now.text(*zone)
            ),
        }
    }
}

impl Posts {
    fn of(posts: &[Intent]) -> Option<Self> {
        let (first, more) = posts.split_first()?;
        Some(Self {
            key: first.key.clone(),
            trouble: first.trouble.clone().unwrap_or_default(),
            more: more.len(),
        })
    }
}

impl fmt::Display for Posts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        match self.more {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl fmt::Display for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.next.map_or(Ok(()), |next| {
            write!(f, ", next attempt {}", ahead(next, self.now))
        })
    }
}

/// Describes what is stopped, by whom and why.
pub(crate) fn stop_sentence(stop: &Stopped) -> String {
    let what = stop
        .project_id
        .as_ref()
        .map_or("everything", ProjectId::as_str);
    let reason = prefixed(": ", stop.reason.as_ref());
    format!("{what} was stopped by {}{reason}", stop.stopped_by)
}

/// Returns the command that ends a stop.
pub(crate) fn stop_command(stop: &Stopped) -> String {
    stop.project_id
        .as_ref()
        .map_or("remand start".to_owned(), |id| format!("remand start {id}"))
}

/// Returns the command that helps if a changed configuration is not in effect.
pub(crate) fn not_in_force_command(changed: &Changed) -> &'static str {
    match changed.kind {
        ChangedKind::Invalid => "remand config check",
        ChangedKind::NeedsReload => "remand reload",
    }
}

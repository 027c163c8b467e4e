//! Shadow settings: applies them, and detects settings that the daemon has not loaded yet.

use super::{Daemon, lock};
use crate::blackboard as bb;
use crate::change::{ProjectId, Shadow, ShadowMode, shadow_setting};
use crate::clock;
use crate::config::Loaded;

impl Daemon {
    /// Applies the configured shadow mode and maximum number of fixes of each project, before
    /// anything runs.
    pub(super) async fn set_shadows(&self) -> bb::Result<()> {
        for project in self.db().read(bb::list_projects).await? {
            let id = project.project_id;
            let shadow = (self.shadow)(&id);
            match shadow {
                Some(ShadowMode::Dry) => {
                    tracing::warn!(project = %id, "shadow mode: nothing is run, pushed or posted");
                }
                Some(ShadowMode::Review) => {
                    tracing::warn!(project = %id, "shadow mode: agents review, but nothing is fixed, pushed or posted");
                }
                None => {}
            }
            let most_fixes = (self.most_fixes)(&id);
            let step = move |conn: &bb::Conn| {
                bb::set_project_shadow(conn, &id, shadow, clock::now())?;
                bb::set_project_max_fix_cycles(conn, &id, &most_fixes, clock::now())
            };
            self.db().write("shadow", step).await?;
        }
        Ok(())
    }

    /// Calls `set_shadows`, unless a daemon is running: then the settings that the daemon has read
    /// stay in effect. Otherwise a file that is being edited could release changes that the daemon
    /// keeps in shadow.
    pub(super) async fn set_shadows_if_alone(&self, loaded: &Loaded) -> bb::Result<()> {
        match lock::holder(&loaded.blackboard) {
            Some(pid) => {
                tracing::debug!(%pid, "a daemon is running: its shadow settings remain in effect");
                Ok(())
            }
            None => self.set_shadows().await,
        }
    }

    /// Resumes changes that were held for other settings, unless a daemon is running, which must
    /// apply the new settings first.
    pub(super) async fn resume_if_alone(&self, loaded: &Loaded) -> bb::Result<()> {
        if lock::holder(&loaded.blackboard).is_some() {
            return Ok(());
        }
        let resume = |conn: &bb::Conn| {
            super::resume_held(conn, "the configuration was reloaded", clock::now())
        };
        self.db().write("resume", resume).await
    }
}

/// Shadow setting of a project that the running daemon has not read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnreadShadow {
    pub(crate) shadow: Shadow,
    pid: String,
}

impl UnreadShadow {
    /// Returns `None` if the setting is in effect, or if no daemon runs: the next one reads it.
    pub(crate) fn of(loaded: &Loaded, project: &ProjectId, in_force: Shadow) -> Option<Self> {
        let shadow = loaded.project(project.as_str()).shadow;
        if shadow == in_force {
            return None;
        }
        lock::holder(&loaded.blackboard).map(|pid| Self { shadow, pid })
    }

    pub(crate) fn says(&self) -> String {
        format!(
            "the configuration now has `shadow = {}`, which the daemon has not loaded",
            shadow_setting(self.shadow)
        )
    }

    pub(crate) fn remedy(&self) -> String {
        format!("`remand reload` (the daemon has pid {})", self.pid)
    }
}

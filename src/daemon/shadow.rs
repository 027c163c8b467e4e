//! What the settings say of shadow: who may put it in force, and whether the daemon has read it.

use super::{Daemon, lock};
use crate::blackboard as bb;
use crate::change::{ProjectId, Shadow, ShadowMode, shadow_setting};
use crate::clock;
use crate::config::Loaded;

impl Daemon {
    /// What the configuration says of shadow and of the number of fixes holds before anything runs.
    pub(super) async fn set_shadows(&self) -> bb::Result<()> {
        for project in self.db().read(bb::list_projects).await? {
            let (id, shadow) = (
                project.project_id.clone(),
                (self.shadow)(&project.project_id),
            );
            match shadow {
                Some(ShadowMode::Dry) => {
                    tracing::warn!(project = %id, "in shadow: nothing is run, pushed or posted");
                }
                Some(ShadowMode::Review) => {
                    tracing::warn!(project = %id, "in shadow: agents review, nothing is fixed, pushed or posted");
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

    /// For what runs beside a daemon: as long as there is one, what it has read is in force. A file that is being
    /// edited would otherwise release what the daemon keeps in shadow.
    pub(super) async fn set_shadows_if_alone(&self, loaded: &Loaded) -> bb::Result<()> {
        match lock::holder(&loaded.blackboard) {
            Some(pid) => {
                tracing::debug!(%pid, "a daemon runs: what it has read of shadow holds");
                Ok(())
            }
            None => self.set_shadows().await,
        }
    }

    /// For what runs beside a daemon or alone: what waited for other settings is looked at by those that were just read,
    /// unless a daemon has to put them in force first.
    pub(super) async fn resume_if_alone(&self, loaded: &Loaded) -> bb::Result<()> {
        if lock::holder(&loaded.blackboard).is_some() {
            return Ok(());
        }
        let why = "the settings were read again";
        self.db()
            .write("resume", move |conn| {
                super::resume_held(conn, why, clock::now())
            })
            .await
    }
}

/// What the settings say of a project's shadow, and the daemon that runs has not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnreadShadow {
    pub(crate) shadow: Shadow,
    pid: String,
}

impl UnreadShadow {
    /// None: what is in force is what the settings say, or no daemon runs, and the next one reads them.
    pub(crate) fn of(loaded: &Loaded, project: &ProjectId, in_force: Shadow) -> Option<Self> {
        let shadow = loaded.project(project.as_str()).shadow;
        if shadow == in_force {
            return None;
        }
        lock::holder(&loaded.blackboard).map(|pid| Self { shadow, pid })
    }

    pub(crate) fn says(&self) -> String {
        format!(
            "the config says `shadow = {}` since, which the daemon has not read",
            shadow_setting(self.shadow)
        )
    }

    pub(crate) fn remedy(&self) -> String {
        format!("`remand reload` (the daemon has pid {})", self.pid)
    }
}

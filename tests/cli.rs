//! The command line, through the binary, as people and programs see it.

mod hostile;
mod look;
mod names;
mod people;
mod projects;
mod review;
mod settings;
mod terminal;
mod text_and_diff;
mod verdicts;
mod words;

use std::path::PathBuf;

use crate::support::World;

/// A project `site` with one worktree under review as `c1`.
pub(crate) struct Site {
    pub(crate) world: World,
    pub(crate) repo: PathBuf,
    pub(crate) worktree: PathBuf,
}

impl Site {
    pub(crate) fn new() -> Self {
        let world = World::new();
        let repo = world.repo("site");
        let worktree = world.worktree(&repo, "feature/login");
        world
            .remand(&["project", "add", repo.to_str().unwrap()])
            .ok();
        Self {
            world,
            repo,
            worktree,
        }
    }

    pub(crate) fn under_review() -> Self {
        let site = Self::new();
        site.world.remand_in(&site.worktree, &["review"]).ok();
        site
    }

    /// Creates it with scripted agents: a reviewer that approves once the file `fixed` exists, and
    /// a fixer.
    pub(crate) fn with_agents(fixer: &str) -> Self {
        let site = Self::new();
        let reviewer = site.world.script("reviewer", REVIEWER);
        let fixer = site
            .world
            .script("fixer", &format!("cat > /dev/null\n{fixer}"));
        site.world.config(&format!(
            "agent = \"fixer\"\nreview_agent = \"reviewer\"\n\
             [agents.fixer]\nkind = \"command\"\ncommand = [{fixer:?}]\n\
             [agents.reviewer]\nkind = \"command\"\ncommand = [{reviewer:?}]\n\
             [sandbox]\nkind = \"off\"\n"
        ));
        site.world.remand_in(&site.worktree, &["review"]).ok();
        site
    }

    pub(crate) fn remand(&self, args: &[&str]) -> crate::support::Output {
        self.world.remand(args)
    }

    pub(crate) fn state(&self, change: &str) -> String {
        self.world.sqlite(&format!(
            "SELECT state FROM changes WHERE change_id = '{change}'"
        ))
    }

    /// Returns the output of a command that succeeds, without parts that differ from run to run.
    pub(crate) fn shows(&self, args: &[&str]) -> String {
        self.world.plain(&self.remand(args).ok().stdout)
    }
}

const REVIEWER: &str = r#"previous=$(sed -nE 's/^(f[0-9]+) \([a-z]+, [a-z]+\)$/{"id": "\1", "status": "resolved"}/p' | paste -sd, -)
if [ -e fixed ]; then
  printf 'REVIEW_RESULT: approved\nFINDINGS_COUNT: 0\nSUMMARY: all is well\n'
  [ -z "$previous" ] || printf '\n```json\n{"findings": [], "previous": [%s]}\n```\n' "$previous"
else
  printf 'The file is wrong.\n\n```json\n{"findings":[{"severity":"high","category":"logic","file":"work.txt","line":1,"message":"work.txt is wrong","suggestion":"write better"}]}\n```\nREVIEW_RESULT: changes_requested\nFINDINGS_COUNT: 1\nSEVERITY: high\nSUMMARY: work.txt is wrong\n'
fi
"#;

/// A fixer that works.
pub(crate) const FIXER: &str = "echo better > work.txt\ntouch fixed\necho done\necho careful >&2\n";

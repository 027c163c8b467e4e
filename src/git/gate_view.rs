//! Repository that a gate sees as `.git`: deleted and rewritten before each gate run, and never
//! read.

use std::collections::BTreeMap;
use std::fs;

use super::checkout::Checkout;
use super::command::GitCommand;
use super::fs_nofollow::at;
use super::history::check_sha;
use super::{Git, Place, Result, check_branch_name};

/// Contents of the repository that a gate sees.
#[derive(Debug, Clone)]
pub(crate) struct GateView<'a> {
    pub(crate) branch: &'a str,
    pub(crate) commit: &'a str,
    /// Further refs by full name, such as `refs/remotes/origin/main`.
    pub(crate) refs: Vec<(String, String)>,
    /// URL of the remote `origin`, without user and password.
    pub(crate) url: Option<String>,
}

impl Git {
    /// Writes the repository that a gate sees.
    ///
    /// It borrows the objects of remand's clone, which a confined gate can only read; a hard link
    /// or a worktree of the clone would let the gate write there.
    pub(crate) async fn show_to_gates(
        &self,
        checkout: &Checkout,
        view: &GateView<'_>,
    ) -> Result<()> {
        check_branch_name(view.branch)?;
        check_sha(view.commit)?;
        let branch = format!("refs/heads/{}", view.branch);
        let head = format!("ref: {branch}\n");
        let mut refs = BTreeMap::from([(branch, view.commit.to_owned())]);
        for (name, sha) in &view.refs {
            check_sha(sha)?;
            refs.entry(name.clone()).or_insert_with(|| sha.clone());
        }
        let refs = refs.iter().map(|(name, sha)| format!("{sha} {name}\n"));
        let refs: String = refs.collect();
        let mut config =
            "[core]\n\trepositoryFormatVersion = 0\n\tfileMode = true\n\tbare = false\n".to_owned();
        // URLs that remand accepts have no quotation mark or backslash; a line break would start
        // another setting.
        let url = view.url.as_deref();
        if let Some(url) = url.filter(|url| !url.contains(['"', '\\', '\n', '\r'])) {
            let fetch = "+refs/heads/*:refs/remotes/origin/*";
            config.push_str(&format!(
                "[remote \"origin\"]\n\turl = \"{url}\"\n\tfetch = {fetch}\n"
            ));
        }
        let git_dir = checkout.seen_by_gates().git_dir;
        let files = [
            ("config", &*config),
            ("packed-refs", &refs),
            ("HEAD", &head),
        ];
        checkout.make_git_dir(&git_dir, files)?;
        // Records the times of the files, so that the gate's git need not read them all.
        let index = git_dir.join("index");
        let place = Place {
            path: checkout.tree(),
            ..checkout.converting()
        };
        self.read_tree(&place, view.commit, None).await?;
        self.yes(GitCommand::at(&place, "update-index -q --refresh"))
            .await?;
        fs::copy(place.git_dir.join("index"), &index)
            .map(drop)
            .map_err(at("write", &index))
    }
}

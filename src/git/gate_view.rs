//! Repository that a gate sees as `.git`: deleted and rewritten before each gate run, and never
//! read.

use std::collections::BTreeMap;
use std::fs;

use super::checkout::{Checkout, make_folder, remove_all};
use super::command::{GitCommand, utf8};
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
        let git_dir = checkout.seen_by_gates().git_dir;
        remove_all(&git_dir)?;
        for folder in ["refs/heads", "info", "objects/info"] {
            make_folder(&git_dir.join(folder))?;
        }
        let mut refs = BTreeMap::from([(
            format!("refs/heads/{}", view.branch),
            view.commit.to_owned(),
        )]);
        for (name, sha) in &view.refs {
            check_sha(sha)?;
            refs.entry(name.clone()).or_insert_with(|| sha.clone());
        }
        let refs: String = refs
            .iter()
            .map(|(name, sha)| format!("{sha} {name}\n"))
            .collect();
        let mut config =
            "[core]\n\trepositoryFormatVersion = 0\n\tfileMode = true\n\tbare = false\n".to_owned();
        // URLs that remand accepts have no quotation mark or backslash; a line break would start
        // another setting.
        if let Some(url) = view
            .url
            .as_deref()
            .filter(|url| !url.contains(['"', '\\', '\n', '\r']))
        {
            let fetch = "+refs/heads/*:refs/remotes/origin/*";
            config.push_str(&format!(
                "[remote \"origin\"]\n\turl = \"{url}\"\n\tfetch = {fetch}\n"
            ));
        }
        let alternates = format!("{}\n", utf8(&checkout.objects)?);
        let head = format!("ref: refs/heads/{}\n", view.branch);
        for (name, text) in [
            ("config", &config),
            ("packed-refs", &refs),
            ("objects/info/alternates", &alternates),
            ("HEAD", &head),
        ] {
            let path = git_dir.join(name);
            fs::write(&path, text).map_err(at("write", &path))?;
        }
        // Records the times of the files, so that the gate's git need not read them all.
        let index = git_dir.join("index");
        let place = Place {
            path: checkout.tree(),
            ..checkout.converting()
        };
        self.bytes(GitCommand::at(&place, "read-tree").arg(view.commit))
            .await?;
        self.yes(GitCommand::at(&place, "update-index -q --refresh"))
            .await?;
        fs::copy(place.git_dir.join("index"), &index)
            .map(drop)
            .map_err(at("write", &index))
    }
}

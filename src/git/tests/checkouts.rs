//! A checkout for gates contains exactly its commit, whatever was there before.

use super::*;
use crate::git::{Checkout, GateView, Kept, Product};

impl Bed {
    fn checkout(&self) -> Checkout {
        Checkout::new(&self.root.join("gates"), &self.repo.join(".git"))
    }

    /// Runs a line of shell in the directory of the checkout.
    async fn sh(&self, line: &str) {
        let short_call = Short {
            program: "sh".into(),
            args: vec!["-c".into(), line.into()],
            cwd: self.root.join("gates"),
            env: self
                .env
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            stdin: None,
            limit: Duration::from_secs(60),
            cap: 4096,
            is_wrapped: false,
        };
        let output = short(&short_call).await.unwrap();
        assert_eq!(
            output.status,
            Some(0),
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    async fn is_exact(&self, commit: &str, why: &str) {
        let checkout = self.checkout();
        assert_eq!(
            self.git.differing(&checkout, commit).await.unwrap(),
            [""; 0],
            "{why}"
        );
        assert!(
            checkout
                .product(&self.git, commit)
                .await
                .unwrap()
                .is_nothing(),
            "{why}: more than the commit"
        );
        self.git
            .show_to_gates(&checkout, &view(commit))
            .await
            .unwrap();
        let tree = checkout.tree();
        assert_eq!(
            self.raw(&tree, ["status", "--porcelain"]).await,
            "",
            "{why}"
        );
        assert_eq!(
            self.raw(&tree, ["rev-parse", "HEAD", "fix/a", "origin/main"])
                .await,
            [commit; 3].join("\n"),
            "{why}"
        );
    }
}

fn view(commit: &str) -> GateView<'_> {
    let refs = vec![("refs/remotes/origin/main".to_owned(), commit.to_owned())];
    GateView {
        branch: "fix/a",
        commit,
        refs,
        url: Some("https://example.com/r.git".into()),
    }
}

const BENDS: [&str; 19] = [
    "rm -rf tree/.git tree/.gitignore; mkfifo tree/.git tree/.gitignore tree/.mailmap tree/.gitattributes",
    "rm -rf tree",
    "rm -rf tree; ln -s /etc tree",
    "rm -rf tree; echo file >tree",
    "rm -rf git converted git-as-cloned; ln -s /etc git; ln -s /etc converted; echo file >git-as-cloned",
    "rm tree/a; mkdir tree/a; echo x >tree/a/x",
    "rm tree/a; ln -s /etc/passwd tree/a",
    "rm tree/a; mkfifo tree/a",
    "printf 'two\\n' >tree/a; touch -d 2020-01-01 tree/a",
    "chmod 4755 tree/a",
    "ln tree/a other-name",
    "rm -rf tree/d; ln -s /etc tree/d",
    "rm -rf tree/d; echo file >tree/d",
    "rm -rf tree/.git; ln -s /etc tree/.git",
    "mkdir -p tree/ignored/deep; mkfifo tree/ignored/deep/pipe; echo x >tree/x.log; chmod 500 tree/ignored/deep tree/ignored",
    "mkdir tree/nested; git init -q tree/nested; git -C tree/nested commit -q --allow-empty -m Nested",
    "echo '[core]' >git/config; rm -rf git/objects; echo '* filter=e' >git/info/attributes; : >git/index.lock",
    "printf 'a text eol=crlf\\n' >tree/.gitattributes; printf 'one\\r\\n' >tree/a",
    "git -C tree update-index --assume-unchanged a 2>/dev/null; rm tree/a",
];

#[tokio::test]
async fn whatever_stands_there_is_made_exactly_the_commit() {
    let bed = Bed::new().await;
    let checkout = bed.checkout();
    bed.git
        .check_out(&checkout, &bed.start, &Product::default())
        .await
        .unwrap();
    bed.is_exact(&bed.start, "new").await;
    for bend in BENDS {
        bed.sh(bend).await;
        bed.git
            .check_out(&checkout, &bed.start, &Product::default())
            .await
            .unwrap();
        bed.is_exact(&bed.start, bend).await;
    }
    // Another commit in its place, with directories for files and files for directories.
    fs::remove_dir_all(bed.wt("d")).unwrap();
    fs::remove_file(bed.wt("a")).unwrap();
    bed.write("a/b", "in a folder\n");
    bed.write("d", "a file\n");
    bed.said(["add", "-A"]).await;
    bed.said(["commit", "-q", "-m", "Others"]).await;
    let other = bed.said(["rev-parse", "HEAD"]).await;
    for commit in [&other, &bed.start, &other] {
        bed.git
            .check_out(&checkout, commit, &Product::default())
            .await
            .unwrap();
        bed.is_exact(commit, "another commit").await;
    }
}

#[tokio::test]
async fn a_change_of_any_kind_is_seen() {
    let bed = Bed::new().await;
    let checkout = bed.checkout();
    for change in [
        "printf 'two\\n' >tree/a; touch -d 2020-01-01 tree/a",
        "chmod +x tree/a",
        "rm tree/a",
        "rm tree/a; ln -s d/x tree/a",
        "rm tree/a; mkfifo tree/a tree/.gitattributes",
    ] {
        bed.git
            .check_out(&checkout, &bed.start, &Product::default())
            .await
            .unwrap();
        bed.sh(change).await;
        assert_eq!(
            bed.git.differing(&checkout, &bed.start).await.unwrap(),
            ["a"],
            "{change}"
        );
    }
}

#[tokio::test]
async fn what_is_right_keeps_its_time_and_a_product_stays_until_it_is_changed() {
    let bed = Bed::new().await;
    let checkout = bed.checkout();
    bed.git
        .check_out(&checkout, &bed.start, &Product::default())
        .await
        .unwrap();
    bed.sh("mkdir -p tree/modules/x; echo 1 >tree/modules/x/one; touch -d 2020-01-01 tree/a")
        .await;
    let product = checkout.product(&bed.git, &bed.start).await.unwrap();
    let next = bed.commit("a2", "new\n").await;
    bed.sh("echo cache >tree/modules/x/cache").await;
    assert_eq!(
        bed.git.check_out(&checkout, &next, &product).await.unwrap(),
        Kept::Product
    );
    let root = bed.root.join("gates/tree");
    assert!(
        root.join("modules/x/one").exists()
            && !root.join("modules/x/cache").exists()
            && root.join("a2").exists()
    );
    bed.sh("[ \"$(stat -c %Y tree/a)\" -lt 1600000000 ]").await;
    bed.sh("echo 2 >tree/modules/x/one").await;
    assert_eq!(
        bed.git.check_out(&checkout, &next, &product).await.unwrap(),
        Kept::Stale
    );
    checkout.clear().await.unwrap();
    assert_eq!(
        bed.git.check_out(&checkout, &next, &product).await.unwrap(),
        Kept::Stale
    );
}

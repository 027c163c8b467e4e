//! Detects fixes that only write about the review.
//!
//! An agent that cannot fix something tends to commit a document that says so; that is not a fix
//! and must not be merged as one.

use super::{Diff, FileChange, FileStatus};

/// Returns true if every file is a new document about the review that no finding asked for.
///
/// Conservative on purpose: an edit of an existing document, a path that a finding names, a README,
/// anything below `docs/`, and everything that is not plainly prose counts as a real fix. The rest
/// counts as prose if its name or its text mentions the review.
pub(crate) fn only_prose_about_review(diff: &Diff, named_by_findings: &[String]) -> bool {
    !diff.files.is_empty()
        && diff
            .files
            .iter()
            .all(|file| is_about_review(diff, file, named_by_findings))
}

fn is_about_review(diff: &Diff, file: &FileChange, named: &[String]) -> bool {
    let is_plain_new = file.status == FileStatus::Added && file.mode == 0o100_644 && !file.binary;
    if !is_plain_new
        || named
            .iter()
            .any(|path| path.trim_start_matches("./") == file.path)
    {
        return false;
    }
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let is_document = match extension.to_ascii_lowercase().as_str() {
        "md" | "markdown" | "txt" | "rst" | "adoc" => true,
        // A Makefile or a LICENSE has no extension either.
        "" => speaks_of_review(stem),
        _ => false,
    };
    let is_expected = folder
        .split('/')
        .any(|part| ["doc", "docs", "adr"].contains(&part))
        || EXPECTED
            .iter()
            .any(|expected| stem.eq_ignore_ascii_case(expected));
    is_document
        && (speaks_of_review(stem)
            || (!is_expected && speaks_of_review(&added_text(diff, &file.path))))
}

/// Documents that a review may well ask for without naming the file.
const EXPECTED: &[&str] = &[
    "readme",
    "changelog",
    "changes",
    "license",
    "copying",
    "notice",
    "authors",
    "contributing",
    "security",
    "install",
    "upgrading",
    "migration",
    "architecture",
    "code_of_conduct",
    "support",
];

fn speaks_of_review(text: &str) -> bool {
    let words = text
        .split(|c: char| !c.is_alphanumeric())
        .flat_map(camel_words);
    let words: Vec<String> = words.map(|word| word.to_lowercase()).collect();
    let about = [
        "review",
        "reviews",
        "reviewer",
        "reviewers",
        "feedback",
        "findings",
    ];
    words.iter().any(|word| about.contains(&word.as_str()))
}

/// Splits at case changes: `ReviewResponse` is two words, `REVIEW` is one.
fn camel_words(word: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before_is_lower = false;
    for c in word.chars() {
        if c.is_uppercase() && before_is_lower {
            words.push(String::new());
        }
        before_is_lower = c.is_lowercase();
        if let Some(last) = words.last_mut() {
            last.push(c);
        }
    }
    words
}

/// Returns the lines that the diff adds to one new file.
fn added_text(diff: &Diff, path: &str) -> String {
    let mut text = String::new();
    let mut is_this = false;
    for line in diff.text.lines() {
        if line.starts_with("diff --git ") {
            is_this = false;
        } else if let Some(name) = line.strip_prefix("+++ b/") {
            is_this = name.trim_end_matches('\t') == path;
        } else if let (true, Some(added)) = (is_this, line.strip_prefix('+')) {
            text.push_str(added);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(path: &str, text: &str) -> (FileChange, String) {
        let patch = format!(
            "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{text}\n"
        );
        let file = FileChange {
            path: path.to_owned(),
            old_path: None,
            status: FileStatus::Added,
            mode: 0o100_644,
            added: 1,
            deleted: 0,
            binary: false,
        };
        (file, patch)
    }

    fn judged(files: &[(&str, &str)], named: &[&str]) -> bool {
        let (files, texts): (Vec<_>, Vec<_>) =
            files.iter().map(|(path, text)| new(path, text)).unzip();
        let named: Vec<String> = named.iter().map(|&n| n.to_owned()).collect();
        only_prose_about_review(
            &Diff {
                text: texts.concat(),
                truncated: false,
                files,
            },
            &named,
        )
    }

    #[test]
    fn words_about_the_review_are_no_fix() {
        for path in [
            "REVIEW_RESPONSE.md",
            "review-response.txt",
            "docs/ReviewFeedback.md",
            "REVIEW_RESPONSE",
            "FEEDBACK.rst",
        ] {
            assert!(judged(&[(path, "x")], &[]), "{path}");
        }
        assert!(judged(
            &[("NOTES.md", "I could not address the reviewer's point.")],
            &[]
        ));
        assert!(judged(
            &[
                ("REVIEW.md", "x"),
                ("SUMMARY.md", "All findings are addressed")
            ],
            &[]
        ));
    }

    #[test]
    fn real_fixes_are_not_called_prose() {
        assert!(!judged(&[], &[]), "nothing changed is another case");
        for path in [
            "README.md",
            "docs/usage.md",
            "CHANGELOG.md",
            "src/main.rs",
            "Makefile",
            "requirements.txt",
            "review.py",
        ] {
            assert!(
                !judged(&[(path, "how to run the review")], &[]) || path == "requirements.txt",
                "{path}"
            );
        }
        assert!(!judged(&[("requirements.txt", "serde==1")], &[]));
        assert!(!judged(&[("GUIDE.md", "how to build")], &[]));
        assert!(
            !judged(&[("REVIEW_GUIDE.md", "x")], &["./REVIEW_GUIDE.md"]),
            "a finding asked for it"
        );
        assert!(
            !judged(&[("REVIEW.md", "x"), ("requirements.txt", "serde==1")], &[]),
            "each file is judged by its own text"
        );
        assert!(!judged(&[("REVIEW.md", "x"), ("src/lib.rs", "x")], &[]));
    }

    #[test]
    fn an_edit_of_a_document_is_a_fix() {
        let (mut file, text) = new("REVIEW.md", "x");
        file.status = FileStatus::Modified;
        assert!(!only_prose_about_review(
            &Diff {
                text,
                truncated: false,
                files: vec![file]
            },
            &[]
        ));
    }
}

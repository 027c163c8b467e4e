//! Contents of a pull request at the end, as anybody would read them there.

use serde_json::Value;

use super::{ME, Part, REPO, Stage};

/// Review or comment on a pull request.
pub(crate) struct Remark {
    pub(crate) by: String,
    /// Kind of remark: `requested changes`, `commented`, …
    pub(crate) how: &'static str,
    /// File and line that it is about.
    pub(crate) place: Option<String>,
    /// Most informative line of its text.
    pub(crate) text: String,
}

impl Stage {
    /// Returns the remarks on a pull request, oldest first, inline comments with their review.
    pub(crate) async fn said_on(&self, part: &Part) -> anyhow::Result<Vec<Remark>> {
        let n = part.number;
        let reviews = self.list(&format!("pulls/{n}/reviews")).await?;
        let comments = self.list(&format!("pulls/{n}/comments")).await?;
        let is_of = |review: &Value, comment: &&Value| {
            number(comment, "pull_request_review_id") == number(review, "id")
        };
        let mut all: Vec<(i64, Remark)> = Vec::new();
        for review in &reviews {
            let mut said = said(review);
            for inline in comments
                .iter()
                .filter(|comment| is_of(review, comment))
                .map(self::said)
            {
                said.place = inline.place;
                if said.text.is_empty() {
                    // A reply is wrapped into a review without text.
                    (said.by, said.text) = (inline.by, inline.text);
                    said.how = if inline.how == "replied" {
                        inline.how
                    } else {
                        said.how
                    };
                }
            }
            all.push((number(review, "id"), said));
        }
        all.extend(
            self.list(&format!("issues/{n}/comments"))
                .await?
                .iter()
                .map(|one| (number(one, "id"), said(one))),
        );
        all.sort_by_key(|(id, _)| *id);
        Ok(all.into_iter().map(|(_, said)| said).collect())
    }

    async fn list(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        let list = self
            .github_users
            .get(ME, &format!("repos/{REPO}/{path}?per_page=100"))
            .await?;
        Ok(list.as_array().cloned().unwrap_or_default())
    }
}

fn said(one: &Value) -> Remark {
    let word = |key: &str| one.get(key).and_then(Value::as_str).unwrap_or_default();
    let path = one.get("path").and_then(Value::as_str);
    let how = match word("state") {
        "APPROVED" => "approved",
        "CHANGES_REQUESTED" => "requested changes",
        "DISMISSED" => "requested changes (dismissed later)",
        "COMMENTED" => "reviewed",
        _ if one.get("in_reply_to_id").is_some() => "replied",
        _ => "commented",
    };
    let (shown, marker) = word("body")
        .split_once("<!-- remand:")
        .unwrap_or((word("body"), ""));
    let login = one
        .get("user")
        .and_then(|user| user.get("login"))
        .and_then(Value::as_str)
        .unwrap_or_default();
    Remark {
        by: if marker.is_empty() {
            login.to_owned()
        } else {
            "remand".to_owned()
        },
        how,
        place: path.map(|path| format!("{path}:{}", number(one, "original_line"))),
        text: telling(shown),
    }
}

/// Returns the first line, or the one after remand's own heading.
fn telling(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines
        .find(|line| !line.starts_with("**remand**:"))
        .unwrap_or_default();
    first
        .strip_prefix("**remand** ")
        .unwrap_or(first)
        .replace("**", "")
        .replace('\u{200b}', "")
}

fn number(one: &Value, key: &str) -> i64 {
    one.get(key).and_then(Value::as_i64).unwrap_or_default()
}

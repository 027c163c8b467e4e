//! Objects that were created together and that the forge shows one after the other.

use serde_json::json;

use super::{Forge, inline, push};

impl Forge {
    /// Sets the head that readers see from now on, whatever the branch does; `None`: the actual
    /// head.
    pub(crate) fn show_head(&self, number: i64, head: Option<&str>) {
        self.on_pull(number, |pull, _, _| pull["shown_head"] = json!(head));
    }

    /// Adds comments of a review that is not listed yet; returns its id.
    pub(crate) fn comments_before_review(
        &self,
        number: i64,
        by: &str,
        what: &[(&str, i64, &str)],
    ) -> i64 {
        let id = self.on_pull(number, |_, ids, _| ids());
        self.comments_of_review(number, id, by, what);
        id
    }

    /// Adds comments of a review that exists or will exist.
    pub(crate) fn comments_of_review(
        &self,
        number: i64,
        review: i64,
        by: &str,
        what: &[(&str, i64, &str)],
    ) {
        let commit = self.head(number);
        self.on_pull(number, |pull, ids, at| {
            for one in what {
                push(
                    &mut pull["comments"],
                    inline(ids(), Some(review), (by, &commit), *one, at),
                );
            }
        });
    }

    /// Adds a review without a text, whose comments already exist.
    pub(crate) fn review_after_comments(&self, number: i64, id: i64, by: &str) {
        let commit = self.head(number);
        self.on_pull(number, |pull, _, at| {
            let review = json!({
                "id": id, "author": by, "state": "CHANGES_REQUESTED", "commit": commit, "body": "", "submitted_at": at,
            });
            push(&mut pull["reviews"], review);
        });
    }
}

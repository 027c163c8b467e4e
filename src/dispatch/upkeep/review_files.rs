//! Keeps one Markdown file per finished review, and a ref that keeps the reviewed commit. Both are
//! made from the blackboard: what is missing or out of date is written again.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::Upkeep;
use super::review_markdown::review_markdown;
use crate::blackboard::{self as bb, NumberedReview};
use crate::change::ProjectId;
use crate::clock::{self, Zone};
use crate::failpoint::crash_point;
use crate::files;
use crate::git::Place;
use crate::sanitize::chain;

/// Number of characters of a date.
const DATE: usize = 10;

/// Maximum size of a file that is compared with what it should contain.
const MOST: u64 = 64 * 1024 * 1024;

/// Place of the file of a review: `REVIEWS/PROJECT/DATE-CHANGE-review-NUMBER.md`.
pub(crate) fn review_file(
    reviews_dir: &Path,
    review: &NumberedReview,
    zone: Zone,
) -> Option<PathBuf> {
    let folder = folder_of(reviews_dir, &review.project_id)?;
    let date = clock::day(review.created_at, zone).name;
    Some(folder.join(format!("{date}{}", after_date(review))))
}

/// Returns the file of a review, if it exists. Its date may be from another time zone.
pub(crate) fn existing_review_file(reviews_dir: &Path, review: &NumberedReview) -> Option<PathBuf> {
    let folder = folder_of(reviews_dir, &review.project_id)?;
    let name = names_of(&folder, review).pop()?;
    Some(folder.join(name))
}

/// True if this is the name of a file of a review of the change.
pub(crate) fn is_review_of(name: &str, change: &str) -> bool {
    let number = name
        .get(DATE..)
        .and_then(|rest| rest.strip_prefix(&format!("-{change}-review-")))
        .and_then(|rest| rest.strip_suffix(".md"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Directory with the files of a project's reviews.
pub(crate) fn folder_of(reviews_dir: &Path, project: &ProjectId) -> Option<PathBuf> {
    let mut parts = Path::new(project.as_str()).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(name)), None) => Some(reviews_dir.join(name)),
        (_, _) => None,
    }
}

fn after_date(review: &NumberedReview) -> String {
    format!("-{}-review-{}.md", review.change_id, review.number)
}

fn names_of(folder: &Path, review: &NumberedReview) -> Vec<String> {
    let ending = after_date(review);
    let names = names_in(folder);
    let is_its = |name: &String| name.get(DATE..) == Some(&ending);
    names.into_iter().filter(is_its).collect()
}

fn names_in(folder: &Path) -> Vec<String> {
    let names = files::names(folder).unwrap_or_default().into_iter();
    names.filter_map(|name| name.into_string().ok()).collect()
}

impl Upkeep {
    /// Writes the files of reviews whose change has had events since `event`, and keeps the
    /// reviewed commits. Returns the newest event now.
    pub(crate) async fn write_reviews_since(&self, event: i64) -> bb::Result<i64> {
        let (newest, changed) = self
            .db
            .read(move |conn| Ok((bb::newest_event(conn)?, bb::reviewed_since(conn, event)?)))
            .await?;
        let mut is_all_written = true;
        for id in &changed {
            let reviews = self.db.read_of(id, bb::numbered_reviews_of).await?;
            is_all_written &= self.write_reviews(&reviews).await?;
            self.keep_heads(&reviews).await?;
        }
        if is_all_written && !changed.is_empty() {
            self.written_up_to(newest).await?;
        }
        Ok(newest)
    }

    async fn written_up_to(&self, event: i64) -> bb::Result<()> {
        crash_point!("upkeep.reviews.written");
        let done = move |conn: &bb::Conn| bb::set_reviews_written(conn, event);
        self.db.write("reviews_written", done).await
    }

    /// Writes everything that is missing or may be out of date. Returns the newest event that is
    /// taken into account.
    pub(crate) async fn write_missing_reviews(&self) -> bb::Result<i64> {
        let (written, newest, reviews) = self
            .db
            .read(|conn| {
                let written = bb::reviews_written(conn)?;
                Ok((
                    written,
                    bb::newest_event(conn)?,
                    bb::numbered_reviews(conn)?,
                ))
            })
            .await?;
        let mut there: BTreeMap<ProjectId, HashSet<String>> = BTreeMap::new();
        let (mut missing, is_any) = (Vec::new(), !reviews.is_empty());
        for review in reviews {
            let names = there.entry(review.project_id.clone()).or_insert_with(|| {
                let folder = folder_of(&self.settings.reviews_dir, &review.project_id);
                let names = folder.map(|folder| names_in(&folder)).unwrap_or_default();
                let ending = |name: String| name.get(DATE..).map(str::to_owned);
                names.into_iter().filter_map(ending).collect()
            });
            if !names.contains(&after_date(&review)) {
                missing.push(review);
            }
        }
        let is_all_written = self.write_reviews(&missing).await?;
        self.keep_heads(&missing).await?;
        if let Some(event) = written {
            return self.write_reviews_since(event).await;
        }
        if is_any && is_all_written {
            self.written_up_to(newest).await?;
        }
        Ok(newest)
    }

    /// Keeps the reviewed commits of all reviews.
    pub(crate) async fn keep_all_heads(&self) -> bb::Result<()> {
        let reviews = self.db.read(bb::numbered_reviews).await?;
        self.keep_heads(&reviews).await
    }

    /// Returns false if a file could not be written.
    async fn write_reviews(&self, reviews: &[NumberedReview]) -> bb::Result<bool> {
        let mut is_all_written = true;
        for review in reviews {
            let report = self.db.read_of(&review.review_id, bb::review_report).await;
            let report = match report {
                Ok(report) => report,
                // Its change was pruned in between.
                Err(bb::BoardError::NotFound { .. }) => continue,
                Err(error) => return Err(error),
            };
            let text = review_markdown(&report, self.settings.day.zone);
            if let Err(error) = self.replace(review, &text) {
                let id = &review.review_id;
                tracing::warn!(review = %id, error = ?error, "cannot write the file of a review");
                is_all_written = false;
                continue;
            }
            // A prune that deleted the review meanwhile has not seen the file.
            let again = self.db.read_of(&review.review_id, bb::review).await;
            if let Err(bb::BoardError::NotFound { .. }) = again {
                self.remove_files(review);
            }
        }
        Ok(is_all_written)
    }

    fn replace(&self, review: &NumberedReview, text: &str) -> io::Result<()> {
        let dir = &self.settings.reviews_dir;
        let Some(path) = review_file(dir, review, self.settings.day.zone) else {
            return Err(io::Error::other(
                "the name of the project is not a file name",
            ));
        };
        let folder = path.parent().unwrap_or(dir);
        if files::read(&path, MOST).is_ok_and(|now| now == text.as_bytes()) {
            return Ok(());
        }
        files::make_private_dir(folder)?;
        crash_point!("upkeep.review.before");
        files::replace(&path, text.as_bytes())?;
        crash_point!("upkeep.review.after");
        // An unclear review may have been replaced on another day.
        for name in names_of(folder, review) {
            let other = folder.join(name);
            if other != path {
                files::aside(|| std::fs::remove_file(&other))?;
            }
        }
        Ok(())
    }

    fn remove_files(&self, review: &NumberedReview) {
        let Some(folder) = folder_of(&self.settings.reviews_dir, &review.project_id) else {
            return;
        };
        for name in names_of(&folder, review) {
            if let Err(error) = files::aside(|| std::fs::remove_file(folder.join(&name))) {
                tracing::warn!(%name, error = ?error, "cannot remove the file of a pruned review");
            }
        }
    }

    /// Keeps the reviewed commits, so that `git gc` does not delete what `remand diff --review`
    /// shows.
    async fn keep_heads(&self, reviews: &[NumberedReview]) -> bb::Result<()> {
        let projects: BTreeSet<&ProjectId> = reviews.iter().map(|one| &one.project_id).collect();
        for id in projects {
            let project = self.db.read_of(id, bb::project).await?;
            let git = self.settings.git_in(&project.path);
            let repository = Place::bare(PathBuf::from(&project.common_dir));
            let heads = reviews.iter().filter(|one| one.project_id == *id);
            let heads = heads.map(|one| (one.change_id.as_str(), one.head.as_str()));
            if let Err(error) = git.keep_reviewed(&repository, heads.collect()).await {
                // A repository that is missing has nothing to keep.
                tracing::debug!(project = %id, error = %chain(&error), "cannot keep reviewed commits");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_change_are_known_by_their_name() {
        for (name, expected) in [
            ("2026-11-19-c1-review-1.md", true),
            ("2026-11-19-c1-review-12.md", true),
            ("2026-11-19-c11-review-1.md", false),
            ("2026-11-19-c1-review-.md", false),
            ("2026-11-19-c1-review-1.md.new", false),
            ("c1-review-1.md", false),
        ] {
            assert_eq!(is_review_of(name, "c1"), expected, "{name}");
        }
        let dir = Path::new("/reviews");
        for name in ["..", "a/b", "", "/"] {
            assert_eq!(folder_of(dir, &ProjectId::new(name)), None, "{name}");
        }
    }
}

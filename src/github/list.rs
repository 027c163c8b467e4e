//! Lists, page by page, and what is remembered of pages so that those which did not change cost nothing.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::call::{Call, read_body};
use super::reply::Reply;
use super::{Github, GithubError};

/// The most that GitHub gives at once.
const FULL: usize = 100;
/// Ten thousand entries. A list that is longer, or whose last page names another, is none.
const MOST_PAGES: usize = 100;

/// What is known of pages, by their paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marks(BTreeMap<String, Mark>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) etag: String,
    /// How many entries are on the page.
    pub(crate) count: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pages<T> {
    /// Of the pages that are new or changed. While a list moves, one entry may be on two of them.
    pub(crate) items: Vec<T>,
    /// All pages of this list, as of now.
    pub(crate) marks: Marks,
}

impl Marks {
    pub(crate) fn get(&self, path: &str) -> Option<&Mark> {
        self.0.get(path)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> Pages<T> {
    pub(super) fn filter_map<U>(self, each: impl FnMut(T) -> Option<U>) -> Pages<U> {
        Pages { items: self.items.into_iter().filter_map(each).collect(), marks: self.marks }
    }
}

impl Github {
    /// A whole list or an error. `path` has its own query, if any; the page is added to it.
    pub(super) async fn list<T: DeserializeOwned>(&self, path: &str, known: &Marks) -> Result<Pages<T>, GithubError> {
        let deadline = self.deadline();
        let joint = if path.contains('?') { '&' } else { '?' };
        let mut pages = Pages { items: Vec::new(), marks: Marks::default() };
        let at = |page: usize| format!("{path}{joint}per_page={FULL}&page={page}");
        for page in 1..=MOST_PAGES {
            let path = at(page);
            let mark = known.get(&path);
            let call = Call::get(path.clone()).unless(mark.map(|mark| mark.etag.as_str()));
            let (leads_on, mark) = match self.ask(&call, deadline).await? {
                // It need not name the next page again.
                Reply::Unchanged { head } => (head.has_next() || known.get(&at(page + 1)).is_some(), mark.cloned()),
                Reply::New { head, body } => {
                    let items: Vec<T> = read_body(&path, &body)?;
                    let mark = Mark { etag: head.etag().unwrap_or_default(), count: items.len() };
                    pages.items.extend(items);
                    (head.has_next(), Some(mark))
                }
            };
            let is_full = mark.as_ref().is_some_and(|mark| mark.count >= FULL);
            if let Some(mark) = mark.filter(|mark| !mark.etag.is_empty()) {
                pages.marks.0.insert(path, mark);
            }
            if !is_full && !leads_on {
                return Ok(pages);
            }
        }
        Err(GithubError::Broken { path: path.to_owned(), what: format!("the list does not end in {MOST_PAGES} pages") })
    }
}

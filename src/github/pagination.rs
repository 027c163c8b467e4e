//! Lists, page by page, with the ETags that make unchanged pages free.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::call::{Call, read_body};
use super::fetch::{Fetch, KeptPage};
use super::response::Reply;
use super::{Github, GithubError, Result};

/// Maximum page size of GitHub.
const FULL: usize = 100;
/// Maximum number of pages: ten thousand entries. A longer list, or one whose last page names
/// another, is an error.
const MOST_PAGES: usize = 100;

/// ETags of pages, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marks(BTreeMap<String, Mark>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) etag: String,
    /// Number of entries on the page.
    pub(crate) count: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pages<T> {
    /// Entries of new and changed pages. If the list changes meanwhile, one entry may be on two of
    /// them.
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
        Pages {
            items: self.items.into_iter().filter_map(each).collect(),
            marks: self.marks,
        }
    }
}

impl Github {
    /// Reads a whole list, or fails. `path` may have a query; the page is added to it.
    ///
    /// Pages that the fetch kept are not requested, and those that are read are kept.
    pub(super) async fn list_in<T: DeserializeOwned>(
        &self,
        fetch: &mut Fetch,
        path: &str,
        known: &Marks,
    ) -> Result<Pages<T>> {
        self.pages_in(fetch, path, known, read_body::<Vec<T>>).await
    }

    /// Like `list_in`, for a list whose pages `parse` reads.
    pub(super) async fn pages_in<T>(
        &self,
        fetch: &mut Fetch,
        path: &str,
        known: &Marks,
        parse: impl Fn(&str, &[u8]) -> Result<Vec<T>>,
    ) -> Result<Pages<T>> {
        let deadline = fetch.deadline().min(self.deadline());
        let joint = if path.contains('?') { '&' } else { '?' };
        let mut pages = Pages {
            items: Vec::new(),
            marks: Marks::default(),
        };
        let at = |page: usize| format!("{path}{joint}per_page={FULL}&page={page}");
        for page in 1..=MOST_PAGES {
            let path = at(page);
            let mark = known.get(&path);
            let kept = match fetch.page(&path) {
                Some(kept) => kept.clone(),
                None => {
                    let call = Call::get(path.clone()).unless(mark.map(|mark| mark.etag.as_str()));
                    let reply = self.ask(&call, deadline).await?;
                    // A page that did not change may not name the next one again.
                    to_keep(&path, reply, known.get(&at(page + 1)))?
                }
            };
            let mark = match &kept.body {
                None => mark.cloned(),
                Some(body) => {
                    let items = parse(&path, body.as_bytes())?;
                    let mark = Mark {
                        etag: kept.etag.clone(),
                        count: items.len(),
                    };
                    pages.items.extend(items);
                    Some(mark)
                }
            };
            let leads_on = kept.leads_on;
            // Only pages that could be read.
            fetch.keep(&path, kept);
            let is_full = mark.as_ref().is_some_and(|mark| mark.count >= FULL);
            if let Some(mark) = mark.filter(|mark| !mark.etag.is_empty()) {
                pages.marks.0.insert(path, mark);
            }
            if !is_full && !leads_on {
                return Ok(pages);
            }
        }
        let what = format!("the list has more than {MOST_PAGES} pages");
        Err(GithubError::broken(path, what))
    }
}

fn to_keep(path: &str, reply: Reply, known_next: Option<&Mark>) -> Result<KeptPage> {
    match reply {
        Reply::Unchanged { head } => Ok(KeptPage {
            etag: String::new(),
            leads_on: head.has_next() || known_next.is_some(),
            body: None,
        }),
        Reply::New { head, body } => {
            let body = String::from_utf8(body)
                .map_err(|error| GithubError::broken(path, error.to_string()))?;
            Ok(KeptPage {
                etag: head.etag().unwrap_or_default(),
                leads_on: head.has_next(),
                body: Some(body),
            })
        }
    }
}

//! Pages of lists, with links to the other pages.

use serde_json::Value;

use crate::request::{API, Request};
use crate::response::{EndpointError, Response};

pub(crate) struct Page {
    pub(crate) size: usize,
    /// Number of the page, from 1.
    pub(crate) number: usize,
}

impl Page {
    /// Reads `per_page` and `page`. Like GitHub, it uses the defaults in place of invalid numbers.
    pub(crate) fn requested(request: &Request) -> Self {
        let positive = |name: &str| {
            let number = request.parameter(name)?.parse::<usize>().ok()?;
            (number > 0).then_some(number)
        };
        Self {
            size: positive("per_page").unwrap_or(30).min(100),
            number: positive("page").unwrap_or(1),
        }
    }

    /// Returns this page of a list. `path` is the path of the list in links: it has the id of the repository.
    pub(crate) fn response(&self, all: Vec<Value>, request: &Request, path: &str) -> Response {
        self.response_with(all, request, path, Value::Array)
    }

    /// Like `response`, with the JSON that `body` makes of the items of the page.
    pub(crate) fn response_with(
        &self,
        all: Vec<Value>,
        request: &Request,
        path: &str,
        body: impl FnOnce(Vec<Value>) -> Value,
    ) -> Response {
        let last = all.len().div_ceil(self.size).max(1);
        let first = (self.number - 1).saturating_mul(self.size);
        let items: Vec<Value> = all.into_iter().skip(first).take(self.size).collect();
        let response = Response::json(200, &body(items));
        let mut links = Vec::new();
        if self.number > 1 {
            links.push((self.number - 1, "prev"));
        }
        if self.number < last {
            links.extend([(self.number + 1, "next"), (last, "last")]);
        }
        if self.number > 1 {
            links.push((1, "first"));
        }
        if links.is_empty() {
            return response;
        }
        let rest: String = request
            .path_and_query()
            .split_once('?')
            .map_or("", |(_, query)| query)
            .split('&')
            .filter(|part| !part.is_empty() && !part.starts_with("page="))
            .flat_map(|part| [part, "&"])
            .collect();
        let link = |(number, rel): &(usize, &str)| {
            format!("<{API}/{path}?{rest}page={number}>; rel=\"{rel}\"")
        };
        response.with(
            "Link",
            links.iter().map(link).collect::<Vec<_>>().join(", "),
        )
    }
}

/// Refuses parameters that the stand-in does not implement.
pub(crate) fn check_parameters(request: &Request, known: &[&str]) -> Result<(), EndpointError> {
    let query = request.query();
    match query
        .iter()
        .find(|(name, _)| !known.contains(&name.as_str()) && name != "page" && name != "per_page")
    {
        Some((name, value)) => Err(EndpointError::Unsupported(format!(
            "the parameter {name}={value}"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_and_link(query: &str) -> (String, Option<String>) {
        let target = format!("repos/o/r/pulls?{query}");
        let request = Request {
            method: "GET".into(),
            target,
            headers: Vec::new(),
            body: Vec::new(),
        };
        let all = (1..=5).map(Value::from).collect();
        let response = Page::requested(&request).response(all, &request, "repositories/7/pulls");
        (
            String::from_utf8(response.body.clone()).unwrap(),
            response.header("Link").map(str::to_owned),
        )
    }

    #[test]
    fn pages_and_their_links() {
        assert_eq!(page_and_link("per_page=100"), ("[1,2,3,4,5]".into(), None));
        assert_eq!(
            page_and_link("page=0&per_page=x"),
            ("[1,2,3,4,5]".into(), None)
        );
        let (items, link) = page_and_link("state=open&per_page=2&page=2");
        assert_eq!(items, "[3,4]");
        let at = "https://api.github.com/repositories/7/pulls?state=open&per_page=2&page=";
        let expected = format!(
            "<{at}1>; rel=\"prev\", <{at}3>; rel=\"next\", <{at}3>; rel=\"last\", <{at}1>; rel=\"first\""
        );
        assert_eq!(link.unwrap(), expected);
        let (items, link) = page_and_link("per_page=2&page=9");
        assert_eq!(items, "[]");
        assert!(!link.unwrap().contains("next"));
    }
}

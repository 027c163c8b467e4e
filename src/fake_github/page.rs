//! Lists, a page at a time, with the links that lead on.

use serde_json::Value;

use super::answer::{FakeAnswer, Stop};
use super::request::{API, Request};

pub(super) struct ListPage {
    pub(super) size: usize,
    /// From 1.
    pub(super) number: usize,
}

impl ListPage {
    /// What GitHub does with numbers that are none, too: it takes the default.
    pub(super) fn of(request: &Request) -> Self {
        let asked = |name: &str| {
            let query = request.query();
            query
                .iter()
                .rfind(|(known, _)| known == name)
                .and_then(|(_, value)| value.parse::<usize>().ok())
        };
        Self {
            size: asked("per_page")
                .filter(|size| *size > 0)
                .unwrap_or(30)
                .min(100),
            number: asked("page").filter(|number| *number > 0).unwrap_or(1),
        }
    }

    /// This page of a list. `home` is the address of the list as links have it: by the repository's number.
    pub(super) fn answer(&self, all: Vec<Value>, request: &Request, home: &str) -> FakeAnswer {
        let last = all.len().div_ceil(self.size).max(1);
        let first = (self.number - 1).saturating_mul(self.size);
        let items: Vec<Value> = all.into_iter().skip(first).take(self.size).collect();
        let answer = FakeAnswer::json(200, &Value::Array(items));
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
            return answer;
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
            format!("<{API}/{home}?{rest}page={number}>; rel=\"{rel}\"")
        };
        answer.with(
            "Link",
            links.iter().map(link).collect::<Vec<_>>().join(", "),
        )
    }
}

/// Refuses parameters that the stand-in would pass over in silence.
pub(super) fn only(request: &Request, known: &[&str]) -> Result<(), Stop> {
    let query = request.query();
    match query
        .iter()
        .find(|(name, _)| !known.contains(&name.as_str()) && name != "page" && name != "per_page")
    {
        Some((name, value)) => Err(Stop::Unknown(format!("the parameter {name}={value}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(query: &str) -> (String, Option<String>) {
        let target = format!("repos/o/r/pulls?{query}");
        let request = Request {
            method: "GET".into(),
            target,
            headers: Vec::new(),
            body: Vec::new(),
        };
        let all = (1..=5).map(Value::from).collect();
        let answer = ListPage::of(&request).answer(all, &request, "repositories/7/pulls");
        (
            String::from_utf8(answer.body.clone()).unwrap(),
            answer.header("Link").map(str::to_owned),
        )
    }

    #[test]
    fn pages_and_their_links() {
        assert_eq!(answered("per_page=100"), ("[1,2,3,4,5]".into(), None));
        assert_eq!(answered("page=0&per_page=x"), ("[1,2,3,4,5]".into(), None));
        let (items, link) = answered("state=open&per_page=2&page=2");
        assert_eq!(items, "[3,4]");
        let at = "https://api.github.com/repositories/7/pulls?state=open&per_page=2&page=";
        let expected = format!(
            "<{at}1>; rel=\"prev\", <{at}3>; rel=\"next\", <{at}3>; rel=\"last\", <{at}1>; rel=\"first\""
        );
        assert_eq!(link.unwrap(), expected);
        let (items, link) = answered("per_page=2&page=9");
        assert_eq!(items, "[]");
        assert!(!link.unwrap().contains("next"));
    }
}

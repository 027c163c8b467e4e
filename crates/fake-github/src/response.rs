//! HTTP responses, and the error responses of GitHub.

use serde_json::{Value, json};

use crate::FakeGithubError;
use crate::clock;

#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// The result of an endpoint.
pub(crate) enum Payload {
    Object(Value),
    /// A new object and its URL.
    Created(Value, String),
    /// All items of a list, before pagination.
    List(Vec<Value>),
    /// All items of a list that is under a key of an object, with the rest of the object.
    ListIn(&'static str, Value, Vec<Value>),
    /// Any other response.
    Response(Response),
}

/// The reason why an endpoint has no result.
pub(crate) enum EndpointError {
    Refusal(Refusal),
    /// The stand-in does not implement this part of GitHub.
    Unsupported(String),
    Internal(FakeGithubError),
}

/// An error response of GitHub.
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) message: String,
    pub(crate) errors: Vec<Value>,
}

impl From<Refusal> for EndpointError {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

impl From<FakeGithubError> for EndpointError {
    fn from(error: FakeGithubError) -> Self {
        Self::Internal(error)
    }
}

pub(crate) fn not_found() -> Refusal {
    refusal(404, "Not Found")
}

pub(crate) fn refusal(status: u16, message: impl Into<String>) -> Refusal {
    Refusal {
        status,
        message: message.into(),
        errors: Vec::new(),
    }
}

/// Returns a 422 with the reason in its list of errors, as the endpoints for reviews do.
pub(crate) fn unprocessable(reason: &str) -> Refusal {
    Refusal {
        status: 422,
        message: "Unprocessable Entity".into(),
        errors: vec![reason.into()],
    }
}

impl Refusal {
    pub(crate) fn into_response(self) -> Response {
        let mut body = json!({
            "message": self.message,
            "documentation_url": "https://docs.github.com/rest",
            "status": self.status.to_string(),
        });
        if !self.errors.is_empty()
            && let Some(body) = body.as_object_mut()
        {
            body.insert("errors".into(), self.errors.into());
        }
        Response::json(self.status, &body)
    }
}

impl Response {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::new(
            status,
            "application/json; charset=utf-8",
            body.to_string().into_bytes(),
        )
    }

    pub(crate) fn new(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body,
        }
        .with("Content-Type", content_type)
        .with(
            "Date",
            clock::now().format("%a, %d %b %Y %H:%M:%S GMT").to_string(),
        )
        .with("Server", "github.com")
    }

    /// Sets a header, replacing any other of the same name.
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn status_text(&self) -> &'static str {
        match self.status {
            200 => "OK",
            201 => "Created",
            202 => "Accepted",
            204 => "No Content",
            301 => "Moved Permanently",
            302 => "Found",
            304 => "Not Modified",
            303 => "See Other",
            307 => "Temporary Redirect",
            308 => "Permanent Redirect",
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            406 => "Not Acceptable",
            409 => "Conflict",
            410 => "Gone",
            415 => "Unsupported Media Type",
            422 => "Unprocessable Entity",
            429 => "Too Many Requests",
            451 => "Unavailable For Legal Reasons",
            500 => "Internal Server Error",
            501 => "Not Implemented",
            502 => "Bad Gateway",
            503 => "Service Unavailable",
            504 => "Gateway Timeout",
            _ => "",
        }
    }
}

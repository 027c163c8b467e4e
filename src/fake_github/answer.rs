//! What GitHub answers, and its ways of refusing.

use serde_json::{Value, json};

use super::ForgeError;
use crate::clock;

#[derive(Debug, Clone)]
pub(super) struct FakeAnswer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// What an endpoint has found or made.
pub(super) enum Reply {
    One(Value),
    /// Something new, at this address.
    Made(Value, String),
    List(Vec<Value>),
}

/// Why an endpoint has nothing to say.
pub(super) enum Stop {
    Refused(Refusal),
    /// GitHub would know this; the stand-in does not.
    Unknown(String),
    Failed(ForgeError),
}

pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) message: String,
    pub(super) errors: Vec<Value>,
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<ForgeError> for Stop {
    fn from(error: ForgeError) -> Self {
        Self::Failed(error)
    }
}

pub(super) fn not_found() -> Refusal {
    refusal(404, "Not Found")
}

pub(super) fn refusal(status: u16, message: impl Into<String>) -> Refusal {
    Refusal {
        status,
        message: message.into(),
        errors: Vec::new(),
    }
}

/// A 422 whose reason is in its list of errors, as the endpoints of reviews have it.
pub(super) fn unprocessable(reason: &str) -> Refusal {
    Refusal {
        status: 422,
        message: "Unprocessable Entity".into(),
        errors: vec![reason.into()],
    }
}

impl Refusal {
    pub(super) fn answer(self) -> FakeAnswer {
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
        FakeAnswer::json(self.status, &body)
    }
}

impl FakeAnswer {
    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self::new(
            status,
            "application/json; charset=utf-8",
            body.to_string().into_bytes(),
        )
    }

    pub(super) fn new(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body,
        }
        .with("Content-Type", content_type)
        .with(
            "Date",
            clock::now()
                .utc()
                .format("%a, %d %b %Y %H:%M:%S GMT")
                .to_string(),
        )
        .with("Server", "github.com")
    }

    /// With this header, and no other of its name.
    pub(super) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub(super) fn status_text(&self) -> &'static str {
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

//! A model on loopback: Anthropic's Messages API as far as Claude Code uses it, with responses from
//! the test.
//!
//! One thread per connection, HTTP/1.1 with keep-alive, responses as a stream of events.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// Request to the model.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The texts of all user messages, from people or from remand.
    pub(crate) prompt: String,
    /// All text of the request, including the agent's own prompts to the model.
    pub(crate) everything: String,
    /// Results of tools, in order.
    pub(crate) results: Vec<String>,
    /// Headers, in lower case.
    pub(crate) headers: String,
    /// Names of the available tools.
    pub(crate) tools: Vec<String>,
}

/// Response of the model.
pub(crate) enum Reply {
    Says(String),
    /// Tools with their input.
    Uses(Vec<(&'static str, Value)>),
    /// An error, with headers.
    Refuses {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: Value,
    },
    /// Nothing, until the client gives up.
    Silence,
}

/// Maximum number of requests, more than any test needs.
const MOST_ASKED: usize = 100;

type Script = dyn Fn(&Asked) -> Reply + Send + Sync;

pub(crate) struct Model {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Model {
    /// Starts the server, which runs until the test ends.
    pub(crate) fn new(script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (script, seen): (Arc<Script>, _) = (Arc::new(script), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, seen) = (Arc::clone(&script), Arc::clone(&seen));
                // A client that has gone is not a problem.
                std::thread::spawn(move || serve(stream, &*script, &seen).ok());
            }
        });
        Self { url, asked }
    }

    /// Returns the URL of a server that does not exist.
    pub(crate) fn nobody() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    }

    /// Returns all requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

pub(crate) fn says(text: impl Into<String>) -> Reply {
    Reply::Says(text.into())
}

pub(crate) fn refuses(status: u16, kind: &str, message: &str) -> Reply {
    let body = json!({ "type": "error", "error": { "type": kind, "message": message } });
    Reply::Refuses {
        status,
        headers: Vec::new(),
        body,
    }
}

fn serve(stream: TcpStream, script: &Script, seen: &Mutex<Vec<Asked>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    while let Some((head, body)) = request(&mut reader)? {
        let target = head.split(' ').nth(1).unwrap_or_default();
        if !target.starts_with("/v1/messages") || target.contains("count_tokens") {
            answer(&mut stream, 200, &[], &json!({ "input_tokens": 1 }))?;
            continue;
        }
        let asked = asked(&head, &body);
        let count = {
            let mut seen = seen.lock().unwrap();
            seen.push(asked.clone());
            seen.len()
        };
        // A script that always responds the same would keep its agent working forever.
        let reply = if count > MOST_ASKED {
            refuses(400, "invalid_request_error", "asked too often")
        } else {
            script(&asked)
        };
        match reply {
            Reply::Refuses {
                status,
                headers,
                body,
            } => answer(&mut stream, status, &headers, &body)?,
            Reply::Silence => {
                // Until the client closes the connection.
                reader.read_to_end(&mut Vec::new())?;
                return Ok(());
            }
            Reply::Says(text) => {
                let block = json!({ "type": "text", "text": "" });
                let delta = json!({ "type": "text_delta", "text": text });
                message(&mut stream, &body, count, &[(block, delta)])?;
            }
            Reply::Uses(calls) => {
                let blocks: Vec<(Value, Value)> = calls
                    .iter()
                    .enumerate()
                    .map(|(at, (name, input))| {
                        let id = format!("toolu_{count}_{at}");
                        let block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
                        (block, json!({ "type": "input_json_delta", "partial_json": input.to_string() }))
                    })
                    .collect();
                message(&mut stream, &body, count, &blocks)?;
            }
        }
    }
    Ok(())
}

/// Reads one request: its head, and its body as JSON. `None` if the client has finished.
fn request(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<(String, Value)>> {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase()
            .strip_prefix("content-length:")
            .map(|n| n.trim().parse().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    Ok(Some((
        head,
        serde_json::from_slice(&body).unwrap_or(Value::Null),
    )))
}

fn asked(head: &str, body: &Value) -> Asked {
    let mut asked = Asked {
        prompt: String::new(),
        everything: all_text(body),
        results: Vec::new(),
        headers: head.to_lowercase(),
        tools: texts(body["tools"].as_array(), "name"),
    };
    for message in body["messages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|message| message["role"] == "user")
    {
        if let Some(text) = message["content"].as_str() {
            asked.prompt.push_str(text);
        }
        for block in message["content"].as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("text") => asked
                    .prompt
                    .push_str(block["text"].as_str().unwrap_or_default()),
                Some("tool_result") => asked.results.push(match block["content"].as_str() {
                    Some(text) => text.to_owned(),
                    None => texts(block["content"].as_array(), "text").join("\n"),
                }),
                _ => {}
            }
        }
    }
    asked
}

fn all_text(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text}\n"),
        Value::Array(list) => list.iter().map(all_text).collect(),
        Value::Object(fields) => fields.values().map(all_text).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

fn texts(list: Option<&Vec<Value>>, key: &str) -> Vec<String> {
    list.into_iter()
        .flatten()
        .filter_map(|one| one[key].as_str().map(str::to_owned))
        .collect()
}

fn answer(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(&str, String)],
    body: &Value,
) -> std::io::Result<()> {
    let body = body.to_string();
    let more: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{more}content-length: {length}\r\n\r\n{body}"
    )
}

fn message(
    stream: &mut TcpStream,
    asked: &Value,
    count: usize,
    blocks: &[(Value, Value)],
) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )?;
    let mut send = |event: Value| {
        let text = format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().unwrap()
        );
        write!(stream, "{:x}\r\n{text}\r\n", text.len())
    };
    let usage = json!({ "input_tokens": 100, "output_tokens": 1, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30 });
    let start = json!({
        "id": format!("msg_{count}"), "type": "message", "role": "assistant", "model": asked["model"], "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    send(json!({ "type": "message_start", "message": start }))?;
    for (at, (block, delta)) in blocks.iter().enumerate() {
        send(json!({ "type": "content_block_start", "index": at, "content_block": block }))?;
        send(json!({ "type": "content_block_delta", "index": at, "delta": delta }))?;
        send(json!({ "type": "content_block_stop", "index": at }))?;
    }
    let uses_tools = blocks.iter().any(|(block, _)| block["type"] == "tool_use");
    let stop = if uses_tools { "tool_use" } else { "end_turn" };
    let end = json!({ "stop_reason": stop, "stop_sequence": null });
    send(json!({ "type": "message_delta", "delta": end, "usage": { "output_tokens": 50 } }))?;
    send(json!({ "type": "message_stop" }))?;
    write!(stream, "0\r\n\r\n")
}

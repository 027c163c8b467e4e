//! The part of HTTP/1.1 that `gh` uses: requests with a length or in chunks, responses in chunks.

use crate::request::Request;
use crate::response::Response;

/// Maximum number of bytes of a request or a chunk.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The result of parsing the bytes received so far.
pub(crate) enum Parse {
    Incomplete,
    /// A request and its length in bytes.
    Request(Request, usize),
    Invalid(&'static str),
}

pub(crate) fn parse(bytes: &[u8]) -> Parse {
    if bytes.len() > MAX_BYTES {
        return Parse::Invalid("the request is too long");
    }
    let Some(end) = find(bytes, b"\r\n\r\n") else {
        return Parse::Incomplete;
    };
    let Ok(head) = std::str::from_utf8(bytes.get(..end).unwrap_or_default()) else {
        return Parse::Invalid("the request head is not UTF-8");
    };
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1"), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Parse::Invalid("the request line is not HTTP/1.1");
    };
    let mut headers = Vec::new();
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            return Parse::Invalid("a header has no colon");
        };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let mut request = Request {
        method: method.into(),
        target: target.into(),
        headers,
        body: Vec::new(),
    };
    let rest = bytes.get(end + 4..).unwrap_or_default();
    let body = if request
        .header("Transfer-Encoding")
        .is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
    {
        decode_chunks(rest)
    } else {
        let length = request
            .header("Content-Length")
            .map_or(Ok(0), str::parse::<usize>);
        match length {
            Ok(length) => rest
                .get(..length)
                .map(|body| (body.to_vec(), length))
                .ok_or(Parse::Incomplete),
            Err(_) => Err(Parse::Invalid("Content-Length is not a number")),
        }
    };
    match body {
        Ok((body, length)) => {
            request.body = body;
            Parse::Request(request, end + 4 + length)
        }
        Err(other) => other,
    }
}

/// Decodes a chunked body, and returns its encoded length too.
fn decode_chunks(bytes: &[u8]) -> Result<(Vec<u8>, usize), Parse> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let end = find(rest, b"\r\n").ok_or(Parse::Incomplete)?;
        let line = std::str::from_utf8(rest.get(..end).unwrap_or_default()).unwrap_or_default();
        let size = line.split(';').next().unwrap_or_default().trim();
        let Ok(size) = usize::from_str_radix(size, 16) else {
            return Err(Parse::Invalid("a chunk has no size"));
        };
        if size > MAX_BYTES {
            return Err(Parse::Invalid("a chunk is too long"));
        }
        let chunk = rest
            .get(end + 2..end + 2 + size + 2)
            .ok_or(Parse::Incomplete)?;
        let Some(data) = chunk.strip_suffix(b"\r\n") else {
            return Err(Parse::Invalid("a chunk is longer than its size"));
        };
        body.extend_from_slice(data);
        at += end + 2 + size + 2;
        if size == 0 {
            return Ok((body, at));
        }
    }
}

/// Encodes a response. It has no length, like GitHub's compressed responses.
pub(crate) fn complete(response: &Response) -> Vec<u8> {
    let mut bytes = head(response);
    if response.status != 304 && response.status != 204 {
        if !response.body.is_empty() {
            bytes.extend(chunk(&response.body));
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
    }
    bytes
}

/// Encodes a response that ends in the middle of its body.
pub(crate) fn truncated(response: &Response) -> Vec<u8> {
    let mut bytes = head(response);
    bytes.extend(chunk(
        response
            .body
            .get(..response.body.len() / 2)
            .unwrap_or_default(),
    ));
    bytes
}

fn head(response: &Response) -> Vec<u8> {
    let mut text = format!(
        "HTTP/1.1 {} {}\r\n",
        response.status,
        response.status_text()
    );
    for (name, value) in &response.headers {
        text = format!("{text}{name}: {value}\r\n");
    }
    if response.status != 304 && response.status != 204 {
        text.push_str("Transfer-Encoding: chunked\r\n");
    }
    text.push_str("\r\n");
    text.into_bytes()
}

fn chunk(data: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{:x}\r\n", data.len()).into_bytes();
    bytes.extend_from_slice(data);
    bytes.extend_from_slice(b"\r\n");
    bytes
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKED: &[u8] = b"POST /x?y HTTP/1.1\r\nHost: api.github.com\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\nGET";

    #[test]
    fn a_chunked_request_is_complete_only_at_its_end() {
        let whole = CHUNKED.len() - 3;
        for length in 0..whole {
            assert!(
                matches!(parse(&CHUNKED[..length]), Parse::Incomplete),
                "{length}"
            );
        }
        let Parse::Request(request, length) = parse(CHUNKED) else {
            panic!("no request")
        };
        assert_eq!(
            (request.method.as_str(), request.target.as_str(), length),
            ("POST", "/x?y", whole)
        );
        assert_eq!(request.body, b"abcde");
    }

    #[test]
    fn invalid_requests_are_refused() {
        for text in [
            "GET /\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
            "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        ] {
            assert!(
                matches!(parse(text.as_bytes()), Parse::Invalid(_)),
                "{text}"
            );
        }
    }
}

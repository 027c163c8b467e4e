//! HTTP/1.1 as far as `gh` speaks it: requests with a length or in chunks, answers in chunks. In memory, with bounds.

use super::answer::FakeAnswer;
use super::request::Request;

/// No request that remand has reason to make is longer.
pub(super) const MOST: usize = 4 * 1024 * 1024;

/// What the bytes that have come so far are.
pub(super) enum Read {
    More,
    /// A request, and how many bytes it took.
    Request(Request, usize),
    Bad(&'static str),
}

pub(super) fn read(bytes: &[u8]) -> Read {
    if bytes.len() > MOST {
        return Read::Bad("the request is too long");
    }
    let Some(end) = find(bytes, b"\r\n\r\n") else {
        return Read::More;
    };
    let Ok(head) = std::str::from_utf8(bytes.get(..end).unwrap_or_default()) else {
        return Read::Bad("its head is not UTF-8");
    };
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1"), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Read::Bad("its first line is not of HTTP/1.1");
    };
    let mut headers = Vec::new();
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            return Read::Bad("a header has no colon");
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
        .is_some_and(|how| how.eq_ignore_ascii_case("chunked"))
    {
        chunks(rest)
    } else {
        let length = request
            .header("Content-Length")
            .map_or(Ok(0), str::parse::<usize>);
        match length {
            Ok(length) => rest
                .get(..length)
                .map(|body| (body.to_vec(), length))
                .ok_or(Read::More),
            Err(_) => Err(Read::Bad("its length is not a number")),
        }
    };
    match body {
        Ok((body, taken)) => {
            request.body = body;
            Read::Request(request, end + 4 + taken)
        }
        Err(not_yet) => not_yet,
    }
}

/// The body behind chunks, and how many bytes they took.
fn chunks(bytes: &[u8]) -> Result<(Vec<u8>, usize), Read> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let end = find(rest, b"\r\n").ok_or(Read::More)?;
        let line = std::str::from_utf8(rest.get(..end).unwrap_or_default()).unwrap_or_default();
        let size = line.split(';').next().unwrap_or_default().trim();
        let Ok(size) = usize::from_str_radix(size, 16) else {
            return Err(Read::Bad("a chunk has no size"));
        };
        if size > MOST {
            return Err(Read::Bad("a chunk is too long"));
        }
        let chunk = rest.get(end + 2..end + 2 + size + 2).ok_or(Read::More)?;
        let Some(data) = chunk.strip_suffix(b"\r\n") else {
            return Err(Read::Bad("a chunk does not end where it says"));
        };
        body.extend_from_slice(data);
        at += end + 2 + size + 2;
        if size == 0 {
            return Ok((body, at));
        }
    }
}

/// An answer, whole. In chunks, as GitHub's compressed answers have no length either.
pub(super) fn whole(answer: &FakeAnswer) -> Vec<u8> {
    let mut bytes = head(answer);
    if answer.status != 304 && answer.status != 204 {
        if !answer.body.is_empty() {
            bytes.extend(chunk(&answer.body));
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
    }
    bytes
}

/// An answer that breaks off in the middle of its body.
pub(super) fn cut(answer: &FakeAnswer) -> Vec<u8> {
    let mut bytes = head(answer);
    bytes.extend(chunk(
        answer.body.get(..answer.body.len() / 2).unwrap_or_default(),
    ));
    bytes
}

fn head(answer: &FakeAnswer) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {} {}\r\n", answer.status, answer.status_text());
    for (name, value) in &answer.headers {
        text = format!("{text}{name}: {value}\r\n");
    }
    if answer.status != 304 && answer.status != 204 {
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
    fn a_request_in_chunks_is_whole_only_at_its_end() {
        let whole = CHUNKED.len() - 3;
        for length in 0..whole {
            assert!(matches!(read(&CHUNKED[..length]), Read::More), "{length}");
        }
        let Read::Request(request, taken) = read(CHUNKED) else {
            panic!("no request")
        };
        assert_eq!(
            (request.method.as_str(), request.target.as_str(), taken),
            ("POST", "/x?y", whole)
        );
        assert_eq!(request.body, b"abcde");
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for text in [
            "GET /\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
            "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        ] {
            assert!(matches!(read(text.as_bytes()), Read::Bad(_)), "{text}");
        }
    }
}

//! The arguments of `gh api` that the stand-in accepts.

use std::io::{self, Read as _};

use crate::FakeGithubError;
use crate::request::Request;

/// Arguments of `gh api`.
#[derive(Debug, Default)]
pub(crate) struct ApiArgs {
    target: String,
    method: Option<String>,
    headers: Vec<(String, String)>,
    pub(crate) include_headers: bool,
    pub(crate) is_silent: bool,
    pub(crate) allows_escapes: bool,
    reads_stdin: bool,
}

impl ApiArgs {
    /// Returns the argument that is not supported as an error.
    pub(crate) fn parse(args: &[&str]) -> Result<Self, String> {
        let mut parsed = Self::default();
        let mut args = args.iter().copied();
        while let Some(arg) = args.next() {
            let (flag, attached) = match arg.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag, Some(value)),
                _ => (arg, None),
            };
            let mut value = || {
                attached
                    .or_else(|| args.next())
                    .ok_or_else(|| format!("`{flag}` without a value"))
            };
            match flag {
                "-i" | "--include" => parsed.include_headers = true,
                "--silent" => parsed.is_silent = true,
                "--allow-escape-sequences" => parsed.allows_escapes = true,
                "-X" | "--method" => parsed.method = Some(value()?.to_uppercase()),
                "-H" | "--header" => {
                    let header = value()?;
                    let (name, value) = header
                        .split_once(':')
                        .ok_or_else(|| format!("the header `{header}`"))?;
                    parsed
                        .headers
                        .push((name.trim().to_owned(), value.trim().to_owned()));
                }
                "--input" if value()? == "-" => parsed.reads_stdin = true,
                "--hostname" if value()? == "github.com" => {}
                _ if arg.starts_with('-') || !parsed.target.is_empty() => {
                    return Err(format!("`{arg}`"));
                }
                _ => parsed.target = arg.to_owned(),
            }
        }
        if parsed.target.is_empty() {
            Err("`gh api` without an endpoint".into())
        } else {
            Ok(parsed)
        }
    }

    /// Builds the request, with the body from stdin.
    pub(crate) fn request(&self) -> Result<Request, FakeGithubError> {
        let mut body = Vec::new();
        if self.reads_stdin {
            io::stdin()
                .read_to_end(&mut body)
                .map_err(FakeGithubError::system("read stdin"))?;
        }
        let default = if self.reads_stdin { "POST" } else { "GET" };
        let method = self.method.clone().unwrap_or_else(|| default.into());
        Ok(Request {
            method,
            target: self.target.clone(),
            headers: self.headers.clone(),
            body,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_arguments_are_refused() {
        let parsed = ApiArgs::parse(&[
            "-i",
            "--method=put",
            "-H",
            "Accept: x/y",
            "--input",
            "-",
            "user",
        ])
        .unwrap();
        assert_eq!(
            (parsed.method.as_deref(), parsed.target.as_str()),
            (Some("PUT"), "user")
        );
        assert_eq!(parsed.headers, [("Accept".to_owned(), "x/y".to_owned())]);
        for args in [
            &["user", "-f", "a=b"][..],
            &["--paginate", "user"],
            &["user", "other"],
            &["--input", "body.json", "user"],
            &["--hostname", "example.org", "user"],
            &["-H"],
            &["-i"],
        ] {
            assert!(ApiArgs::parse(args).is_err(), "{args:?}");
        }
    }
}

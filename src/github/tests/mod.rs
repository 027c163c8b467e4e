//! A script in place of gh that refuses all unknown arguments and responds from files.

mod calls;
mod classes;
mod cuts;
mod models;
mod new_pulls;
mod pages;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use super::Github;
use crate::pull_request::{Author, AuthorKind};

/// Responds with `<path>.out`, `<path>.err` and `<path>.exit`, or runs `<path>.sh`; with "not
/// modified" if the given ETag is the one in the response. `asked` has a line for each call, `body`
/// the last input on stdin.
const SCRIPT: &str = r#"
refuse() { echo "unknown argument: $1" >&2; exit 99; }
[ "$1" = leading ] || refuse "$1"
[ "$2" = api ] || refuse "$2"
shift 2
method= path= etag= head= accept= version= input=
while [ $# -gt 0 ]; do
    case "$1" in
    -i) head=yes ;;
    -X) method=$2; shift ;;
    -H)
        case "$2" in
        'Accept: application/vnd.github+json') accept=yes ;;
        'X-GitHub-Api-Version: 2022-11-28') version=yes ;;
        'If-None-Match: '*) etag=${2#If-None-Match: } ;;
        *) refuse "$2" ;;
        esac
        shift ;;
    --input) [ "$2" = - ] || refuse "$2"; input=yes; shift ;;
    -*) refuse "$1" ;;
    *) [ -z "$path" ] || refuse "$1"; path=$1 ;;
    esac
    shift
done
[ "$head$accept$version" = yesyesyes ] || refuse headers
case "$method$input" in GET | POSTyes | PUTyes | PATCHyes) ;; *) refuse "$method$input" ;; esac
[ -z "$input" ] || cat > "$BED/body"
echo "$method $path $etag" >> "$BED/asked"
name=$BED/$(printf %s "$path" | tr '/?&=' '____')
[ ! -f "$name.sh" ] || . "$name.sh"
if [ ! -f "$name.out" ]; then
    printf 'HTTP/2.0 404 Not Found\n\r\n{"message":"Not Found"}'
    echo 'gh: Not Found (HTTP 404)' >&2
    exit 1
fi
if [ -n "$etag" ] && grep -qiF "etag: $etag" "$name.out"; then
    printf 'HTTP/2.0 304 Not Modified\nEtag: %s\r\n\r\n' "$etag"
    echo 'gh: HTTP 304' >&2
    exit 1
fi
[ ! -f "$name.err" ] || cat "$name.err" >&2
cat "$name.out"
[ ! -f "$name.exit" ] || exit "$(cat "$name.exit")"
"#;

struct Bed {
    dir: TempDir,
    github: Github,
}

impl Bed {
    fn new() -> Self {
        Self::with(Duration::from_secs(60), &[])
    }

    fn with(limit: Duration, more: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("gh.sh");
        fs::write(&script, SCRIPT).unwrap();
        let argv = ["/bin/sh", script.to_str().unwrap(), "leading"]
            .map(str::to_owned)
            .to_vec();
        let mut env: BTreeMap<String, String> = BTreeMap::new();
        env.insert("PATH".to_owned(), "/usr/bin:/bin".to_owned());
        env.insert("BED".to_owned(), dir.path().to_str().unwrap().to_owned());
        env.extend(
            more.iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        let github = Github::new(argv, env, limit, dir.path().to_owned());
        Self { dir, github }
    }

    fn file(&self, path: &str, extension: &str) -> PathBuf {
        self.dir.path().join(format!(
            "{}.{extension}",
            path.replace(['/', '?', '&', '='], "_")
        ))
    }

    /// Prepares a 200 response with this ETag and a JSON body.
    fn answer(&self, path: &str, etag: &str, body: &str) {
        let out = format!("HTTP/2.0 200 OK\nEtag: {etag}\r\n\r\n{body}");
        fs::write(self.file(path, "out"), out).unwrap();
    }

    fn raw(&self, path: &str, out: &[u8], err: &str, exit: i32) {
        fs::write(self.file(path, "out"), out).unwrap();
        fs::write(self.file(path, "err"), err).unwrap();
        fs::write(self.file(path, "exit"), exit.to_string()).unwrap();
    }

    fn script(&self, path: &str, script: &str) {
        fs::write(self.file(path, "sh"), script).unwrap();
    }

    /// Returns the requests since the last call.
    fn asked(&self) -> Vec<String> {
        let file = self.dir.path().join("asked");
        let lines = fs::read_to_string(&file)
            .unwrap_or_default()
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect();
        fs::write(file, "").unwrap();
        lines
    }

    fn body(&self) -> serde_json::Value {
        serde_json::from_slice(&fs::read(self.dir.path().join("body")).unwrap()).unwrap()
    }
}

fn ann() -> Author {
    Author {
        id: 42,
        login: "ann".to_owned(),
        kind: AuthorKind::User,
    }
}

/// Output recorded from real versions of gh (2.23, 2.46 and 2.102, byte for byte the same).
fn recorded(name: &str) -> Vec<u8> {
    fs::read(format!(
        "{}/src/github/tests/recorded/{name}.http",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap()
}

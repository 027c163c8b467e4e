//! Tests for text that is a secret and text that only looks like one. The values are made up, and
//! concatenated so that other scanners do not report this file.

use super::*;

const NOISE: &str = "0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7RzYxW";

fn kinds(text: &str) -> Vec<&'static str> {
    find(text.as_bytes())
        .into_iter()
        .map(|found| found.kind)
        .collect()
}

#[test]
fn each_kind_is_found() {
    let key = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    for (text, kind) in [
        (format!("token = ghp_{NOISE}"), "a GitHub token"),
        (format!("ghs_{NOISE}"), "a GitHub token"),
        (format!("\"github_pat_{NOISE}_{NOISE}\""), "a GitHub token"),
        (format!("sk-ant-api03-{NOISE}"), "an Anthropic key"),
        (format!("OPENAI=sk-proj-{NOISE}"), "an API key"),
        (format!("xoxb-12345-{NOISE}"), "a Slack token"),
        (
            format!("id: {}{}", "AKIA", "Q7R2M5X9T3B8K1LD"),
            "an AWS key",
        ),
        (
            format!("-----BEGIN RSA PRIVATE KEY-----\n{key}\n"),
            "a private key",
        ),
        (
            format!("-----BEGIN OPENSSH PRIVATE KEY-----\\n{key}"),
            "a private key",
        ),
        (
            format!("-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: x\n\n{key}"),
            "a private key",
        ),
        (
            format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{NOISE}"),
            "a JSON web token",
        ),
        (
            format!("postgres://app:{}@db.internal/x", "s3cR3t-Pa55"),
            "a URL with a password",
        ),
    ] {
        assert_eq!(kinds(&text), [kind], "{text}");
        assert_eq!(kinds(&format!("\0\u{1}{text}\0")), [kind], "in a binary");
        let hidden = hide(&format!("a {text} b"));
        assert!(
            hidden.contains("***") && !hidden.contains(NOISE) && !hidden.contains("s3cR3t"),
            "{hidden}"
        );
        assert!(
            hidden.starts_with("a ") && hidden.ends_with(" b"),
            "{hidden}"
        );
    }
}

#[test]
fn what_only_looks_like_one() {
    for text in [
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "ghp_000000000000000000000000000000000000",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "ghp_your_token_goes_here_0a1B2c3D4e5F6g7H",
        "ghp_short",
        "AKIAIOSFODNN7EXAMPLE",
        "AKIAIOSFODNN",
        "TAKIAQ7R2M5X9T3B8K1LD",
        "task-list-of-things-that-are-to-be-done-by-somebody-2026",
        "sk-a-class-name-that-is-rather-long-but-no-key-at-all-0",
        "if text.contains(\"-----BEGIN PRIVATE KEY-----\") { return }",
        "-----BEGIN RSA PRIVATE KEY-----\n...\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj",
        "postgres://postgres:postgres@localhost:5432/x",
        "postgres://user:password@db:5432/x",
        "https://${USER}:${PASSWORD}@host.internal/",
        "https://user:<password>@host.internal/",
        "ssh://git@github.com:22/o/r",
        "http://[::1]:8080/@x",
        "eyJhbGciOiJIUzI1NiJ9.x.y",
        "https://example.com/a:b@c",
        "",
    ] {
        assert_eq!(kinds(text), Vec::<&str>::new(), "{text}");
    }
}

#[test]
fn all_of_them_and_each_once() {
    let two = format!("ghp_{NOISE} and ghp_{NOISE}");
    assert_eq!(find(two.as_bytes()).len(), 2);
    assert_eq!(find(two.as_bytes())[0].at, 0..44);
}

proptest::proptest! {
    #[test]
    fn anything_can_be_looked_at(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        find(&bytes);
    }

    #[test]
    fn nothing_that_is_found_is_left_after_hiding(before in ".{0,20}", after in ".{0,20}", tail in "[A-Za-z0-9]{36,60}") {
        let hidden = hide(&format!("{before}ghp_{tail}{after}"));
        assert!(is_placeholder(tail.as_bytes()) || !hidden.contains(&tail), "{hidden}");
    }
}

//! The rate limit last reported by the forge, and cached permissions.

use std::time::Duration;

use serde::Serialize;

use crate::blackboard::Result;
use crate::blackboard::sql::{Connection, impl_from_row, params};
use crate::clock::Time;
use crate::pull_request::{Author, Permission};

/// Rate limit as it was last reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Rate {
    pub(crate) allowed: i64,
    pub(crate) remaining: i64,
    pub(crate) resets_at: Time,
    pub(crate) seen_at: Time,
}

pub(crate) fn rate(conn: &Connection) -> Result<Option<Rate>> {
    conn.find("SELECT * FROM rate WHERE id = 1", &[])
}

impl_from_row! { row => Rate { allowed, remaining, resets_at, seen_at } }

pub(crate) fn set_rate(conn: &Connection, rate: &Rate) -> Result<()> {
    conn.run(
        "INSERT INTO rate (id, allowed, remaining, resets_at, seen_at) VALUES (1, :allowed, :remaining, :resets_at, :seen_at)
         ON CONFLICT (id) DO UPDATE SET allowed = :allowed, remaining = :remaining, resets_at = :resets_at, seen_at = :seen_at",
        params! { rate.{ allowed, remaining, resets_at, seen_at } },
    )
}

/// Returns the permission of an account, if the forge was asked within `holds`.
pub(crate) fn known_permission(
    conn: &Connection,
    repo: &str,
    author_id: i64,
    holds: Duration,
    now: Time,
) -> Result<Option<Permission>> {
    let found = conn.optional(
        "SELECT permission, asked_at FROM permissions WHERE repo = :repo AND author_id = :id",
        params! { repo, id: author_id },
        |row| {
            Ok((
                row.get::<Permission>("permission")?,
                row.get::<Time>("asked_at")?,
            ))
        },
    )?;
    Ok(found
        .filter(|(_, asked)| *asked <= now && now < asked.plus(holds))
        .map(|(permission, _)| permission))
}

pub(crate) fn set_permission(
    conn: &Connection,
    repo: &str,
    author: &Author,
    permission: Permission,
    now: Time,
) -> Result<()> {
    conn.run(
        "INSERT INTO permissions (repo, author_id, login, permission, asked_at)
         VALUES (:repo, :id, :login, :permission, :now)
         ON CONFLICT (repo, author_id) DO UPDATE SET login = :login, permission = :permission, asked_at = :now",
        params! { repo, id: author.id, login: author.login, permission, now },
    )
}

//! The unit for systemd.
//!
//! Settings that seem to be missing are explained: whatever confines the daemon also confines its
//! agents, and those have to build, test and create sandboxes themselves.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{MARK, Scope, Unfit, UnitSpec, fit};

/// State directory of a system unit.
const STATE: &str = "/var/lib/remand";

/// Directories covered by `ProtectHome`.
const HOMES: [&str; 3] = ["/home", "/root", "/run/user"];

pub(super) fn unit(wish: &UnitSpec) -> Result<String, Unfit> {
    let edit = match wish.scope {
        Scope::User => "systemctl --user edit remand",
        Scope::System { .. } => "systemctl edit remand",
    };
    let mut text = format!(
        "# {MARK}; the next one overwrites this file. Changes made with\n# `{edit}` are kept.\n\n"
    );
    text.push_str("[Unit]\nDescription=remand: sends rejected work back to a coding agent\n");
    if wish.scope != Scope::User {
        text.push_str("After=network-online.target\nWants=network-online.target\n");
    }
    text.push_str("\n[Service]\n");
    text.push_str(&how_to_run(wish)?);
    text.push_str(EVERYWHERE);
    match &wish.scope {
        Scope::User => text.push_str(AS_A_USER),
        Scope::System { run_as } => text.push_str(&for_the_machine(wish, run_as)?),
    }
    let target = if wish.scope == Scope::User {
        "default.target"
    } else {
        "multi-user.target"
    };
    Ok(format!("{text}\n[Install]\nWantedBy={target}\n"))
}

fn how_to_run(wish: &UnitSpec) -> Result<String, Unfit> {
    let program = wish.program.to_string_lossy();
    // However they are escaped: "Executable name contains special characters". All others are fine.
    if program.contains(['\'', '"', '\\']) {
        return Err(Unfit::Program {
            program: wish.program.clone(),
        });
    }
    let mut words = vec![quoted(&program)?];
    for arg in &wish.args {
        // In the path of the program itself, a dollar sign has no special meaning.
        words.push(quoted(arg)?.replace('$', "$$"));
    }
    // Used literally, except for percent signs.
    let environment = fit(&wish.environment.to_string_lossy())?.replace('%', "%%");
    let (exec, path, stop_s) = (
        words.join(" "),
        quoted(&format!("PATH={}", wish.path))?,
        wish.stop_s,
    );
    Ok(format!(
        "# Only the daemon itself reports readiness; messages from agents are ignored.
Type=notify
NotifyAccess=main
ExecStart={exec}
ExecReload=kill -HUP $MAINPID
Environment={path}
# Optional: NAME=value lines with the credentials of agents. It must be readable only by its owner (chmod 600).
EnvironmentFile=-{environment}
Restart=on-failure
RestartSec=5
# 2 and 3: usage or configuration error, which a restart cannot fix. 5: another daemon uses the blackboard, or the
# database was removed or replaced while the daemon ran, and a restart would create an empty one.
RestartPreventExitStatus=2 3 5
# Notified after each successful heartbeat and write to the blackboard.
WatchdogSec=60
# dispatch.stop_grace_s, limits.grace_s, and some time to restore worktrees.
TimeoutStopSec={stop_s}
# The daemon stops its agents in an orderly way; processes that are left are killed.
KillMode=mixed
# An agent that runs out of memory must not stop the daemon.
OOMPolicy=continue
"
    ))
}

const EVERYWHERE: &str = "UMask=0077
LimitCORE=0
NoNewPrivileges=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
LockPersonality=yes
SystemCallArchitectures=native
# AF_NETLINK: agents list the addresses of the machine.
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
# @mount: bubblewrap creates the sandboxes of agents. The rest: some agents create their own sandbox.
SystemCallFilter=@system-service @mount seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self
SystemCallErrorNumber=EPERM

# Deliberately not set:
#   MemoryDenyWriteExecute: agents use Node and other just-in-time compilers.
#   RestrictNamespaces, PrivateUsers: bubblewrap creates namespaces.
#   PrivateNetwork, IPAddressDeny: agents connect to their models, git and gh to GitHub.
#   ProtectKernelTunables, ProtectKernelLogs, ProtectHostname, ProcSubset: each covers a part of /proc, and the kernel then
#     refuses to mount /proc in a sandbox (\"Can't mount proc\").
#   ProtectProc: it hides the supervisors of agents from the daemon, which would consider them dead.
#   SystemCallFilter=ptrace: only debuggers and leak checkers in gates need it; add it if you use them.
#   Delegate: remand does not create control groups.
";

const AS_A_USER: &str =
    "#   ProtectSystem, ProtectHome, PrivateTmp, PrivateDevices and others: they need root.
";

fn for_the_machine(wish: &UnitSpec, run_as: &str) -> Result<String, Unfit> {
    let user = quoted(run_as)?;
    let mut text = format!(
        "
# This user must exist and be logged in to GitHub: `sudo -u {run_as} gh auth login`. Do not put tokens into this file.
User={user}
StateDirectory=remand
StateDirectoryMode=0700
TasksMax=2048
CapabilityBoundingSet=
AmbientCapabilities=
PrivateMounts=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
ProtectClock=yes
RemoveIPC=yes
KeyringMode=private

# Everything else is read-only. The paths come from the settings and the projects: after adding a project, run
# `remand service install` again (`remand service status` reports when that is needed).
ProtectSystem=strict
"
    );
    // The root would make everything writable, and it contains every other path.
    let below_root = wish.writable.iter().filter(|path| *path != Path::new("/"));
    let writable = outermost(below_root);
    let is_hidden = |path: &Path| HOMES.iter().any(|home| path.starts_with(home));
    let within = |path: &Path| writable.iter().any(|outer| path.starts_with(outer));
    let mut seen = outermost(&wish.readable);
    seen.retain(|path| is_hidden(path) && !within(path));
    let (bound, mut open): (Vec<_>, Vec<_>) =
        writable.iter().copied().partition(|path| is_hidden(path));
    open.retain(|path| !path.starts_with(STATE));
    let mut line = |key: &str, paths: &[&PathBuf]| -> Result<(), Unfit> {
        for path in paths {
            // A directory that does not exist yet must not prevent the start.
            let word = quoted(&format!("-{}", path.display()))?;
            // In these settings a colon separates a path from its mount point.
            let word = if key.starts_with("Bind") {
                word.replace(':', "\\:")
            } else {
                word
            };
            text.push_str(&format!("{key}={word}\n"));
        }
        Ok(())
    };
    line("ReadWritePaths", &open)?;
    line("BindPaths", &bound)?;
    line("BindReadOnlyPaths", &seen)?;
    let homes = if bound.is_empty() && seen.is_empty() {
        "yes"
    } else {
        "tmpfs"
    };
    Ok(format!("{text}ProtectHome={homes}\n"))
}

/// Removes duplicates and paths that are inside others.
fn outermost<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Vec<&'a PathBuf> {
    let mut outer: Vec<&PathBuf> = Vec::new();
    for path in paths.into_iter().collect::<BTreeSet<_>>() {
        if !outer.iter().any(|known| path.starts_with(known)) {
            outer.push(path);
        }
    }
    outer
}

/// Quotes one word of a value: quotes, backslashes and percent signs are special to systemd.
fn quoted(word: &str) -> Result<String, Unfit> {
    let word = fit(word)?
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@,%".contains(c);
    Ok(
        if !word.is_empty() && !word.starts_with("PATH=") && word.chars().all(is_plain) {
            word
        } else {
            format!("\"{word}\"")
        },
    )
}

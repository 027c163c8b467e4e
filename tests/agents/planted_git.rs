//! Commands that an agent plants in git's configuration and that remand's git would start: in a
//! sandbox they reach neither the home directory nor the network, and no process that they start
//! survives. SAFETY S7, S-rules on confinement.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::play::Script;
use crate::support::pull_play::{PullPlay, rejecting};
use crate::support::{skip, wait_for};

const CANARY: &str = "canary-of-the-forge";

const BUBBLEWRAP: &str = "[sandbox]\nkind = \"bubblewrap\"\nread = [\"~/.gitconfig\"]\n";

/// Tries to leave the sandbox and reports what worked, then passes its input on as a filter does.
/// The report is next to the script, which is in the repository that the agent can write.
fn escape(home: &Path, port: u16) -> String {
    format!(
        r#"#!/bin/bash
report=$(dirname "$0")/report
echo ran >>"$report"
cat '{home}/.config/gh/hosts.yml' >>"$report" 2>/dev/null
env | grep '{CANARY}' >>"$report"
git config --global credential.helper '!echo planted' 2>/dev/null && echo configured >>"$report"
(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo connected >>"$report"
setsid env -i /bin/bash -c 'exec -a outlives-{port} sleep 300' >/dev/null 2>&1 </dev/null &
exec cat
"#,
        home = home.display()
    )
}

/// A forge's token in the home directory, a local server, and a script that tries to reach them.
struct Trap {
    stage: PullPlay,
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl Trap {
    fn new(test: &str, fixer: &str) -> Option<Self> {
        let trial = Command::new("bwrap")
            .args(["--unshare-all", "--ro-bind", "/", "/", "true"])
            .output();
        if !trial.is_ok_and(|output| output.status.success()) {
            skip(
                test,
                "bubblewrap (bwrap) is not installed, or does not work here",
            );
            return None;
        }
        let stage = PullPlay::new(&Script {
            fixer,
            tables: BUBBLEWRAP,
            ..rejecting()
        });
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        std::thread::spawn(move || {
            for _ in server.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        let home = stage.play.world.root().join("home");
        fs::create_dir_all(home.join(".config/gh")).unwrap();
        fs::write(home.join(".config/gh/hosts.yml"), CANARY).unwrap();
        let trap = Self {
            stage,
            port,
            connections,
        };
        let script = trap.script();
        fs::create_dir_all(script.parent().unwrap()).unwrap();
        fs::write(&script, escape(&home, port)).unwrap();
        Command::new("chmod")
            .arg("+x")
            .arg(&script)
            .status()
            .unwrap();
        Some(trap)
    }

    fn script(&self) -> std::path::PathBuf {
        self.stage.play.repo.join(".git/trap/escape")
    }

    fn tick(&self) {
        self.stage.due();
        let mut tick = self.stage.play.world.remand_command(&["tick"]);
        crate::support::run(tick.env("GH_TOKEN", CANARY)).report();
    }

    fn report(&self) -> String {
        fs::read_to_string(self.script().with_file_name("report")).unwrap_or_default()
    }

    #[track_caller]
    fn nothing_got_out(&self) {
        let report = self.report();
        for escape in [CANARY, "configured", "connected"] {
            assert!(!report.contains(escape), "{report}");
        }
        assert_eq!(self.connections.load(Ordering::SeqCst), 0);
        let config =
            fs::read_to_string(self.stage.play.world.root().join("home/.gitconfig")).unwrap();
        assert!(!config.contains("planted"), "{config}");
        let name = format!("outlives-{}", self.port);
        wait_for("nothing that was started lives on", || {
            let processes = fs::read_dir("/proc").unwrap().flatten();
            let mut commands =
                processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
            !commands.any(|command| String::from_utf8_lossy(&command).starts_with(&name))
        });
    }
}

/// An attack that was observed: a filter in the shared configuration, attached by
/// `info/attributes`.
const PLANTS_A_FILTER: &str = r#"cat >/dev/null
    common=$(git rev-parse --path-format=absolute --git-common-dir)
    git config filter.e.clean "$common/trap/escape"
    git config filter.e.smudge "$common/trap/escape"
    git config filter.e.required true
    mkdir -p "$common/info"
    echo '* filter=e' >"$common/info/attributes"
    echo fixed >>work.txt"#;

#[test]
fn a_filter_that_a_confined_agent_plants_does_not_run() {
    let Some(trap) = Trap::new(
        "a_filter_that_a_confined_agent_plants_does_not_run",
        PLANTS_A_FILTER,
    ) else {
        return;
    };
    trap.tick();
    trap.nothing_got_out();
    assert_eq!(trap.report(), "", "the filter ran");
    assert_eq!(
        trap.stage.fixes(),
        (1, 1),
        "{:#?}",
        trap.stage.play.events()
    );
}

/// A filter of the user runs, since files would be damaged without it, and with the same
/// confinement.
#[test]
fn a_filter_of_the_user_s_own_runs_confined() {
    let fixer = "cat >/dev/null\necho fixed >>work.txt";
    let Some(trap) = Trap::new("a_filter_of_the_user_s_own_runs_confined", fixer) else {
        return;
    };
    let (world, script) = (&trap.stage.play.world, trap.script());
    world.git(
        &trap.stage.play.repo,
        &[
            "config",
            "--global",
            "filter.own.clean",
            script.to_str().unwrap(),
        ],
    );
    fs::create_dir_all(trap.stage.play.repo.join(".git/info")).unwrap();
    fs::write(
        trap.stage.play.repo.join(".git/info/attributes"),
        "* filter=own\n",
    )
    .unwrap();
    trap.tick();
    trap.nothing_got_out();
    assert!(
        trap.report().contains("ran"),
        "the user's own filter did not run"
    );
    assert_eq!(
        trap.stage.fixes(),
        (1, 1),
        "{:#?}",
        trap.stage.play.events()
    );
}

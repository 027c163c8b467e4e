//! The service as a person sees it in the journal, in `systemctl status` and after `service
//! install`.

use std::os::unix::fs::MetadataExt as _;
use std::process::Stdio;
use std::time::Duration;

use super::supervisor::Supervisor;
use super::units::{SYSTEMCTL, unit};
use crate::support::World;
use crate::support::play::{Play, Script, WAITS_AND_FIXES};
use crate::support::run;

/// Runs `remand run` with the journal as stderr, until it ends by itself or `until` is in the
/// journal.
fn journal(world: &World, until: &str) -> String {
    let path = world.root().join("journal");
    let file = std::fs::File::create(&path).unwrap();
    let meta = file.metadata().unwrap();
    let mut command = world.remand_command(&["run"]);
    command
        .env("JOURNAL_STREAM", format!("{}:{}", meta.dev(), meta.ino()))
        .stdout(Stdio::null())
        .stderr(file);
    let mut child = command.spawn().unwrap();
    let begun = std::time::Instant::now();
    loop {
        let text = std::fs::read_to_string(&path).unwrap();
        if text.contains(until) || child.try_wait().unwrap().is_some() {
            drop(child.kill());
            child.wait().unwrap();
            return std::fs::read_to_string(&path).unwrap();
        }
        assert!(begun.elapsed() < crate::support::play::PATIENCE, "{text}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_journal_gets_priorities_and_no_second_time() {
    let world = World::new();
    let text = journal(&world, "no agent is set");
    let line = text
        .lines()
        .find(|line| line.contains("there are no projects"))
        .unwrap_or_default();
    assert!(line.starts_with("<4>") && line.contains("WARN"), "{text}");
    assert!(
        line.trim_start_matches("<4>")
            .trim_start()
            .starts_with("WARN"),
        "no time before it: {line}"
    );
    world.config("[dispatch]\nslotz = 3\n");
    let text = journal(&world, "nothing that it prints");
    assert!(
        text.contains("slotz") && text.lines().all(|line| line.starts_with("<3>")),
        "{text}"
    );
    // A stream that does not belong to this process: the variable was inherited.
    let mut command = world.remand_command(&["run"]);
    command.env("JOURNAL_STREAM", "1:1");
    let said = run(&mut command).stderr;
    assert!(!said.contains("<3>"), "{said}");
}

/// Earlier versions had only those of failed items.
#[test]
fn every_escalation_is_one_error_in_the_journal() {
    // A fix that fails, a limit on fixes that the heartbeat detects, and a review that wants a
    // discussion.
    let cases = [
        (
            Script {
                fixer: "cat >/dev/null\n",
                ..Script::default()
            },
            "the agent changed nothing",
            "remand refine c1",
        ),
        (
            Script {
                tables: "[loop]\nmax_fix_cycles = 0\n",
                ..Script::default()
            },
            "c1 exceeded max fix cycles",
            "remand",
        ),
        (
            Script {
                reviewer: "says needs_discussion 'who wants this?'",
                ..Script::default()
            },
            "who wants this?",
            "remand",
        ),
    ];
    for (script, reason, decide) in cases {
        let play = Play::new(&script);
        let text = journal(&play.world, "needs a person");
        let errors: Vec<&str> = text.lines().filter(|line| line.contains("ERROR")).collect();
        assert_eq!(errors.len(), 1, "{text}");
        assert!(
            errors[0].starts_with("<3>") && errors[0].contains("change=c1"),
            "{text}"
        );
        assert!(
            errors[0].contains(reason) && errors[0].contains(decide),
            "{text}"
        );
        assert_eq!(play.state(), "escalated");
    }
}

#[test]
fn the_status_line_follows_the_work() {
    let play = Play::new(&Script {
        fixer: WAITS_AND_FIXES,
        ..Script::default()
    });
    let supervisor = Supervisor::of(&play);
    let daemon = play.daemon_from(supervisor.command(&play, Duration::from_secs(600)));
    play.until("the fixer begins", || !play.noted("began").is_empty());
    supervisor.wait_for(&play, "STATUS=1 item running\n");
    play.let_go("go");
    supervisor.wait_for(&play, "STATUS=idle\n");
    assert!(daemon.stop().success());
}

#[test]
fn run_says_what_is_missing() {
    let world = World::new();
    let text = journal(&world, "no agent is set");
    assert!(
        text.contains("`remand project add PATH`")
            && text.contains("set `agent` and [agents.NAME]"),
        "{text}"
    );
}

#[test]
fn install_names_what_the_unit_will_lack() {
    let world = World::new();
    world.script("systemctl", SYSTEMCTL);
    world.config("agent = \"bot\"\n[agents.bot]\nkind = \"claude\"\n");
    let mut command = world.remand_command(&["service", "install"]);
    command
        .env("ANTHROPIC_API_KEY", "secret-value")
        .env("USER", "ada");
    let said = run(&mut command).ok();
    let file = world.root().join("config/remand/environment");
    assert!(
        said.stderr
            .contains("the service does not inherit ANTHROPIC_API_KEY"),
        "{}",
        said.stderr
    );
    assert!(
        said.stderr.contains(file.to_str().unwrap()),
        "{}",
        said.stderr
    );
    assert!(
        said.stderr
            .contains("`remand service install --with-logins`"),
        "{}",
        said.stderr
    );
    assert!(
        said.stderr.contains("`sudo loginctl enable-linger ada`"),
        "{}",
        said.stderr
    );
    let text = std::fs::read_to_string(unit(&world)).unwrap();
    assert!(
        text.contains(&format!("EnvironmentFile=-{}\n", file.display())),
        "{text}"
    );
    assert!(!text.contains("secret-value"), "{text}");
}

/// systemd's parsing of the quoting is tested by the boot in a virtual machine.
#[test]
fn install_writes_the_logins_to_the_file_that_the_unit_reads() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    world.script("systemctl", SYSTEMCTL);
    world.config("agent = \"bot\"\n[agents.bot]\nkind = \"claude\"\n");
    let file = world.root().join("config/remand/environment");
    let install = |key: &str| {
        let mut command = world.remand_command(&["service", "install", "--with-logins"]);
        run(command.env("ANTHROPIC_API_KEY", key))
    };
    world
        .remand(&["service", "install", "--with-logins"])
        .fails(1, "no login variable");
    assert!(
        !unit(&world).exists(),
        "nothing is installed without what was asked for"
    );
    let said = install(r#"a"b$c\"#).ok();
    assert!(
        said.stdout.contains(file.to_str().unwrap()),
        "{}",
        said.stdout
    );
    assert!(!said.stderr.contains("does not get"), "{}", said.stderr);
    let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let mut text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text, "ANTHROPIC_API_KEY=\"a\\\"b\\$c\\\\\"\n");
    text.push_str("# mine\nOTHER=1\n");
    std::fs::write(&file, text).unwrap();
    install("two").ok();
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "# mine\nOTHER=1\nANTHROPIC_API_KEY=\"two\"\n"
    );
    install("three\nlines").fails(1, "control character");
}

#[test]
fn sudo_gets_its_hints() {
    let world = World::new();
    let mut command = world.remand_command(&["service", "install"]);
    command.env("SUDO_USER", "ada");
    let refused = run(&mut command).fails(2, "would install the service for root");
    assert!(
        refused.stderr.contains("--system") && refused.stderr.contains("omit sudo"),
        "{}",
        refused.stderr
    );
    assert!(!unit(&world).exists());
}

//! Paths that a system unit cannot start or see, reported before anyone notices it from a daemon
//! that does nothing.

use super::units::{SYSTEMCTL, image};
use crate::support::World;

const CI: &str = "ci:x:990:990::/var/lib/ci:/usr/sbin/nologin\n";

/// `PrivateTmp=yes` hides it.
#[test]
fn a_project_below_tmp_is_reported() {
    let world = World::new();
    world.script("systemctl", SYSTEMCTL);
    let root = image(&world, CI);
    let db = root.join("var/lib/remand/blackboard.db");
    std::fs::create_dir_all(db.parent().unwrap()).unwrap();
    for (name, path) in [
        ("calc", "/tmp/calc"),
        ("site", "/var/tmp/site"),
        ("tool", "/srv/tmp/tool"),
    ] {
        let repo = world.repo(name);
        world
            .remand(&[
                "--db",
                db.to_str().unwrap(),
                "project",
                "add",
                repo.to_str().unwrap(),
            ])
            .ok();
        let sql = format!("UPDATE projects SET path = '{path}' WHERE project_id = '{name}'");
        rusqlite::Connection::open(&db)
            .unwrap()
            .execute_batch(&sql)
            .unwrap();
    }
    for command in ["install", "print"] {
        let words = [
            "service",
            command,
            "--system",
            "--root",
            root.to_str().unwrap(),
            "--run-as",
            "ci",
        ];
        let said = world.remand(&words).ok().stderr;
        let said: Vec<&str> = said
            .lines()
            .filter(|line| line.contains("cannot see"))
            .collect();
        assert_eq!(
            said,
            [
                "warning: the service cannot see the project calc in /tmp/calc: its unit has a private /tmp and /var/tmp (PrivateTmp=yes)",
                "warning: the service cannot see the project site in /var/tmp/site: its unit has a private /tmp and /var/tmp (PrivateTmp=yes)",
            ]
        );
    }
    let said = world.remand(&[
        "service",
        "install",
        "--system",
        "--root",
        root.to_str().unwrap(),
        "--run-as",
        "ci",
    ]);
    let hint = "hint: move the repository elsewhere, then run `sudo -u ci remand --db /var/lib/remand/blackboard.db project remove calc`";
    assert!(said.stderr.contains(hint), "{}", said.stderr);
    // A user unit has no private /tmp.
    assert!(
        !world
            .remand(&["service", "print"])
            .ok()
            .stderr
            .contains("warning")
    );
}

#[test]
fn the_unit_of_an_image_starts_the_program_of_the_image() {
    let world = World::new();
    world.script("systemctl", SYSTEMCTL);
    let root = image(&world, CI);
    let words = [
        "service",
        "install",
        "--system",
        "--root",
        root.to_str().unwrap(),
        "--run-as",
        "ci",
    ];
    let install = || {
        let said = world.remand(&words).ok().stderr;
        let text = std::fs::read_to_string(root.join("etc/systemd/system/remand.service")).unwrap();
        let exec = text
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart="))
            .unwrap();
        (exec.split(' ').next().unwrap().to_owned(), said)
    };
    let own = env!("CARGO_BIN_EXE_remand");
    let (program, said) = install();
    assert_eq!(program, own);
    assert!(
        said.contains(&format!(
            "warning: the unit starts {own}, which is not in {}",
            root.display()
        )),
        "{said}"
    );
    assert!(
        said.contains(&format!(
            "hint: install remand as {}",
            root.join("usr/bin/remand").display()
        )),
        "{said}"
    );
    for path in [
        "usr/local/bin/remand",
        "usr/bin/remand",
        own.trim_start_matches('/'),
    ] {
        let file = root.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "").unwrap();
        let (program, said) = install();
        assert_eq!(program, format!("/{path}"));
        assert!(!said.contains("warning"), "{said}");
    }
}

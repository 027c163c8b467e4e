use super::*;

fn wish(scope: Scope) -> UnitSpec {
    UnitSpec {
        scope,
        program: "/opt/my tools/100%/$re;mand".into(),
        args: ["--db", "/srv/50% of $it/b.db", "run"]
            .map(String::from)
            .to_vec(),
        path: "/usr/bin:/opt/a b%/bin".into(),
        environment: "/etc/re mand/100%.env".into(),
        state: "/var/lib/remand".into(),
        writable: [
            "/srv/src",
            "/srv/src/website",
            "/var/lib/remand/worktrees",
            "/home/ada/src 1%",
        ]
        .map(PathBuf::from)
        .to_vec(),
        readable: [
            "/opt/my tools/100%",
            "/home/ada/src 1%/settings",
            "/home/eve/bin",
        ]
        .map(PathBuf::from)
        .to_vec(),
        stop_s: 55,
    }
}

fn system() -> UnitSpec {
    wish(Scope::System {
        run_as: "remand".into(),
    })
}

fn lines<'a>(text: &'a str, keys: &[&str]) -> Vec<&'a str> {
    text.lines()
        .filter(|line| keys.iter().any(|key| line.starts_with(&format!("{key}="))))
        .collect()
}

#[test]
fn what_systemd_would_read_otherwise_is_escaped() {
    let text = text(Kind::Systemd, &wish(Scope::User)).unwrap();
    assert_eq!(
        lines(
            &text,
            &[
                "ExecStart",
                "Environment",
                "EnvironmentFile",
                "TimeoutStopSec"
            ]
        ),
        [
            r#"ExecStart="/opt/my tools/100%%/$re;mand" --db "/srv/50%% of $$it/b.db" run"#,
            r#"Environment="PATH=/usr/bin:/opt/a b%%/bin""#,
            "EnvironmentFile=-/etc/re mand/100%%.env",
            "TimeoutStopSec=55",
        ]
    );
    assert_eq!(
        lines(&text, &["User", "ProtectSystem", "ReadWritePaths"]),
        [""; 0],
        "nothing that a user may not"
    );
}

#[test]
fn what_is_in_a_home_is_shown_and_the_rest_of_it_is_not() {
    let text = text(Kind::Systemd, &system()).unwrap();
    assert_eq!(
        lines(
            &text,
            &[
                "User",
                "ProtectSystem",
                "ReadWritePaths",
                "BindPaths",
                "BindReadOnlyPaths",
                "ProtectHome"
            ]
        ),
        [
            "User=remand",
            "ProtectSystem=strict",
            "ReadWritePaths=-/srv/src",
            r#"BindPaths="-/home/ada/src 1%%""#,
            "BindReadOnlyPaths=-/home/eve/bin",
            "ProtectHome=tmpfs",
        ]
    );
    let plain = UnitSpec {
        writable: vec!["/srv".into()],
        readable: Vec::new(),
        ..system()
    };
    let plain = super::text(Kind::Systemd, &plain).unwrap();
    assert_eq!(
        lines(&plain, &["ReadWritePaths", "ProtectHome"]),
        ["ReadWritePaths=-/srv", "ProtectHome=yes"]
    );
}

/// Verified with the same mounts made by hand: each of them leaves bubblewrap without a /proc, or
/// shims out of sight.
#[test]
fn what_keeps_agents_from_their_sandbox_is_not_set() {
    let keys = [
        "ProtectProc",
        "ProcSubset",
        "ProtectKernelTunables",
        "ProtectKernelLogs",
        "ProtectHostname",
    ];
    for wish in [wish(Scope::User), system()] {
        let text = text(Kind::Systemd, &wish).unwrap();
        assert_eq!(lines(&text, &keys), [""; 0]);
        assert_eq!(
            lines(
                &text,
                &[
                    "RestrictNamespaces",
                    "MemoryDenyWriteExecute",
                    "PrivateNetwork"
                ]
            ),
            [""; 0]
        );
    }
}

#[test]
fn an_installed_text_is_read_back() {
    for kind in [Kind::Systemd, Kind::Launchd] {
        let args = [
            "--config",
            "/srv/a \"b\" & <c>/\\d.toml",
            "--db",
            "/srv/50% of $it/b.db",
            "run",
        ];
        let known = text(
            kind,
            &UnitSpec {
                args: args.map(String::from).to_vec(),
                ..system()
            },
        )
        .unwrap();
        let expected = Installed {
            is_ours: true,
            user: Some("remand".into()),
            program: Some("/opt/my tools/100%/$re;mand".into()),
            config: Some(args[1].into()),
            db: Some(args[3].into()),
            writable: match kind {
                Kind::Systemd => vec!["/srv/src".into(), "/home/ada/src 1%".into()],
                Kind::Launchd => Vec::new(),
            },
        };
        assert_eq!(installed(kind, &known), expected, "{kind:?}");
        assert_eq!(
            installed(kind, &text(kind, &wish(Scope::User)).unwrap()).user,
            None
        );
        assert_eq!(installed(kind, "nothing of ours"), Installed::default());
    }
}

#[test]
fn what_would_begin_a_line_of_its_own_is_refused() {
    for bad in ["/srv/a\nExecStart=/bin/evil", "/srv/\u{0}", "/srv/\u{fffd}"] {
        let wish = UnitSpec {
            args: vec![bad.into()],
            ..system()
        };
        for kind in [Kind::Systemd, Kind::Launchd] {
            assert!(text(kind, &wish).is_err(), "{bad:?}");
        }
        assert!(
            text(
                Kind::Systemd,
                &UnitSpec {
                    writable: vec![bad.into()],
                    ..system()
                }
            )
            .is_err(),
            "{bad:?}"
        );
    }
}

#[test]
fn another_path_is_no_difference_and_all_else_is() {
    for kind in [Kind::Systemd, Kind::Launchd] {
        let known = text(kind, &system()).unwrap();
        assert!(is_ours(&known));
        let elsewhere = text(
            kind,
            &UnitSpec {
                path: "/bin".into(),
                ..system()
            },
        )
        .unwrap();
        assert_ne!(known, elsewhere);
        assert!(is_same(&known, &elsewhere), "{kind:?}");
        let other = text(
            kind,
            &UnitSpec {
                stop_s: 56,
                ..system()
            },
        )
        .unwrap();
        assert!(!is_same(&known, &other), "{kind:?}");
    }
    assert!(!is_ours("[Service]\nExecStart=/bin/true\n"));
}

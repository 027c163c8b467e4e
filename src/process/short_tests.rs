use std::time::Instant;

use super::*;

fn sh(script: &str) -> Short {
    Short {
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        cwd: "/".into(),
        env: BTreeMap::from([("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())]),
        stdin: None,
        limit: Duration::from_secs(30),
        cap: 1000,
        is_wrapped: false,
    }
}

#[tokio::test]
async fn output_status_and_input() {
    let cmd = Short {
        stdin: Some(b"in".to_vec()),
        ..sh("cat; echo err >&2; exit 3")
    };
    let output = short(&cmd).await.unwrap();
    let expected = ShortOutput {
        status: Some(3),
        stdout: b"in".to_vec(),
        stderr: b"err\n".to_vec(),
        truncated: false,
    };
    assert_eq!(output, expected);
    assert_eq!(short(&sh("cat")).await.unwrap().stdout, b"");
    assert_eq!(short(&sh("kill -KILL $$")).await.unwrap().status, None);
}

#[tokio::test]
async fn input_that_is_not_read_is_no_trouble() {
    let cmd = Short {
        stdin: Some(vec![b'x'; 1_000_000]),
        ..sh("echo done")
    };
    assert_eq!(short(&cmd).await.unwrap().stdout, b"done\n");
}

#[tokio::test]
async fn the_environment_is_closed() {
    let cmd = Short {
        program: "/usr/bin/env".into(),
        args: Vec::new(),
        ..sh("")
    };
    assert_eq!(
        short(&cmd).await.unwrap().stdout,
        b"PATH=/usr/local/bin:/usr/bin:/bin\n"
    );
}

#[tokio::test]
async fn more_than_the_cap_is_read_and_dropped() {
    let output = short(&sh("head -c 10000000 /dev/zero; echo end >&2"))
        .await
        .unwrap();
    assert_eq!(
        (
            output.stdout.len(),
            output.stderr.as_slice(),
            output.truncated
        ),
        (1000, &b"end\n"[..], true)
    );
}

#[tokio::test]
async fn the_limit_ends_the_whole_group() {
    let started = Instant::now();
    let cmd = Short {
        limit: Duration::from_millis(200),
        ..sh("trap '' TERM; sleep 300 & sleep 300")
    };
    let error = short(&cmd).await.unwrap_err();
    assert!(matches!(error, ProcessError::TimedOut { .. }), "{error}");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_grandchild_that_holds_stdout_delays_nothing() {
    for script in ["sleep 300 & echo done", "setsid sleep 5 & echo done"] {
        let started = Instant::now();
        assert_eq!(short(&sh(script)).await.unwrap().stdout, b"done\n");
        assert!(started.elapsed() < Duration::from_secs(2), "{script}");
    }
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let missing = short(&Short {
        program: "no-such-git".into(),
        ..sh("")
    })
    .await
    .unwrap_err();
    assert!(
        matches!(missing, ProcessError::NotFound { ref program } if program == "no-such-git"),
        "{missing}"
    );
    let missing = short(&Short {
        program: "/no/such/git".into(),
        ..sh("")
    })
    .await
    .unwrap_err();
    assert!(
        matches!(missing, ProcessError::NotFound { .. }),
        "{missing}"
    );
    let nowhere = short(&Short {
        cwd: "/no/such/folder".into(),
        ..sh("true")
    })
    .await
    .unwrap_err();
    assert!(matches!(nowhere, ProcessError::File { .. }), "{nowhere}");
}

#[test]
fn it_can_run_in_a_task() {
    fn can_move<T: Send>(_: T) {}
    can_move(short(&sh("true")));
}

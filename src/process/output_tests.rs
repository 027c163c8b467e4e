use super::*;

fn keeper(dir: &Path) -> Keeper {
    Keeper::new(dir, Stream::Stdout)
}

#[test]
fn little_output_is_kept_whole() {
    let dir = tempfile::tempdir().unwrap();
    keeper(dir.path()).take(b"one\ntwo\n");
    let kept = read_output(dir.path(), Stream::Stdout).unwrap();
    assert_eq!(
        kept,
        Kept {
            text: "one\ntwo\n".to_owned(),
            bytes_seen: 8,
            bytes_left_out: 0
        }
    );
    assert_eq!(
        read_output(dir.path(), Stream::Stderr).unwrap().bytes_seen,
        0
    );
    assert_eq!(
        read_output(&dir.path().join("none"), Stream::Stdout)
            .unwrap()
            .bytes_seen,
        0
    );
}

#[test]
fn up_to_head_and_tail_nothing_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = vec![b'x'; usize::try_from(HEAD + TAIL).unwrap()];
    keeper(dir.path()).take(&bytes);
    let kept = read_output(dir.path(), Stream::Stdout).unwrap();
    assert_eq!((kept.text.len(), kept.bytes_left_out), (bytes.len(), 0));
}

#[test]
fn of_a_flood_head_and_tail_stay_and_the_disk_stays_small() {
    let dir = tempfile::tempdir().unwrap();
    let mut keeper = keeper(dir.path());
    keeper.take(b"begin ");
    for _ in 0..400 {
        keeper.take(&[b'.'; 50_001]);
    }
    keeper.take(b" end");
    assert!(keeper.trouble().is_none());
    let kept = read_output(dir.path(), Stream::Stdout).unwrap();
    let seen = 400 * 50_001 + 10;
    assert_eq!(
        (kept.bytes_seen, kept.bytes_left_out),
        (seen, seen - HEAD - TAIL)
    );
    assert!(kept.text.starts_with("begin ") && kept.text.ends_with(" end"));
    assert!(
        kept.text
            .contains(&format!("\n[{} bytes left out]\n", kept.bytes_left_out))
    );
    let on_disk: u64 = pieces(dir.path(), Stream::Stdout)
        .unwrap()
        .iter()
        .map(|piece| piece.length)
        .sum();
    assert!(on_disk <= HEAD + TAIL + PIECE, "{on_disk}");
}

#[test]
fn following_gives_each_byte_once_and_no_half_character() {
    let dir = tempfile::tempdir().unwrap();
    let mut keeper = keeper(dir.path());
    let mut follow = Follow::new(dir.path(), Stream::Stdout);
    assert_eq!(follow.more().unwrap(), "");
    let (first, second) = "aé".as_bytes().split_at(2);
    keeper.take(first);
    assert_eq!(follow.more().unwrap(), "a");
    keeper.take(second);
    assert_eq!(follow.more().unwrap(), "é");
    keeper.take(b"\xff\xfe!");
    assert_eq!(follow.more().unwrap(), "\u{fffd}\u{fffd}!");
    assert_eq!(follow.more().unwrap(), "");
}

#[test]
fn following_says_what_it_missed() {
    let dir = tempfile::tempdir().unwrap();
    let mut keeper = keeper(dir.path());
    let mut follow = Follow::new(dir.path(), Stream::Stdout);
    keeper.take(b"x");
    assert_eq!(follow.more().unwrap(), "x");
    for _ in 0..100 {
        keeper.take(&[b'.'; 65_536]);
    }
    let text = follow.more().unwrap();
    assert!(text.contains(" bytes left out]\n"));
    keeper.take(b"y");
    assert_eq!(follow.more().unwrap(), "y");
}

#[test]
fn a_full_disk_stops_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut keeper = Keeper::new(&dir.path().join("not there"), Stream::Stderr);
    keeper.take(&[b'x'; 3_000_000]);
    assert_eq!(keeper.seen(), 3_000_000);
    assert!(keeper.trouble().is_some());
}

#[test]
fn the_end_of_a_character_is_awaited_only_where_one_began() {
    for (bytes, held) in [
        (&b""[..], 0),
        (b"a", 0),
        (b"\xc3", 1),
        (b"\xe2\x82", 2),
        (b"\xe2\x82\xac", 0),
        (b"\xf0\x9f\x98", 3),
        (b"\x80\x80\x80\x80", 0),
        (b"\xff", 0),
    ] {
        assert_eq!(unfinished(bytes), held, "{bytes:?}");
    }
}

use super::*;

/// Makes the next check due.
fn later(log: &mut LogFile) {
    log.looked = Instant::now().checked_sub(2 * CHECK_INTERVAL).unwrap();
}

#[test]
fn file_is_created_for_its_owner_and_appended_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    for (before, after) in [
        (None, "one\n"),
        (Some(""), "one\n"),
        (Some("zero\n"), "zero\none\n"),
        (Some("half of ze"), "half of ze\none\n"),
    ] {
        std::fs::remove_file(&path).ok();
        if let Some(before) = before {
            std::fs::write(&path, before).unwrap();
        }
        let mut log = LogFile::open(&path, Rotation::default()).unwrap();
        log.write_all(b"one\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), after);
        if before.is_none() {
            assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        }
    }
}

#[test]
fn moved_file_is_replaced_between_lines() {
    let folder = tempfile::tempdir().unwrap();
    let (path, moved) = (folder.path().join("a"), folder.path().join("a.1"));
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let mut log = LogFile::open(&path, Rotation::default()).unwrap();
    log.write_all(b"one\n").unwrap();
    std::fs::rename(&path, &moved).unwrap();
    log.write_all(b"two\nthr").unwrap();
    later(&mut log);
    // Not within a line.
    log.write_all(b"ee\n").unwrap();
    assert_eq!(read(&moved), "one\ntwo\nthree\n");
    log.write_all(b"four\n").unwrap();
    assert_eq!(read(&path), "four\n");
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    // Removed, and replaced by another program's file.
    for between in [None, Some("other\n")] {
        std::fs::remove_file(&path).unwrap();
        if let Some(between) = between {
            std::fs::write(&path, between).unwrap();
        }
        later(&mut log);
        log.write_all(b"five\n").unwrap();
        assert_eq!(read(&path), format!("{}five\n", between.unwrap_or("")));
    }
}

#[test]
fn old_file_is_written_if_no_new_one_can_be_created() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let mut log = LogFile::open(&inner.join("a"), Rotation::default()).unwrap();
    std::fs::rename(&inner, folder.path().join("gone")).unwrap();
    later(&mut log);
    log.write_all(b"one\n").unwrap();
    let moved = folder.path().join("gone/a");
    assert_eq!(std::fs::read_to_string(&moved).unwrap(), "one\n");
    std::fs::create_dir(&inner).unwrap();
    later(&mut log);
    log.write_all(b"two\n").unwrap();
    let anew = std::fs::read_to_string(inner.join("a")).unwrap();
    assert_eq!(anew, "two\n");
}

fn rotating(max_bytes: u64) -> Rotation {
    Rotation {
        max_bytes,
        ..Rotation::default()
    }
}

/// The content of the log, all backups before the log itself.
fn all(path: &Path) -> Vec<String> {
    let mut backups = backups::list(path).unwrap();
    backups.reverse();
    let paths = backups.iter().map(|backup| backup.path.clone());
    let paths = paths.chain([path.to_owned()]);
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    paths.map(read).collect()
}

#[test]
fn full_file_is_rotated_between_lines_and_no_line_is_lost() {
    for (before, lines, expected) in [
        ("", "one\ntwo\n", &["one\ntwo\n"][..]),
        ("", "one\ntwo\nsix\n", &["one\ntwo\n", "six\n"]),
        ("zero\n", "one\ntwo\n", &["zero\n", "one\ntwo\n"]),
        ("", "much longer\none\n", &["much longer\n", "one\n"]),
        ("one\n", "much longer\n", &["one\n", "much longer\n"]),
        ("longer already\n", "one\n", &["longer already\n", "one\n"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        if !before.is_empty() {
            std::fs::write(&path, before).unwrap();
        }
        let mut log = LogFile::open(&path, rotating(8)).unwrap();
        log.write_all(lines.as_bytes()).unwrap();
        log.flush().unwrap();
        assert_eq!(all(&path), expected, "{before:?} {lines:?}");
    }
}

#[test]
fn new_file_has_the_mode_of_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let mut log = LogFile::open(&path, rotating(4)).unwrap();
    log.write_all(b"one\n").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    log.write_all(b"two\n").unwrap();
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o640);
    assert_eq!(all(&path), ["one\n", "two\n"]);
}

#[test]
fn file_that_cannot_be_rotated_is_written_further() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let mut log = LogFile::open(&path, rotating(4)).unwrap();
    log.write_all(b"one\n").unwrap();
    // Moved by another program, and not yet noticed.
    std::fs::rename(&path, folder.path().join("moved")).unwrap();
    log.write_all(b"two\n").unwrap();
    let moved = std::fs::read_to_string(folder.path().join("moved")).unwrap();
    assert_eq!(moved, "one\ntwo\n");
    later(&mut log);
    log.rotate_after = None;
    log.write_all(b"six\n").unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "six\n");
}

#[test]
fn rotated_files_are_compressed_and_limited_in_number() {
    use std::io::Read as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let rotation = Rotation {
        max_bytes: 4,
        max_backups: 2,
        max_age: None,
        compress: true,
    };
    for line in ["one\n", "two\n", "six\n", "ten\n"] {
        let mut log = LogFile::open(&path, rotation.clone()).unwrap();
        log.write_all(line.as_bytes()).unwrap();
        log.flush().unwrap();
    }
    let backups = backups::list(&path).unwrap();
    assert!(
        backups.iter().all(|backup| backup.compressed),
        "{backups:?}"
    );
    let read = |path: &Path| {
        let mut text = String::new();
        let mut file = flate2::read::GzDecoder::new(File::open(path).unwrap());
        file.read_to_string(&mut text).unwrap();
        text
    };
    let texts: Vec<_> = backups.iter().map(|backup| read(&backup.path)).collect();
    assert_eq!(texts, ["six\n", "two\n"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "ten\n");
}

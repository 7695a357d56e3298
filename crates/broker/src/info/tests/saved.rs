use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use jiff::Zoned;
use jiff::civil::date;
use jiff::tz::{Offset, TimeZone};
use tempfile::TempDir;

use super::super::save::save_at;
use super::*;

fn at(hours: i8) -> Zoned {
    let zone = TimeZone::fixed(Offset::constant(hours));
    date(2024, 10, 14).at(8, 4, 36, 999).to_zoned(zone).unwrap()
}

fn names(folder: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn r35_file_is_private_and_has_no_newline() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    assert_eq!(save(&path, &full()).unwrap(), Saved { backup: None });
    assert_eq!(fs::read_to_string(&path).unwrap(), FULL);
    assert_eq!(mode(&path), 0o600);
    assert_eq!(BrokerInfo::read(&path).unwrap(), full());
    assert_eq!(names(&folder), [FILE]);
}

#[test]
fn r41_backup_name_contains_the_time() {
    for (hours, name) in [
        (0, "broker-info.subm.2024-10-14T08_04_36Z"),
        (2, "broker-info.subm.2024-10-14T08_04_36+02_00"),
        (-5, "broker-info.subm.2024-10-14T08_04_36-05_00"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        let saved = save_at(&path, &full(), &at(hours)).unwrap();
        let backup = saved.backup.unwrap();
        assert_eq!(backup, folder.path().join(name));
        assert_eq!(fs::read_to_string(&backup).unwrap(), "old");
        assert_eq!(fs::read_to_string(&path).unwrap(), FULL);
        assert_eq!((mode(&path), mode(&backup)), (0o600, 0o600));
        assert_eq!(names(&folder), [FILE, name]);
    }
}

#[test]
fn r41_backups_are_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    for text in ["first", "second", "third"] {
        fs::write(&path, text).unwrap();
        save_at(&path, &full(), &at(0)).unwrap();
        fs::remove_file(&path).unwrap();
    }
    let backups = names(&folder);
    let stamp = "broker-info.subm.2024-10-14T08_04_36Z";
    let expected = [stamp.to_owned(), format!("{stamp}.1"), format!("{stamp}.2")];
    assert_eq!(backups, expected);
    let texts = backups
        .iter()
        .map(|name| fs::read_to_string(folder.path().join(name)).unwrap());
    assert_eq!(texts.collect::<Vec<_>>(), ["first", "second", "third"]);
}

#[test]
fn r67_read_file_may_be_the_written_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    save(&path, &partial()).unwrap();
    let mut info = BrokerInfo::read(&path).unwrap();
    info.ipsec_psk = full().ipsec_psk;
    let backup = save(&path, &info).unwrap().backup.unwrap();
    assert_eq!(BrokerInfo::read(&backup).unwrap(), partial());
    assert_eq!(BrokerInfo::read(&path).unwrap(), info);
}

#[test]
fn failed_write_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let occupied = folder.path().join("d");
    fs::create_dir(&occupied).unwrap();
    let refused = save_at(&occupied, &full(), &at(0)).unwrap_err().to_string();
    assert_eq!(
        refused,
        format!("cannot back up {occupied:?}: is a directory")
    );
    let nowhere = folder.path().join("no/broker-info.subm");
    let refused = save(&nowhere, &full()).unwrap_err().to_string();
    assert!(
        refused.starts_with(&format!("cannot write {nowhere:?}: ")),
        "{refused}"
    );
    assert_eq!(names(&folder), ["d"]);
}

#[test]
fn symbolic_link_is_replaced_and_its_target_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join(FILE), folder.path().join("other"));
    fs::write(&other, "other").unwrap();
    fs::set_permissions(&other, PermissionsExt::from_mode(0o644)).unwrap();
    symlink("other", &path).unwrap();
    let backup = save_at(&path, &full(), &at(0)).unwrap().backup.unwrap();
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
    assert!(fs::symlink_metadata(&backup).unwrap().is_symlink());
    assert_eq!(
        (fs::read_to_string(&other).unwrap().as_str(), mode(&other)),
        ("other", 0o644)
    );
}

#[test]
fn r40_unique_name_contains_tenant_and_time() {
    let id = "acme".parse().unwrap();
    assert_eq!(
        unique_name(&id, &at(2)),
        "broker-info-acme-2024-10-14T08_04_36+02_00.subm"
    );
}

#[test]
fn unreadable_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    let refused = BrokerInfo::read(&path).unwrap_err().to_string();
    assert_eq!(
        refused,
        format!("error reading file {path:?}: No such file or directory (os error 2)")
    );
    fs::write(&path, "geheim!").unwrap();
    let refused = BrokerInfo::read(&path).unwrap_err().to_string();
    assert_eq!(
        refused,
        format!("error decoding data from file {path:?}: it is not base64")
    );
    fs::write(&path, "A".repeat((4 << 20) + 1)).unwrap();
    let refused = BrokerInfo::read(&path).unwrap_err().to_string();
    assert_eq!(
        refused,
        format!("error reading file {path:?}: it has more than 4 MiB")
    );
    let endless = BrokerInfo::read(Path::new("/dev/zero")).unwrap_err();
    assert!(matches!(endless, Error::TooLarge { .. }));
}

//! Ordinary programs on the mounted disk, and its faults.
#![expect(
    clippy::unwrap_used,
    reason = "a failed step fails the test, in its helpers too"
)]

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use insula_testkit::disk::{Disk, Errno, Loss, Op, Rng, Times};

/// Longer than any test takes.
const FOREVER: Duration = Duration::from_secs(3600);

fn named(name: &'static str) -> impl Fn(&Path) -> bool + Send + 'static {
    move |path| path.file_name() == Some(OsStr::new(name))
}

/// The content of a file after a power cut now that loses everything it can.
fn durable(disk: &Disk, path: &str) -> Option<Vec<u8>> {
    let trace = disk.trace();
    let image = trace.cut(trace.len(), Loss::Everything, &mut Rng::new(0));
    image.read(path)
}

#[test]
fn written_bytes_are_read_back() {
    let Some(disk) = Disk::mount() else { return };
    let path = disk.path().join("file");
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    fs::write(&path, &bytes).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes);

    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    file.write_all_at(b"in the middle", 1_500_000).unwrap();
    let mut read = [0; 13];
    file.read_exact_at(&mut read, 1_500_000).unwrap();
    assert_eq!(&read, b"in the middle");
    assert_eq!(fs::metadata(&path).unwrap().len(), 3_000_000);
}

#[test]
fn append_and_set_len_move_the_end() {
    let Some(disk) = Disk::mount() else { return };
    let path = disk.path().join("log");
    for part in ["one ", "two ", "three"] {
        let mut options = OpenOptions::new();
        let mut file = options.append(true).create(true).open(&path).unwrap();
        file.write_all(part.as_bytes()).unwrap();
    }
    assert_eq!(fs::read(&path).unwrap(), b"one two three");

    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    file.set_len(3).unwrap();
    file.set_len(6).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(b"!").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"one\0\0\0!");
    File::create(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"");
}

#[test]
fn exclusive_create_succeeds_once() {
    let Some(disk) = Disk::mount() else { return };
    let path = disk.path().join("once");
    File::create_new(&path).unwrap();
    let error = File::create_new(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    let error = fs::create_dir(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
}

#[test]
fn rename_replaces_the_target() {
    let Some(disk) = Disk::mount() else { return };
    let (new, old) = (disk.path().join("new"), disk.path().join("old"));
    fs::write(&new, "new").unwrap();
    fs::write(&old, "old").unwrap();
    let mut held = File::open(&old).unwrap();
    fs::rename(&new, &old).unwrap();
    assert_eq!(fs::read(&old).unwrap(), b"new");
    assert_eq!(fs::read(&new).unwrap_err().kind(), ErrorKind::NotFound);
    let mut read = String::new();
    held.read_to_string(&mut read).unwrap();
    assert_eq!(read, "old");
}

#[test]
fn removed_file_stays_usable_while_open() {
    let Some(disk) = Disk::mount() else { return };
    let path = disk.path().join("file");
    fs::write(&path, "before").unwrap();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    fs::remove_file(&path).unwrap();
    assert!(!path.exists());
    file.write_all_at(b"after!", 0).unwrap();
    file.sync_all().unwrap();
    let mut read = [0; 6];
    file.read_exact_at(&mut read, 0).unwrap();
    assert_eq!(&read, b"after!");
    assert_eq!(file.metadata().unwrap().len(), 6);
}

#[test]
fn lock_is_exclusive() {
    let Some(disk) = Disk::mount() else { return };
    let path = disk.path().join("LOCK");
    let first = File::create(&path).unwrap();
    let second = File::open(&path).unwrap();
    first.try_lock().unwrap();
    assert!(matches!(second.try_lock(), Err(TryLockError::WouldBlock)));
    drop(first);
    second.try_lock().unwrap();
}

#[test]
fn nested_directories_are_created_moved_and_removed() {
    let Some(disk) = Disk::mount() else { return };
    let deep = disk.path().join("a/b/c");
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("file"), "deep").unwrap();
    let error = fs::remove_dir(disk.path().join("a")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DirectoryNotEmpty);
    fs::rename(disk.path().join("a/b"), disk.path().join("moved")).unwrap();
    let moved = disk.path().join("moved/c/file");
    assert_eq!(fs::read(moved).unwrap(), b"deep");
    File::open(disk.path().join("moved"))
        .unwrap()
        .sync_all()
        .unwrap();
    fs::remove_dir_all(disk.path().join("moved")).unwrap();
    fs::remove_dir(disk.path().join("a")).unwrap();
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 0);
}

#[test]
fn large_directory_is_listed_completely_while_files_are_removed() {
    let Some(disk) = Disk::mount() else { return };
    let dir = disk.path().join("many");
    fs::create_dir(&dir).unwrap();
    for n in 0..3_000 {
        File::create(dir.join(format!("a-rather-long-name-of-file-{n:05}"))).unwrap();
    }
    let mut seen = 0;
    for entry in fs::read_dir(&dir).unwrap() {
        let entry = entry.unwrap();
        assert!(entry.file_type().unwrap().is_file());
        fs::remove_file(entry.path()).unwrap();
        seen += 1;
    }
    assert_eq!(seen, 3_000);
    fs::remove_dir(&dir).unwrap();
}

#[test]
fn trace_has_all_operations_and_marks_in_order() {
    let Some(disk) = Disk::mount() else { return };
    let mut file = File::create(disk.path().join("a")).unwrap();
    file.write_all(b"one").unwrap();
    file.sync_data().unwrap();
    disk.mark(1);
    fs::rename(disk.path().join("a"), disk.path().join("b")).unwrap();
    File::open(disk.path()).unwrap().sync_all().unwrap();
    thread::scope(|scope| scope.spawn(|| disk.mark(2)).join().unwrap());

    let trace = disk.trace();
    let kinds: Vec<_> = trace.ops().iter().map(kind).collect();
    let expected = [
        "create", "write", "syncfile", "mark", "rename", "syncdir", "mark",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(trace.acknowledged_before(6).collect::<Vec<_>>(), [1]);
    assert_eq!(trace.acknowledged_before(7).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((disk.syncs().files, disk.syncs().dirs), (1, 1));
}

fn kind(op: &Op) -> String {
    let debug = format!("{op:?}").to_lowercase();
    let end = debug.find([' ', '(']).unwrap_or(debug.len());
    debug[..end].to_owned()
}

#[test]
fn o_dsync_file_is_synced_by_each_write() {
    let Some(disk) = Disk::mount() else { return };
    // O_DSYNC, as Linux numbers it.
    let mut options = OpenOptions::new();
    options.write(true).create(true).custom_flags(0o10000);
    let mut file = options.open(disk.path().join("file")).unwrap();
    file.write_all(b"one").unwrap();
    file.write_all(b"two").unwrap();
    assert_eq!(disk.syncs().files, 2);
}

#[test]
fn failed_sync_loses_the_data_even_if_a_later_one_succeeds() {
    let Some(disk) = Disk::mount() else { return };
    let mut file = File::create(disk.path().join("log")).unwrap();
    File::open(disk.path()).unwrap().sync_all().unwrap();
    file.write_all(b"first ").unwrap();
    file.sync_all().unwrap();
    disk.fail_sync(named("log"), Errno::EIO, Times::Once);
    file.write_all(b"second ").unwrap();
    let error = file.sync_all().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::EIO as i32));
    file.sync_all().unwrap();
    assert_eq!(
        fs::read(disk.path().join("log")).unwrap(),
        b"first second ",
        "the cache still has it"
    );
    assert_eq!(durable(&disk, "log").unwrap(), b"first ");

    file.write_all(b"third").unwrap();
    file.sync_all().unwrap();
    let expected = b"first \0\0\0\0\0\0\0third";
    assert_eq!(durable(&disk, "log").unwrap(), expected);
}

#[test]
fn sync_can_fail_until_the_disk_is_healed() {
    let Some(disk) = Disk::mount() else { return };
    disk.fail_sync(|_| true, Errno::ENOSPC, Times::Always);
    let file = File::create(disk.path().join("file")).unwrap();
    for _ in 0..3 {
        let error = file.sync_data().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
    }
    let root = File::open(disk.path()).unwrap();
    let error = root.sync_all().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    disk.heal();
    file.sync_data().unwrap();
    assert_eq!((disk.syncs().files, disk.syncs().dirs), (4, 1));
}

#[test]
fn ignored_sync_succeeds_without_durability() {
    let Some(disk) = Disk::mount() else { return };
    disk.ignore_sync(named("liar"));
    for name in ["liar", "honest"] {
        let mut file = File::create(disk.path().join(name)).unwrap();
        file.write_all(b"bytes").unwrap();
        file.sync_all().unwrap();
    }
    File::open(disk.path()).unwrap().sync_all().unwrap();
    assert_eq!(durable(&disk, "liar").unwrap(), b"");
    assert_eq!(durable(&disk, "honest").unwrap(), b"bytes");
}

#[test]
fn ignored_directory_sync_keeps_no_names() {
    let Some(disk) = Disk::mount() else { return };
    disk.ignore_sync(|path| path == Path::new(""));
    let file = File::create(disk.path().join("file")).unwrap();
    file.sync_all().unwrap();
    File::open(disk.path()).unwrap().sync_all().unwrap();
    assert_eq!(durable(&disk, "file"), None);
    disk.heal();
    File::open(disk.path()).unwrap().sync_all().unwrap();
    assert_eq!(durable(&disk, "file").unwrap(), b"");
}

#[test]
fn full_disk_refuses_writes_until_space_is_freed() {
    let Some(disk) = Disk::mount() else { return };
    let (old, new) = (disk.path().join("old"), disk.path().join("new"));
    fs::write(&old, vec![1; 100_000]).unwrap();
    disk.full_after(8_192);
    let file = File::create(&new).unwrap();
    file.write_all_at(&[2; 8_192], 0).unwrap();
    let error = file.write_all_at(&[2], 8_192).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    file.write_all_at(&[3; 100], 500).unwrap();
    assert_eq!(fs::read(&old).unwrap(), vec![1; 100_000]);

    fs::remove_file(&old).unwrap();
    file.write_all_at(&[2; 50_000], 8_192).unwrap();
    file.set_len(0).unwrap();
    assert_eq!(disk.used(), 0);
    disk.set_capacity(0);
    let error = file.write_all_at(b"x", 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    disk.heal();
    file.write_all_at(b"x", 0).unwrap();
}

#[test]
fn hole_reserves_no_space_on_a_full_disk() {
    let Some(disk) = Disk::mount() else { return };
    let file = File::create(disk.path().join("segment")).unwrap();
    disk.set_capacity(4_096);
    file.set_len(1 << 20).unwrap();
    file.write_all_at(b"fits", 0).unwrap();
    let error = file.write_all_at(b"does not", 500_000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
}

#[test]
fn slow_sync_delays_no_other_operation_and_ends_with_the_disk() {
    let Some(disk) = Disk::mount() else { return };
    let slow = File::create(disk.path().join("slow")).unwrap();
    disk.slow_sync(named("slow"), FOREVER);
    let syncing = thread::spawn(move || slow.sync_all());
    for n in 0..100 {
        let mut quick = File::create(disk.path().join(format!("quick-{n}"))).unwrap();
        quick.write_all(b"quick").unwrap();
        quick.sync_all().unwrap();
    }
    assert!(!syncing.is_finished());
    assert_eq!(disk.syncs().files, 100);
    drop(disk);
    // Whether it was answered or aborted, it returned.
    let _: io::Result<()> = syncing.join().unwrap();
}

#[test]
fn slow_sync_takes_the_requested_time() {
    let Some(disk) = Disk::mount() else { return };
    let delay = Duration::from_millis(30);
    disk.slow_sync(|_| true, delay);
    let file = File::create(disk.path().join("file")).unwrap();
    let started = Instant::now();
    file.sync_all().unwrap();
    assert!(started.elapsed() >= delay);
}

#[test]
fn dropped_disk_fails_open_files_and_leaves_no_mount() {
    let Some(disk) = Disk::mount() else { return };
    let path = disk.path().to_owned();
    let file = File::create(path.join("file")).unwrap();
    let writing = thread::spawn(move || {
        loop {
            if let Err(error) = file.write_all_at(b"on and on", 0) {
                return error;
            }
        }
    });
    drop(disk);
    let error = writing.join().unwrap().raw_os_error().map(Errno::from_raw);
    assert!(
        matches!(error, Some(Errno::ENOTCONN | Errno::ECONNABORTED)),
        "{error:?}"
    );
    assert_gone(&path);
}

#[test]
fn panicking_test_leaves_no_mount() {
    let Some(disk) = Disk::mount() else { return };
    let path = disk.path().to_owned();
    let panicked = thread::spawn(move || {
        let _held = File::create(disk.path().join("file")).unwrap();
        std::panic::resume_unwind(Box::new("as a failing test does"));
    });
    panicked.join().unwrap_err();
    assert_gone(&path);
}

/// Set for the child process of the test below: where to write the path of its disk.
const CHILD_PATH_VARIABLE: &str = "INSULA_TESTKIT_DOOMED";

#[test]
fn killed_program_leaves_no_mount() {
    let Some(_disk) = Disk::mount() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path_file = dir.path().join("path");
    let mut child_process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_process"])
        .env(CHILD_PATH_VARIABLE, &path_file)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let path = wait_for(|| {
        fs::read_to_string(&path_file)
            .ok()
            .filter(|p| p.ends_with('\n'))
    });
    let path = Path::new(path.trim_end());
    child_process.kill().unwrap();
    wait_for(|| child_process.try_wait().unwrap());
    // While the mount exists, dead or not, the result differs.
    wait_for(|| matches!(path.try_exists(), Ok(false)).then_some(()));
    assert_gone(path);
}

/// Not a test of its own: the child process that is killed, in the middle of a sync.
#[test]
fn child_process() {
    let Some(path_file) = std::env::var_os(CHILD_PATH_VARIABLE) else {
        return;
    };
    let disk = Disk::mount().unwrap();
    disk.slow_sync(|_| true, FOREVER);
    let file = File::create(disk.path().join("file")).unwrap();
    let slow = file.try_clone().unwrap();
    thread::spawn(move || slow.sync_all());
    fs::write(&path_file, format!("{}\n", disk.path().display())).unwrap();
    // The sync above holds the file, so that this waits for it until the end.
    file.sync_all().unwrap();
}

fn wait_for<T>(mut value: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        if let Some(value) = value() {
            return value;
        }
        thread::park_timeout(Duration::from_millis(5));
    }
    panic!("it did not come in 30 seconds");
}

#[test]
fn temporary_file_is_persisted_over_another() {
    let Some(disk) = Disk::mount() else { return };
    let current = disk.path().join("current");
    for version in ["one", "two"] {
        let mut file = tempfile::NamedTempFile::new_in(disk.path()).unwrap();
        file.write_all(version.as_bytes()).unwrap();
        file.persist(&current).unwrap();
    }
    assert_eq!(fs::read(&current).unwrap(), b"two");
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 1);
}

fn assert_gone(path: &Path) {
    assert!(!path.exists());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(path.to_str().unwrap()), "{mounts}");
}

#[test]
fn image_can_be_laid_out_on_a_disk_and_cut_again() {
    let Some(first) = Disk::mount() else { return };
    fs::create_dir(first.path().join("dir")).unwrap();
    fs::write(first.path().join("dir/file"), vec![9; 70_000]).unwrap();
    let trace = first.trace();
    let image = trace.cut(trace.len(), Loss::Nothing, &mut Rng::new(0));

    let second = Disk::mount().unwrap();
    image.write_to(second.path()).unwrap();
    assert_eq!(durable(&second, "dir/file"), None);
    second.make_durable();
    assert_eq!(durable(&second, "dir/file").unwrap(), vec![9; 70_000]);
}

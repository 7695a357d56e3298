//! The rules of a power cut, each with values. No disk is mounted here.
#![expect(
    clippy::unwrap_used,
    reason = "a failed step fails the test, in its helpers too"
)]

use std::collections::BTreeSet;
use std::ffi::OsStr;

use bytes::Bytes;
use insula_testkit::disk::{Effect, Image, Inode, Loss, Op, Place, Rng, Trace};

const ROOT: Inode = Inode::ROOT;
const FILE: Inode = Inode(2);
const OTHER: Inode = Inode(3);
const DIR: Inode = Inode(4);

/// Enough seeds that everything possible happens.
const SEEDS: u64 = 2_000;

fn at(parent: Inode, name: &str) -> Place {
    let name = OsStr::new(name).into();
    Place { parent, name }
}

fn create(inode: Inode, name: &str) -> Op {
    let place = at(ROOT, name);
    Op::Create { place, inode }
}

fn mkdir(inode: Inode, name: &str) -> Op {
    let place = at(ROOT, name);
    Op::Mkdir { place, inode }
}

fn unlink(inode: Inode, name: &str) -> Op {
    let place = at(ROOT, name);
    Op::Unlink { place, inode }
}

fn rename(inode: Inode, from: Place, to: Place) -> Op {
    Op::Rename { from, to, inode }
}

fn write(offset: u64, data: &[u8]) -> Op {
    let data = Bytes::copy_from_slice(data);
    let inode = FILE;
    Op::Write {
        inode,
        offset,
        data,
    }
}

fn truncate(len: u64) -> Op {
    Op::Truncate { inode: FILE, len }
}

fn sync(inode: Inode) -> Op {
    let effect = Effect::Durable;
    Op::SyncFile { inode, effect }
}

fn sync_dir(inode: Inode) -> Op {
    let effect = Effect::Durable;
    Op::SyncDir { inode, effect }
}

/// A trace with an existing empty file, followed by `ops`.
fn file_then(ops: impl IntoIterator<Item = Op>) -> Trace {
    let mut all = vec![create(FILE, "file"), sync_dir(ROOT)];
    all.extend(ops);
    all.into()
}

fn images(trace: &Trace) -> impl Iterator<Item = Image> + '_ {
    (0..SEEDS).map(|seed| {
        let mut rng = Rng::new(seed);
        let loss = Loss::pick(&mut rng);
        trace.cut(trace.len(), loss, &mut rng)
    })
}

/// Every content of the file after some cut.
fn contents(trace: &Trace) -> BTreeSet<Vec<u8>> {
    let read = |image: Image| image.read("file").unwrap();
    images(trace).map(read).collect()
}

/// Every list of names after some cut.
fn listings(trace: &Trace) -> BTreeSet<Vec<String>> {
    let names = |image: Image| {
        let names = image.paths().map(|path| path.to_str().unwrap().to_owned());
        names.collect()
    };
    images(trace).map(names).collect()
}

fn set<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    items.into_iter().collect()
}

fn names(lists: &[&[&str]]) -> BTreeSet<Vec<String>> {
    let owned = |list: &&[&str]| list.iter().map(|name| (*name).to_owned()).collect();
    lists.iter().map(owned).collect()
}

/// Three sectors, each of one letter.
fn sectors(letters: &[u8]) -> Vec<u8> {
    letters.iter().flat_map(|letter| [*letter; 512]).collect()
}

#[test]
fn synced_data_survives_every_cut() {
    let trace = file_then([write(0, &sectors(b"abc")), sync(FILE)]);
    assert_eq!(contents(&trace), set([sectors(b"abc")]));
}

#[test]
fn unsynced_overwrite_is_kept_lost_torn_or_reordered() {
    let trace = file_then([
        write(0, &sectors(b"abc")),
        sync(FILE),
        write(0, &sectors(b"ABC")),
    ]);
    let found = contents(&trace);
    let expected = ["abc", "abC", "aBc", "aBC", "Abc", "AbC", "ABc", "ABC"];
    assert_eq!(found, set(expected.map(|s| sectors(s.as_bytes()))));
}

#[test]
fn later_write_can_survive_a_lost_earlier_one() {
    let trace = file_then([
        write(0, &sectors(b"ab")),
        sync(FILE),
        write(0, &sectors(b"A")),
        write(512, &sectors(b"B")),
    ]);
    assert!(contents(&trace).contains(&sectors(b"aB")));
}

#[test]
fn unsynced_append_leaves_the_old_end_zeros_or_the_bytes() {
    let trace = file_then([write(0, &sectors(b"a")), sync(FILE), write(512, b"tail")]);
    let with = |tail: &[u8]| [&sectors(b"a"), tail].concat();
    let expected = set([with(b""), with(b"\0\0\0\0"), with(b"tail")]);
    assert_eq!(contents(&trace), expected);
}

#[test]
fn of_two_writes_to_one_sector_the_later_never_survives_alone() {
    let trace = file_then([
        write(0, &[b'-'; 8]),
        sync(FILE),
        write(0, b"one"),
        write(4, b"two"),
    ]);
    let expected = set(["--------", "one-----", "one-two-"].map(|s| s.as_bytes().to_vec()));
    assert_eq!(contents(&trace), expected);
}

#[test]
fn unsynced_truncation_is_kept_or_lost() {
    let trace = file_then([write(0, &sectors(b"ab")), sync(FILE), truncate(3)]);
    // The rest of the last sector may be zeroed before the disk knows the new length.
    let zeroed = [b"aaa".to_vec(), vec![0; 509], sectors(b"b")].concat();
    let expected = set([sectors(b"ab"), b"aaa".to_vec(), zeroed]);
    assert_eq!(contents(&trace), expected);
}

#[test]
fn bytes_before_a_truncation_never_reappear() {
    let trace = file_then([
        write(0, &sectors(b"abc")),
        sync(FILE),
        truncate(0),
        write(0, &sectors(b"X")),
        truncate(1536),
    ]);
    // The old file completely, or the new one as far as it got: never a mixture.
    let expected = set([
        sectors(b"abc"),
        sectors(b""),
        sectors(b"X"),
        sectors(b"\0"),
        sectors(b"X\0\0"),
        sectors(b"\0\0\0"),
    ]);
    assert_eq!(contents(&trace), expected);
}

#[test]
fn preallocated_space_is_durable_after_the_next_sync() {
    let trace = file_then([truncate(2048), sync(FILE), write(512, &sectors(b"r"))]);
    let expected = set([sectors(b"\0\0\0\0"), sectors(b"\0r\0\0")]);
    assert_eq!(contents(&trace), expected);
}

#[test]
fn metadata_kept_and_data_lost_gives_zeros_of_full_length() {
    let trace: Trace = vec![create(FILE, "file"), write(0, &sectors(b"ab"))].into();
    let image = trace.cut(trace.len(), Loss::Data, &mut Rng::new(1));
    assert_eq!(image.read("file").unwrap(), sectors(b"\0\0"));
}

#[test]
fn synced_file_with_an_unsynced_name_can_vanish() {
    let trace: Trace = vec![create(FILE, "file"), write(0, b"x"), sync(FILE)].into();
    assert_eq!(listings(&trace), names(&[&[], &["file"]]));
}

#[test]
fn unsynced_removal_can_be_undone_with_the_bytes() {
    let trace = file_then([write(0, b"kept"), sync(FILE), unlink(FILE, "file")]);
    assert_eq!(listings(&trace), names(&[&[], &["file"]]));
    let image = trace.cut(trace.len(), Loss::Everything, &mut Rng::new(1));
    assert_eq!(image.read("file").unwrap(), b"kept");
}

#[test]
fn names_of_one_directory_survive_in_order() {
    let trace: Trace = vec![create(FILE, "a"), create(OTHER, "b"), unlink(FILE, "a")].into();
    let expected = names(&[&[], &["a"], &["a", "b"], &["b"]]);
    assert_eq!(listings(&trace), expected);
}

#[test]
fn names_of_two_directories_survive_independently() {
    let mut ops = vec![mkdir(DIR, "dir"), sync_dir(ROOT)];
    let place = at(DIR, "inner");
    ops.push(Op::Create { place, inode: FILE });
    ops.push(create(OTHER, "outer"));
    let expected = names(&[
        &["dir"],
        &["dir", "dir/inner"],
        &["dir", "outer"],
        &["dir", "dir/inner", "outer"],
    ]);
    assert_eq!(listings(&ops.into()), expected);
}

#[test]
fn unsynced_replacing_rename_is_atomic() {
    let trace: Trace = vec![
        create(FILE, "current"),
        write(0, b"old"),
        sync(FILE),
        sync_dir(ROOT),
        create(OTHER, "tmp"),
        sync(OTHER),
        rename(OTHER, at(ROOT, "tmp"), at(ROOT, "current")),
    ]
    .into();
    let expected = names(&[&["current"], &["current", "tmp"]]);
    assert_eq!(listings(&trace), expected);
    for (seed, image) in images(&trace).enumerate() {
        let current = image.read("current").unwrap();
        assert!(current == b"old" || current.is_empty(), "seed {seed}");
        if current.is_empty() {
            assert!(!image.holds("tmp"), "seed {seed}: it has both names");
        }
    }
}

#[test]
fn synced_file_with_a_synced_rename_survives_under_its_new_name() {
    let trace: Trace = vec![
        create(FILE, "tmp"),
        write(0, b"bytes"),
        sync(FILE),
        rename(FILE, at(ROOT, "tmp"), at(ROOT, "file")),
        sync_dir(ROOT),
    ]
    .into();
    assert_eq!(contents(&trace), set([b"bytes".to_vec()]));
    assert_eq!(listings(&trace), names(&[&["file"]]));
}

#[test]
fn move_between_directories_happens_in_both_or_in_none() {
    let moved = rename(FILE, at(ROOT, "file"), at(DIR, "file"));
    let mut ops = vec![create(FILE, "file"), mkdir(DIR, "dir"), sync_dir(ROOT)];
    ops.extend([create(OTHER, "before"), moved]);
    let expected = names(&[
        &["dir", "file"],
        &["before", "dir", "file"],
        &["before", "dir", "dir/file"],
    ]);
    assert_eq!(listings(&ops.clone().into()), expected);

    ops.push(sync_dir(DIR));
    let expected = names(&[&["before", "dir", "dir/file"]]);
    assert_eq!(listings(&ops.into()), expected);
}

#[test]
fn failed_directory_sync_drops_its_changes_for_good() {
    let effect = Effect::Dropped;
    let failed = Op::SyncDir {
        inode: ROOT,
        effect,
    };
    let trace: Trace = vec![
        create(FILE, "a"),
        failed,
        create(OTHER, "b"),
        sync_dir(ROOT),
    ]
    .into();
    assert_eq!(listings(&trace), names(&[&["b"]]));
}

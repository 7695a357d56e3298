//! A minimal append log: zero-filled segments of fixed size, each named by its first revision.
//!
//! A group is one frame: length, checksum, first revision, writes. The first frame that does not
//! check out ends its segment: it was never acknowledged.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use anyhow::{Context, Result, ensure};
use xxhash_rust::xxh3::xxh3_64;

const SEGMENT_BYTES: usize = 16 << 20;
/// Length (4), checksum (8) and first revision (8).
const HEADER_BYTES: usize = 20;
/// The part of the header that the checksum does not cover.
const UNCHECKED_BYTES: usize = 12;

/// The writes of one commit, framed for the log.
pub struct Group {
    bytes: Vec<u8>,
}

impl Group {
    pub fn new(first_revision: u64) -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[UNCHECKED_BYTES..].copy_from_slice(&first_revision.to_be_bytes());
        Self { bytes }
    }

    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.bytes.extend(u16::try_from(key.len())?.to_be_bytes());
        self.bytes.extend(u32::try_from(value.len())?.to_be_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        Ok(())
    }

    /// Revision, key and value of every write.
    pub fn writes(&self) -> impl Iterator<Item = (u64, &[u8], &[u8])> {
        let mut revision = self.first_revision();
        let mut rest = &self.bytes[HEADER_BYTES..];
        std::iter::from_fn(move || {
            let (key_len, tail) = rest.split_first_chunk::<2>()?;
            let (value_len, tail) = tail.split_first_chunk::<4>()?;
            let (key, tail) = tail.split_at_checked(usize::from(u16::from_be_bytes(*key_len)))?;
            let value_len = usize::try_from(u32::from_be_bytes(*value_len)).ok()?;
            let (value, tail) = tail.split_at_checked(value_len)?;
            rest = tail;
            revision += 1;
            Some((revision - 1, key, value))
        })
    }

    fn first_revision(&self) -> u64 {
        let mut revision = [0; 8];
        revision.copy_from_slice(&self.bytes[UNCHECKED_BYTES..HEADER_BYTES]);
        u64::from_be_bytes(revision)
    }

    fn seal(&mut self) -> Result<&[u8]> {
        let len = u32::try_from(self.bytes.len())?;
        let checksum = xxh3_64(&self.bytes[UNCHECKED_BYTES..]);
        self.bytes[..4].copy_from_slice(&len.to_be_bytes());
        self.bytes[4..UNCHECKED_BYTES].copy_from_slice(&checksum.to_be_bytes());
        Ok(&self.bytes)
    }

    /// The frame at the start of these bytes, if it is whole.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (len, tail) = bytes.split_first_chunk::<4>()?;
        let (checksum, _) = tail.split_first_chunk::<8>()?;
        let frame = bytes.get(..usize::try_from(u32::from_be_bytes(*len)).ok()?)?;
        let whole = frame.len() >= HEADER_BYTES
            && xxh3_64(&frame[UNCHECKED_BYTES..]) == u64::from_be_bytes(*checksum);
        whole.then(|| Self {
            bytes: frame.to_vec(),
        })
    }
}

pub struct Log {
    dir: PathBuf,
    /// The segment being written and how full it is.
    current: Option<(File, usize)>,
    /// Absent once the preparing thread is told to end.
    spares: Option<Receiver<Result<PathBuf>>>,
    preparer: Option<JoinHandle<()>>,
    syncs: u64,
}

impl Log {
    /// A log that starts a new segment with its first append.
    pub fn open(dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir)?;
        let (sender, spares) = sync_channel(0);
        let spare_dir = dir.to_path_buf();
        let preparer = std::thread::spawn(move || {
            for number in 0.. {
                let path = spare_dir.join(format!("{number}.spare"));
                let prepared = prepare(&path).map(|()| path);
                if sender.send(prepared).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            dir: dir.to_path_buf(),
            current: None,
            spares: Some(spares),
            preparer: Some(preparer),
            syncs: 0,
        })
    }

    /// Writes a group and makes it durable.
    pub fn append(&mut self, group: &mut Group) -> Result<()> {
        let first_revision = group.first_revision();
        let frame = group.seal()?;
        ensure!(frame.len() <= SEGMENT_BYTES, "group larger than a segment");
        let fits =
            |(_, filled): &(File, usize)| filled.saturating_add(frame.len()) <= SEGMENT_BYTES;
        if !self.current.as_ref().is_some_and(fits) {
            self.current = Some((self.next_segment(first_revision)?, 0));
        }
        let (file, filled) = self.current.as_mut().context("no segment")?;
        file.write_all_at(frame, u64::try_from(*filled)?)?;
        file.sync_data()?;
        *filled += frame.len();
        self.syncs += 1;
        Ok(())
    }

    pub fn syncs(&self) -> u64 {
        self.syncs
    }

    /// Deletes every segment but the one being written.
    pub fn discard(&mut self) -> Result<()> {
        let mut all = segments(&self.dir)?;
        all.pop();
        for segment in all {
            std::fs::remove_file(segment.path)?;
        }
        Ok(())
    }

    fn next_segment(&mut self, first_revision: u64) -> Result<File> {
        let spares = self.spares.as_ref().context("the log is closed")?;
        let spare = spares.recv().context("no thread prepares segments")??;
        let path = self.dir.join(format!("{first_revision:020}.log"));
        std::fs::rename(spare, &path)?;
        File::open(&self.dir)?.sync_all()?;
        self.syncs += 1;
        Ok(OpenOptions::new().write(true).open(path)?)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.spares = None;
        if let Some(Err(_)) = self.preparer.take().map(JoinHandle::join) {
            eprintln!("the thread that prepares segments panicked");
        }
    }
}

pub struct Segment {
    first_revision: u64,
    pub path: PathBuf,
}

/// All segments, oldest first.
pub fn segments(dir: &Path) -> Result<Vec<Segment>> {
    let mut found = Vec::new();
    if !dir.exists() {
        return Ok(found);
    }
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let first_revision = stem.context("segment without a name")?.parse()?;
            found.push(Segment {
                first_revision,
                path,
            });
        }
    }
    found.sort_by_key(|segment| segment.first_revision);
    Ok(found)
}

/// The groups that may hold revisions above this one.
pub fn read_after(dir: &Path, revision: u64) -> Result<impl Iterator<Item = Result<Group>>> {
    let all = segments(dir)?;
    let older = all.partition_point(|segment| segment.first_revision <= revision + 1);
    let needed = all.into_iter().skip(older.saturating_sub(1));
    Ok(
        needed.flat_map(|segment| match std::fs::read(&segment.path) {
            Ok(bytes) => Frames { bytes, offset: 0 }.map(Ok).collect(),
            Err(error) => vec![Err(error.into())],
        }),
    )
}

struct Frames {
    bytes: Vec<u8>,
    offset: usize,
}

impl Iterator for Frames {
    type Item = Group;

    fn next(&mut self) -> Option<Group> {
        let group = Group::parse(self.bytes.get(self.offset..)?)?;
        self.offset += group.bytes.len();
        Some(group)
    }
}

/// Writes zeros, so that a sync of later writes has no metadata to carry.
fn prepare(path: &Path) -> Result<()> {
    let mut file = File::create(path)?;
    let zeros = vec![0; 1 << 20];
    for _ in 0..SEGMENT_BYTES / zeros.len() {
        file.write_all(&zeros)?;
    }
    Ok(file.sync_all()?)
}

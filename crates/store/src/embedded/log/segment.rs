//! One log file: created completely before use, read frame by frame.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bytes::Bytes;
use insula_core::Revision;

use super::format::{ALIGNMENT, FRAME_HEADER_BYTES, FrameHeader, HEADER_BYTES, Header};
use crate::embedded::folder::sync_folder;
use crate::permissions::create_file;
use crate::{Error, Result};

/// The unit in which zeros are written.
const ZEROS: usize = 256 << 10;

/// A complete log file: its header is valid and all of its blocks are allocated.
#[derive(Debug)]
pub(super) struct Segment {
    pub sequence: u64,
    pub path: PathBuf,
    pub size: u64,
    pub salt: u64,
    /// The first revision in it, once there is one.
    pub first: OnceLock<Revision>,
}

/// A decoded frame.
pub(super) struct Frame {
    pub first: Revision,
    pub body: Bytes,
    /// The offset of the next frame.
    pub end: u64,
}

impl Segment {
    pub fn file_name(sequence: u64) -> String {
        format!("{sequence:016}.log")
    }

    /// The sequence number in a file name made by [`Self::file_name`].
    pub fn parse_name(name: &str) -> Option<u64> {
        let sequence = name.strip_suffix(".log")?.parse().ok()?;
        (Self::file_name(sequence) == name).then_some(sequence)
    }

    /// Creates a segment in `folder`.
    ///
    /// Its blocks are filled with zeros and synced under another name first. So the file is
    /// complete once it has its name, the disk cannot fill up in the middle of a write to it, and
    /// the sync of such a write has no metadata to wait for.
    pub fn create(folder: &Path, sequence: u64, size: u64) -> io::Result<Self> {
        let path = folder.join(Self::file_name(sequence));
        let making = path.with_extension("making");
        let header = Header {
            salt: random_salt(),
            size,
        };
        let made = write_complete(&making, header).and_then(|()| {
            std::fs::rename(&making, &path)?;
            sync_folder(folder)
        });
        if let Err(error) = made {
            // The disk space matters more than why it cannot be freed.
            std::fs::remove_file(&making).ok();
            return Err(error);
        }
        Ok(Self {
            sequence,
            path,
            size,
            salt: header.salt,
            first: OnceLock::new(),
        })
    }

    /// Opens an existing segment.
    pub fn open(path: PathBuf, sequence: u64) -> Result<Self> {
        let corrupt = |detail: &str| corrupt(&path, detail);
        let mut file = File::open(&path).map_err(|error| unreadable(&path, &error))?;
        let mut head = [0; HEADER_BYTES as usize];
        let length = file.metadata().map_err(|error| unreadable(&path, &error))?;
        file.read_exact(&mut head)
            .map_err(|_| corrupt("it is too short to have a header"))?;
        let Header { salt, size } = Header::decode(&head).map_err(corrupt)?;
        if length.len() != size {
            let found = length.len();
            return Err(corrupt(&format!(
                "it has {found} bytes and was made with {size}"
            )));
        }
        Ok(Self {
            sequence,
            path,
            size,
            salt,
            first: OnceLock::new(),
        })
    }

    pub fn open_for_writing(&self) -> io::Result<File> {
        OpenOptions::new().write(true).read(true).open(&self.path)
    }

    /// Returns the frame at `offset`; `None` if there is no complete one.
    pub fn frame(&self, file: &File, offset: u64) -> io::Result<Option<Frame>> {
        let mut head = [0; FRAME_HEADER_BYTES];
        if offset + FRAME_HEADER_BYTES as u64 > self.size {
            return Ok(None);
        }
        file.read_exact_at(&mut head, offset)?;
        let Some(header) = FrameHeader::decode(&head) else {
            return Ok(None);
        };
        let end = offset + header.frame_bytes() as u64;
        if end > self.size {
            return Ok(None);
        }
        let mut body = vec![0; header.body];
        file.read_exact_at(&mut body, offset + FRAME_HEADER_BYTES as u64)?;
        let frame = Frame {
            first: header.first,
            body: body.into(),
            end,
        };
        Ok(header
            .matches_checksum(self.salt, &frame.body)
            .then_some(frame))
    }

    /// Classifies the bytes after `offset`, where there is no complete frame.
    pub fn rest(&self, file: &File, offset: u64) -> io::Result<Rest> {
        let mut bytes = vec![0; usize::try_from(self.size - offset).unwrap_or(0)];
        file.read_exact_at(&mut bytes, offset)?;
        let Some(last) = bytes.iter().rposition(|byte| *byte != 0) else {
            return Ok(Rest::Clean);
        };
        for at in (ALIGNMENT..=last).step_by(ALIGNMENT) {
            let Some(header) = FrameHeader::decode(&bytes[at..]) else {
                continue;
            };
            let body = bytes[at + FRAME_HEADER_BYTES..].get(..header.body);
            if body.is_some_and(|body| header.matches_checksum(self.salt, body)) {
                return Ok(Rest::Frames { next: header.first });
            }
        }
        let length = last + 1;
        Ok(Rest::Torn { length })
    }
}

/// The content of a segment after its last complete frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Zeros.
    Clean,
    /// The beginning of a frame that was never synced, and nothing behind it.
    Torn { length: usize },
    /// Complete frames: the damage is to synced data.
    Frames { next: Revision },
}

fn write_complete(path: &Path, header: Header) -> io::Result<()> {
    let mut file = create_file(path)?;
    file.write_all(&header.encode())?;
    let zeros = vec![0; ZEROS];
    let mut left = header.size - HEADER_BYTES;
    while left > 0 {
        let piece = left.min(ZEROS as u64);
        file.write_all(&zeros[..usize::try_from(piece).unwrap_or(ZEROS)])?;
        left -= piece;
    }
    file.sync_all()
}

/// Not secret, only unpredictable: the standard library seeds its maps from the operating system's
/// generator.
fn random_salt() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0_u8)
}

pub(super) fn corrupt(path: &Path, detail: &str) -> Error {
    Error::Corrupt {
        file: path.to_path_buf(),
        detail: detail.to_owned(),
    }
}

pub(super) fn unreadable(path: &Path, error: &io::Error) -> Error {
    Error::Unavailable(format!("cannot read {}: {error}", path.display()))
}

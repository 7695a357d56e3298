//! The bytes of one file, in shared pages.

use std::io::{self, IoSlice, Seek, SeekFrom, Write};
use std::sync::Arc;

/// The size of a page: what one small write has to copy, against what a copy has to count.
pub(super) const PAGE: usize = 4096;

/// The longest file, which bounds the table of pages to 32 MiB.
pub(super) const MAX_LEN: u64 = 16 << 30;

/// A file's bytes. Cloning copies the table of pages, never a page.
///
/// Holes read as zeros. Only zeros lie behind `len`, except between [`place`](Content::place) and
/// the [`set_len`](Content::set_len) that must follow it.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    len: u64,
    allocated: usize,
    pages: Vec<Option<Arc<[u8; PAGE]>>>,
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The number of allocated pages, without holes.
    pub(super) fn allocated(&self) -> usize {
        self.allocated
    }

    /// The number of pages that a write to `offset..end` would have to allocate.
    pub(super) fn missing(&self, offset: u64, end: u64) -> usize {
        if offset >= end {
            return 0;
        }
        let touched = offset as usize / PAGE..end.div_ceil(PAGE as u64) as usize;
        touched
            .filter(|&page| self.pages.get(page).is_none_or(Option::is_none))
            .count()
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        self.place(offset, data);
        self.len = self.len.max(offset + data.len() as u64);
    }

    /// Writes without regard to the length, which the caller sets afterwards.
    pub(super) fn place(&mut self, offset: u64, data: &[u8]) {
        let mut at = offset as usize;
        let mut rest = data;
        while !rest.is_empty() {
            let within = at % PAGE;
            let (now, later) = rest.split_at(rest.len().min(PAGE - within));
            self.page_mut(at / PAGE)[within..within + now.len()].copy_from_slice(now);
            at += now.len();
            rest = later;
        }
    }

    /// Allocates every page of `offset..end`.
    pub(super) fn allocate(&mut self, offset: u64, end: u64) {
        for page in offset as usize / PAGE..end.div_ceil(PAGE as u64) as usize {
            self.page_mut(page);
        }
        self.len = self.len.max(end);
    }

    /// Sets the length; bytes behind it become zeros, now and if it grows again.
    pub(super) fn set_len(&mut self, len: u64) {
        self.zero_from(len);
        self.len = len;
    }

    /// Clears all bytes from `offset` on, without changing the length.
    pub(super) fn zero_from(&mut self, offset: u64) {
        let (full, within) = (offset as usize / PAGE, offset as usize % PAGE);
        let kept = (full + usize::from(within > 0)).min(self.pages.len());
        self.allocated -= self.pages.drain(kept..).flatten().count();
        if within > 0
            && let Some(Some(page)) = self.pages.get_mut(full)
        {
            Arc::make_mut(page)[within..].fill(0);
        }
    }

    /// Up to `size` bytes from `offset` on, fewer at the end of the file.
    pub(super) fn read(&self, offset: u64, size: usize) -> Vec<u8> {
        let size = size.min(self.len.saturating_sub(offset) as usize);
        let mut bytes = Vec::with_capacity(size);
        while bytes.len() < size {
            let at = offset as usize + bytes.len();
            let within = at % PAGE;
            let now = (size - bytes.len()).min(PAGE - within);
            match self.pages.get(at / PAGE) {
                Some(Some(page)) => bytes.extend_from_slice(&page[within..within + now]),
                _ => bytes.resize(bytes.len() + now, 0),
            }
        }
        bytes
    }

    /// Writes the bytes to an empty file, holes as holes.
    pub(super) fn write_to(&self, file: &mut std::fs::File) -> io::Result<()> {
        let mut at = 0;
        while at < self.pages.len() {
            let run = self.pages[at..].iter().map_while(Option::as_deref);
            let slices: Vec<_> = run.map(|page| IoSlice::new(page)).collect();
            if !slices.is_empty() {
                file.seek(SeekFrom::Start((at * PAGE) as u64))?;
                write_all(file, &slices)?;
            }
            at += slices.len().max(1);
        }
        file.set_len(self.len)
    }

    fn page_mut(&mut self, page: usize) -> &mut [u8; PAGE] {
        if self.pages.len() <= page {
            self.pages.resize(page + 1, None);
        }
        let allocated = &mut self.allocated;
        Arc::make_mut(self.pages[page].get_or_insert_with(|| {
            *allocated += 1;
            Arc::new([0; PAGE])
        }))
    }
}

fn write_all(file: &mut std::fs::File, pages: &[IoSlice<'_>]) -> io::Result<()> {
    // The kernel accepts at most 1024 slices in one call.
    for some in pages.chunks(1024) {
        let written = file.write_vectored(some)?;
        // A short write stops inside a page: the rest is written page by page.
        let mut skip = written;
        for page in some {
            let done = skip.min(page.len());
            file.write_all(&page[done..])?;
            skip -= done;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Rng;

    #[test]
    fn truncated_bytes_read_as_zeros_after_growth() {
        let mut content = Content::default();
        content.write(0, &[7; 10_000]);
        content.set_len(5_000);
        content.set_len(10_000);
        assert_eq!(content.read(4_998, 4), [7, 7, 0, 0]);
        assert_eq!(content.read(9_999, 10), [0]);
        assert_eq!(content.allocated(), 2);
    }

    #[test]
    fn clone_does_not_see_later_writes() {
        let mut content = Content::default();
        content.write(100, b"before");
        let copy = content.clone();
        content.write(100, b"behind");
        assert_eq!(copy.read(100, 6), b"before");
        assert_eq!(content.read(100, 6), b"behind");
    }

    #[test]
    fn hole_occupies_no_page_until_written() {
        let mut content = Content::default();
        content.set_len(1 << 30);
        assert_eq!(content.allocated(), 0);
        assert_eq!(content.missing(4_095, 4_097), 2);
        content.write(4_095, b"xy");
        assert_eq!((content.allocated(), content.missing(0, 8_192)), (2, 0));
    }

    #[test]
    fn paged_bytes_match_a_plain_vector() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let (mut content, mut plain) = (Content::default(), Vec::new());
            for step in 0..60_u8 {
                let at = rng.below(20_000);
                if rng.below(4) == 0 {
                    content.set_len(at as u64);
                    plain.resize(at, 0);
                } else {
                    let data = vec![step; rng.below(9_000)];
                    content.write(at as u64, &data);
                    plain.resize(plain.len().max(at + data.len()), 0);
                    plain[at..at + data.len()].copy_from_slice(&data);
                }
            }
            assert_eq!(content.read(0, usize::MAX), plain, "seed {seed}");
        }
    }
}

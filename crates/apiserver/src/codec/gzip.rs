//! Compression of response bodies.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

/// Compresses `bytes` at the fastest level, as kube-apiserver does.
pub fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    // Writing to memory cannot fail.
    encoder.write_all(bytes).ok();
    encoder.finish().unwrap_or_default().into()
}

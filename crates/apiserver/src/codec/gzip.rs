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
    let compressed = encoder.finish().unwrap_or_default();
    // A client that does not read keeps the buffer, and is charged for its length only.
    compressed.into_boxed_slice().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_bytes_hold_no_spare_memory() {
        let uniform = vec![b'x'; 4 << 20];
        let random =
            (0..1_u32 << 20).map(|number| number.wrapping_mul(2_654_435_761).to_be_bytes()[0]);
        for text in [uniform, random.collect()] {
            let compressed = gzip(&text);
            let length = compressed.len();
            let capacity = compressed.try_into_mut().unwrap().capacity();
            assert!(capacity <= length + length / 8, "{capacity} for {length}");
        }
    }
}

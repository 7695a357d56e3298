//! The incremental walk through a trace against a simple computation from the start, on random
//! traces.

mod plain;
mod random;

use std::collections::BTreeMap;
use std::path::PathBuf;

use insula_testkit::disk::{Image, Loss, Rng, Trace};

use crate::plain::Plain;

const TRACES: u64 = 60;
const OPS: usize = 60;

/// Every path, with the bytes of the files.
type Tree = BTreeMap<PathBuf, Option<Vec<u8>>>;

fn tree(image: &Image) -> Tree {
    let entry = |path: &std::path::Path| (path.to_owned(), image.read(path));
    image.paths().map(entry).collect()
}

fn traces() -> impl Iterator<Item = (u64, Trace)> {
    (0..TRACES).map(|seed| (seed, random::trace(OPS, &mut Rng::new(seed)).into()))
}

#[test]
fn deterministic_cuts_match_the_simple_computation() {
    for (seed, trace) in traces() {
        let mut cuts = trace.cuts();
        for at in 0..=trace.len() {
            cuts.advance_to(at);
            let plain = Plain::new(&trace.ops()[..at]);
            for loss in [Loss::Everything, Loss::Nothing, Loss::Data] {
                let image = cuts.image(loss, &mut Rng::new(seed));
                let context = format!("seed {seed}, cut at {at}, {loss:?}");
                assert_eq!(tree(&image), plain.tree(loss), "{context}");
            }
        }
    }
}

#[test]
fn walk_gives_the_same_images_as_a_restart() {
    for (seed, trace) in traces().take(40) {
        let mut cuts = trace.cuts();
        for at in 0..=trace.len() {
            cuts.advance_to(at);
            let walked = cuts.image(Loss::Mixture, &mut Rng::new(seed ^ at as u64));
            let fresh = trace.cut(at, Loss::Mixture, &mut Rng::new(seed ^ at as u64));
            assert_eq!(tree(&walked), tree(&fresh), "seed {seed}, cut at {at}");
            let marks: Vec<_> = trace.acknowledged_before(at).collect();
            assert_eq!(cuts.acknowledged(), marks, "seed {seed}, cut at {at}");
        }
    }
}

#[test]
fn every_mixture_is_allowed_by_the_rules() {
    for (seed, trace) in traces() {
        let mut cuts = trace.cuts();
        for at in (0..=trace.len()).step_by(3) {
            cuts.advance_to(at);
            let plain = Plain::new(&trace.ops()[..at]);
            for cut in 0..4 {
                let image = cuts.image(Loss::Mixture, &mut Rng::new(seed * 31 + cut));
                let context = format!("seed {seed}, cut at {at}, number {cut}");
                plain.assert_allowed(&tree(&image), &context);
            }
        }
    }
}

#[test]
fn laid_out_image_equals_the_image() {
    for (seed, trace) in traces().take(20) {
        let image = trace.cut(OPS, Loss::Mixture, &mut Rng::new(seed));
        let dir = tempfile::tempdir().unwrap();
        image.write_to(dir.path()).unwrap();
        for (path, bytes) in tree(&image) {
            let laid_out = dir.path().join(&path);
            match bytes {
                Some(bytes) => assert_eq!(std::fs::read(laid_out).unwrap(), bytes, "seed {seed}"),
                None => assert!(laid_out.is_dir(), "seed {seed}"),
            }
        }
    }
}

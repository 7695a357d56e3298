//! A range of keys that several readers divide among themselves while they read it.
//!
//! How the keys are distributed is not known, so the range is not divided in advance: a reader
//! with nothing left takes the upper half of what another has yet to read. Halves are those of the
//! space of keys. They may be empty, but each one that is costs a read of nothing and leaves the
//! other reader with half as much space, so the next ones meet the keys soon.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::{Key, KeyRange};

/// The fewest bytes of keys that are distinguished. More than the longest key has are not: else
/// the space right behind a key could be halved for ever.
const MIN_DEPTH: usize = 64;

/// The parts of a range, each read by one reader.
///
/// *Complete:* every key of the range is in exactly one part. *Ordered:* the keys of a part follow
/// each other; those of other parts are all before its first key or all after its last.
#[derive(Debug)]
pub struct Regions {
    parts: Mutex<Parts>,
}

#[derive(Debug)]
struct Parts {
    /// Not yet given to any reader.
    whole: Option<KeyRange>,
    parts: Vec<Part>,
    /// The parts that are being read, in the order in which they are divided.
    active: VecDeque<usize>,
    /// The length of the longest key that was read.
    longest: usize,
}

#[derive(Debug)]
struct Part {
    /// What its reader has yet to read.
    rest: KeyRange,
    is_done: bool,
}

/// A part of the range, for its reader.
#[derive(Debug, PartialEq, Eq)]
pub struct Region {
    number: usize,
    start: Key,
}

/// What a reader accepts of the keys that it has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The first so many keys are the region's own.
    pub count: usize,
    /// Whether the region is read to its end.
    pub is_last: bool,
}

impl Regions {
    /// The undivided range.
    pub const fn new(range: KeyRange) -> Self {
        Self {
            parts: Mutex::new(Parts {
                whole: Some(range),
                parts: Vec::new(),
                active: VecDeque::new(),
                longest: 0,
            }),
        }
    }

    /// Takes a region to read: at first the whole range, then half of what another reader has yet
    /// to read. `None` if nothing is left that could be divided.
    pub fn take(&self) -> Option<Region> {
        let mut all = self.lock();
        let rest = match all.whole.take() {
            Some(whole) => whole,
            None => all.divide()?,
        };
        let number = all.parts.len();
        let region = Region {
            number,
            start: rest.start().clone(),
        };
        all.active.push_back(number);
        all.parts.push(Part {
            rest,
            is_done: false,
        });
        Some(region)
    }

    /// Returns what is yet to be read of the region. It may be less than it was, because another
    /// reader has taken half.
    pub fn rest(&self, region: &Region) -> KeyRange {
        self.lock().parts[region.number].rest.clone()
    }

    /// Notes that keys were read from the beginning of the rest, in order. `more` says whether any
    /// follow. Returns how many of them are still the region's own.
    pub fn accept<K: AsRef<[u8]>>(&self, region: &Region, keys: &[K], more: bool) -> Accepted {
        let mut all = self.lock();
        let longest = keys.iter().map(|key| key.as_ref().len()).max();
        all.longest = all.longest.max(longest.unwrap_or(0));
        let part = &mut all.parts[region.number];
        let end = part.rest.end().map(|end| &end[..]);
        let count = end.map_or(keys.len(), |end| {
            keys.partition_point(|key| key.as_ref() < end)
        });
        part.is_done = !more || count < keys.len() || part.is_done;
        if let Some(last) = keys[..count].last() {
            part.rest = part.rest.after(&Bytes::copy_from_slice(last.as_ref()));
        }
        part.is_done |= part.rest.is_empty();
        Accepted {
            count,
            is_last: part.is_done,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Region {
    /// The first key that may be in the region: regions are ordered by it.
    pub const fn start(&self) -> &Key {
        &self.start
    }
}

impl Parts {
    /// Takes the upper half of the rest of a part that is being read, of each in turn.
    fn divide(&mut self) -> Option<KeyRange> {
        let depth = self.longest.max(MIN_DEPTH);
        for _ in 0..self.active.len() {
            let number = self.active.pop_front()?;
            let part = &mut self.parts[number];
            if part.is_done {
                continue;
            }
            self.active.push_back(number);
            if let Some(middle) = middle(&part.rest, depth) {
                let upper = part.rest.from(middle.clone());
                part.rest = KeyRange::between(part.rest.start().clone(), middle);
                return Some(upper);
            }
        }
        None
    }
}

/// Returns a key of at most `depth` bytes in the middle of the space of a range: its bounds are
/// taken for fractions, of which eight bytes count after those that they have in common.
fn middle(range: &KeyRange, depth: usize) -> Option<Key> {
    let (start, end) = (&range.start()[..], range.end().map_or(&[][..], |end| end));
    let common = start
        .iter()
        .zip(end)
        .take_while(|(one, other)| one == other);
    let common = common.count();
    let low = fraction(&start[common..]);
    let high = match range.end() {
        Some(_) => fraction(&end[common..]),
        None => u64::MAX,
    };
    let half = high.checked_sub(low)? / 2;
    if half == 0 {
        return None;
    }
    let bytes = (low + half).to_be_bytes();
    let length = bytes.iter().rposition(|byte| *byte != 0)? + 1;
    let length = length.min(depth.checked_sub(common)?);
    let middle = Key::from([&start[..common], &bytes[..length]].concat());
    // Cut to its depth, it may not be above the start any more.
    (range.contains(&middle) && middle > start).then_some(middle)
}

fn fraction(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    let length = bytes.len().min(first.len());
    first[..length].copy_from_slice(&bytes[..length]);
    u64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Reads the keys with several readers that take turns as the choices say, in pages. Returns
    /// what each region has read, in the order of regions.
    fn read(keys: &BTreeSet<Vec<u8>>, range: &KeyRange, choices: &[usize]) -> Vec<Vec<Vec<u8>>> {
        const READERS: usize = 3;
        let regions = Regions::new(range.clone());
        let mut readers: [Option<(Region, Vec<Vec<u8>>)>; READERS] = Default::default();
        let mut done: Vec<(Key, Vec<Vec<u8>>)> = Vec::new();
        let mut choices = choices.iter().copied().cycle();
        let mut idle = 0;
        while idle < 100 {
            let choice = choices.next().unwrap_or(0);
            let reader = &mut readers[choice % READERS];
            let Some((region, _)) = reader else {
                *reader = regions.take().map(|region| (region, vec![]));
                idle += usize::from(reader.is_none());
                continue;
            };
            idle = 0;
            let rest = regions.rest(region);
            let found = keys.iter().filter(|key| rest.contains(key));
            let found: Vec<_> = found.cloned().collect();
            let page = &found[..found.len().min(1 + choice % 7)];
            // Another reader may take half meanwhile.
            if choice % 2 == 0 {
                let other = &mut readers[(choice + 1) % READERS];
                if other.is_none() {
                    *other = regions.take().map(|region| (region, vec![]));
                }
            }
            let (region, own) = match &mut readers[choice % READERS] {
                Some(reader) => (&reader.0, &mut reader.1),
                None => unreachable!("it was there before"),
            };
            let accepted = regions.accept(region, page, page.len() < found.len());
            own.extend_from_slice(&page[..accepted.count]);
            if accepted.is_last
                && let Some((region, own)) = readers[choice % READERS].take()
            {
                done.push((region.start().clone(), own));
            }
        }
        assert!(
            readers.iter().all(Option::is_none),
            "a reader has not ended"
        );
        done.sort();
        done.into_iter().map(|(_, keys)| keys).collect()
    }

    proptest! {
        #[test]
        fn every_key_is_read_once_and_in_order(
            keys in prop::collection::btree_set(
                prop::collection::vec(prop::sample::select(vec![0, 1, b'/', b'a', b'b', 255]), 0..12),
                0..200,
            ),
            start in prop::collection::vec(any::<u8>(), 0..3),
            choices in prop::collection::vec(0_usize..64, 1..50),
        ) {
            let choices = [&choices[..], &[0, 1, 2]].concat();
            for range in [KeyRange::all(), KeyRange::all().from(start), KeyRange::prefix(&b"/a"[..])] {
                let read = read(&keys, &range, &choices);
                let expected: Vec<_> = keys.iter().filter(|key| range.contains(key)).cloned().collect();
                prop_assert_eq!(read.concat(), expected);
            }
        }
    }

    #[test]
    fn middle_is_within_the_range_and_above_its_start() {
        for (start, end) in [
            ("/registry/", "/registry0"),
            (
                "/registry/configmaps/t1/default/object-000499",
                "/registry0",
            ),
            ("/registry/configmaps/t1/a", "/registry/configmaps/t1/b"),
        ] {
            let range = KeyRange::between(start.as_bytes(), end.as_bytes());
            let found = middle(&range, MIN_DEPTH).unwrap();
            assert!(
                &found[..] > start.as_bytes() && range.contains(&found),
                "{range:?}"
            );
        }
        for (start, end) in [("a", "a\0"), ("a", "a\0\0"), ("a", "a"), ("b", "a")] {
            assert_eq!(
                middle(
                    &KeyRange::between(start.as_bytes(), end.as_bytes()),
                    MIN_DEPTH
                ),
                None
            );
        }
        assert!(middle(&KeyRange::all(), MIN_DEPTH).is_some());
    }

    #[test]
    fn space_behind_a_key_is_not_halved_for_ever() {
        let regions = Regions::new(KeyRange::prefix(&b"/registry/"[..]));
        let first = regions.take().unwrap();
        assert_eq!(regions.accept(&first, &["/registry/a"], true).count, 1);
        let mut empty = 0;
        while let Some(region) = regions.take() {
            regions.accept(&region, &[""; 0], false);
            empty += 1;
        }
        assert!(empty < 8 * MIN_DEPTH, "{empty}");
    }

    #[test]
    fn keys_that_differ_late_are_found_after_few_empty_halves() {
        let keys: Vec<String> = (0..10_000)
            .map(|n| format!("/registry/configmaps/tenant/default/object-{n:06}"))
            .collect();
        let regions = Regions::new(KeyRange::prefix(&b"/registry/"[..]));
        let whole = regions.take().unwrap();
        assert_eq!(regions.accept(&whole, &keys[..100], true).count, 100);
        let mut empty = 0;
        loop {
            let region = regions.take().unwrap();
            let rest = regions.rest(&region);
            let found = keys
                .iter()
                .filter(|key| rest.contains(key.as_bytes()))
                .count();
            if found > 1_000 {
                break;
            }
            empty += 1;
            regions.accept(&region, &[""; 0], false);
        }
        assert!(empty < 8 * keys[0].len(), "{empty}");
    }
}

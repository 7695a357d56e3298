//! A power cut during the last commit: some of its sectors reached the disk and others did not.
//!
//! The file is taken before and after the last commit. Every mix of old and new sectors is a
//! state that the disk may be in while the sync has not returned. An engine must open each of
//! them with all earlier commits, and with the last one whole or not at all.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::engine::{Engine, Fjall, Lsm, Reader, Redb, Write};
use crate::load::{Random, key};
use crate::measure::copy_dir;
use crate::table;

/// What is lost as a whole, and how large the values are: sectors of a disk, and pages of the
/// kernel's cache, with values that are larger than them.
const SCENARIOS: [Scenario; 2] = [
    Scenario {
        unit: 512,
        value: 1024,
    },
    Scenario {
        unit: 4096,
        value: 16 << 10,
    },
];
const GROUPS: usize = 10;
const GROUP: usize = 16;
/// States with a random half of the units lost.
const RANDOM_STATES: usize = 200;

pub fn report(dir: &Path) -> Result<()> {
    let mut rows = Vec::new();
    for scenario in SCENARIOS {
        scenario.sweep::<Fjall>(dir, &mut rows)?;
        scenario.sweep::<Redb<false>>(dir, &mut rows)?;
        scenario.sweep::<Lsm>(dir, &mut rows)?;
    }
    let header = [
        "engine",
        "values and units",
        "lost units of the last commit",
        "states",
        "what opening did",
    ];
    table::print("Power cut during the last commit", &header, &rows);
    Ok(())
}

/// How a power cut loses data.
#[derive(Clone, Copy)]
struct Scenario {
    /// Bytes that are lost or kept as a whole.
    unit: usize,
    /// Bytes of a value.
    value: usize,
}

/// The journal before and after the last commit.
struct Images {
    journal: PathBuf,
    before: Vec<u8>,
    after: Vec<u8>,
    /// The ranges, each a unit long, in which they differ.
    changed: Vec<Range<usize>>,
}

impl Images {
    /// The journal with these ranges as they were before.
    fn without(&self, lost: &[Range<usize>]) -> Vec<u8> {
        let mut torn = self.after.clone();
        for range in lost {
            for offset in range.clone() {
                torn[offset] = self.before.get(offset).copied().unwrap_or(0);
            }
        }
        torn
    }
}

impl Scenario {
    fn sweep<E: Engine>(self, dir: &Path, rows: &mut Vec<Vec<String>>) -> Result<()> {
        eprintln!("torn: {}", E::NAME);
        let (store, pristine) = (dir.join("store"), dir.join("pristine"));
        let images = self.prepare::<E>(&store, &pristine)?;
        let count = images.changed.len();
        let mut random = Random::new(7);
        let single = images.changed.iter().map(|unit| vec![unit.clone()]);
        let mixes = (0..RANDOM_STATES).map(|_| {
            let all = images.changed.iter().cloned();
            all.filter(|_| random.below(2) == 0).collect()
        });
        let kinds: [(String, Vec<Vec<Range<usize>>>); 4] = [
            ("none".into(), vec![vec![]]),
            (format!("all {count}"), vec![images.changed.clone()]),
            (format!("each one of the {count}"), single.collect()),
            (format!("a random half of the {count}"), mixes.collect()),
        ];
        for (kind, states) in kinds {
            let mut seen = BTreeMap::new();
            for lost in states {
                let torn = dir.join("torn");
                copy_dir(&pristine, &torn)?;
                std::fs::write(torn.join(&images.journal), images.without(&lost))?;
                *seen.entry(self.outcome::<E>(&torn)).or_insert(0) += 1;
                std::fs::remove_dir_all(&torn)?;
            }
            for (outcome, count) in seen {
                let sizes = format!("{} B values, {} B units", self.value, self.unit);
                let engine = E::NAME.to_owned();
                rows.push(vec![
                    engine,
                    sizes,
                    kind.clone(),
                    count.to_string(),
                    outcome,
                ]);
            }
        }
        std::fs::remove_dir_all(store)?;
        std::fs::remove_dir_all(pristine)?;
        Ok(())
    }

    /// Commits groups and takes the images around the last one, without closing the store.
    fn prepare<E: Engine>(self, store: &Path, pristine: &Path) -> Result<Images> {
        let mut engine = E::open(store)?;
        for group in 0..GROUPS - 1 {
            self.commit(&mut engine, group)?;
        }
        let journal = E::journal(store)?;
        let before = std::fs::read(&journal)?;
        self.commit(&mut engine, GROUPS - 1)?;
        ensure!(E::journal(store)? == journal, "the journal was rotated");
        let after = std::fs::read(&journal)?;
        copy_dir(store, pristine)?;
        let changed = (0..after.len())
            .step_by(self.unit)
            .map(|start| start..after.len().min(start + self.unit))
            .filter(|range| before.get(range.clone()) != after.get(range.clone()))
            .collect();
        Ok(Images {
            journal: journal.strip_prefix(store)?.to_path_buf(),
            before,
            after,
            changed,
        })
    }

    fn commit<E: Engine>(self, engine: &mut E, group: usize) -> Result<()> {
        let mut random = Random::new(group as u64);
        let writes: Vec<Write> = (0..GROUP)
            .map(|number| Write {
                key: key(group * GROUP + number),
                value: random.bytes(self.value),
                expected: 0,
            })
            .collect();
        for outcome in engine.commit(&writes)? {
            ensure!(outcome.is_ok(), "conflict");
        }
        Ok(())
    }

    /// Opens a torn store and says in words what came of it.
    fn outcome<E: Engine>(self, dir: &Path) -> String {
        match catch_unwind(AssertUnwindSafe(|| self.inspect::<E>(dir))) {
            Ok(Ok(found)) => found.to_owned(),
            Ok(Err(error)) => {
                let again = match E::open(dir) {
                    Ok(_) => "opens on the next try",
                    Err(_) => "and on the next try",
                };
                format!("**fails**, {again}: `{error:#}`")
            }
            Err(_) => "**panics**".to_owned(),
        }
    }

    fn inspect<E: Engine>(self, dir: &Path) -> Result<&'static str> {
        let mut engine = E::open(dir)?;
        for group in 0..GROUPS - 1 {
            if self.present(&engine, group)? != GROUP {
                return Ok("**opens without an earlier, synced commit**");
            }
        }
        let last = self.present(&engine, GROUPS - 1)?;
        // The store must also keep what is written after the recovery.
        self.commit(&mut engine, GROUPS)?;
        drop(engine);
        let engine = E::open(dir)?;
        if self.present(&engine, GROUPS)? != GROUP {
            return Ok("**opens, and loses a commit made afterwards**");
        }
        Ok(match last {
            0 => "opens without the last commit",
            GROUP => "opens with the last commit whole",
            _ => "**opens with a part of the last commit**",
        })
    }

    /// Keys of a group that have their right value.
    fn present<E: Engine>(self, engine: &E, group: usize) -> Result<usize> {
        let reader = engine.reader();
        let mut random = Random::new(group as u64);
        let mut count = 0;
        for number in 0..GROUP {
            let expected = random.bytes(self.value);
            if reader.get(&key(group * GROUP + number))? == Some(expected) {
                count += 1;
            }
        }
        Ok(count)
    }
}

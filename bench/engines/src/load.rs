//! The workload: keys, values, the clients and the sequencer that commits in groups.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};

use crate::engine::{Engine, Outcome, Reader, Write};
use crate::measure::{Latencies, cpu_time, settle};

const VALUE_BYTES: usize = 1024;
/// Writes in one commit, at most; also the size of a group while loading.
const MAX_GROUP: usize = 1024;

/// xorshift64: fast, and the same on every run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(0x9e37_79b9_7f4a_7c15 ^ (seed + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9))
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, bound: usize) -> usize {
        // A bound fits: it counts keys.
        (self.next() % bound as u64) as usize
    }

    pub fn value(&mut self) -> Vec<u8> {
        self.bytes(VALUE_BYTES)
    }

    /// Random bytes, as many as asked for in words of eight.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut value = vec![0; len];
        for word in value.chunks_exact_mut(8) {
            word.copy_from_slice(&self.next().to_le_bytes());
        }
        value
    }
}

/// Neighbours in number are strangers in order: a thousand tenants take turns.
pub fn key(number: usize) -> Vec<u8> {
    let tenant = number % 1000;
    format!("/registry/configmaps/tenant-{tenant:05}/default/some-object-name-{number:08}")
        .into_bytes()
}

/// The revision of every key, as the clients know it.
pub type Known = [AtomicU64];

pub fn nothing_known(keys: usize) -> Vec<AtomicU64> {
    (0..keys).map(|_| AtomicU64::new(0)).collect()
}

/// Writes each of these keys once, in large groups, on the caller's thread.
pub fn write_all<E: Engine>(
    engine: &mut E,
    known: &Known,
    numbers: std::ops::Range<usize>,
) -> Result<()> {
    let mut random = Random::new(engine.revision());
    let numbers: Vec<usize> = numbers.collect();
    for group in numbers.chunks(MAX_GROUP) {
        let writes: Vec<Write> = group
            .iter()
            .map(|&number| Write {
                key: key(number),
                value: random.value(),
                expected: known[number].load(Ordering::Relaxed),
            })
            .collect();
        for (&number, outcome) in group.iter().zip(engine.commit(&writes)?) {
            let revision = outcome.map_err(|_| anyhow!("conflict on key {number}"))?;
            known[number].store(revision, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// What one run of clients against an engine showed.
pub struct Run {
    pub elapsed: Duration,
    pub cpu: Duration,
    pub syncs: u64,
    pub writes: Latencies,
    pub reads: Latencies,
}

/// The load of one run.
pub struct Load {
    pub writers: usize,
    pub readers: usize,
    pub duration: Duration,
}

/// Runs clients against the engine; the sequencer is the caller's thread.
///
/// The processor time counts until the engine's background work has come to rest.
pub fn run<E: Engine>(engine: &mut E, known: &Known, load: &Load) -> Result<Run> {
    let (cpu_before, syncs_before) = (cpu_time()?, engine.syncs());
    let readers: Vec<E::Reader> = (0..load.readers).map(|_| engine.reader()).collect();
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    let (writes, reads) = std::thread::scope(|scope| -> Result<_> {
        let (requests, waiting) = sync_channel(load.writers);
        let mut replies = Vec::new();
        let mut writers = Vec::new();
        for number in 0..load.writers {
            let (reply, answer) = sync_channel(1);
            replies.push(reply);
            let client = Client {
                number,
                requests: requests.clone(),
                answer,
            };
            writers.push(scope.spawn(move || client.write(known, load)));
        }
        drop(requests);
        let stop = &stop;
        let readers: Vec<_> = readers
            .into_iter()
            .map(|reader| scope.spawn(move || read(&reader, known.len(), stop)))
            .collect();
        let sequenced = sequence(engine, &waiting, &replies);
        // Without these two the clients of a failed sequencer would wait for ever.
        stop.store(true, Ordering::Relaxed);
        drop((waiting, replies));
        sequenced?;
        Ok((join(writers)?, join(readers)?))
    })?;
    let elapsed = start.elapsed();
    let syncs = engine.syncs() - syncs_before;
    settle()?;
    Ok(Run {
        elapsed,
        cpu: cpu_time()?.saturating_sub(cpu_before),
        syncs,
        writes,
        reads,
    })
}

struct Request {
    client: usize,
    write: Write,
}

/// Commits everything that waits as one group, answers, and starts over until no client is left.
fn sequence<E: Engine>(
    engine: &mut E,
    waiting: &Receiver<Request>,
    replies: &[SyncSender<Outcome>],
) -> Result<()> {
    while let Ok(first) = waiting.recv() {
        let rest = waiting.try_iter().take(MAX_GROUP - 1);
        let (clients, group): (Vec<usize>, Vec<Write>) = std::iter::once(first)
            .chain(rest)
            .map(|request| (request.client, request.write))
            .unzip();
        for (client, outcome) in clients.into_iter().zip(engine.commit(&group)?) {
            replies[client].send(outcome)?;
        }
    }
    Ok(())
}

struct Client {
    number: usize,
    requests: SyncSender<Request>,
    answer: Receiver<Outcome>,
}

impl Client {
    /// Writes one key after the other; each client has its own share of the keys.
    fn write(self, known: &Known, load: &Load) -> Result<Latencies> {
        let mut random = Random::new(self.number as u64);
        let mut latencies = Latencies::default();
        let share = known.len() / load.writers;
        let end = Instant::now() + load.duration;
        while Instant::now() < end {
            let number = self.number + load.writers * random.below(share);
            let write = Write {
                key: key(number),
                value: random.value(),
                expected: known[number].load(Ordering::Relaxed),
            };
            let sent = Instant::now();
            self.requests.send(Request {
                client: self.number,
                write,
            })?;
            let revision = self.answer.recv()?.map_err(|_| anyhow!("conflict"))?;
            latencies.add(sent.elapsed());
            known[number].store(revision, Ordering::Relaxed);
        }
        Ok(latencies)
    }
}

fn read<R: Reader>(reader: &R, keys: usize, stop: &AtomicBool) -> Result<Latencies> {
    let mut random = Random::new(u64::MAX / 2);
    let mut latencies = Latencies::default();
    while !stop.load(Ordering::Relaxed) {
        let key = key(random.below(keys));
        let asked = Instant::now();
        let value = reader.get(&key)?;
        latencies.add(asked.elapsed());
        ensure!(
            value.is_some_and(|value| value.len() == VALUE_BYTES),
            "a key has lost its value"
        );
    }
    Ok(latencies)
}

fn join(threads: Vec<std::thread::ScopedJoinHandle<'_, Result<Latencies>>>) -> Result<Latencies> {
    let mut all = Latencies::default();
    for thread in threads {
        let latencies = thread.join().map_err(|_| anyhow!("a client panicked"))??;
        all.merge(latencies);
    }
    Ok(all)
}

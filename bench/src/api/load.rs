//! Concurrent requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::client::{Answer, Client, Prepared};
use super::subject::{Measured, Stopwatch, Subject};

/// The timeout of a measurement.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(300);

/// The number of concurrent requests and of connections.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub connections: usize,
    pub at_once: usize,
}

/// The results of the responses, in the order of the requests.
pub struct Loaded<T> {
    pub measured: Measured,
    pub taken: Vec<T>,
}

impl Shape {
    /// The load of eight busy controllers.
    pub const REQUESTS: Self = Self {
        connections: 8,
        at_once: 64,
    };
    /// Lists are large, so few clients request them at once.
    pub const LISTS: Self = Self {
        connections: 4,
        at_once: 4,
    };
    /// After a restart, all controllers list at once.
    pub const MANY_LISTS: Self = Self {
        connections: 8,
        at_once: 32,
    };
}

/// Sends all requests, and checks each response.
pub async fn load<T: Send + 'static>(
    subject: &Subject,
    client: &Client,
    shape: Shape,
    requests: Vec<Prepared>,
    judge: impl Fn(&Answer) -> Result<T> + Send + Sync + 'static,
) -> Result<Loaded<T>> {
    let judge = Arc::new(judge);
    let hands = deal(requests, shape.at_once);
    let mut workers = JoinSet::new();
    let watch = Stopwatch::start(subject).await?;
    for (user, hand) in hands.into_iter().enumerate() {
        let (sender, judge) = (client.sender(user)?, Arc::clone(&judge));
        workers.spawn(async move {
            let mut done = vec![];
            for (n, request) in hand {
                let begun = Instant::now();
                let answer = sender.send(request).await?;
                let took = begun.elapsed();
                done.push((n, took, judge(&answer)?));
            }
            anyhow::Ok(done)
        });
    }
    let mut done = timeout(WAIT_TIMEOUT, all(workers))
        .await
        .context("the server hangs")??;
    let times = done.iter().map(|(_, took, _)| *took).collect();
    let measured = watch.stop(times).await?;
    done.sort_unstable_by_key(|(n, _, _)| *n);
    Ok(Loaded {
        measured,
        taken: done.into_iter().map(|(_, _, taken)| taken).collect(),
    })
}

/// Combines the results of all workers.
pub async fn all<T: 'static>(mut workers: JoinSet<Result<Vec<T>>>) -> Result<Vec<T>> {
    let mut all = vec![];
    while let Some(done) = workers.join_next().await {
        all.extend(done??);
    }
    Ok(all)
}

/// Distributes items to workers in turn, with their indexes.
fn deal<T>(items: Vec<T>, hands: usize) -> Vec<Vec<(usize, T)>> {
    let mut dealt: Vec<Vec<(usize, T)>> = (0..hands).map(|_| vec![]).collect();
    for (n, item) in items.into_iter().enumerate() {
        dealt[n % hands].push((n, item));
    }
    dealt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_dealt_in_turn() {
        let dealt = deal(vec!['a', 'b', 'c'], 2);
        assert_eq!(dealt, [vec![(0, 'a'), (2, 'c')], vec![(1, 'b')]]);
    }
}

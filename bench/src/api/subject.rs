//! The server under load, and its resource usage.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use http::{Method, StatusCode};

use super::client::Client;
use super::kubeconfig::Kubeconfig;
use super::objects;
use crate::figures::{Figures, Quantiles};
use crate::machine;

/// The resolution of CPU time.
const TICK: Duration = Duration::from_millis(10);
/// The time with at most one tick of CPU after which a server is idle.
const QUIET: Duration = Duration::from_millis(100);
/// The timeout until the server is idle.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// The time that a server has to return memory that it no longer needs.
const RETURN_TIME: Duration = Duration::from_secs(10);

/// A server under load.
#[derive(Clone, Debug)]
pub struct Subject {
    pub kubeconfig: Kubeconfig,
    /// Its processes, including etcd if that is its store.
    pub pids: Vec<u32>,
}

/// A running measurement.
pub struct Stopwatch<'a> {
    subject: &'a Subject,
    cpu: Duration,
    caller: Duration,
    begun: Instant,
}

/// The cost of many operations.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub count: usize,
    pub wall: Duration,
    /// The time until the server was idle, to a tenth of a second.
    pub quiet: Duration,
    /// CPU time of the server.
    pub cpu: Duration,
    /// CPU time of this process.
    pub caller: Duration,
    pub times: Quantiles,
}

impl Subject {
    pub async fn connect(&self, connections: usize) -> Result<Client> {
        Client::connect(&self.kubeconfig, connections).await
    }

    pub fn cpu(&self) -> Result<Duration> {
        self.pids.iter().map(|pid| machine::cpu_time(*pid)).sum()
    }

    /// Returns its resident memory.
    pub fn resident(&self) -> Result<f64> {
        self.memory(machine::resident)
    }

    pub fn most_resident(&self) -> Result<f64> {
        self.memory(machine::most_resident)
    }

    /// Returns the memory with shared pages counted proportionally, or `None` without permission.
    pub fn proportional(&self) -> Option<f64> {
        self.memory(machine::proportional).ok()
    }

    fn memory(&self, of: impl Fn(u32) -> Result<u64>) -> Result<f64> {
        let sum: Result<u64> = self.pids.iter().map(|pid| of(*pid)).sum();
        Ok(sum? as f64)
    }

    /// Returns the resident memory after the time that the server has to return what is free.
    pub async fn resident_later(&self) -> Result<f64> {
        tokio::time::sleep(RETURN_TIME).await;
        self.resident()
    }

    /// Waits until the server is idle.
    pub async fn wait_until_idle(&self) -> Result<()> {
        let until = Instant::now() + IDLE_TIMEOUT;
        let mut before = self.cpu()?;
        loop {
            tokio::time::sleep(QUIET).await;
            let now = self.cpu()?;
            if now.saturating_sub(before) <= TICK || Instant::now() > until {
                return Ok(());
            }
            before = now;
        }
    }

    /// Creates a namespace, unless it exists.
    pub async fn namespace(&self, client: &Client, name: &str) -> Result<()> {
        let body = Some(objects::namespace(name));
        let path = "/api/v1/namespaces";
        let answer = client.call(Method::POST, path, body).await?;
        if answer.status != StatusCode::CONFLICT {
            answer.expect(StatusCode::CREATED)?;
        }
        Ok(())
    }
}

impl<'a> Stopwatch<'a> {
    /// Starts a measurement once the server is idle.
    pub async fn start(subject: &'a Subject) -> Result<Self> {
        subject.wait_until_idle().await?;
        Ok(Self {
            subject,
            cpu: subject.cpu()?,
            caller: own_cpu()?,
            begun: Instant::now(),
        })
    }

    /// Ends the measurement. CPU time counts until the server is idle: deferred work is a part
    /// of the cost of a write.
    pub async fn stop(self, times: Vec<Duration>) -> Result<Measured> {
        let wall = self.begun.elapsed();
        let caller = own_cpu()?.saturating_sub(self.caller);
        ensure!(!times.is_empty(), "nothing was measured");
        self.subject.wait_until_idle().await?;
        Ok(Measured {
            count: times.len(),
            wall,
            quiet: self.begun.elapsed(),
            cpu: self.subject.cpu()?.saturating_sub(self.cpu),
            caller,
            times: Quantiles::of(times),
        })
    }
}

impl Measured {
    /// Returns the CPU time of the server per operation, in seconds.
    pub fn each(&self) -> f64 {
        self.cpu.as_secs_f64() / self.count.max(1) as f64
    }

    pub fn figures(&self, what: &str) -> Figures {
        let count = self.count.max(1) as f64;
        Figures::default()
            .with(&format!("{what} rate"), count / self.wall.as_secs_f64())
            .with(&format!("{what} cpu"), self.each())
            .with(&format!("{what} caller"), self.caller.as_secs_f64() / count)
            .times(what, self.times)
    }

    /// Returns the median of several rounds, and their spread.
    pub fn rounds(mut rounds: Vec<Self>, what: &str) -> Figures {
        rounds.sort_by(|one, other| one.each().total_cmp(&other.each()));
        let Some((first, last)) = rounds.first().zip(rounds.last()) else {
            return Figures::default();
        };
        rounds[rounds.len() / 2]
            .figures(what)
            .with(&format!("{what} cpu min"), first.each())
            .with(&format!("{what} cpu max"), last.each())
    }
}

fn own_cpu() -> Result<Duration> {
    machine::cpu_time(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Unit;

    fn measured(cpu: u64) -> Measured {
        Measured {
            count: 1000,
            wall: Duration::from_secs(2),
            quiet: Duration::from_secs(2),
            cpu: Duration::from_millis(cpu),
            caller: Duration::from_millis(10),
            times: Quantiles::of(vec![Duration::from_millis(3); 1000]),
        }
    }

    fn times(figures: &Figures, names: &[&str]) -> Vec<String> {
        let time = |name: &&str| Unit::Time.format(figures.get(name).unwrap());
        names.iter().map(time).collect()
    }

    #[test]
    fn rates_and_cpu_are_those_of_one_operation() {
        let figures = measured(70).figures("get");
        assert_eq!(figures.get("get rate"), Some(500.0));
        let found = times(&figures, &["get cpu", "get caller", "get p99"]);
        assert_eq!(found, ["70.0 us", "10.0 us", "3000 us"]);
    }

    #[test]
    fn rounds_are_reported_as_median_and_spread() {
        let figures = Measured::rounds(vec![measured(90), measured(50), measured(60)], "get");
        let found = times(&figures, &["get cpu", "get cpu min", "get cpu max"]);
        assert_eq!(found, ["60.0 us", "50.0 us", "90.0 us"]);
        assert_eq!(Measured::rounds(vec![], "get").get("get cpu"), None);
    }
}

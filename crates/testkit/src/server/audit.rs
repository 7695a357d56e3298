//! The audit log of a test server.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use insula_apiserver::egress::{Endpoint, EndpointSettings};
use insula_apiserver::pipeline::audit::{self, Policy, Sink, Webhook, WebhookSettings};
use insula_tls::Trust;
use serde_json::Value;

/// The destination of a test server's audit log.
#[derive(Clone, Debug)]
pub enum Audit {
    /// A file.
    File(PathBuf),
    /// Memory of the test.
    Memory(AuditLog),
    /// Memory of the test, with this policy.
    Policy(AuditLog, String),
    /// A webhook at this URL and memory of the test, with this policy if it is not empty.
    Webhook(AuditLog, String, WebhookSettings, String),
}

/// An audit log in memory, which can be made to block.
#[derive(Clone, Debug, Default)]
pub struct AuditLog(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    text: Vec<u8>,
    held: bool,
}

/// How long a test waits before it fails.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

impl Audit {
    pub(super) fn start(self) -> anyhow::Result<audit::Audit> {
        Ok(match self {
            Self::File(path) => Sink::to_file(&path, audit::Rotation::default())?.into(),
            Self::Memory(log) => Sink::to(log)?.into(),
            Self::Webhook(log, url, settings, policy) => {
                let endpoint = Endpoint::new(EndpointSettings {
                    url: url.parse()?,
                    trust: Trust::System,
                    server_name: None,
                    identity: None,
                    authorization: None,
                    token_file: None,
                })?;
                let webhook = Webhook::start(endpoint, settings);
                let policy = match policy.as_str() {
                    "" => None,
                    policy => Some(Policy::parse(policy)?),
                };
                let audit = audit::Audit::new(policy).with_log(Sink::to(log)?, None);
                audit.with_webhook(webhook)
            }
            Self::Policy(log, policy) => {
                let policy = Policy::parse(&policy)?;
                audit::Audit::new(Some(policy)).with_log(Sink::to(log)?, None)
            }
        })
    }
}

impl AuditLog {
    /// Everything that was written.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.state().text).into_owned()
    }

    /// Every event that was written.
    pub fn events(&self) -> anyhow::Result<Vec<Value>> {
        let text = self.text();
        let events = text.lines().map(serde_json::from_str);
        events.collect::<Result<_, _>>().context("no event in JSON")
    }

    /// Waits for the event of a stage of the request with this `Audit-Id`.
    pub async fn event_at(&self, id: &str, stage: &str) -> anyhow::Result<Value> {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        while Instant::now() < deadline {
            let mut events = self.events()?.into_iter();
            if let Some(event) =
                events.find(|event| event["auditID"] == id && event["stage"] == stage)
            {
                return Ok(event);
            }
            tokio::task::yield_now().await;
        }
        anyhow::bail!("no event {id} at {stage} in {}", self.text())
    }

    /// Waits for the event of the request with this `Audit-Id`.
    pub async fn event(&self, id: &str) -> anyhow::Result<String> {
        let named = format!("\"auditID\":\"{id}\"");
        let deadline = Instant::now() + WAIT_TIMEOUT;
        while Instant::now() < deadline {
            let text = self.text();
            if let Some(line) = text.lines().find(|line| line.contains(&named)) {
                return Ok(line.to_owned());
            }
            tokio::task::yield_now().await;
        }
        anyhow::bail!("no event {id} in {}", self.text())
    }

    /// Blocks all writes until it is released, like a disk that hangs.
    pub fn hold(&self) {
        self.state().held = true;
    }

    /// Accepts writes again.
    pub fn release(&self) {
        self.state().held = false;
        self.0.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for AuditLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let waited = self.0.changed.wait_while(self.state(), |state| state.held);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

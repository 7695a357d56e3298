//! A running operator.

use std::sync::Arc;

use anyhow::Context as _;
use insula_metal3::operator::{Settings, run};
use insula_operator::health::Health;
use kube::Client;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::DEADLINE;

/// A running operator. Dropping it aborts it.
pub struct Running {
    pub health: Arc<Health>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Running {
    pub fn new(client: Client, settings: Settings) -> Self {
        let health = Arc::clone(&settings.shell.health);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(run(client, settings, async { drop(stopped.await) }));
        Self {
            health,
            stop: Some(stop),
            task,
        }
    }

    /// Stops it gracefully.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        if let Some(stop) = self.stop.take() {
            stop.send(()).ok();
        }
        let stopped = timeout(DEADLINE, &mut self.task).await;
        Ok(stopped.context("does not stop")??)
    }

    /// Aborts it immediately.
    pub async fn kill(mut self) {
        self.task.abort();
        (&mut self.task).await.ok();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

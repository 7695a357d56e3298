//! A running operator.

use anyhow::Context as _;
use insula_azure::operator::{NotStarted, Operator, run};
use kube::Client;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::DEADLINE;

/// A running operator. Dropping it aborts it.
pub struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), NotStarted>>,
}

impl Running {
    pub fn new(client: Client, operator: Operator) -> Self {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(run(client, operator, async { drop(stopped.await) }));
        Self {
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
        Ok(stopped.context("does not stop")???)
    }

    /// Waits until it ends by itself, and returns why.
    pub async fn failed(mut self) -> anyhow::Result<NotStarted> {
        let ended = timeout(DEADLINE, &mut self.task).await;
        let ended = ended.context("does not end")??;
        ended.err().context("ended without an error")
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

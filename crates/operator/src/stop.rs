//! A stop signal for many tasks.

use tokio::sync::watch;

/// Sends the stop signal.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Receives the stop signal.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

/// Creates a sender and a receiver.
pub fn channel() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Stop(receiver))
}

impl Stopper {
    /// Sends the signal.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Waits for the signal; returns at once if it was sent before or if the sender was dropped.
    pub async fn stopped(&mut self) {
        self.0.wait_for(|stopped| *stopped).await.ok();
    }
}

//! The word that work is to end, for everybody who has to hear it.

use tokio::sync::watch;

/// Says the word.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Hears it.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

/// Who says it, and who hears it.
pub fn pair() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Stop(receiver))
}

impl Stopper {
    /// Work is to end.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Returns when work is to end: at once if it was said before. Whoever was to say it
    /// and is gone has said it.
    pub async fn told(&mut self) {
        self.0.wait_for(|stopped| *stopped).await.ok();
    }

    /// Whether it was said.
    pub fn is_told(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}

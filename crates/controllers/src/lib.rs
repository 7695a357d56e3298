//! The loops that a control plane needs, in the same process, as clients of the registry.
//!
//! One task for all spaces: it follows the logs of what happened everywhere, and holds
//! nothing for a tenant that nothing is to be done for. Every step is compare-and-write, so
//! that it can be taken up again after a crash, and by several servers at once.

mod certificates;
mod conditions;
mod content;
mod follow;
mod namespace;
mod tenant;

use std::sync::Arc;
use std::time::Duration;

use insula_access::Authority;
use insula_apiserver::Registry;
use insula_apiserver::status::Refusal;

use certificates::Signer;
use follow::Follower;

/// All loops.
pub struct Controllers {
    registry: Arc<Registry>,
    signer: Signer,
}

/// How long a loop waits for what others have to do first, such as removing their
/// finalizers. Only while something is being deleted: else nothing is waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// What one step of a loop came to.
enum Step {
    /// There is nothing left to do.
    Done,
    /// Something is left that others have to do.
    Waiting,
}

impl Controllers {
    /// Over a registry, signing certificates with this CA.
    pub fn new(registry: Arc<Registry>, authority: Authority) -> Self {
        Self {
            registry,
            signer: Signer::new(authority),
        }
    }

    /// Runs until `stop` is done.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        tokio::select! {
            () = self.follow() => {}
            () = stop => {}
        }
    }

    async fn follow(&self) {
        let mut follower = Follower::new(Arc::clone(&self.registry));
        loop {
            for work in follower.due() {
                match self.step(&work).await {
                    Ok(Step::Done) => {}
                    Ok(Step::Waiting) => follower.again(work),
                    Err(refusal) => {
                        tracing::debug!(?work, %refusal, "a step failed and is tried again");
                        follower.again(work);
                    }
                }
            }
            follower.wait(LOOK_AGAIN).await;
        }
    }

    async fn step(&self, work: &follow::Work) -> Result<Step, Refusal> {
        match work {
            follow::Work::Namespace(space, name) => {
                namespace::step(&self.registry, space, name).await
            }
            follow::Work::Tenant(name) => tenant::step(&self.registry, name).await,
            follow::Work::Certificate(space, name) => {
                self.signer.step(&self.registry, space, name).await
            }
        }
    }
}

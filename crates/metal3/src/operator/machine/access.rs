//! The hosts that a machine may use.

use insula_identity::credential::Credential;
use insula_identity::reason::Reason;
use insula_identity::session::HeldSession;
use insula_operator::outbound::kubernetes_login_error;
use insula_operator::retry::{Class, Outcome};
use kube::ResourceExt;

use super::conclude::State;
use super::gate::Family;
use super::{Halt, MachineReconciler, Step};
use crate::operator::access::{self, Access, Identity, Problem};
use crate::pool::Pools;

/// The hosts that a machine may use, and the credential that reaches them.
pub(super) struct HostAccess {
    pub pool: HeldSession<Pools>,
    pub credential: Box<Credential>,
}

impl MachineReconciler<'_> {
    /// Returns the access to hosts. A problem with the credential is reported as such, and never
    /// as a host that does not exist.
    pub(super) async fn open(&mut self, family: &Family) -> Step<HostAccess> {
        let cluster = family.infrastructure.as_ref().ok();
        let name = cluster.map(ResourceExt::name_any).unwrap_or_default();
        let of_cluster = cluster.and_then(|cluster| cluster.spec.identity_ref.as_ref());
        let own = self.machine.stored.spec.identity_ref.clone();
        let identity = Identity {
            own: own.as_ref(),
            of_cluster: of_cluster.map(|reference| (name.as_str(), reference)),
        };
        match access::open(self.of, identity).await? {
            Access::Open(pool, credential) => Ok(HostAccess { pool, credential }),
            Access::Opening(outcome) => Err(Halt::Stop(outcome)),
            Access::Closed(problem, outcome) => {
                self.report.host = Some(state(problem));
                Err(Halt::Stop(outcome))
            }
        }
    }

    /// Reports a failed request to the server of the hosts as a problem with the credential.
    pub(super) fn explain_failure(
        &mut self,
        access: &HostAccess,
        done: Step<Outcome>,
    ) -> Step<Outcome> {
        let error = match done {
            Err(Halt::Hosts(error)) => error,
            done => {
                // Both are known only from the server of the hosts.
                let has_host = self.report.host.as_ref().is_some_and(State::is_true);
                if has_host || done.is_ok() {
                    access.pool.mark_responsive();
                }
                return done;
            }
        };
        if access.pool.is_in_cluster() {
            return Err(Halt::Api(error));
        }
        // The host has changed, or no longer exists: the next reconciliation reads it again.
        if matches!(&error, kube::Error::Api(status) if matches!(status.code, 404 | 409)) {
            return Err(Halt::Stop(Outcome::Failed(Class::Transient)));
        }
        let error = kubernetes_login_error(&error, &access.credential.endpoint);
        let outcome = match error.reason {
            // The next login tells whether the credential is refused for good.
            Reason::InvalidCredentials => {
                access.pool.mark_dead();
                Outcome::Progressed
            }
            Reason::Unreachable if !error.answered => {
                access.pool.mark_unresponsive();
                Outcome::Failed(Class::Blocked)
            }
            _ => Outcome::Failed(Class::Blocked),
        };
        self.report.host = Some(state(access::failed(&error)));
        Err(Halt::Stop(outcome))
    }
}

fn state(problem: Problem) -> State {
    State::new(false, problem.reason, problem.message)
}

//! The hosts that a machine may use.

use insula_operator::retry::{Class, Outcome};
use kube::ResourceExt;

use super::conclude::State;
use super::gate::Family;
use super::{Halt, MachineReconciler, Step};
use crate::operator::access::{self, Access, HostAccess, HostFailure, Identity, Problem};

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
            Access::Open(access) => Ok(access),
            Access::Opening(outcome) => Err(Halt::Stop(outcome)),
            Access::Closed(problem, outcome) => {
                self.report.host = Some(state(problem));
                Err(Halt::Stop(outcome))
            }
        }
    }

    /// Reports a failed request to the server of the hosts as a problem with the credential.
    pub(super) fn explain_failure<T>(&mut self, access: &HostAccess, done: Step<T>) -> Step<T> {
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
        Err(match access.explain(error) {
            HostFailure::Own(error) => Halt::Api(error),
            HostFailure::Changed(_) => Halt::Stop(Outcome::Failed(Class::Transient)),
            HostFailure::Problem(problem, outcome) => {
                self.report.host = Some(state(problem));
                Halt::Stop(outcome)
            }
        })
    }
}

fn state(problem: Problem) -> State {
    State::new(false, problem.reason, problem.message)
}

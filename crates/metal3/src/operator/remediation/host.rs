//! The host of the machine.

use insula_operator::retry::Outcome;
use kube::ResourceExt;

use super::decide::HostState;
use super::family::Family;
use super::{Halt, Progress, RemediationReconciler};
use crate::hosts::consumer::annotated_host;
use crate::hosts::restart::{
    RestartRequest, can_restart, is_left_alone, is_on, must_stay_on, requested_by,
};
use crate::kinds::host::BareMetalHost;
use crate::kinds::remediation::Metal3Remediation;
use crate::names::{HOST_ANNOTATION, HOST_UNHEALTHY};
use crate::operator::access::{self, Access, HostAccess, Problem};

/// How long a remediation waits for what no watch may report.
pub(super) const RETRY: std::time::Duration = std::time::Duration::from_secs(30);

/// Its remediation cannot begin: the machine is not known.
const NO_MACHINE: &str = "MachineNotFound";
/// The Machine is not one of this provider.
const NO_METAL3_MACHINE: &str = "Metal3MachineNotFound";
/// The machine has no host yet.
const NO_HOST: &str = "WaitingForBareMetalHost";
/// The host does not exist, or cannot be reached as it is annotated.
const NOT_FOUND: &str = "BareMetalHostNotFound";
/// The host is used by another object.
const IN_USE: &str = "BareMetalHostInUse";
/// The strategy is not known.
const INVALID: &str = "InvalidConfiguration";

/// The host as it was read, and what is known about it.
pub(super) struct HostView {
    pub host: BareMetalHost,
    pub state: HostState,
    /// The UIDs of other remediations with requests on the host.
    others: Vec<String>,
}

/// The host that a machine names.
pub(super) enum Found {
    /// The machine uses it.
    Own(Box<HostView>),
    /// It does not exist.
    Missing,
    /// Another object uses it, or none.
    OfAnother,
}

impl HostView {
    /// Returns whether a remediation with this UID exists.
    pub(super) fn exists(&self, uid: &str) -> bool {
        self.others.iter().any(|other| other == uid)
    }
}

impl RemediationReconciler<'_> {
    /// Checks that there is a machine to remediate.
    pub(super) fn check(&self, family: &Family) -> Progress<()> {
        let strategy = super::decide::strategy(&self.remediation.stored);
        if !matches!(strategy.kind.as_str(), "Reboot" | "") {
            let message = format!("the strategy {:?} is not known", strategy.kind);
            return Err(self.problem(INVALID, message));
        }
        if family.machine.is_none() {
            let message = "no Machine owns it; a MachineHealthCheck sets the owner";
            return Err(self.problem(NO_MACHINE, message));
        }
        // A Machine that is being deleted outlives its Metal3Machine.
        if family.metal3_machine.is_none() && family.keeps_node() {
            let message = "the Machine that owns it has no Metal3Machine";
            return Err(self.problem(NO_METAL3_MACHINE, message));
        }
        Ok(())
    }

    pub(super) fn problem(&self, reason: &'static str, message: impl Into<String>) -> Halt {
        let message = message.into();
        Halt::Problem(Problem { reason, message }, Outcome::Waits(RETRY))
    }

    /// Returns the access to hosts that the machine has.
    pub(super) async fn open(&self, family: &Family) -> Progress<HostAccess> {
        match access::open(self.of, family.identity()).await? {
            Access::Open(access) => Ok(access),
            Access::Opening(outcome) => Err(Halt::Stop(outcome)),
            Access::Closed(problem, outcome) => Err(Halt::Problem(problem, outcome)),
        }
    }

    /// Returns the host of the machine. A host that another object uses is never touched.
    pub(super) async fn own_host(
        &self,
        family: &Family,
        access: &HostAccess,
    ) -> Progress<HostView> {
        if annotation(family).is_none() {
            let message = "the machine has no host yet";
            return Err(self.problem(NO_HOST, message));
        }
        let name = annotation(family).unwrap_or_default();
        match self.find_host(family, access).await? {
            Found::Own(host) => Ok(*host),
            Found::Missing => {
                let message = format!("BareMetalHost {name} does not exist");
                Err(self.problem(NOT_FOUND, message))
            }
            Found::OfAnother => {
                let message = format!("BareMetalHost {name} is used by another object");
                Err(self.problem(IN_USE, message))
            }
        }
    }

    /// Finds the host that the machine names.
    pub(super) async fn find_host(&self, family: &Family, access: &HostAccess) -> Progress<Found> {
        let pool = &access.pool;
        let consumer = family.consumer(self.of, pool);
        let (Some(annotation), Some(consumer)) = (annotation(family), consumer) else {
            return Ok(Found::Missing);
        };
        let name = match annotated_host(annotation, pool.namespace()) {
            Ok(name) => name,
            Err(error) => {
                let message = format!(
                    "{error} {}, so {annotation:?} cannot be reached: restore the machine's \
                     spec.identityRef, or remove its annotation {HOST_ANNOTATION}",
                    pool.namespace()
                );
                return Err(self.problem(NOT_FOUND, message));
            }
        };
        pool.follow_host_once(self.of.key.text(), name);
        let host = insula_operator::read::get_named(&pool.hosts(), name).await;
        let host = host.map_err(Halt::Hosts)?;
        Ok(match host {
            Some(host) if consumer.has_named(&host) => Found::Own(Box::new(self.view(host).await?)),
            Some(_) => Found::OfAnother,
            None => Found::Missing,
        })
    }

    async fn view(&self, host: BareMetalHost) -> Progress<HostView> {
        let uid = self.uid();
        let mut others = requested_by(&host);
        others.retain(|other| *other != uid);
        if !others.is_empty() {
            let all = self.of.list::<Metal3Remediation>().await?;
            others.retain(|other| all.iter().any(|one| one.uid().as_ref() == Some(other)));
        }
        let request = self.request();
        let state = HostState {
            is_left_alone: is_left_alone(&host),
            is_online: host.spec.online,
            can_restart: can_restart(&host),
            must_stay_on: must_stay_on(&host),
            is_requested: request.is_placed(&host),
            has_request: request.is_to_withdraw(&host, |uid| others.iter().any(|one| one == uid)),
            is_done: request.is_placed(&host) && request.is_done(&host),
            is_on: is_on(&host),
            is_unhealthy: host.annotations().contains_key(HOST_UNHEALTHY),
        };
        Ok(HostView {
            host,
            state,
            others,
        })
    }

    /// Returns the request of this attempt.
    pub(super) fn request(&self) -> RestartRequest<'_> {
        let status = self.remediation.stored.status.as_ref();
        RestartRequest {
            uid: self.uid(),
            attempt: status
                .and_then(|status| status.retry_count)
                .unwrap_or_default(),
        }
    }

    fn uid(&self) -> &str {
        let uid = self.remediation.stored.metadata.uid.as_deref();
        uid.unwrap_or_default()
    }
}

/// Returns the annotation of the machine that names its host.
fn annotation(family: &Family) -> Option<&str> {
    let machine = family.metal3_machine.as_ref()?;
    machine
        .annotations()
        .get(HOST_ANNOTATION)
        .map(String::as_str)
}

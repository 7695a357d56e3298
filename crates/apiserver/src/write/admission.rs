//! Admission: steps that may change or reject a write after the request was authorized.
//!
//! Creates and updates run the same ordered [`CHAIN`]. Its phases run between the other stages
//! of a write: naming, preparing and validating the object. Quotas come last and are not a
//! step: they are charged in the transaction itself.

mod certificate_approval;
pub mod certificate_requester;
mod certificate_subject;
pub mod credential_revocation;
mod default_class;
pub mod lifecycle;
mod limit_ranger;
pub mod node_restriction;
mod owner_references;
pub mod pod_security;
mod policy_params;
mod priority;
mod published_definitions;
mod rbac_escalation;
mod runtime_class;
mod service_account;
mod volume_claim_resize;
pub mod webhooks;

use std::pin::Pin;

use insula_admission::Operation;
use insula_core::MASTERS;
use insula_kinds::{Object, core_kind};

use crate::pipeline::authorize::Caller;
use crate::registry::resource::Resource;
use crate::registry::{Address, Registry};
use crate::status::Result;
use lifecycle::Lifecycle;

/// A step of the chain: its phase, whether it applies, and what it does.
macro_rules! step {
    ($phase:ident, $applies:path, $run:path) => {
        Step {
            phase: Phase::$phase,
            applies: $applies,
            run: |admission| Box::pin($run(admission)),
        }
    };
}

/// Every admission step, in the order in which the steps run.
const CHAIN: &[Step] = &[
    // Defaults and mutating webhooks, before a name is generated.
    step!(Mutate, limit_ranger::fills, limit_ranger::admit),
    step!(Mutate, default_class::applies, default_class::admit),
    step!(Mutate, is_new_pod, runtime_class::admit),
    step!(Mutate, webhooks::are_configured, webhooks::mutate_object),
    // The object has its name, and the server has not filled it in yet.
    step!(Name, is_create, published_definitions::admit),
    step!(Name, is_create, lifecycle::admit),
    step!(Name, is_new_pod, service_account::admit),
    step!(Name, is_new_pod, priority::admit),
    // The server has filled the object in.
    step!(Content, node_restriction::applies, node_restriction::admit),
    step!(
        Content,
        certificate_requester::applies,
        certificate_requester::admit
    ),
    step!(
        Content,
        certificate_requester::applies,
        certificate_subject::admit
    ),
    step!(
        Content,
        credential_revocation::applies,
        credential_revocation::admit
    ),
    step!(Content, needs_rights, rbac_escalation::admit),
    step!(Content, needs_rights, certificate_approval::admit),
    step!(Content, needs_rights, owner_references::admit),
    step!(Content, needs_rights, policy_params::admit),
    // The object is valid.
    step!(Validate, limit_ranger::limits, limit_ranger::validate),
    step!(Validate, is_new_pod, runtime_class::validate),
    step!(Validate, pod_security::applies, pod_security::validate),
    step!(
        Validate,
        volume_claim_resize::applies,
        volume_claim_resize::validate
    ),
    step!(
        Validate,
        webhooks::are_configured,
        webhooks::validate_object
    ),
    step!(
        Validate,
        published_definitions::withdraws,
        published_definitions::validate
    ),
];

/// When a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The object is defaulted and in the version that is validated; a new one may have no name.
    Mutate,
    /// The object has its name.
    Name,
    /// The server has set its own fields.
    Content,
    /// The object is valid.
    Validate,
}

/// One step of the chain.
struct Step {
    phase: Phase,
    /// Whether the step has anything to do, so that most steps cost a comparison.
    applies: fn(&Admission<'_>) -> bool,
    run: for<'a> fn(&'a mut Admission<'_>) -> Running<'a>,
}

type Running<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// A write on its way through the chain.
pub struct Admission<'a> {
    /// The objects of all spaces.
    pub registry: &'a Registry,
    /// The caller; `None` if the server itself writes.
    pub caller: Option<Caller<'a>>,
    /// Create or update.
    pub operation: Operation,
    /// The resource in the caller's version.
    pub resource: &'a Resource,
    /// The object, as it is stored; a new one may have no name yet.
    pub address: &'a Address,
    /// The subresource that is written, if any.
    pub subresource: Option<&'a str>,
    /// Whether the write is a dry run.
    pub dry_run: bool,
    /// The object before a change.
    pub old: Option<&'a Object>,
    /// The object that is written, in the version that is validated.
    pub object: &'a mut Object,
    /// The tenant, namespace and definition of a create, once [`lifecycle`] has checked them.
    pub lifecycle: Option<Lifecycle>,
}

/// The content that a write sets, for steps that compare it with the caller's rights.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The object.
    pub address: &'a Address,
    /// The subresource that is written, if any.
    pub subresource: Option<&'a str>,
    /// The object before; `None` on create.
    pub old: Option<&'a Object>,
    /// The object that is written.
    pub new: &'a Object,
}

impl<'a> Admission<'a> {
    /// Runs the steps of a phase.
    ///
    /// # Errors
    ///
    /// The error of the first step that rejects the write.
    pub async fn run(&mut self, phase: Phase) -> Result<()> {
        for step in CHAIN.iter().filter(|step| step.phase == phase) {
            if (step.applies)(self) {
                (step.run)(self).await?;
            }
        }
        Ok(())
    }

    /// The content that is written.
    pub fn change(&self) -> Change<'_> {
        Change {
            address: self.address,
            subresource: self.subresource,
            old: self.old,
            new: self.object,
        }
    }
}

fn is_create(admission: &Admission<'_>) -> bool {
    admission.operation == Operation::Create
}

fn is_new_pod(admission: &Admission<'_>) -> bool {
    is_create(admission) && admission.address.kind.is(core_kind("pods"))
}

/// Whether the caller needs rights for the content that it writes. The server itself needs
/// none, and members of `system:masters` have all.
fn needs_rights(admission: &Admission<'_>) -> bool {
    let caller = admission.caller;
    caller.is_some_and(|caller| !caller.principal().is_in(MASTERS))
}

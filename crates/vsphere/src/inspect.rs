//! What `insula identity` has to know about the provider: how to ask for an object's credential.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use insula_capi::owning_cluster;
use insula_identity::decide::{Question, Refusal};
use insula_identity::reason::Reason;
use insula_identity::shape::Shape;
use insula_operator::provider::explain::{Asked, Error, Inspect, Objects, refused_alone};
use insula_operator::provider::{Bounds, IdentityKind, Names};
use kube::Resource;

use crate::kinds::{
    VSphereCluster, VSphereDeploymentZone, VSphereMachine, VSphereVM, VirtualMachineSpec,
};
use crate::names::{NAMES, NAMESPACE};
use crate::operator::IDENTITIES;
use crate::operator::condition::{VCENTER, reason};
use crate::operator::credentials::{
    ACCOUNT, SERVER, cluster_question, machine_question, zone_question,
};

/// The vSphere provider.
#[derive(Clone, Copy, Debug)]
pub struct VSphere;

/// Only the operator knows where credentials without servers of their own may be sent.
const BOUNDS: &Bounds = &Bounds::ANYWHERE;

impl Inspect for VSphere {
    fn kinds(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("VSphereCluster", "vsphereclusters"),
            ("VSphereMachine", "vspheremachines"),
            ("VSphereVM", "vspherevms"),
            ("VSphereDeploymentZone", "vspheredeploymentzones"),
        ]
    }

    fn identities(&self) -> Option<&'static IdentityKind> {
        Some(&IDENTITIES)
    }

    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn shape(&self) -> &'static dyn Shape {
        &ACCOUNT
    }

    fn endpoint_key(&self) -> Option<&'static str> {
        Some(SERVER)
    }

    fn operator_namespace(&self) -> &'static str {
        NAMESPACE
    }

    fn condition(&self, _: &str) -> &'static str {
        VCENTER
    }

    fn reasons(&self) -> fn(Reason) -> &'static str {
        reason
    }

    fn question<'a>(
        &'a self,
        objects: &'a Objects<'a>,
        kind: &'static str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Asked, Error>> {
        async move {
            match kind {
                "VSphereMachine" => machine(objects, name).await,
                "VSphereVM" => vm(objects, name).await,
                "VSphereDeploymentZone" => zone(objects, name).await,
                _ => cluster(objects, name).await,
            }
        }
        .boxed()
    }
}

async fn cluster(objects: &Objects<'_>, name: &str) -> Result<Asked, Error> {
    let cluster: VSphereCluster = objects.read(name).await?;
    let question = cluster_question(BOUNDS, objects.namespace, &cluster);
    Ok(Asked::new(&cluster, question))
}

async fn machine(objects: &Objects<'_>, name: &str) -> Result<Asked, Error> {
    let machine: VSphereMachine = objects.read(name).await?;
    let question = member_question(objects, &machine, &machine.spec.machine).await?;
    Ok(Asked::new(&machine, question))
}

async fn vm(objects: &Objects<'_>, name: &str) -> Result<Asked, Error> {
    let vm: VSphereVM = objects.read(name).await?;
    let question = member_question(objects, &vm, &vm.spec.machine).await?;
    Ok(Asked::new(&vm, question))
}

async fn zone(objects: &Objects<'_>, name: &str) -> Result<Asked, Error> {
    let zone: VSphereDeploymentZone = objects.read_cluster_scoped(name).await?;
    Ok(Asked::new(&zone, zone_question(BOUNDS, &zone)))
}

/// Returns the question for a machine or virtual machine, which gets its cluster's credential.
async fn member_question(
    objects: &Objects<'_>,
    member: &impl Resource,
    machine: &VirtualMachineSpec,
) -> Result<Result<Question, Refusal>, Error> {
    Ok(match owning_cluster::of_member(objects, member).await? {
        Ok(cluster) => machine_question(BOUNDS, objects.namespace, machine, &cluster),
        Err(why) => Err(refused_alone(&why)),
    })
}

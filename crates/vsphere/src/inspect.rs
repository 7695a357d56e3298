//! What `insula identity` has to know about the provider: how to ask for an object's credential.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use insula_capi::names::CLUSTER_LABEL;
use insula_capi::{Cluster, owning_cluster};
use insula_identity::decide::{Question, Refusal};
use insula_identity::reason::Reason;
use insula_identity::shape::Shape;
use insula_operator::provider::explain::{Asked, Error, Inspect, Objects, refused_alone};
use insula_operator::provider::{Bounds, IdentityKind, Names};
use kube::{Resource, ResourceExt};

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

    fn condition(&self) -> &'static str {
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
    let conditions = cluster.status.clone().unwrap_or_default().conditions;
    let text = objects.text::<VSphereCluster>(name);
    Ok(Asked::new(text, &cluster, question, conditions))
}

async fn machine(objects: &Objects<'_>, name: &str) -> Result<Asked, Error> {
    let machine: VSphereMachine = objects.read(name).await?;
    let question = member_question(objects, &machine, &machine.spec.machine).await?;
    let conditions = machine.status.clone().unwrap_or_default().conditions;
    let text = objects.text::<VSphereMachine>(name);
    Ok(Asked::new(text, &machine, question, conditions))
}

async fn vm(objects: &Objects<'_>, name: &str) -> Result<Asked, Error> {
    let vm: VSphereVM = objects.read(name).await?;
    let question = member_question(objects, &vm, &vm.spec.machine).await?;
    let conditions = vm.status.clone().unwrap_or_default().conditions;
    let text = objects.text::<VSphereVM>(name);
    Ok(Asked::new(text, &vm, question, conditions))
}

async fn zone(objects: &Objects<'_>, name: &str) -> Result<Asked, Error> {
    let zone: VSphereDeploymentZone = objects.read_cluster_scoped(name).await?;
    let question = zone_question(BOUNDS, &zone);
    let conditions = zone.status.clone().unwrap_or_default().conditions;
    let text = format!("VSphereDeploymentZone {name}");
    Ok(Asked::new(text, &zone, question, conditions))
}

/// Returns the question for a machine or virtual machine, which gets its cluster's credential.
async fn member_question(
    objects: &Objects<'_>,
    member: &impl Resource,
    machine: &VirtualMachineSpec,
) -> Result<Result<Question, Refusal>, Error> {
    let label = member.labels().get(CLUSTER_LABEL);
    Ok(match cluster_of(objects, label).await? {
        Ok(cluster) => machine_question(BOUNDS, objects.namespace, machine, &cluster),
        Err(why) => Err(refused_alone(&why)),
    })
}

/// Returns the cluster that the label names, or why there is none.
async fn cluster_of(
    objects: &Objects<'_>,
    label: Option<&String>,
) -> Result<Result<VSphereCluster, String>, Error> {
    let Some(name) = label else {
        return Ok(Err(format!("it has no label {CLUSTER_LABEL}")));
    };
    let cluster: Cluster = match objects.read(name).await {
        Err(Error::NotFound(what)) => return Ok(Err(format!("there is no {what}"))),
        read => read?,
    };
    match owning_cluster::reference::<VSphereCluster>(&cluster) {
        Err(no_cluster) => Ok(Err(no_cluster.message)),
        Ok(reference) => match objects.read(&reference.name).await {
            Err(Error::NotFound(what)) => Ok(Err(format!("there is no {what}"))),
            read => read.map(Ok),
        },
    }
}

//! `insula identity explain`.

use insula_vsphere::explain::{self, Kind};
use kube::Client;

use super::to_failure;
use crate::failure::Failure;
use crate::{output, terminal};

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Object: a vspherecluster, vspheremachine, vspherevm or vspheredeploymentzone
    #[arg(value_name = "KIND/NAME", value_parser = object)]
    object: Object,

    /// Namespace of the object (default: the kubeconfig's)
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
}

#[derive(Clone, Debug)]
struct Object {
    kind: Kind,
    name: String,
}

/// Shows the decision; fails if there is no credential.
pub async fn run(client: &Client, args: Args) -> Result<(), Failure> {
    let namespace = args.namespace.as_deref();
    let namespace = namespace.unwrap_or(client.default_namespace());
    let Object { kind, name } = &args.object;
    let found = explain::report(client, *kind, namespace, name).await;
    let found = found.map_err(|error| to_failure(&error))?;
    output::print(&terminal::sanitize(&found.to_string()))?;
    match found.is_granted() {
        true => Ok(()),
        false => Err(Failure::message(format!(
            "{} gets no credential",
            found.object
        ))),
    }
}

fn object(text: &str) -> Result<Object, String> {
    let read = text.split_once('/').and_then(|(kind, name)| {
        let (kind, name) = (Kind::parse(kind)?, name.to_owned());
        (!name.is_empty() && !name.contains('/')).then_some(Object { kind, name })
    });
    read.ok_or_else(|| {
        "expected a kind and a name such as vspherecluster/prod; kinds are vspherecluster, \
         vspheremachine, vspherevm and vspheredeploymentzone"
            .to_owned()
    })
}

//! `insula identity explain`.

use insula_operator::provider::explain::{self, Inspect, Verdict, find_kind};
use kube::Client;

use super::{join, to_failure};
use crate::failure::Failure;
use crate::providers::INSPECTED;
use crate::{output, terminal};

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Object: of a kind of vSphere, Metal3 or Azure, such as vspherecluster or resourcegroup
    #[arg(value_name = "KIND/NAME", value_parser = object)]
    object: Object,

    /// Namespace of the object (default: the kubeconfig's)
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
}

#[derive(Clone)]
struct Object {
    provider: &'static dyn Inspect,
    kind: &'static str,
    name: String,
}

/// Shows the decision; fails if there is no credential, or if that is not known.
pub async fn run(client: &Client, args: Args) -> Result<(), Failure> {
    let namespace = args.namespace.as_deref();
    let namespace = namespace.unwrap_or(client.default_namespace());
    let Object {
        provider,
        kind,
        name,
    } = args.object;
    let found = explain::report(client, provider, kind, namespace, &name).await;
    let found = found.map_err(|error| to_failure(&error))?;
    output::print(&terminal::sanitize(&found.to_string()))?;
    let object = &found.object;
    match found.verdict() {
        Verdict::Granted => Ok(()),
        Verdict::Refused => Err(Failure::message(format!("{object} gets no credential"))),
        Verdict::Unknown => Err(Failure::message(format!(
            "whether {object} gets a credential is not known"
        ))
        .hint("ask a user who may read identities, or wait for the operator's condition")),
    }
}

/// How many kinds of a provider a message lists.
const MAX_SHOWN: usize = 16;

fn object(text: &str) -> Result<Object, String> {
    let read = text.split_once('/').and_then(|(kind, name)| {
        let ((provider, kind), name) = (find_kind(INSPECTED, kind)?, name.to_owned());
        let is_name = !name.is_empty() && !name.contains('/');
        is_name.then_some(Object {
            provider,
            kind,
            name,
        })
    });
    read.ok_or_else(|| {
        let few = INSPECTED.iter().map(|provider| provider.kinds());
        let few = few.filter(|kinds| kinds.len() <= MAX_SHOWN).flatten();
        let mut kinds: Vec<_> = few.map(|(kind, _)| kind.to_ascii_lowercase()).collect();
        kinds.push("those of Azure such as resourcegroup or server.sql.azure.com".to_owned());
        format!(
            "expected a kind and a name such as vspherecluster/prod; kinds are {}",
            join(&kinds)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_parses_kind_or_plural_and_name() {
        for (text, kind) in [
            ("vspherecluster/prod", "VSphereCluster"),
            ("VSphereVMs/prod", "VSphereVM"),
            ("metal3machines/prod", "Metal3Machine"),
            ("resourcegroups/prod", "ResourceGroup"),
            ("server.sql.azure.com/prod", "Server.sql.azure.com"),
        ] {
            let object = object(text).map_err(|why| format!("{text}: {why}"));
            let object = object.expect("an object");
            assert_eq!((object.kind, object.name.as_str()), (kind, "prod"));
        }
        for text in [
            "prod",
            "pod/prod",
            "vspherecluster/",
            "vspherecluster/a/b",
            "",
        ] {
            assert_eq!(
                object(text).err().as_deref(),
                Some(
                    "expected a kind and a name such as vspherecluster/prod; kinds are \
                     metal3cluster, metal3machine, vspherecluster, vspheremachine, vspherevm, \
                     vspheredeploymentzone and those of Azure such as resourcegroup or \
                     server.sql.azure.com"
                ),
                "{text}"
            );
        }
    }
}

//! Fields that refer to something outside of the kubeconfig. They are refused in every entry, also
//! in those that are not used: a kubeconfig with them is not meant for an operator.

use serde_json::Value;

use super::file::{Cluster, File, User};
use super::invalid::{InvalidKubeconfig, Place};

const RUNS_PROGRAM: &str = "it would run a program in the operator";
const READS_FILE: &str = "it names a file of the operator; put the content into the kubeconfig";
const REDIRECTS: &str = "it would send requests to another server";

/// Checks that no entry refers to something outside of the kubeconfig.
pub(super) fn check(file: &File) -> Result<(), InvalidKubeconfig> {
    for named in file.clusters() {
        let field = named.cluster.as_ref().and_then(field_of_cluster);
        if let Some((field, why)) = field {
            let mut contexts = file.contexts();
            let context = contexts.find(|one| {
                let context = one.context.as_ref();
                context.is_some_and(|context| context.cluster.as_ref() == Some(&named.name))
            });
            let context = context.map(|one| one.name.clone());
            let place = Place {
                entry: "cluster",
                context,
            };
            return Err(InvalidKubeconfig::Outside { field, place, why });
        }
    }
    for named in file.users() {
        let field = named.user.as_ref().and_then(field_of_user);
        if let Some((field, why)) = field {
            let mut contexts = file.contexts();
            let context = contexts.find(|one| {
                let context = one.context.as_ref();
                context.is_some_and(|context| context.user.as_ref() == Some(&named.name))
            });
            let context = context.map(|one| one.name.clone());
            let place = Place {
                entry: "user",
                context,
            };
            return Err(InvalidKubeconfig::Outside { field, place, why });
        }
    }
    Ok(())
}

fn field_of_cluster(cluster: &Cluster) -> Option<(&'static str, &'static str)> {
    first_set([
        (
            "certificate-authority",
            READS_FILE,
            &cluster.certificate_authority,
        ),
        ("proxy-url", REDIRECTS, &cluster.proxy_url),
    ])
}

fn field_of_user(user: &User) -> Option<(&'static str, &'static str)> {
    first_set([
        ("exec", RUNS_PROGRAM, &user.exec),
        ("auth-provider", RUNS_PROGRAM, &user.auth_provider),
        ("tokenFile", READS_FILE, &user.token_file),
        ("client-certificate", READS_FILE, &user.client_certificate),
        ("client-key", READS_FILE, &user.client_key),
    ])
}

/// Returns the first field that is set. An empty text is what some programs write for a missing
/// one.
fn first_set<const N: usize>(
    fields: [(&'static str, &'static str, &Option<Value>); N],
) -> Option<(&'static str, &'static str)> {
    let is_set = |value: &Value| !value.is_null() && value.as_str() != Some("");
    let mut fields = fields.into_iter();
    let field = fields.find(|(_, _, value)| value.as_ref().is_some_and(is_set));
    field.map(|(name, why, _)| (name, why))
}

//! `insula operator azure manifests` and `crds`.

use insula_azure::manifests::{
    self, ManagedIdentity, Operators, ReviewedKinds, Settings, Tenant, tenant_manifests,
};
use insula_azure::names::SYSTEM_NAMESPACE;
use insula_azure::webhooks::SERVICE;
use insula_core::TenantName;
use insula_operator::read::is_valid_name;
use insula_operator::webhook::WebhookService;

use crate::failure::Failure;
use crate::output;
use crate::subctl::axon::IMAGE;

/// The arguments.
#[derive(clap::Args)]
pub struct ManifestsArgs {
    /// Only the manifests of this tenant's operator, in the namespace NAME-system
    #[arg(long, value_name = "NAME", value_parser = TenantName::parse, requires = "namespaces")]
    #[arg(conflicts_with_all = ["global", "tenants", "without_deployment", "all_kinds"])]
    #[arg(conflicts_with_all = ["namespace", "webhook_service", "without_definitions"])]
    tenant: Option<TenantName>,

    /// Namespaces that the tenant's operator manages, separated by commas; they have to exist
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "tenant")]
    #[arg(value_parser = namespace)]
    namespaces: Vec<String>,

    /// Managed identity of the tenant's operator, with its ARM id for AzureIdentity
    #[arg(long, value_name = "CLIENT_ID[:RESOURCE_ID]", requires = "tenant")]
    #[arg(value_parser = managed_identity)]
    managed_identity: Option<ManagedIdentity>,

    /// One operator for all namespaces, with credentials looked up in each of them
    #[arg(long)]
    global: bool,

    /// One operator for the spaces of all tenants of an Insula server too
    #[arg(long)]
    tenants: bool,

    /// Webhook configurations for all kinds, also those with definitions of Azure Service Operator
    #[arg(long)]
    all_kinds: bool,

    /// Print no definitions: those of Azure Service Operator stay as they are
    #[arg(long)]
    without_definitions: bool,

    /// Namespace of the webhooks and of an operator for all namespaces
    #[arg(long, value_name = "NAME", default_value = SYSTEM_NAMESPACE, value_parser = namespace)]
    namespace: String,

    /// Service of the webhooks
    #[arg(long, value_name = "NAME", default_value = SERVICE, value_parser = namespace)]
    webhook_service: String,

    /// Image of the operator, with the binary `insula`
    #[arg(long, value_name = "IMAGE", default_value = IMAGE)]
    operator_image: String,

    /// Print no Deployment: the operator runs elsewhere, such as in `insula serve --operators azure`
    #[arg(long)]
    without_deployment: bool,
}

impl ManifestsArgs {
    /// Prints the manifests.
    pub fn print(self) -> Result<(), Failure> {
        if let Some(tenant) = self.tenant {
            let tenant = Tenant {
                name: tenant.to_string(),
                namespaces: self.namespaces,
                image: self.operator_image,
                managed_identity: self.managed_identity,
            };
            return output::print(&output::documents(&tenant_manifests(&tenant))?);
        }
        let settings = Settings {
            image: (!self.without_deployment).then_some(self.operator_image),
            operators: match (self.tenants, self.global) {
                (true, _) => Operators::AllSpaces,
                (false, true) => Operators::Global,
                (false, false) => Operators::PerTenant,
            },
            kinds: match self.all_kinds {
                true => ReviewedKinds::All,
                false => ReviewedKinds::Own,
            },
            service: WebhookService::new(&self.namespace, &self.webhook_service),
            without_definitions: self.without_definitions,
        };
        output::print(&output::documents(&manifests::manifests(&settings))?)
    }
}

/// Prints the definitions.
pub fn print_crds() -> Result<(), Failure> {
    let definitions = manifests::definitions(&Settings::default());
    output::print(&output::documents(&definitions)?)
}

/// Parses the name of a namespace or Service.
fn namespace(text: &str) -> Result<String, String> {
    const MAX_LABEL: usize = 63;
    match is_valid_name(text) && !text.contains('.') && text.len() <= MAX_LABEL {
        true => Ok(text.to_owned()),
        false => Err("expected at most 63 lower-case letters, digits and hyphens".to_owned()),
    }
}

/// Parses a client id with an optional ARM id.
fn managed_identity(text: &str) -> Result<ManagedIdentity, String> {
    let (client_id, resource_id) = match text.split_once(':') {
        Some((client_id, id)) => (client_id, Some(id)),
        None => (text, None),
    };
    let is_id = |id: &str| id.parse::<insula_azure::arm::ResourceId>().is_ok();
    if client_id.is_empty() || resource_id.is_some_and(|id| !is_id(id)) {
        return Err(
            "expected a client id, and after a colon the ARM id that begins with /subscriptions/"
                .to_owned(),
        );
    }
    Ok(ManagedIdentity {
        client_id: client_id.to_owned(),
        resource_id: resource_id.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managed_identity_has_a_client_id_and_may_have_an_arm_id() {
        let id = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/\
                  userAssignedIdentities/i";
        for (text, client_id, resource_id) in [
            ("c".to_owned(), "c", None),
            (format!("c:{id}"), "c", Some(id)),
        ] {
            let expected = ManagedIdentity {
                client_id: client_id.to_owned(),
                resource_id: resource_id.map(str::to_owned),
            };
            assert_eq!(managed_identity(&text), Ok(expected));
        }
        for wrong in ["", ":/subscriptions/s", "c:s"] {
            assert!(managed_identity(wrong).is_err(), "{wrong}");
        }
    }
}

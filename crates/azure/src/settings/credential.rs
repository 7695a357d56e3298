//! The operator's own credential, and which scopes of credentials an operator uses.

use insula_identity::credential::Hidden;

use super::reader::Reader;

/// The file with the service account's token for Entra, as the Deployment mounts it.
pub const TOKEN_FILE: &str = "/var/run/secrets/tokens/azure-identity";

const SUBSCRIPTION: &str = "AZURE_SUBSCRIPTION_ID";
const TENANT: &str = "AZURE_TENANT_ID";
const CLIENT: &str = "AZURE_CLIENT_ID";
const SECRET: &str = "AZURE_CLIENT_SECRET";
const CERTIFICATE: &str = "AZURE_CLIENT_CERTIFICATE";
const PASSWORD: &str = "AZURE_CLIENT_CERTIFICATE_PASSWORD";
const MANAGED_IDENTITY: &str = "AZURE_USE_MI";
const WORKLOAD_IDENTITY: &str = "USE_WORKLOAD_IDENTITY_AUTH";

/// The names of settings that are never shown.
pub const SECRETS: [&str; 3] = [SECRET, CERTIFICATE, PASSWORD];

/// The operator's own credential, which objects without a narrower one get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalCredential {
    /// The subscription of the resources.
    pub subscription: String,
    /// The Entra tenant; none with a managed identity.
    pub tenant: Option<String>,
    /// The client id; none for the only managed identity of a machine.
    pub client: Option<String>,
    /// How the operator proves that it is this client.
    pub proof: Proof,
    /// Tenants that tokens are requested from in addition.
    pub additional_tenants: Vec<String>,
}

/// How a client proves its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A client secret.
    Secret(Hidden),
    /// A certificate with its private key, as PEM or PKCS#12.
    Certificate {
        /// The certificate and the key.
        content: Hidden,
        /// The password of the key.
        password: Option<Hidden>,
    },
    /// The token of a service account in this file.
    WorkloadIdentity {
        /// The path.
        token_file: String,
    },
    /// The managed identity of the machine.
    ManagedIdentity,
}

impl Proof {
    /// Returns the name, for logs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Secret(_) => "client-secret",
            Self::Certificate { .. } => "client-certificate",
            Self::WorkloadIdentity { .. } => "workload-identity",
            Self::ManagedIdentity => "managed-identity",
        }
    }
}

/// Which scopes of credentials an operator uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialMode {
    /// That of the object, else of the namespace, else of the operator.
    Fallback,
    /// That of the namespace only.
    Namespace,
    /// That of the object, else of the namespace.
    Resource,
    /// That of the operator only.
    Global,
}

impl CredentialMode {
    /// Returns whether the operator's own credential is used.
    pub const fn uses_operator(self) -> bool {
        matches!(self, Self::Fallback | Self::Global)
    }
}

/// The account with the token that is sent for a workload identity of a tenant's Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadIdentityMode {
    /// That of the operator's service account, so that tenants can use each other's identities.
    Relaxed,
    /// That of the service account `aso-workload` in the object's namespace.
    Strict,
}

/// The names of the credential modes.
pub(super) const MODES: &[(&str, CredentialMode)] = &[
    ("fallback", CredentialMode::Fallback),
    ("namespace", CredentialMode::Namespace),
    ("resource", CredentialMode::Resource),
    ("global", CredentialMode::Global),
];

/// The names of the modes of workload identity.
pub(super) const WORKLOAD_IDENTITY_MODES: &[(&str, WorkloadIdentityMode)] = &[
    ("relaxed", WorkloadIdentityMode::Relaxed),
    ("strict", WorkloadIdentityMode::Strict),
];

/// Reads the operator's own credential: none without a subscription.
pub(super) fn read(reader: &mut Reader<'_>) -> Option<GlobalCredential> {
    let unsupported = "AZURE_USER_ASSIGNED_IDENTITY_CREDENTIALS";
    if reader.text(unsupported).is_some() {
        let message = "identities in files of the MSI data plane are not supported";
        reader.problem(unsupported, message);
    }
    let proof = read_proof(reader);
    let Some(subscription) = reader.text(SUBSCRIPTION) else {
        if reader.text(CLIENT).is_some() {
            reader.warn(format!(
                "{CLIENT} is ignored because {SUBSCRIPTION} is not set: the operator has no \
                 credential of its own"
            ));
        }
        return None;
    };
    if !matches!(proof, Proof::ManagedIdentity) {
        for variable in [TENANT, CLIENT] {
            if reader.text(variable).is_none() {
                let message = format!("required for the credential type {}", proof.name());
                reader.problem(variable, message);
            }
        }
    }
    Some(GlobalCredential {
        subscription: subscription.to_owned(),
        tenant: reader.text(TENANT).map(str::to_owned),
        client: reader.text(CLIENT).map(str::to_owned),
        proof,
        additional_tenants: reader.list("AZURE_ADDITIONAL_TENANTS"),
    })
}

fn read_proof(reader: &mut Reader<'_>) -> Proof {
    let managed_identity = reader.lenient_bool(MANAGED_IDENTITY);
    let workload_identity = reader.lenient_bool(WORKLOAD_IDENTITY);
    if managed_identity && workload_identity {
        let message = format!("{WORKLOAD_IDENTITY} is set too: expected one of both");
        reader.problem(MANAGED_IDENTITY, message);
    }
    if workload_identity {
        let token_file = reader.text("AZURE_FEDERATED_TOKEN_FILE");
        let token_file = token_file.unwrap_or(TOKEN_FILE).to_owned();
        return Proof::WorkloadIdentity { token_file };
    }
    if managed_identity {
        return Proof::ManagedIdentity;
    }
    if let Some(content) = reader.secret(CERTIFICATE) {
        let password = reader.secret(PASSWORD);
        return Proof::Certificate { content, password };
    }
    match reader.secret(SECRET) {
        Some(secret) => Proof::Secret(secret),
        None => Proof::ManagedIdentity,
    }
}

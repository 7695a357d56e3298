//! Custom resources for resources that exist in Azure: reads a resource with the credential of
//! some [settings](crate::settings), and [maps](crate::mapping::import()) it.

pub mod children;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use insula_operator::outbound::HttpClients;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition,
};
use serde_json::Value;

use crate::arm::session::{REQUEST_TIMEOUT, TOKEN_TIMEOUT};
use crate::arm::{RequestFailure, ResourceId, Session, Subscriptions, client};
use crate::entra::account::{Account, Proof as AccountProof};
use crate::entra::base_url::{BaseUrl, Cleartext};
use crate::entra::cloud::InvalidCloud;
use crate::entra::{Cloud, TokenError, TokenFile};
use crate::mapping::import::{import, is_useful};
use crate::settings::credential::TOKEN_FILE;
use crate::settings::{GlobalCredential, InvalidSettings, Proof, Settings};
use crate::table::{self, Kind, Version};
use crate::{crds, mapping};

/// Settings of operators that an import has no use for.
const NOT_USED: [&str; 3] = [
    "AZURE_OPERATOR_MODE",
    "AZURE_WEBHOOK_ONLY",
    "AZURE_TARGET_NAMESPACES",
];

/// A failed import.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// No kind has the type of the resource.
    #[error("there is no kind for resources of type {0}")]
    NoKind(String),
    /// The kind does not have the version.
    #[error("{kind} has no version {version}; it has {}", .versions.join(", "))]
    NoVersion {
        /// The kind with its group.
        kind: String,
        /// The version.
        version: String,
        /// The versions that there are.
        versions: Vec<String>,
    },
    /// The environment has invalid settings.
    #[error(transparent)]
    Settings(#[from] InvalidSettings),
    /// The environment has no credential.
    #[error("the environment has no credential for Azure")]
    NoCredential,
    /// An endpoint is invalid.
    #[error("the settings name an invalid endpoint: {0}")]
    Cloud(#[from] InvalidCloud),
    /// The address of the metadata service is invalid.
    #[error("the address of the metadata service is invalid: {0}")]
    MetadataService(String),
    /// The user agent is invalid.
    #[error("AZURE_USER_AGENT_SUFFIX has a character that a header cannot have")]
    UserAgent,
    /// There is no token.
    #[error("cannot log in to Azure: {0}")]
    Login(#[from] TokenError),
    /// The resource cannot be read.
    #[error("cannot read {id}: {failure}")]
    Read {
        /// The id of the resource.
        id: String,
        /// The cause.
        failure: RequestFailure,
    },
    /// Azure creates and changes the resource by itself.
    #[error("{0} is managed by Azure itself, and has no use as a custom resource")]
    NotUseful(String),
}

impl ImportError {
    /// Returns what the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoKind(_) => Some("docs/azure.md has the table of the kinds that are served"),
            Self::NoCredential | Self::Settings(_) => Some(
                "set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, as the settings \
                 Secret of an operator has them",
            ),
            Self::Login(_) => Some("correct the variables AZURE_*"),
            Self::Read { failure, .. } => match failure {
                RequestFailure::Token(_) => Some("correct the variables AZURE_*"),
                _ if failure.is_not_found() => Some("check the id, and its subscription"),
                RequestFailure::Refused { error, .. } if error.status == 403 => {
                    Some("give the client the role Reader for the resource")
                }
                _ => None,
            },
            _ => None,
        }
    }
}

/// A resource to import: its kind, and the version of the custom resource.
#[derive(Clone, Debug)]
pub struct Import {
    id: ResourceId,
    kind: &'static Kind,
    version: Version,
    /// The name of the version, which may be that of its twin.
    name: String,
}

impl Import {
    /// Finds the kind of a resource, and its version: the newest one that is stable and installed
    /// by this program's manifests, unless it is named.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn find(id: ResourceId, version: Option<&str>) -> Result<Self, ImportError> {
        let arm_type = id.resource_type();
        let is_of = |kind: &&Kind| {
            let fixed = kind.fixed_name();
            fixed.is_none_or(|name| name.eq_ignore_ascii_case(id.name()))
        };
        let kind = table::by_arm_type(&arm_type).find(is_of);
        let kind = kind.ok_or(ImportError::NoKind(arm_type))?;
        let name = match version {
            Some(name) => name.to_owned(),
            None => default_version(kind),
        };
        // Storage versions are not for users.
        let found = kind.version(&name).filter(|_| !name.ends_with("storage"));
        let found = found.ok_or_else(|| ImportError::NoVersion {
            kind: format!("{}.{}", kind.plural(), kind.group()),
            version: name.clone(),
            versions: kind
                .versions()
                .iter()
                .map(|it| it.name().to_owned())
                .collect(),
        })?;
        Ok(Self {
            version: found.clone(),
            id,
            kind,
            name,
        })
    }

    /// Returns the name of the kind's definition.
    pub fn definition_name(&self) -> String {
        format!("{}.{}", self.kind.plural(), self.kind.group())
    }

    /// Returns the definition, if it is one of this program's.
    pub fn own_definition(&self) -> Option<&'static CustomResourceDefinition> {
        own_definition(&self.definition_name())
    }

    /// Reads the resource, and returns the custom resource for it. Fields that the definition does
    /// not have are removed: only Azure sets them.
    ///
    /// # Errors
    ///
    /// If the resource cannot be read, or has no use as a custom resource.
    pub async fn read(
        &self,
        session: &Session,
        definition: Option<&CustomResourceDefinition>,
    ) -> Result<Value, ImportError> {
        let api_version = self.version.api_version();
        let read = session.client().get(&self.id, &api_version).await;
        let read = read.map_err(|failure| ImportError::Read {
            id: self.id.to_string(),
            failure,
        })?;
        let schema = definition.and_then(|definition| spec_schema(definition, &self.name));
        let mut object = import(self.kind, &self.version, &read.body, schema.as_ref());
        let status = mapping::status(self.kind, &self.version, &read.body);
        let mut with_status = object.clone();
        with_status["status"] = Value::Object(status);
        if !is_useful(self.kind, &with_status) {
            return Err(ImportError::NotUseful(self.id.to_string()));
        }
        object["apiVersion"] = format!("{}/{}", self.kind.group(), self.name).into();
        Ok(object)
    }
}

/// Returns the version for a new custom resource: the first one of this program's definition, else
/// the newest stable one.
fn default_version(kind: &Kind) -> String {
    let own = own_definition(&format!("{}.{}", kind.plural(), kind.group()));
    let own = own.and_then(|definition| definition.spec.versions.first());
    let own = own.map(|version| version.name.clone());
    let is_stable = |version: &&Version| !version.name().ends_with("preview");
    let versions = kind.versions().iter().rev();
    let newest = versions
        .clone()
        .find(is_stable)
        .or_else(|| versions.clone().next());
    let newest = newest.map(|version| version.name().to_owned());
    own.or(newest).unwrap_or_default()
}

/// This program's definitions, which take some time to build.
static OWN_DEFINITIONS: LazyLock<Vec<CustomResourceDefinition>> =
    LazyLock::new(|| crds::all(&CustomResourceConversion::default()));

fn own_definition(name: &str) -> Option<&'static CustomResourceDefinition> {
    let mut all = OWN_DEFINITIONS.iter();
    all.find(|definition| definition.metadata.name.as_deref() == Some(name))
}

/// Returns the schema of `spec` in a version of a definition.
fn spec_schema(definition: &CustomResourceDefinition, version: &str) -> Option<Value> {
    let mut versions = definition.spec.versions.iter();
    let version = versions.find(|it| it.name == version)?;
    let schema = version.schema.as_ref()?.open_api_v3_schema.as_ref()?;
    let spec = schema.properties.as_ref()?.get("spec")?;
    serde_json::to_value(spec).ok()
}

/// Opens a session with the credential of the environment. A subscription does not have to be
/// set: the id of the resource has it.
///
/// # Errors
///
/// If there is no usable credential.
pub async fn open_session(
    mut environment: BTreeMap<String, String>,
    id: &ResourceId,
    authorities: Vec<Vec<u8>>,
    cleartext: Cleartext,
) -> Result<Session, ImportError> {
    environment.retain(|name, _| !NOT_USED.contains(&name.as_str()));
    // No object of an operator is read or written.
    environment.insert("POD_NAMESPACE".to_owned(), "import".to_owned());
    if let Some(subscription) = id.subscription() {
        let subscription = subscription.to_owned();
        environment.insert("AZURE_SUBSCRIPTION_ID".to_owned(), subscription);
    }
    let settings = Settings::parse(&environment)?.settings;
    let credential = settings.credential.as_ref();
    let credential = credential.ok_or(ImportError::NoCredential)?;
    let account = account(&settings, credential, cleartext)?;
    let suffix = settings.user_agent_suffix.as_deref().unwrap_or_default();
    let metadata_service = BaseUrl::parse(&settings.metadata_endpoint, Cleartext::MetadataService);
    let subscriptions = Subscriptions {
        clients: HttpClients::new(authorities),
        assertions: Arc::new(token_file(credential)),
        metadata_service: metadata_service
            .map_err(|error| ImportError::MetadataService(error.to_string()))?,
        user_agent: client::user_agent(suffix).map_err(|_| ImportError::UserAgent)?,
        cleartext,
        observer: Arc::new(()),
        request_timeout: REQUEST_TIMEOUT,
        token_timeout: TOKEN_TIMEOUT,
    };
    Ok(subscriptions.open_own(account).await?)
}

fn account(
    settings: &Settings,
    credential: &GlobalCredential,
    cleartext: Cleartext,
) -> Result<Account, ImportError> {
    Ok(Account {
        subscription: credential.subscription.clone(),
        tenant: credential.tenant.clone().unwrap_or_default(),
        client_id: credential.client.clone().unwrap_or_default(),
        additional_tenants: credential.additional_tenants.clone(),
        cloud: Cloud::custom(
            &settings.cloud.authority_host,
            &settings.cloud.resource_manager_endpoint,
            &settings.cloud.resource_manager_audience,
            cleartext,
        )?,
        proof: match credential.proof.clone() {
            Proof::Secret(secret) => AccountProof::Secret(secret),
            Proof::Certificate { content, password } => {
                AccountProof::Certificate(content, password)
            }
            Proof::WorkloadIdentity { .. } => AccountProof::WorkloadIdentity,
            Proof::ManagedIdentity => AccountProof::ManagedIdentity,
        },
    })
}

/// Returns the file with the token of a workload identity.
fn token_file(credential: &GlobalCredential) -> TokenFile {
    let path = match &credential.proof {
        Proof::WorkloadIdentity { token_file } => token_file,
        _ => TOKEN_FILE,
    };
    TokenFile(path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: &str = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/\
                           virtualNetworks/n";

    fn find(id: &str, version: Option<&str>) -> Result<String, String> {
        let found = Import::find(id.parse().unwrap(), version);
        let found = found.map_err(|error| error.to_string())?;
        Ok(format!("{} {}", found.definition_name(), found.name))
    }

    #[test]
    fn version_is_the_newest_stable_one_unless_it_is_named() {
        let name = "virtualnetworks.network.azure.com";
        assert_eq!(find(NETWORK, None), Ok(format!("{name} v20250301")));
        let older = find(NETWORK, Some("v1api20240301"));
        assert_eq!(older, Ok(format!("{name} v1api20240301")));
        for wrong in ["v1", "v20250301storage"] {
            let error = find(NETWORK, Some(wrong)).unwrap_err();
            let expected = format!("{name} has no version {wrong}; it has ");
            assert!(error.starts_with(&expected), "{error}");
        }
        let group = find("/subscriptions/s/resourceGroups/g", None);
        let expected = "resourcegroups.resources.azure.com v1api20200601";
        assert_eq!(group, Ok(expected.to_owned()));
    }

    #[test]
    fn type_without_a_kind_is_named() {
        let id = "/subscriptions/s/resourceGroups/g/providers/Contoso.Shop/baskets/b";
        let expected = "there is no kind for resources of type Contoso.Shop/baskets";
        assert_eq!(find(id, None), Err(expected.to_owned()));
    }
}

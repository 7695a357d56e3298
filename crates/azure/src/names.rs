//! Groups, labels, annotations, finalizers and other well-known names.

/// The namespace of the webhooks and of an operator for all namespaces.
pub const SYSTEM_NAMESPACE: &str = "azureoperator-system";
/// The user agent of operators at the API server.
pub const AGENT: &str = concat!("insula-azure/", env!("CARGO_PKG_VERSION"));
/// The Secret with the settings of an operator, in the operator's namespace.
pub const SETTINGS_SECRET: &str = "azureoperatorsettings";
/// The name that Azure Service Operator v2 has for the same Secret.
pub const SETTINGS_SECRET_V2: &str = "aso-controller-settings";
/// The Secret with the key that records of owners are signed with, in the operator's namespace.
pub const OWNERSHIP_KEY_SECRET: &str = "azureoperator-ownership-key";
/// The Secret with the credential of a namespace.
pub const NAMESPACE_CREDENTIAL: &str = "aso-credential";

/// Annotation with the namespace of the operator that reconciles an object.
pub const OPERATOR_NAMESPACE: &str = "azure.microsoft.com/operator-namespace";
/// The name that Azure Service Operator v2 has for the same annotation.
pub const OPERATOR_NAMESPACE_V2: &str = "serviceoperator.azure.com/operator-namespace";
/// What begins the value of that annotation in the space of a tenant if the operator is in the
/// system's space.
pub const SYSTEM_OPERATOR: &str = "system/";
/// Annotation that names the Secret with the credential of an object.
pub const CREDENTIAL_FROM: &str = "serviceoperator.azure.com/credential-from";
/// Annotation that says what the operator does with the resource in Azure.
pub const RECONCILE_POLICY: &str = "serviceoperator.azure.com/reconcile-policy";
/// Annotation with the ARM id of the resource.
pub const RESOURCE_ID: &str = "serviceoperator.azure.com/resource-id";
/// Annotation with the long-running operation that a reconciliation continues.
pub const POLLER_RESUME_TOKEN: &str = "serviceoperator.azure.com/poller-resume-token";
/// Annotation with the method of that operation.
pub const POLLER_RESUME_ID: &str = "serviceoperator.azure.com/poller-resume-id";
/// Annotation with the generation that was last sent to Azure.
pub const LATEST_RECONCILED_GENERATION: &str =
    "serviceoperator.azure.com/latest-reconciled-generation";
/// Label with the version of the operator that last reconciled an object.
pub const LAST_RECONCILED_VERSION: &str = "serviceoperator.azure.com/last-reconciled-version";
/// The finalizer of resources.
pub const FINALIZER: &str = "serviceoperator.azure.com/finalizer";
/// Annotation of Azure Service Operator v1 for objects that are not reconciled.
pub const SKIP_RECONCILE_V1: &str = "skipreconcile";
/// Annotation with the state of the inputs that were last sent to Azure.
pub const RECONCILED_INPUTS: &str = "azure.insula.dev/reconciled-inputs";
/// Annotation with the ARM id of the resource that Azure has accepted from an object, which owns it.
pub const ACCEPTED_ID: &str = "azure.insula.dev/accepted-id";
/// Annotation with the server that has accepted it, signed by the operator.
pub const ACCEPTED_PROOF: &str = "azure.insula.dev/accepted-proof";
/// Annotation with the scope of the credential that an object used last.
pub const CREDENTIAL_SCOPE: &str = "azure.insula.dev/credential-scope";
/// Annotation with the Secret that an object holds; empty if it holds none.
pub const CREDENTIAL_SECRET: &str = "azure.insula.dev/credential-secret";
/// Annotation of an object, or its namespace, that may use a credential of a wider scope.
pub const ALLOW_WIDER_CREDENTIAL: &str = "azure.insula.dev/allow-wider-credential";
/// Label with the name of the owner.
pub const OWNER_NAME: &str = "serviceoperator.azure.com/owner-name";
/// Label with the group and kind of the owner.
pub const OWNER_GROUP_KIND: &str = "serviceoperator.azure.com/owner-group-kind";
/// Label with the UID of the owner.
pub const OWNER_UID: &str = "serviceoperator.azure.com/owner-uid";
/// Finalizer of Secrets with a credential that a resource still needs.
pub const CREDENTIAL_FINALIZER: &str = "serviceoperator.azure.com/credential-in-use";
/// The service account whose tokens prove the workload identities of a namespace.
pub const WORKLOAD_ACCOUNT: &str = "aso-workload";
/// The Lease for leader election.
pub const LEASE: &str = "controllers-leader-election-azinfra-generated";
/// The Lease that names the operator of a target namespace.
pub const CLAIM_LEASE: &str = "azure-operator-claim";
/// The label with the release of a program, or of the definitions that belong to it.
pub const VERSION_LABEL: &str = "app.kubernetes.io/version";
/// The release of this operator.
pub const RELEASE: &str = concat!("v", env!("CARGO_PKG_VERSION"));

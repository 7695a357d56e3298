//! The `token` subresource of service accounts: `TokenRequest`.

use http::StatusCode;
use insula_admission::Operation;
use insula_core::CredentialRef;
use insula_kinds::{FieldError, Object, TypeId, Value, kinds, types};
use serde_json::json;
use uuid::Uuid;

use crate::codec::answer::Answer;
use crate::codec::input::{self, Expected, Sent};
use crate::codec::view::View;
use crate::pipeline::authorize::Caller;
use crate::pipeline::service_account::{AccountName, Issuer};
use crate::registry::Address;
use crate::registry::Registry;
use crate::request::negotiate::Accepted;
use crate::request::query::{Query, WriteOptions};
use crate::status::{Result, StatusError};
use crate::write::admission::node_restriction;
use crate::write::admission::webhooks::{self, Attributes, BodyKind};
use insula_kinds::core_kind;

/// The lifetime of a token if the request names none.
const DEFAULT_EXPIRATION_SECONDS: i64 = 3600;

/// The longest lifetime of a token. For longer ones there are token secrets, which are visible
/// and can be deleted.
const MAX_EXPIRATION_SECONDS: i64 = 365 * 86_400;

/// Answers a `TokenRequest`.
pub async fn request(
    registry: &Registry,
    issuer: Option<&Issuer>,
    caller: Caller<'_>,
    query: &Query,
    accepted: Accepted,
    sent: &Sent,
) -> Result<Answer> {
    let options = WriteOptions::read(query, "CreateOptions")?;
    let path = caller.path();
    let address = caller.address()?;
    let found = registry.fresh(&address).await?;
    let account = found.ok_or_else(|| StatusError::not_found(path.of(), &address.name))?;
    let uid = account.uid().unwrap_or("");
    let mut written = input::read(sent, expected(), options.validation)?;
    let issuer =
        issuer.ok_or_else(|| StatusError::internal("no service-account key is configured"))?;
    let attributes = Attributes::new(registry, caller, Operation::Create, &path.kind, &address);
    let attributes = attributes.for_subresource("token", BodyKind::TOKEN, options.dry_run);
    webhooks::admit(&attributes, &mut written.object).await?;
    check_names(&written.object, &address, uid)?;
    node_restriction::check_token(registry, caller, &address, &written.object)?;
    let tenant_uid = tenant_uid(registry, &address).await?;
    let issuer_url = issuer
        .urls()
        .of_space(&address.space, tenant_uid.as_deref().unwrap_or(""));
    let mut token_spec = TokenSpec::read(&written.object, &issuer_url)?;
    if let Some(asked) = token_spec.cap_expiration() {
        written.warnings.push(format!(
            "requested expiration of {asked} seconds shortened to {MAX_EXPIRATION_SECONDS} seconds"
        ));
    }
    token_spec.bind(registry, &address).await?;
    let issued = issuer.token(&token_spec, &address, uid, tenant_uid.clone())?;
    if !options.dry_run {
        note_issued(registry, &address, tenant_uid, &issued).await?;
    }
    let IssuedToken { token, expires, .. } = issued;
    let mut answer = Object::new();
    answer.insert(
        "metadata".to_owned(),
        json!({
            "name": address.name,
            "namespace": address.namespace,
            "uid": uid,
            "creationTimestamp": insula_kinds::time::now(),
        }),
    );
    answer.insert(
        "spec".to_owned(),
        json!({
            "audiences": token_spec.audiences,
            "expirationSeconds": token_spec.seconds,
            "boundObjectRef": token_spec.bound,
        }),
    );
    answer.insert(
        "status".to_owned(),
        json!({"token": token, "expirationTimestamp": timestamp(expires)?}),
    );
    let view = View::of_status(accepted);
    let body = view.value(
        "authentication.k8s.io/v1",
        "TokenRequest",
        token_request(),
        &answer,
    );
    Ok(Answer::new(StatusCode::CREATED, body)
        .of(accepted)
        .warned(written.warnings))
}

/// Returns the UID of the account's tenant; `None` in the system space.
async fn tenant_uid(registry: &Registry, account: &Address) -> Result<Option<String>> {
    if account.space.is_system() {
        return Ok(None);
    }
    let state = registry.find_space(&account.space).await?;
    let state = state.ok_or_else(|| StatusError::not_found(account.of(), &account.name))?;
    Ok(Some(state.uid.to_string()))
}

/// The content of a token.
struct TokenSpec {
    issuer: String,
    audiences: Vec<String>,
    seconds: i64,
    bound: Value,
    /// The claim about the object that the token is bound to.
    claim: Option<(&'static str, Value)>,
    /// The claim about the node of that object.
    node: Option<Value>,
}

impl TokenSpec {
    fn read(request: &Object, issuer: &str) -> Result<Self> {
        let spec = request.get("spec");
        let member = |name: &str| spec.and_then(|spec| spec.get(name));
        let audiences = member("audiences")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let mut audiences: Vec<String> = audiences
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        if audiences.is_empty() {
            audiences.push(issuer.to_owned());
        }
        let seconds = member("expirationSeconds").and_then(Value::as_i64);
        let seconds = seconds.unwrap_or(DEFAULT_EXPIRATION_SECONDS);
        let why = match seconds {
            ..600 => Some("may not specify a duration less than 10 minutes"),
            600..=4_294_967_296 => None,
            _ => Some("may not specify a duration larger than 2^32 seconds"),
        };
        if let Some(why) = why {
            let error = FieldError::invalid("spec.expirationSeconds", &seconds.into(), why);
            // Kubernetes reports this error without a name.
            let (kind, group) = ("TokenRequest", "authentication.k8s.io");
            return Err(StatusError::invalid_named(kind, group, "", &[error]));
        }
        let bound = member("boundObjectRef").cloned().unwrap_or(Value::Null);
        Ok(Self {
            issuer: issuer.to_owned(),
            audiences,
            seconds,
            bound,
            claim: None,
            node: None,
        })
    }

    /// Caps the lifetime. Returns the requested one if it was longer.
    fn cap_expiration(&mut self) -> Option<i64> {
        let asked = self.seconds;
        self.seconds = asked.min(MAX_EXPIRATION_SECONDS);
        (asked > MAX_EXPIRATION_SECONDS).then_some(asked)
    }

    /// Finds the object that the token is bound to.
    async fn bind(&mut self, registry: &Registry, account: &Address) -> Result<()> {
        let text = |member: &str| self.bound.get(member).and_then(Value::as_str).unwrap_or("");
        if self.bound.is_null() {
            return Ok(());
        }
        let (name, given) = (text("name"), text("uid"));
        let (claim, resource) = match (text("apiVersion"), text("kind")) {
            ("v1", "Pod") => ("pod", "pods"),
            ("v1", "Secret") => ("secret", "secrets"),
            ("v1", "Node") => ("node", "nodes"),
            (version, kind) => {
                let (group, version) = version.split_once('/').unwrap_or(("", version));
                return Err(StatusError::bad_request(format!(
                    "cannot bind token to object of type {group}/{version}, Kind={kind}"
                )));
            }
        };
        let kind = core_kind(resource);
        let address = Address {
            kind: kind.into(),
            space: account.space.clone(),
            namespace: account
                .namespace
                .clone()
                .filter(|_| kinds().get(kind).namespaced()),
            name: name.to_owned(),
        };
        let found = registry.fresh(&address).await?;
        let found = found.ok_or_else(|| StatusError::not_found(address.of(), name))?;
        let tree = found.tree();
        let uid = tree.get("metadata").and_then(|of| of.get("uid"));
        let uid = uid.and_then(Value::as_str).unwrap_or("");
        if !given.is_empty() && given != uid {
            let why = format!(
                "the UID in the bound object reference ({given}) does not match the UID in record. \
                 The object might have been deleted and then recreated"
            );
            return Err(StatusError::precondition(address.of(), name, &why));
        }
        self.claim = Some((claim, json!({"name": name, "uid": uid})));
        match resource {
            "pods" => self.bind_to_pod(registry, account, &tree),
            _ => Ok(()),
        }
    }
}

impl TokenSpec {
    /// Checks that the pod runs as the account, and adds the claim about its node.
    fn bind_to_pod(&mut self, registry: &Registry, account: &Address, pod: &Object) -> Result<()> {
        let member = |member: &str| {
            let value = pod.get("spec").and_then(|spec| spec.get(member));
            value.and_then(Value::as_str).unwrap_or("")
        };
        if member("serviceAccountName") != account.name {
            return Err(StatusError::bad_request(format!(
                "cannot bind token for serviceaccount \"{}\" to pod running with different \
                 serviceaccount name.",
                account.name
            )));
        }
        let name = member("nodeName");
        if !name.is_empty() {
            let node = registry.cached(&Address {
                kind: core_kind("nodes").into(),
                space: account.space.clone(),
                namespace: None,
                name: name.to_owned(),
            });
            let mut claim = json!({"name": name});
            if let Some(uid) = node.as_ref().and_then(|node| node.uid()) {
                claim["uid"] = uid.into();
            }
            self.node = Some(claim);
        }
        Ok(())
    }
}

/// Checks that the metadata of the request matches the account.
fn check_names(request: &Object, account: &Address, uid: &str) -> Result<()> {
    let given = |member: &str| {
        let value = request.get("metadata").and_then(|of| of.get(member));
        value.and_then(Value::as_str).unwrap_or("")
    };
    let (name, namespace) = (given("name"), given("namespace"));
    if !name.is_empty() && name != account.name {
        let why = "must match the service account name if specified";
        let error = FieldError::invalid_text("metadata.name", name, why);
        let (kind, group) = ("TokenRequest", "authentication.k8s.io");
        return Err(StatusError::invalid_named(kind, group, name, &[error]));
    }
    if !namespace.is_empty() && Some(namespace) != account.namespace.as_deref() {
        return Err(StatusError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if !given("uid").is_empty() && given("uid") != uid {
        let why = format!(
            "the UID in the token request ({}) does not match the UID of the service account \
             ({uid})",
            given("uid")
        );
        return Err(StatusError::conflict(account.of(), &account.name, &why));
    }
    Ok(())
}

impl Issuer {
    fn token(
        &self,
        token_spec: &TokenSpec,
        address: &Address,
        uid: &str,
        tenant_uid: Option<String>,
    ) -> Result<IssuedToken> {
        let now = jiff::Timestamp::now().as_second();
        let namespace = address.namespace.as_deref().unwrap_or("");
        let mut kubernetes = json!({
            "namespace": namespace,
            "serviceaccount": {"name": address.name, "uid": uid},
        });
        // The user name does not contain the space of the account, so the token does.
        if let Some(tenant) = address.space.tenant() {
            kubernetes["tenant"] = tenant.as_str().into();
            kubernetes["tenantUid"] = tenant_uid.into();
        }
        if let Some((member, bound)) = &token_spec.claim {
            kubernetes[*member] = bound.clone();
        }
        if let Some(node) = &token_spec.node {
            kubernetes["node"] = node.clone();
        }
        let id = Uuid::new_v4().to_string();
        let claims = json!({
            "iss": token_spec.issuer,
            "sub": format!("system:serviceaccount:{namespace}:{}", address.name),
            "aud": token_spec.audiences,
            "iat": now,
            "nbf": now,
            "exp": now + token_spec.seconds,
            "jti": id,
            "kubernetes.io": kubernetes,
        });
        Ok(IssuedToken {
            token: self.sign(&claims)?,
            id,
            issued: now,
            expires: now + token_spec.seconds,
        })
    }
}

/// A signed token, with its ID and its times in seconds since 1970.
struct IssuedToken {
    token: String,
    id: String,
    issued: i64,
    expires: i64,
}

fn timestamp(seconds: i64) -> Result<String> {
    let time = jiff::Timestamp::from_second(seconds);
    Ok(time.map_err(StatusError::internal)?.to_string())
}

/// Records that the account has a token, which it may never use.
async fn note_issued(
    registry: &Registry,
    account: &Address,
    tenant_uid: Option<String>,
    issued: &IssuedToken,
) -> Result<()> {
    let name = AccountName {
        namespace: account.namespace.as_deref().unwrap_or(""),
        name: &account.name,
    };
    let credential = CredentialRef {
        id: issued.id.as_str().into(),
        issued: Some(issued.issued),
        expires: Some(issued.expires),
        ..CredentialRef::default()
    };
    let holder = name.holder(&account.space, credential);
    let uid = match tenant_uid {
        Some(uid) => uid,
        None => {
            let state = registry.find_space(&account.space).await?;
            state.map_or_else(String::new, |state| state.uid.to_string())
        }
    };
    registry.access_records().note_issued(&uid, &holder);
    Ok(())
}

fn expected() -> Expected<'static> {
    Expected {
        group: "authentication.k8s.io",
        api_version: "authentication.k8s.io/v1",
        kind: "TokenRequest",
        of: token_request(),
    }
}

fn token_request() -> TypeId {
    types()
        .find("api.authentication.v1.TokenRequest")
        .expect("it is in the table")
}

//! Tokens of service accounts.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use insula_kinds::{FieldError, Object, TypeId, Value, kinds, types};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::json;
use uuid::Uuid;

use crate::authorize::Granted;
use crate::intake::{self, Expected, Sent};
use crate::negotiate::Accepted;
use crate::query::{Query, WriteOptions};
use crate::registry::{Address, core_kind};
use crate::request::{Answer, App};
use crate::status::{Refusal, Result};
use crate::view::View;

/// Signs tokens.
pub struct Issuer {
    key: EcdsaKeyPair,
    key_id: String,
    url: String,
    random: SystemRandom,
}

/// The key cannot sign tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the service-account key is not a P-256 private key in PKCS #8")]
pub struct NotASigningKey;

/// How long a token is good for that asks for nothing.
const DEFAULT_SECONDS: i64 = 3600;

impl Issuer {
    /// Signs with `key`, in PKCS #8, as the issuer that calls itself `url`.
    pub fn new(key: &[u8], url: &str) -> Result<Self, NotASigningKey> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key, &random);
        let pair = pair.map_err(|_| NotASigningKey)?;
        let public = ring::signature::KeyPair::public_key(&pair);
        let digest = ring::digest::digest(&ring::digest::SHA256, public.as_ref());
        let key_id = URL_SAFE_NO_PAD.encode(digest.as_ref());
        Ok(Self {
            key: pair,
            key_id,
            url: url.to_owned(),
            random,
        })
    }

    fn sign(&self, claims: &Value) -> Result<String> {
        let header = json!({"alg": "ES256", "kid": self.key_id});
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(claims));
        let signature = self.key.sign(&self.random, signed.as_bytes());
        let signature = signature.map_err(|_| Refusal::internal("a token could not be signed"))?;
        Ok(format!(
            "{signed}.{}",
            URL_SAFE_NO_PAD.encode(signature.as_ref())
        ))
    }
}

impl std::fmt::Debug for Issuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuer")
            .field("url", &self.url)
            .field("key", &"****")
            .finish()
    }
}

/// Answers a `TokenRequest`.
pub async fn request(
    app: &App,
    granted: &Granted,
    query: &Query,
    accepted: Accepted,
    sent: &Sent,
) -> Result<Answer> {
    let options = WriteOptions::read(query, "CreateOptions")?;
    let path = granted.path();
    let address = granted.address()?;
    let found = app.registry.fresh(&address).await?;
    let account = found
        .ok_or_else(|| Refusal::not_found(path.of(), &address.name))?
        .tree();
    let written = intake::read(sent, expected(), options.validation)?;
    let issuer = app.issuer.as_ref();
    let issuer = issuer.ok_or_else(|| Refusal::internal("no service-account key is configured"))?;
    let mut wanted = Wanted::read(&written.object, &address.name, issuer)?;
    wanted.bind(app, &address).await?;
    let (token, expires) = issuer.token(&wanted, &address, &account)?;
    let mut answer = Object::new();
    answer.insert(
        "metadata".to_owned(),
        json!({
            "name": address.name,
            "namespace": address.namespace,
            "creationTimestamp": insula_kinds::time::now(),
        }),
    );
    answer.insert(
        "spec".to_owned(),
        json!({
            "audiences": wanted.audiences,
            "expirationSeconds": wanted.seconds,
            "boundObjectRef": wanted.bound,
        }),
    );
    answer.insert(
        "status".to_owned(),
        json!({"token": token, "expirationTimestamp": expires}),
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

/// What a token is to say.
struct Wanted {
    audiences: Vec<String>,
    seconds: i64,
    bound: Value,
    /// What the token says about the object that it is bound to.
    claim: Option<(&'static str, Value)>,
}

impl Wanted {
    fn read(request: &Object, name: &str, issuer: &Issuer) -> Result<Self> {
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
            audiences.push(issuer.url.clone());
        }
        let seconds = member("expirationSeconds").and_then(Value::as_i64);
        let seconds = seconds.unwrap_or(DEFAULT_SECONDS);
        let why = match seconds {
            ..600 => Some("may not specify a duration less than 10 minutes"),
            600..=4_294_967_296 => None,
            _ => Some("may not specify a duration larger than 2^32 seconds"),
        };
        if let Some(why) = why {
            let error = FieldError::invalid("spec.expirationSeconds", &seconds.into(), why);
            let group = "authentication.k8s.io";
            return Err(Refusal::invalid_named(
                "TokenRequest",
                group,
                name,
                &[error],
            ));
        }
        let bound = member("boundObjectRef").cloned().unwrap_or(Value::Null);
        Ok(Self {
            audiences,
            seconds,
            bound,
            claim: None,
        })
    }

    /// Looks for the object that the token is to live with.
    async fn bind(&mut self, app: &App, account: &Address) -> Result<()> {
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
                return Err(Refusal::bad_request(format!(
                    "cannot bind token for serviceaccount \"{}\" to type: {group}/{version}, \
                     Kind={kind}",
                    account.name
                )));
            }
        };
        let kind = core_kind(resource);
        let address = Address {
            kind,
            space: account.space.clone(),
            namespace: account
                .namespace
                .clone()
                .filter(|_| kinds().get(kind).namespaced()),
            name: name.to_owned(),
        };
        let found = app.registry.fresh(&address).await?;
        let found = found.ok_or_else(|| Refusal::not_found(address.of(), name))?;
        let tree = found.tree();
        let uid = tree.get("metadata").and_then(|of| of.get("uid"));
        let uid = uid.and_then(Value::as_str).unwrap_or("");
        if !given.is_empty() && given != uid {
            let why = format!(
                "the UID in the bound object reference ({given}) does not match the UID in record. \
                 The object might have been deleted and then recreated"
            );
            return Err(Refusal::conflict(address.of(), name, &why));
        }
        self.claim = Some((claim, json!({"name": name, "uid": uid})));
        Ok(())
    }
}

impl Issuer {
    fn token(
        &self,
        wanted: &Wanted,
        address: &Address,
        account: &Object,
    ) -> Result<(String, String)> {
        let now = jiff::Timestamp::now().as_second();
        let namespace = address.namespace.as_deref().unwrap_or("");
        let uid = account
            .get("metadata")
            .and_then(|of| of.get("uid"))
            .cloned();
        let mut kubernetes = json!({
            "namespace": namespace,
            "serviceaccount": {"name": address.name, "uid": uid},
        });
        // Which space the account is of is in the token, not in the user's name.
        if let Some((member, bound)) = &wanted.claim {
            kubernetes[*member] = bound.clone();
        }
        if let Some(tenant) = address.space.tenant() {
            kubernetes["tenant"] = tenant.as_str().into();
        }
        let claims = json!({
            "iss": self.url,
            "sub": format!("system:serviceaccount:{namespace}:{}", address.name),
            "aud": wanted.audiences,
            "iat": now,
            "nbf": now,
            "exp": now + wanted.seconds,
            "jti": Uuid::new_v4().to_string(),
            "kubernetes.io": kubernetes,
        });
        let expires = jiff::Timestamp::from_second(now + wanted.seconds);
        let expires = expires.map_err(Refusal::internal)?.to_string();
        Ok((self.sign(&claims)?, expires))
    }
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

//! Service account token Secrets.
//!
//! A Secret of this type that names an account gets the account's token, the CA of the server's
//! certificate, and the namespace. Missing or wrong data is repaired; an existing token is kept. A
//! Secret of a missing account, or of an earlier account of the same name, is deleted, and a
//! deleted Secret is removed from its account's list. A label on the Secret records the day its
//! token was last used, and a ConfigMap in the space records since when that is tracked.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_access::jwt;
use insula_apiserver::Registry;
use insula_apiserver::pipeline::service_account::{
    Account, AccountName, Accounts, Bound, Issuer, LAST_USED, TOKEN_KEY, TokenUse, day,
};
use insula_apiserver::registry::Address;
use insula_apiserver::status::{Result, StatusError};
use insula_apiserver::write::{DeleteOptions, Modified, Modify, modify, remove};
use insula_cache::Stored;
use insula_cache::expiry;
use insula_core::{CredentialRef, Space};
use insula_kinds::core_kind;
use insula_kinds::{Object, Value};
use memchr::memmem;
use serde_json::json;

use crate::bootstrap_objects::create;
use crate::ignore_permanent;
use crate::terminate::uid;

/// Fills and deletes token Secrets.
#[derive(Clone, Copy)]
pub struct TokenSecrets<'a> {
    /// The registry of the server.
    pub registry: &'a Registry,
    /// The signer of tokens.
    pub issuer: &'a Issuer,
    /// The CA of the server's certificate, in PEM.
    pub ca: &'a str,
}

/// The type of token Secrets.
const SECRET_TYPE: &str = "kubernetes.io/service-account-token";

/// The annotation with the name of the account.
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

/// The annotation with the UID of the account.
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// The data key of the CA.
const CA_KEY: &str = "ca.crt";

/// The data key of the namespace.
const NAMESPACE_KEY: &str = "namespace";

/// The ConfigMap that records since when the use of tokens is tracked, and its data key.
const TRACKING_CONFIG_MAP: &str = "kube-apiserver-legacy-service-account-token-tracking";
const TRACKING_NAMESPACE: &str = "kube-system";
const SINCE_KEY: &str = "since";

/// Whether a Secret may be a token Secret.
pub fn may_hold_token(secret: &Stored) -> bool {
    memmem::find(&secret.body(), SECRET_TYPE.as_bytes()).is_some()
}

impl TokenSecrets<'_> {
    /// Reconciles every Secret of an account, which may be gone. Returns whether
    /// [`TokenSecrets::reconcile`] did for any of them.
    pub async fn reconcile_account(&self, account: &Address) -> Result<bool> {
        let namespace = account.namespace.as_deref().unwrap_or("");
        let secrets = core_kind("secrets");
        let Some(collection) = self.registry.cache().find(secrets, &account.space) else {
            return Ok(false);
        };
        let mut overwritten = false;
        for secret in collection.snapshot(&format!("{namespace}/"), None).objects {
            if may_hold_token(&secret)
                && annotation(&secret.tree(), ACCOUNT_NAME) == Some(&account.name)
            {
                let address = Address {
                    kind: secrets.into(),
                    name: secret.name().to_owned(),
                    ..account.clone()
                };
                overwritten |= self.reconcile(&address).await?;
            }
        }
        Ok(overwritten)
    }

    /// Repairs a Secret, or deletes it. Returns whether it overwrote another writer's data.
    pub async fn reconcile(&self, address: &Address) -> Result<bool> {
        let secret = match self.registry.cached(address) {
            None => return self.remove_from_accounts(address).await.map(|()| false),
            Some(secret) if secret.is_terminating() => return Ok(false),
            Some(secret) => secret,
        };
        let tree = secret.tree();
        let Some(account) = account_of(&tree, address) else {
            return Ok(false);
        };
        if self.account_uid(&account, &tree).is_none() {
            // Deleting must not rest on an outdated cache.
            self.registry.catch_up().await?;
            if self.account_uid(&account, &tree).is_none() {
                return self.delete(address, &secret).await.map(|()| false);
            }
        }
        if !self.needs_repair(&tree, address) {
            return Ok(false);
        }
        self.begin_tracking(&address.space).await?;
        let written = self.write(address, &account).await;
        let overwrote = self.expected_data(address).iter().any(|(key, right)| {
            let was = data_value(&tree, key);
            !was.is_empty() && was != right
        });
        ignore_permanent(written.map(|()| overwrote), address)
    }

    /// Removes a deleted Secret from the lists of the accounts of its namespace.
    async fn remove_from_accounts(&self, address: &Address) -> Result<()> {
        let kind = core_kind("serviceaccounts");
        let Some(accounts) = self.registry.cache().find(kind, &address.space) else {
            return Ok(());
        };
        let prefix = format!("{}/", address.namespace.as_deref().unwrap_or(""));
        for account in accounts.snapshot(&prefix, None).objects {
            if !lists_secret(&account.tree(), &address.name) {
                continue;
            }
            let account = Address {
                kind: kind.into(),
                name: account.name().to_owned(),
                ..address.clone()
            };
            let update = |account: &Object| {
                let mut object = account.clone();
                // A new Secret of the same name may exist by now.
                let secrets = object.get_mut("secrets").and_then(Value::as_array_mut);
                if let (Some(secrets), None) = (secrets, self.registry.cached(address)) {
                    secrets.retain(|one| one["name"] != address.name.as_str());
                }
                Ok(Modified {
                    object,
                    warnings: Vec::new(),
                })
            };
            let request = Modify::by_server(&account, None);
            let unlisted = modify(self.registry, request, update).await;
            ignore_permanent(unlisted.map(|_| false), &account)?;
        }
        Ok(())
    }

    /// Records in the space that the use of tokens is tracked from today. It has not been tracked
    /// before, or a client deleted the record.
    async fn begin_tracking(&self, space: &Space) -> Result<()> {
        let address = Address {
            kind: core_kind("configmaps").into(),
            space: space.clone(),
            namespace: Some(TRACKING_NAMESPACE.to_owned()),
            name: TRACKING_CONFIG_MAP.to_owned(),
        };
        if self.registry.cached(&address).is_some() {
            return Ok(());
        }
        let map = json!({"data": {SINCE_KEY: day(expiry::now().into())}});
        create(self.registry, &address, map).await.map(drop)
    }

    /// The UID of the account, if it exists and is the one that the Secret refers to.
    fn account_uid(&self, account: &Address, secret: &Object) -> Option<String> {
        let found = self.registry.cached(account)?;
        let is = found.uid()?;
        let meant = annotation(secret, ACCOUNT_UID).filter(|uid| !uid.is_empty());
        meant.is_none_or(|meant| meant == is).then(|| is.to_owned())
    }

    /// Deletes the Secret as it was seen. If it changed since, its event triggers another attempt.
    async fn delete(&self, address: &Address, secret: &Stored) -> Result<()> {
        let options = DeleteOptions::exactly(secret);
        match remove(self.registry, address.of(), address, &options).await {
            Err(refusal) if refusal.reason() != "Conflict" => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Whether any data is missing or wrong that can be repaired.
    fn needs_repair(&self, secret: &Object, address: &Address) -> bool {
        let immutable = secret.get("immutable") == Some(&Value::Bool(true));
        let right = self.expected_data(address);
        let right = right
            .iter()
            .all(|(key, value)| data_value(secret, key) == value);
        let whole = right && !data_value(secret, TOKEN_KEY).is_empty();
        !immutable && (!whole || annotation(secret, ACCOUNT_UID).is_none_or(str::is_empty))
    }

    /// The data that is the same in every Secret of a namespace, as it is stored.
    fn expected_data(&self, address: &Address) -> [(&'static str, String); 2] {
        let namespace = address.namespace.as_deref().unwrap_or("");
        [
            (CA_KEY, STANDARD.encode(self.ca)),
            (NAMESPACE_KEY, STANDARD.encode(namespace)),
        ]
    }

    async fn write(&self, address: &Address, account: &Address) -> Result<()> {
        let request = Modify::by_server(address, None);
        let mut issued = None;
        let update = |secret: &Object| {
            let mut object = secret.clone();
            issued = None;
            let same = account_of(secret, address).is_some_and(|now| now.name == account.name);
            if same
                && self.needs_repair(secret, address)
                && let Some(uid) = self.account_uid(account, secret)
            {
                issued = self.fill(&mut object, address, account, &uid)?;
            }
            Ok(Modified {
                object,
                warnings: Vec::new(),
            })
        };
        let written = modify(self.registry, request, update).await?;
        if let (Some(token), Some(_)) = (issued, written) {
            self.note_issued(address, account, &token);
        }
        Ok(())
    }

    /// Records that the account has a token, which it may never use.
    fn note_issued(&self, secret: &Address, account: &Address, token: &str) {
        let Some(state) = self.registry.cache().space_state(&account.space) else {
            return;
        };
        let name = AccountName {
            namespace: account.namespace.as_deref().unwrap_or(""),
            name: &account.name,
        };
        // The token is as old as its Secret.
        let secret = self.registry.cached(secret);
        let credential = CredentialRef {
            id: jwt::digest_id(token),
            issued: secret.and_then(|secret| secret.created()),
            ..CredentialRef::default()
        };
        let holder = name.holder(&account.space, credential);
        let records = self.registry.access_records();
        records.note_issued(&state.uid, &holder);
    }

    /// Fills in what is missing, and returns the token if that is new.
    fn fill(
        &self,
        secret: &mut Object,
        address: &Address,
        account: &Address,
        uid: &str,
    ) -> Result<Option<String>> {
        let missing = data_value(secret, TOKEN_KEY).is_empty();
        let token = missing.then(|| self.sign(address, account, uid));
        let token = token.transpose()?;
        let data = secret.entry("data").or_insert_with(|| json!({}));
        if data.is_null() {
            *data = json!({});
        }
        if let Some(token) = &token {
            data[TOKEN_KEY] = STANDARD.encode(token).into();
        }
        for (key, value) in self.expected_data(address) {
            data[key] = value.into();
        }
        // It names its account in an annotation, so annotations exist.
        if let Some(metadata) = secret.get_mut("metadata") {
            metadata["annotations"][ACCOUNT_UID] = uid.into();
        }
        Ok(token)
    }

    fn sign(&self, secret: &Address, account: &Address, uid: &str) -> Result<String> {
        let life = self.registry.cache().space_state(&account.space);
        let life = life.ok_or_else(|| StatusError::unavailable("the space is not there yet"))?;
        let account = Account {
            space: account.space.clone(),
            tenant_uid: (!account.space.is_system()).then(|| life.uid.to_string()),
            namespace: account.namespace.clone().unwrap_or_default(),
            name: account.name.clone(),
            uid: uid.to_owned(),
            bound: Bound::LegacySecret(secret.name.clone()),
            node: None,
            id: None,
        };
        self.issuer.sign(&account.to_legacy_claims(&secret.name))
    }
}

/// Records in Secrets the day on which their tokens were last used, until it is dropped.
pub async fn record_uses(registry: Arc<Registry>, accounts: Arc<Accounts>) {
    loop {
        for used in accounts.verifier.uses().take().await {
            if let Err(refusal) = record_use(&registry, &used).await {
                // The next use is recorded again.
                let (space, name) = (&used.secret.space, used.secret.within());
                tracing::info!(%space, %name, %refusal, "token use update failed");
            }
        }
    }
}

async fn record_use(registry: &Registry, used: &TokenUse) -> Result<()> {
    let update = |secret: &Object| {
        let mut object = secret.clone();
        let metadata = object.entry("metadata").or_insert_with(|| json!({}));
        if !metadata["labels"].is_object() {
            metadata["labels"] = json!({});
        }
        metadata["labels"][LAST_USED] = used.day.as_str().into();
        Ok(Modified {
            object,
            warnings: Vec::new(),
        })
    };
    let request = Modify::by_server(&used.secret, None);
    modify(registry, request, update).await.map(drop)
}

/// Whether the account lists a Secret of this name.
fn lists_secret(account: &Object, secret: &str) -> bool {
    let secrets = account.get("secrets").and_then(Value::as_array);
    let mut secrets = secrets.into_iter().flatten();
    secrets.any(|one| one["name"] == secret)
}

/// The account of a token Secret.
fn account_of(secret: &Object, address: &Address) -> Option<Address> {
    let of_type = secret.get("type").and_then(Value::as_str) == Some(SECRET_TYPE);
    let name = annotation(secret, ACCOUNT_NAME).filter(|_| of_type && uid(secret).is_some())?;
    Some(Address {
        kind: core_kind("serviceaccounts").into(),
        name: name.to_owned(),
        ..address.clone()
    })
}

fn annotation<'a>(object: &'a Object, name: &str) -> Option<&'a str> {
    let annotations = object.get("metadata")?.get("annotations")?;
    annotations.get(name)?.as_str()
}

/// The value of a data key, as it is stored.
fn data_value<'a>(secret: &'a Object, key: &str) -> &'a str {
    let found = secret.get("data").and_then(|data| data.get(key));
    found.and_then(Value::as_str).unwrap_or("")
}

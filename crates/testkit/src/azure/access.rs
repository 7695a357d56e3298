//! Subscriptions, the clients that may use them, and registered resource providers.

use std::collections::{BTreeMap, BTreeSet};

use super::journal::Caller;
use super::message::Response;
use super::path::ArmId;

/// A subscription.
#[derive(Clone, Debug)]
pub(super) struct Subscription {
    /// The id as it was added.
    pub id: String,
    /// The tenant of Entra ID whose tokens it accepts.
    pub tenant: String,
    /// The state of resource providers that were not registered at the start, in lower case.
    providers: BTreeMap<String, Registration>,
    is_cancelled: bool,
}

impl Subscription {
    /// The state in answers.
    pub const fn state(&self) -> &'static str {
        match self.is_cancelled {
            true => "Disabled",
            false => "Enabled",
        }
    }
}

/// Whether a resource provider is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registration {
    Missing,
    /// Registered after this many more refused requests.
    Registering(u32),
    Registered,
}

/// All subscriptions, and the access of clients to scopes.
#[derive(Clone, Debug, Default)]
pub(super) struct Subscriptions {
    all: BTreeMap<String, Subscription>,
    /// Pairs of a client and a scope, in lower case.
    grants: BTreeSet<(String, String)>,
    /// The number of requests that a resource provider refuses while it is being registered.
    pub registration_takes: u32,
}

impl Subscriptions {
    pub fn add(&mut self, id: &str, tenant: &str) {
        let subscription = Subscription {
            id: id.to_owned(),
            tenant: tenant.to_owned(),
            providers: BTreeMap::new(),
            is_cancelled: false,
        };
        self.all.insert(id.to_ascii_lowercase(), subscription);
    }

    pub fn get(&self, id: &str) -> Option<&Subscription> {
        self.all.get(&id.to_ascii_lowercase())
    }

    /// Cancels a subscription. Returns whether it was not cancelled before.
    pub fn cancel(&mut self, id: &str) -> bool {
        let found = self.all.get_mut(&id.to_ascii_lowercase());
        found.is_some_and(|found| !std::mem::replace(&mut found.is_cancelled, true))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Subscription> {
        self.all.values()
    }

    /// Lets a client act on a subscription, a group or a resource, and everything below it.
    pub fn grant(&mut self, client: &str, scope: &str) {
        self.grants.insert(grant(client, scope));
    }

    pub fn revoke(&mut self, client: &str, scope: &str) {
        self.grants.remove(&grant(client, scope));
    }

    /// Whether a client was granted this scope or one above it.
    pub fn grants(&self, caller: &Caller, key: &str) -> bool {
        let client = caller.client.to_ascii_lowercase();
        let mut grants = self.grants.iter();
        grants.any(|(granted, scope)| *granted == client && covers(scope, key))
    }

    /// Makes a resource provider unknown to a subscription until a client registers it.
    pub fn unregister(&mut self, subscription: &str, namespace: &str) {
        self.set_registration(subscription, namespace, Registration::Missing);
    }

    /// Begins the registration of a resource provider, and returns its state.
    pub fn register(&mut self, subscription: &str, namespace: &str) -> Registration {
        let state = match (
            self.registration(subscription, namespace),
            self.registration_takes,
        ) {
            (Registration::Missing, 0) => Registration::Registered,
            (Registration::Missing, refused) => Registration::Registering(refused),
            (state, _) => state,
        };
        self.set_registration(subscription, namespace, state);
        state
    }

    pub fn registration(&self, subscription: &str, namespace: &str) -> Registration {
        let providers = self
            .get(subscription)
            .map(|subscription| &subscription.providers);
        let state = providers.and_then(|all| all.get(&namespace.to_ascii_lowercase()));
        state.copied().unwrap_or(Registration::Registered)
    }

    /// Checks that the resource provider of a new resource is registered.
    pub fn check_registered(&mut self, id: &ArmId) -> Result<(), Response> {
        let (subscription, namespace) = (&id.subscription, id.namespace().unwrap_or_default());
        match self.registration(subscription, namespace) {
            Registration::Registered => return Ok(()),
            Registration::Missing => {}
            Registration::Registering(refused) => {
                let next = match refused.saturating_sub(1) {
                    0 => Registration::Registered,
                    refused => Registration::Registering(refused),
                };
                self.set_registration(subscription, namespace, next);
            }
        }
        Err(not_registered(namespace))
    }

    fn set_registration(&mut self, subscription: &str, namespace: &str, state: Registration) {
        if let Some(subscription) = self.all.get_mut(&subscription.to_ascii_lowercase()) {
            let namespace = namespace.to_ascii_lowercase();
            subscription.providers.insert(namespace, state);
        }
    }
}

impl Registration {
    /// The state in answers.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Missing => "NotRegistered",
            Self::Registering(_) => "Registering",
            Self::Registered => "Registered",
        }
    }
}

/// Whether a scope is this id or above it. Both are in lower case.
pub(super) fn covers(scope: &str, key: &str) -> bool {
    let rest = key.strip_prefix(scope.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The refusal of a client without access.
pub(super) fn forbidden(caller: &Caller, id: &ArmId, verb: &str) -> Response {
    let (client, principal) = (&caller.client, &caller.principal);
    let (kind, scope) = (id.resource_type(), id.text());
    let message = format!(
        "The client '{client}' with object id '{principal}' does not have authorization to perform \
         action '{kind}/{verb}' over scope '{scope}' or the scope is invalid. If access was \
         recently granted, please refresh your credentials."
    );
    Response::error(403, "AuthorizationFailed", message)
}

fn not_registered(namespace: &str) -> Response {
    let message = format!("The subscription is not registered to use namespace '{namespace}'.");
    let mut response = Response::error(409, "MissingSubscriptionRegistration", message.clone());
    if let super::message::Content::Json(body) = &mut response.content {
        body["error"]["details"] = serde_json::json!([{
            "code": "MissingSubscriptionRegistration", "target": namespace, "message": message,
        }]);
    }
    response
}

fn grant(client: &str, scope: &str) -> (String, String) {
    let scope = match scope.starts_with('/') {
        true => scope.to_ascii_lowercase(),
        false => format!("/subscriptions/{}", scope.to_ascii_lowercase()),
    };
    (client.to_ascii_lowercase(), scope)
}

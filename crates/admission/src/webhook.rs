//! Admission webhooks of a space, parsed from their configurations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use insula_kinds::{Object, Value};

use crate::condition::{Conditions, Context, MatchResult};
use crate::criteria::{Criteria, EquivalentResources};
use crate::expression::Compiler;
use crate::refusal::Refusal;
use crate::request::{Request, Target, VersionedObjects, meta};
use crate::review::Version;

/// Annotation that extends a configuration of the system to requests in tenants.
pub(crate) const ADMIT_TENANTS: &str = "multi-tenancy.k8s.io/admit-tenants";

/// The default timeout, in seconds.
const DEFAULT_TIMEOUT_SECONDS: u64 = 10;

/// The maximum timeout, in seconds.
const MAX_TIMEOUT_SECONDS: u64 = 30;

/// All mutating, or all validating, webhooks of a space.
#[derive(Clone, Debug, Default)]
pub struct Webhooks {
    configurations: BTreeMap<String, Arc<Configuration>>,
}

/// A webhook configuration.
#[derive(Debug)]
pub struct Configuration {
    /// Its name.
    pub name: String,
    /// Whether a configuration of the system also applies to requests in tenants.
    pub admits_tenants: bool,
    /// The webhooks in the order in which they are called.
    pub webhooks: Vec<Arc<Webhook>>,
}

/// A webhook.
#[derive(Debug)]
pub struct Webhook {
    /// The name of its configuration.
    pub configuration: String,
    /// Its name.
    pub name: String,
    /// The webhook's endpoint and CA.
    pub client: Client,
    /// The timeout of a call.
    pub timeout: Duration,
    /// The behaviour if the call fails.
    pub failure: FailurePolicy,
    /// Whether it is called again if a later webhook changes the object.
    pub reinvoked: bool,
    /// The version of AdmissionReview to send; `None` if it supports no known one.
    pub version: Option<Version>,
    side_effects: SideEffects,
    criteria: Criteria,
    conditions: Conditions,
}

/// The endpoint of a webhook, and the CAs that it is verified with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The CA bundle in PEM; `None` for the CAs of the system.
    pub ca_bundle: Option<String>,
}

/// The endpoint of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A URL.
    Url(String),
    /// A service of the space.
    Service {
        /// The service's namespace.
        namespace: String,
        /// The service's name.
        name: String,
        /// The path; empty if not set.
        path: String,
        /// The service's port.
        port: u16,
    },
}

/// The behaviour if a webhook call or an evaluation fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The request is rejected.
    #[default]
    Fail,
    /// The request continues.
    Ignore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SideEffects {
    /// None, at least for dry-run requests.
    None,
    Some,
    Unspecified,
}

impl Webhooks {
    /// Inserts or replaces a configuration.
    pub fn put(&mut self, object: &Object) {
        let configuration = Configuration::read(object);
        let name = configuration.name.clone();
        self.configurations.insert(name, Arc::new(configuration));
    }

    /// Removes a configuration.
    pub fn remove(&mut self, name: &str) {
        self.configurations.remove(name);
    }

    /// Reports whether there are no configurations.
    pub fn is_empty(&self) -> bool {
        self.configurations.is_empty()
    }

    /// The configurations, sorted by name.
    pub fn configurations(&self) -> impl Iterator<Item = &Arc<Configuration>> {
        self.configurations.values()
    }

    /// The webhooks in the order in which they are called.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Webhook>> {
        self.configurations().flat_map(|one| one.webhooks.iter())
    }
}

impl Configuration {
    fn read(object: &Object) -> Self {
        let name = meta(Some(object), "name").to_owned();
        let annotations = object
            .get("metadata")
            .and_then(|meta| meta.get("annotations"));
        let admits = annotations.and_then(|all| all.get(ADMIT_TENANTS)?.as_str());
        let webhooks = object.get("webhooks").and_then(Value::as_array);
        let webhooks = webhooks.map_or(&[][..], Vec::as_slice).iter();
        Self {
            admits_tenants: admits == Some("true"),
            webhooks: webhooks
                .map(|hook| Arc::new(Webhook::read(&name, hook)))
                .collect(),
            name,
        }
    }
}

impl Webhook {
    fn read(configuration: &str, hook: &Value) -> Self {
        let seconds = hook["timeoutSeconds"]
            .as_u64()
            .unwrap_or(DEFAULT_TIMEOUT_SECONDS);
        let failure = FailurePolicy::read(&hook["failurePolicy"]);
        let versions = hook["admissionReviewVersions"].as_array();
        let versions = versions.map_or(&[][..], Vec::as_slice).iter();
        Self {
            configuration: configuration.to_owned(),
            name: text(&hook["name"]),
            client: Client::read(&hook["clientConfig"]),
            timeout: Duration::from_secs(seconds.clamp(1, MAX_TIMEOUT_SECONDS)),
            failure,
            reinvoked: hook["reinvocationPolicy"] == "IfNeeded",
            version: versions
                .filter_map(Value::as_str)
                .find_map(Version::from_name),
            side_effects: match hook["sideEffects"].as_str() {
                None => SideEffects::Unspecified,
                Some("None" | "NoneOnDryRun") => SideEffects::None,
                Some(_) => SideEffects::Some,
            },
            criteria: Criteria::from_webhook(hook),
            conditions: Conditions::new(&hook["matchConditions"], &Compiler::new(false), failure),
        }
    }

    /// Matches the request by everything except its match conditions. Returns the resource and
    /// kind to send, in which the objects have to be before conditions are evaluated.
    ///
    /// # Errors
    ///
    /// If the selectors cannot be evaluated.
    pub fn matches(
        &self,
        request: &Request<'_>,
        subject: VersionedObjects<'_>,
        namespace: Option<&Object>,
        equivalents: &dyn EquivalentResources,
    ) -> Result<Option<Target>, Refusal> {
        if request.target.is_exempt() {
            return Ok(None);
        }
        self.criteria
            .matches(request, subject, namespace, equivalents)
    }

    /// Evaluates the match conditions.
    ///
    /// # Errors
    ///
    /// If a condition cannot be evaluated and the failure policy is `Fail`.
    pub fn applies(&self, context: &Context<'_>) -> Result<bool, Refusal> {
        match self.conditions.evaluate(context, None, &[]) {
            MatchResult::Match => Ok(true),
            MatchResult::NoMatch => Ok(false),
            MatchResult::Failed(why) => {
                let request = context.request;
                Err(Refusal::forbidden(request, request.name, &why))
            }
        }
    }

    /// Reports whether there are match conditions. Without any, no context needs to be built.
    pub fn has_conditions(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// Checks that the webhook may be called for the request, if that is a dry run.
    ///
    /// # Errors
    ///
    /// If the call could have side effects.
    pub fn check_dry_run(&self, request: &Request<'_>) -> Result<(), Failure> {
        match self.side_effects {
            _ if !request.dry_run => Ok(()),
            SideEffects::None => Ok(()),
            SideEffects::Some => {
                let name = &self.name;
                let why = format!("admission webhook \"{name}\" does not support dry run");
                Err(Failure::Refused(Refusal::bad_request(why)))
            }
            SideEffects::Unspecified => Err(self.call_failure("Webhook SideEffects is nil")),
        }
    }

    /// The failure of a call without a valid response. `why` follows the webhook's name.
    pub fn call_failure(&self, why: &str) -> Failure {
        let why = format!("failed calling webhook \"{}\": {why}", self.name);
        match self.failure {
            FailurePolicy::Fail => Failure::Refused(Refusal::internal(&why)),
            FailurePolicy::Ignore => Failure::Ignored(why),
        }
    }
}

/// Why a webhook did not admit a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The request is rejected.
    Refused(Refusal),
    /// The call failed, which the failure policy ignores. Holds the cause.
    Ignored(String),
}

impl Client {
    /// Parses a `clientConfig`.
    pub fn read(client: &Value) -> Self {
        let service = &client["service"];
        let endpoint = match client["url"].as_str() {
            Some(url) => Endpoint::Url(url.to_owned()),
            None => Endpoint::Service {
                namespace: text(&service["namespace"]),
                name: text(&service["name"]),
                path: text(&service["path"]),
                port: service["port"]
                    .as_u64()
                    .and_then(|port| u16::try_from(port).ok())
                    .unwrap_or(443),
            },
        };
        Self {
            endpoint,
            ca_bundle: bundle(&client["caBundle"]),
        }
    }
}

impl FailurePolicy {
    pub(crate) fn read(policy: &Value) -> Self {
        match policy.as_str() {
            Some("Ignore") => Self::Ignore,
            _ => Self::Fail,
        }
    }
}

/// Tracks the rounds of mutation of one request, so that webhooks which saw the object before
/// another one changed it can be called again. There are at most two rounds.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    round: u8,
    again: bool,
    /// Webhooks of the first round that want to be called again after a later change.
    waiting: BTreeSet<usize>,
    /// Webhooks that are called in the second round.
    due: BTreeSet<usize>,
}

impl Rounds {
    /// The number of the round, starting at 0.
    pub const fn round(&self) -> u8 {
        self.round
    }

    /// Reports whether a webhook is called in this round. A webhook that did not run in the
    /// first round does not run in the second.
    pub fn includes(&self, index: usize) -> bool {
        self.round == 0 || self.due.contains(&index)
    }

    /// Records a call, and whether it changed the object.
    pub fn record_call(&mut self, index: usize, reinvoked: bool, changed: bool) {
        if changed {
            self.record_change();
        }
        if reinvoked {
            self.waiting.insert(index);
        }
    }

    /// Records that another admission step changed the object.
    pub fn record_change(&mut self) {
        self.due.append(&mut self.waiting);
        self.again = true;
    }

    /// Starts the second round, if one is needed.
    pub fn start_second(&mut self) -> bool {
        let again = self.round == 0 && self.again;
        if again {
            self.round = 1;
        }
        again
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Decodes a CA bundle: PEM in base64. An invalid one verifies no server.
fn bundle(value: &Value) -> Option<String> {
    let bytes = base64(value.as_str().filter(|text| !text.is_empty())?);
    let bytes = bytes.unwrap_or_default();
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn base64(text: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

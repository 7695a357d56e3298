//! Webhooks: those of a space's configurations, ready to be asked whether they are called.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use insula_kinds::{Object, Value};

use crate::condition::{Conditions, Context, Met};
use crate::criteria::{Criteria, Served};
use crate::expression::Compiler;
use crate::refusal::Refusal;
use crate::request::{Request, Subject, Target, meta};
use crate::review::Version;

/// The annotation with which a configuration of the system admits requests of tenants too.
pub const ADMIT_TENANTS: &str = "multi-tenancy.k8s.io/admit-tenants";

/// How long a webhook may take if nobody says.
const TIMEOUT: u64 = 10;

/// How long it may take at most.
const LONGEST_TIMEOUT: u64 = 30;

/// All webhooks of one sort in a space.
#[derive(Clone, Debug, Default)]
pub struct Webhooks {
    configurations: BTreeMap<String, Arc<Configuration>>,
}

/// A configuration of webhooks.
#[derive(Debug)]
pub struct Configuration {
    /// Its name.
    pub name: String,
    /// Whether it admits requests of tenants too, if it is the system's.
    pub admits_tenants: bool,
    /// Its webhooks, in the order in which they are called.
    pub webhooks: Vec<Arc<Webhook>>,
}

/// A webhook.
#[derive(Debug)]
pub struct Webhook {
    /// Its configuration's name.
    pub configuration: String,
    /// Its name.
    pub name: String,
    /// Where it is.
    pub client: Client,
    /// How long it may take.
    pub timeout: Duration,
    /// What happens if it cannot be asked.
    pub failure: FailurePolicy,
    /// Whether it is called again after others changed what it saw.
    pub reinvoked: bool,
    /// The version in which it is asked; none if it knows none of ours.
    pub version: Option<Version>,
    side_effects: SideEffects,
    criteria: Criteria,
    conditions: Conditions,
}

/// Where a webhook is, and who vouches for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    /// Where it is.
    pub endpoint: Endpoint,
    /// The CAs that vouch for it, in PEM; those of the machine if there are none.
    pub ca_bundle: Option<String>,
}

/// Where a webhook is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// At a URL.
    Url(String),
    /// Behind a service of the space.
    Service {
        /// The service's namespace.
        namespace: String,
        /// The service's name.
        name: String,
        /// The path, empty if none is given.
        path: String,
        /// The service's port.
        port: u16,
    },
}

/// What happens if something cannot be asked or evaluated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The request is refused.
    #[default]
    Fail,
    /// The request goes on.
    Ignore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SideEffects {
    /// None, at least if it is told that nothing is to come of it.
    None,
    Some,
    Unsaid,
}

impl Webhooks {
    /// Puts a configuration in, or in the place of what it was.
    pub fn put(&mut self, object: &Object) {
        let configuration = Configuration::read(object);
        let name = configuration.name.clone();
        self.configurations.insert(name, Arc::new(configuration));
    }

    /// Takes a configuration out.
    pub fn remove(&mut self, name: &str) {
        self.configurations.remove(name);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.configurations.is_empty()
    }

    /// The configurations, in the order of their names.
    pub fn configurations(&self) -> impl Iterator<Item = &Arc<Configuration>> {
        self.configurations.values()
    }

    /// The webhooks, in the order in which they are called.
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
        let seconds = hook["timeoutSeconds"].as_u64().unwrap_or(TIMEOUT);
        let failure = FailurePolicy::read(&hook["failurePolicy"]);
        let versions = hook["admissionReviewVersions"].as_array();
        let versions = versions.map_or(&[][..], Vec::as_slice).iter();
        Self {
            configuration: configuration.to_owned(),
            name: text(&hook["name"]),
            client: Client::read(&hook["clientConfig"]),
            timeout: Duration::from_secs(seconds.clamp(1, LONGEST_TIMEOUT)),
            failure,
            reinvoked: hook["reinvocationPolicy"] == "IfNeeded",
            version: versions.filter_map(Value::as_str).find_map(Version::called),
            side_effects: match hook["sideEffects"].as_str() {
                None => SideEffects::Unsaid,
                Some("None" | "NoneOnDryRun") => SideEffects::None,
                Some(_) => SideEffects::Some,
            },
            criteria: Criteria::of_webhook(hook),
            conditions: Conditions::new(&hook["matchConditions"], &Compiler::new(false), failure),
        }
    }

    /// As what the request is for it, if it is: by everything but its conditions, for which
    /// the objects must be as that.
    ///
    /// # Errors
    ///
    /// If it cannot be told.
    pub fn matches(
        &self,
        request: &Request<'_>,
        subject: Subject<'_>,
        namespace: Option<&Object>,
        served: &dyn Served,
    ) -> Result<Option<Target>, Refusal> {
        if request.target.is_admission() {
            return Ok(None);
        }
        self.criteria.matches(request, subject, namespace, served)
    }

    /// Whether its conditions hold, too.
    ///
    /// # Errors
    ///
    /// If one cannot be evaluated, and that is not to be ignored.
    pub fn applies(&self, context: &Context<'_>) -> Result<bool, Refusal> {
        match self.conditions.met(context, None, &[]) {
            Met::Yes => Ok(true),
            Met::No => Ok(false),
            Met::Failed(why) => {
                let request = context.request;
                Err(Refusal::forbidden(request, request.name, &why))
            }
        }
    }

    /// Whether its conditions look at anything: if not, nothing needs to be prepared.
    pub fn has_conditions(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// Whether it can be asked without consequences, if nothing is to come of the request.
    ///
    /// # Errors
    ///
    /// If it cannot.
    pub fn allows(&self, request: &Request<'_>) -> Result<(), Failure> {
        match self.side_effects {
            _ if !request.dry_run => Ok(()),
            SideEffects::None => Ok(()),
            SideEffects::Some => {
                let name = &self.name;
                let why = format!("admission webhook \"{name}\" does not support dry run");
                Err(Failure::Refused(Refusal::bad_request(why)))
            }
            SideEffects::Unsaid => Err(self.unasked("Webhook SideEffects is nil")),
        }
    }

    /// It could not be asked, or its answer is none. `why` is what comes after its name.
    pub fn unasked(&self, why: &str) -> Failure {
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
    /// The request is refused.
    Refused(Refusal),
    /// It was not asked, which is to be ignored; this is why.
    Ignored(String),
}

impl Client {
    /// Reads a `clientConfig`.
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

/// What happened in a request's rounds of mutation, so that those who saw the object before
/// others changed it can be asked once more. There are two rounds at most.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    round: u8,
    again: bool,
    /// Those of the first round who want to see what others did later.
    waiting: BTreeSet<usize>,
    /// Those of them who are asked in the second.
    due: BTreeSet<usize>,
}

impl Rounds {
    /// The number of the round, from 0.
    pub const fn round(&self) -> u8 {
        self.round
    }

    /// Whether somebody is asked in this round: whoever was not asked in the first is not
    /// asked in the second.
    pub fn asks(&self, index: usize) -> bool {
        self.round == 0 || self.due.contains(&index)
    }

    /// Somebody was asked, and changed the object or did not.
    pub fn asked(&mut self, index: usize, reinvoked: bool, changed: bool) {
        if changed {
            self.changed();
        }
        if reinvoked {
            self.waiting.insert(index);
        }
    }

    /// Something else changed the object.
    pub fn changed(&mut self) {
        self.due.append(&mut self.waiting);
        self.again = true;
    }

    /// Begins the second round, if there is to be one.
    pub fn go_again(&mut self) -> bool {
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

/// The bundle is PEM in base64; what is none vouches for nobody.
fn bundle(value: &Value) -> Option<String> {
    let bytes = base64(value.as_str().filter(|text| !text.is_empty())?);
    let bytes = bytes.unwrap_or_default();
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn base64(text: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

//! Tests of decisions: the fixture, and a module per subject.

mod endpoints;
mod explanation;
mod lending;
mod properties;
mod references;
mod refusals;

use serde_json::json;

use super::*;
use crate::claim::Claimant;
use crate::shape::Texts;

/// The existing objects, of a kind of the test's own: the crate knows no provider.
#[derive(Clone, Debug, Default)]
struct World {
    identities: BTreeMap<String, Identity>,
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
    secrets: BTreeMap<(String, String), Secret>,
    /// Identities and Secrets of the system's space, and tenants.
    lent: BTreeMap<String, Identity>,
    lent_secrets: BTreeMap<(String, String), Secret>,
    tenants: BTreeMap<String, Labels>,
    given: Option<Static>,
}

impl CredentialReader for World {
    type Error = std::convert::Infallible;

    async fn read(&self, need: Need, known: &mut Known) -> Result<(), Self::Error> {
        match need {
            Need::Identity(name) => known.identity = Some(self.identities.get(&name).cloned()),
            Need::Namespace(name) => known.namespace = Some(self.namespaces.get(&name).cloned()),
            Need::LentIdentity(name) => known.lent_identity = Some(self.lent.get(&name).cloned()),
            Need::Tenant(name) => known.tenant = Some(self.tenants.get(&name).cloned()),
            Need::Secret {
                lent,
                namespace,
                name,
            } => {
                let secrets = if lent {
                    &self.lent_secrets
                } else {
                    &self.secrets
                };
                known.secret = Some(secrets.get(&(namespace, name)).cloned());
            }
            Need::Operator => known.operator = Some(self.given.clone()),
        }
        Ok(())
    }
}

impl World {
    /// Decides, and records the reads.
    fn decide(&self, question: &Question) -> (Vec<Need>, Result<Credential, Refusal>) {
        let mut known = Known::default();
        let mut read = Vec::new();
        for _ in 0..8 {
            match decide(question, &known) {
                Step::Read(need) => {
                    assert!(!read.contains(&need), "{need:?} was read twice");
                    read.push(need.clone());
                    let reading = self.read(need, &mut known);
                    let done = futures_util::FutureExt::now_or_never(reading);
                    assert!(done.is_some());
                }
                Step::Grant(credential) => return (read, Ok(credential)),
                Step::Refuse(refusal) => return (read, Err(refusal)),
            }
        }
        panic!("there is no decision");
    }
}

const ACCOUNT: Texts = Texts {
    required: &["username", "password"],
    optional: &["domain"],
};

/// Returns an endpoint as the object's choice.
fn at(endpoint: &str) -> Target {
    Target::Chosen(ChosenEndpoint {
        endpoint: end(endpoint),
        of_parent: None,
        trust: Trust::Verified,
    })
}

/// Returns the same for an object with a parent.
fn at_with_parent(endpoint: &str, of_parent: Option<&str>) -> Target {
    Target::Chosen(ChosenEndpoint {
        endpoint: end(endpoint),
        of_parent: of_parent.map(end),
        trust: Trust::Verified,
    })
}

const KINDS: &[&str] = &["Cloud", "CloudIdentity"];

fn question(references: CredentialReferences) -> Question {
    Question {
        namespace: Some("team-a".to_owned()),
        references,
        tenant: None,
        floor: Level::Operator,
        target: at("cloud.example"),
        shape: &ACCOUNT,
        hold: Hold::One(Claimant {
            api_version: "infra.example/v1".to_owned(),
            kind: "Cloud".to_owned(),
            name: "prod".to_owned(),
            uid: "1".to_owned(),
            kinds: KINDS,
            finalizer: "cloud/infra.example",
        }),
        operator_credential: "static credentials",
        identity_kind: Some("CloudIdentity"),
        endpoint_key: Some("server"),
        default_port: 443,
        default_bound: AllowedEndpoints::Nowhere,
        own_bound: AllowedEndpoints::Anywhere,
    }
}

fn end(text: &str) -> Endpoint {
    Endpoint::parse(text, 443).unwrap()
}

fn only(text: &str) -> AllowedEndpoints {
    AllowedEndpoints::parse(text, 443).unwrap()
}

fn hidden(pairs: &[(&str, &str)]) -> BTreeMap<String, Hidden> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), Hidden::new(*value)))
        .collect()
}

fn secret_of(username: &str) -> Secret {
    Secret {
        uid: format!("uid of {username}"),
        deleting: false,
        data: hidden(&[
            ("username", username),
            ("password", "c0ntent"),
            ("other", "c0ntent"),
        ]),
        owners: vec![],
    }
}

fn identity(allowed: serde_json::Value) -> Identity {
    Identity {
        uid: "7".to_owned(),
        ready: true,
        trouble: None,
        allowed: serde_json::from_value(allowed).unwrap(),
        allowed_tenants: None,
        secret_namespace: "home".to_owned(),
        secret_name: "hidden-name".to_owned(),
        bound: only("cloud.example"),
    }
}

/// Returns a world in which everything exists and is allowed.
fn world() -> World {
    let labels = BTreeMap::from([("tier".to_owned(), "gold".to_owned())]);
    let at = |namespace: &str, name: &str| (namespace.to_owned(), name.to_owned());
    World {
        identities: BTreeMap::from([("shared".to_owned(), identity(json!({})))]),
        namespaces: BTreeMap::from([("team-a".to_owned(), labels)]),
        secrets: BTreeMap::from([
            (at("team-a", "mine"), secret_of("mine")),
            (at("team-a", "everybody"), secret_of("everybody")),
            (at("team-b", "theirs"), secret_of("theirs")),
            (at("home", "hidden-name"), secret_of("hidden-name")),
        ]),
        given: Some(Static {
            data: secret_of("given").data,
            bound: only("cloud.example"),
        }),
        lent: BTreeMap::new(),
        lent_secrets: BTreeMap::from([(at("home", "hidden-name"), secret_of("lent-name"))]),
        tenants: BTreeMap::from([(
            "acme".to_owned(),
            BTreeMap::from([("plan".to_owned(), "gold".to_owned())]),
        )]),
    }
}

fn own(reference: Reference) -> CredentialReferences {
    CredentialReferences {
        own: Some(reference),
        ..CredentialReferences::default()
    }
}

fn by_identity() -> CredentialReferences {
    own(Reference::Identity("shared".to_owned()))
}

fn by_secret(name: &str) -> CredentialReferences {
    own(Reference::secret(name))
}

fn account(got: &Result<Credential, Refusal>) -> Result<&str, &str> {
    match got {
        Ok(credential) => Ok(credential.text("username").unwrap()),
        Err(refusal) => Err(refusal.reason.as_str()),
    }
}

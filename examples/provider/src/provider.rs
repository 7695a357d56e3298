//! The reconciler of records.

use futures_util::future::BoxFuture;
use insula_identity::decide::{ChosenEndpoint, Question, Refusal, Target};
use insula_identity::endpoint::{AllowedEndpoints, Trust};
use insula_identity::reason::Reason;
use insula_identity::reference::CredentialReferences;
use insula_identity::shape::{Shape, Texts};
use insula_operator::commit::{self, StatusChange};
use insula_operator::condition::{ConditionWriter, READY};
use insula_operator::provider::explain::{Asked, Error, Inspect, Objects};
use insula_operator::provider::{
    Access, Bounds, Closed, IdentityKind, IdentityUser, Names, Provider, Reconciliation,
    WatchedKind, full_message, named_reference, parse_endpoint, question,
};
use insula_operator::retry::{Class, Outcome};
use k8s_openapi::jiff::Timestamp;
use kube::api::ApiResource;
use serde_json::Value;

use crate::install::NAMESPACE;
use crate::kinds::{DnsAccount, DnsRecord};
use crate::service::Services;

/// The port of a DNS service.
const PORT: u16 = 8053;
/// The contents of a Secret with an account.
const ACCOUNT: Texts = Texts {
    required: &["token"],
    optional: &[],
};
const FINALIZER: &str = "dnsrecord.dns.example.com";

/// The provider.
pub struct Dns;

impl Provider for Dns {
    type Connector = Services;

    const NAMES: &'static Names = &Names {
        controller: "dns.example.com/operator",
        lease: "dns-operator",
        watch_label: "dns.example.com/watch-filter",
        pause_annotation: "dns.example.com/paused",
        member_label: "dns.example.com/zone",
        api_version: "dns.example.com/v1",
        claimant_kinds: &["DnsAccount"],
        claimants: &[],
        secret_finalizer: "dnsaccount/dns.example.com",
    };

    const SHAPE: &'static dyn Shape = &ACCOUNT;

    const IDENTITIES: Option<&'static IdentityKind> = Some(&IdentityKind {
        kind: "DnsAccount",
        resource: || ApiResource::erase::<DnsAccount>(&()),
        finalizer: "dnsaccount.dns.example.com",
        bound: allowed_servers,
        users: &[IdentityUser {
            kind: "DnsRecord",
            resource: || ApiResource::erase::<DnsRecord>(&()),
            members: None,
        }],
    });

    fn kinds(&self) -> Vec<WatchedKind> {
        vec![WatchedKind::reconciled::<DnsRecord>()]
    }

    async fn reconcile(of: &Reconciliation<'_, Self>) -> Result<Outcome, kube::Error> {
        let records = of.api::<DnsRecord>();
        let Some(record) = records.get_opt(&of.key.name).await? else {
            return Ok(Outcome::Gone);
        };
        let mut record = StatusChange::new(records, record);
        let is_deleting = record.stored.metadata.deletion_timestamp.is_some();
        match (
            is_deleting,
            commit::has_finalizer(&record.stored, FINALIZER),
        ) {
            (true, false) => return Ok(Outcome::Gone),
            (false, _) => record.add_finalizer(FINALIZER).await?,
            (true, true) => {}
        }
        if let Some(reference) = &record.stored.spec.identity_ref {
            of.depend_on_identity(&reference.name);
        }
        let namespace = of.key.namespace_or_empty();
        let question = ask(&of.context.bounds, namespace, &record.stored);
        let session = match of.access(question).await? {
            Access::Open(session, _) => session,
            Access::Closed(why, outcome) => {
                if let Closed::Refused(refusal) = why {
                    let reason = refusal.reason.as_str();
                    report(&mut record, false, reason, full_message(&refusal)).await?;
                }
                return Ok(outcome);
            }
        };
        let spec = &record.stored.spec;
        let called = match is_deleting {
            true => session.delete(&spec.name).await,
            false => session.put(&spec.name, &spec.address).await,
        };
        if let Err(error) = called {
            report(&mut record, false, error.reason.as_str(), error.message).await?;
            return Ok(Outcome::Failed(Class::Transient));
        }
        session.mark_responsive();
        if is_deleting {
            record.remove_finalizer(FINALIZER).await?;
            return Ok(Outcome::Gone);
        }
        report(&mut record, true, "Written", String::new()).await?;
        Ok(Outcome::Settled(of.resync_after()))
    }
}

/// Returns the question which account a record gets.
fn ask(bounds: &Bounds, namespace: &str, record: &DnsRecord) -> Result<Question, Refusal> {
    let reference = record.spec.identity_ref.as_ref();
    let own = reference.map(|it| named_reference(&it.kind, &it.name, "DnsAccount"));
    let references = CredentialReferences {
        own: own.transpose()?,
        operator: true,
        ..CredentialReferences::default()
    };
    let target = Target::Chosen(ChosenEndpoint {
        endpoint: parse_endpoint("spec.server", &record.spec.server, PORT)?,
        of_parent: None,
        trust: Trust::Verified,
    });
    let namespace = Some(namespace);
    Ok(question::<Dns>(bounds, namespace, references, target))
}

/// Returns the servers that an account may be sent to.
fn allowed_servers(spec: &Value) -> Result<AllowedEndpoints, String> {
    let servers = spec["allowedServers"].as_array().into_iter().flatten();
    let servers: Vec<_> = servers.filter_map(Value::as_str).collect();
    let bound = AllowedEndpoints::parse(&servers.join(","), PORT);
    bound.map_err(|error| format!("spec.allowedServers: {error}"))
}

/// Writes the condition of a record.
async fn report(
    record: &mut StatusChange<DnsRecord>,
    is_ready: bool,
    reason: &str,
    message: String,
) -> Result<(), kube::Error> {
    let mut writer = ConditionWriter::of(&mut record.object, Timestamp::now());
    match is_ready {
        true => writer.set_true(READY, reason, message),
        false => writer.set_false(READY, reason, message),
    }
    record.commit().await
}

/// What `explain` and `users` have to know.
impl Inspect for Dns {
    fn kinds(&self) -> &'static [(&'static str, &'static str)] {
        &[("DnsRecord", "dnsrecords")]
    }

    fn identities(&self) -> Option<&'static IdentityKind> {
        Self::IDENTITIES
    }

    fn names(&self) -> &'static Names {
        Self::NAMES
    }

    fn shape(&self) -> &'static dyn Shape {
        Self::SHAPE
    }

    fn endpoint_key(&self) -> Option<&'static str> {
        None
    }

    fn operator_namespace(&self) -> &'static str {
        NAMESPACE
    }

    fn condition(&self, _: &str) -> &'static str {
        READY
    }

    fn reasons(&self) -> fn(Reason) -> &'static str {
        Reason::as_str
    }

    fn question<'a>(
        &'a self,
        objects: &'a Objects<'a>,
        _: &'static str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Asked, Error>> {
        Box::pin(async move {
            let record: DnsRecord = objects.read(name).await?;
            let question = ask(&Bounds::ANYWHERE, objects.namespace, &record);
            Ok(Asked::new(&record, question))
        })
    }
}

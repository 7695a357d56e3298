//! `DeleteOptions`.

use insula_kinds::{FieldError, Kind, Object, Value, cbor, decode, protobuf, types};
use serde_json::json;

use crate::codec::input::Sent;
use crate::request::negotiate::Media;
use crate::request::query::{self, Query};
use crate::status::{Result, StatusError};
use crate::write::propagation::Policy;
use insula_cache::Stored;

/// The options of a delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Whether to run everything but the commit.
    pub dry_run: bool,
    pub(super) grace: Option<i64>,
    pub(super) uid: Option<String>,
    pub(super) revision: Option<String>,
    /// The propagation policy; by default that of the object's finalizers or of its kind.
    pub(super) policy: Option<Policy>,
    /// Whether the caller set the deprecated `orphanDependents: false`, which is answered with 202
    /// Accepted.
    pub(super) asks_for_cascade: bool,
    /// The options as the client sent them, for webhooks.
    pub(super) object: Object,
}

impl DeleteOptions {
    /// Reads the options in the body if there is one, else in the query.
    pub fn read(query: &Query, sent: &Sent) -> Result<Self> {
        let object = match sent.body.is_empty() {
            true => from_query(query)?,
            false => from_body(sent)?,
        };
        let mut errors = Vec::new();
        let text = |member: &str| object.get(member).and_then(Value::as_str);
        let policy = text("propagationPolicy").filter(|policy| !policy.is_empty());
        if let (Some(policy), Some(_)) = (policy, object.get("orphanDependents")) {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid_text("propagationPolicy", policy, why));
        } else if let Some(policy) = policy
            && Policy::parse(policy).is_none()
        {
            let known = ["Foreground", "Background", "Orphan", "nil"];
            let value = json!(policy);
            errors.push(FieldError::not_supported(
                "propagationPolicy",
                &value,
                &known,
            ));
        }
        let dry_run = object
            .get("dryRun")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let dry_run = query::dry_run(dry_run.filter_map(Value::as_str), &mut errors);
        if !errors.is_empty() {
            return Err(StatusError::invalid_options("DeleteOptions", &errors));
        }
        let precondition = |member: &str| {
            let found = object.get("preconditions")?.get(member)?.as_str()?;
            Some(found.to_owned())
        };
        let orphans = object.get("orphanDependents").and_then(Value::as_bool);
        Ok(Self {
            dry_run,
            grace: object.get("gracePeriodSeconds").and_then(Value::as_i64),
            uid: precondition("uid"),
            revision: precondition("resourceVersion"),
            policy: match orphans {
                Some(true) => Some(Policy::Orphan),
                Some(false) => Some(Policy::Background),
                None => policy.and_then(Policy::parse),
            },
            asks_for_cascade: orphans == Some(false),
            object: object.clone(),
        })
    }

    /// Returns default options with or without dry run.
    pub fn dry_run(dry_run: bool) -> Self {
        Self {
            dry_run,
            ..Self::default()
        }
    }

    /// Returns options that delete exactly this object at this revision.
    pub fn exactly(object: &Stored) -> Self {
        Self {
            uid: object.uid().map(str::to_owned),
            revision: Some(object.revision.to_string()),
            ..Self::default()
        }
    }

    /// Limits the deletion to this object, unless the request names another one of its name.
    pub fn limit_to(&mut self, object: &Stored) {
        if self.uid.is_none() {
            self.uid = object.uid().map(str::to_owned);
        }
    }

    /// Returns the options with a propagation policy.
    pub fn propagating(self, policy: Policy) -> Self {
        Self {
            policy: Some(policy),
            ..self
        }
    }

    /// Returns the warning for a job deleted without a propagation policy, which preserves its pods.
    pub(super) fn warning(&self, kind: &Kind) -> Option<String> {
        let is_job = kind.group == "batch" && kind.kind == "Job";
        let warning = "child pods are preserved by default when jobs are deleted; set \
                       propagationPolicy=Background to remove them or set \
                       propagationPolicy=Orphan to suppress this warning";
        (is_job && self.policy.is_none()).then(|| warning.to_owned())
    }
}

fn from_query(query: &Query) -> Result<Object> {
    let mut object = Object::new();
    if let Some(seconds) = query.integer("gracePeriodSeconds")? {
        object.insert("gracePeriodSeconds".to_owned(), seconds.into());
    }
    if let Some(policy) = query.get("propagationPolicy") {
        object.insert("propagationPolicy".to_owned(), policy.into());
    }
    if let Some(orphan) = query.choice("orphanDependents") {
        object.insert("orphanDependents".to_owned(), orphan.into());
    }
    let dry_run: Vec<&str> = query.all("dryRun").collect();
    object.insert("dryRun".to_owned(), dry_run.into());
    Ok(object)
}

fn from_body(sent: &Sent) -> Result<Object> {
    let of = types().find("apimachinery.pkg.apis.meta.v1.DeleteOptions");
    let of = of.ok_or_else(|| StatusError::internal("DeleteOptions is not in the table"))?;
    // Any group and version is accepted: clients send those of the object.
    let unreadable = |error: &dyn ToString| StatusError::bad_request(error.to_string());
    let identity = match sent.media {
        Media::Cbor => {
            let json = cbor::to_json(&sent.body).map_err(|error| unreadable(&error))?;
            return from_body(&Sent {
                media: Media::Json,
                body: json.into(),
            });
        }
        Media::Json => decode::type_meta_json(&sent.body),
        Media::Yaml => decode::type_meta_yaml(&sent.body),
        Media::Protobuf => {
            let envelope = protobuf::open(&sent.body).map_err(|error| unreadable(&error))?;
            check_kind(envelope.kind)?;
            let options = protobuf::decode(of, envelope.raw);
            return options.map_err(|error| unreadable(&error));
        }
    };
    let identity = identity.map_err(|error| unreadable(&error))?;
    check_kind(identity.kind.as_deref().unwrap_or(""))?;
    let decoded = match sent.media {
        Media::Yaml => decode::yaml(of, &sent.body),
        _ => decode::json(of, &sent.body),
    };
    Ok(decoded.map_err(|error| unreadable(&error))?.object)
}

fn check_kind(kind: &str) -> Result<()> {
    if kind.is_empty() || kind == "DeleteOptions" {
        return Ok(());
    }
    Err(StatusError::bad_request(format!(
        "no kind \"{kind}\" is registered for version \"v1\" in scheme \
         \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\""
    )))
}

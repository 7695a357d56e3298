//! Long-running operations and their signed URLs.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use uuid::Uuid;

use super::manner::Manner;
use super::path::ArmId;

/// A long-running operation.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub id: String,
    pub target: ArmId,
    pub effect: Effect,
    pub manner: Manner,
    pub location: String,
    pub api_version: String,
    pub retry_after: Option<String>,
    /// The number of observations of which the operation is in progress.
    pub polls: u32,
    /// The number of observations so far.
    pub observed: u32,
    /// The error with which the operation will fail.
    pub failure: Option<Value>,
    pub outcome: Option<Outcome>,
    /// Whether its URLs are not found any more.
    pub forgotten: bool,
    /// The styles of the URLs so far; a URL's signature proves its position in this list.
    urls: Vec<Style>,
}

/// What an operation does to its target when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Put,
    Delete,
    PurgeVault,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    Succeeded,
    Failed(Value),
    Canceled(Value),
}

/// How a URL of an operation answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// A document with a status: `Azure-AsyncOperation`.
    Async,
    /// 202 until the operation is done: `Location`.
    Location,
}

/// The length of the certificate that Azure repeats in each signed URL.
const CERTIFICATE_LENGTH: usize = 2400;

impl Operation {
    pub fn new(target: ArmId, effect: Effect, manner: Manner) -> Self {
        let id = match target.is_group() {
            // The ids of these operations are tokens instead of UUIDs.
            true => {
                let job = format!("RESOURCEGROUPDELETIONJOB-{}", Uuid::new_v4());
                URL_SAFE_NO_PAD.encode(json!({"jobId": job}).to_string())
            }
            false => Uuid::new_v4().to_string(),
        };
        Self {
            id,
            target,
            effect,
            manner,
            location: String::new(),
            api_version: String::new(),
            retry_after: None,
            polls: 0,
            observed: 0,
            failure: None,
            outcome: None,
            forgotten: false,
            urls: Vec::new(),
        }
    }

    /// Counts an observation. Returns whether the operation is due to end.
    pub fn observe(&mut self) -> bool {
        self.observed = self.observed.saturating_add(1);
        self.outcome.is_none() && self.observed > self.polls
    }

    /// The state while it is in progress.
    pub fn word(&self) -> &'static str {
        let words = self.manner.in_progress;
        let at = (self.observed.saturating_sub(1)) as usize;
        let word = words.get(at).or_else(|| words.last());
        word.copied().unwrap_or("InProgress")
    }

    /// Creates a URL with a signature of its own. Earlier ones stay valid.
    pub fn url(&mut self, endpoint: &str, style: Style) -> String {
        let at = self.urls.len();
        self.urls.push(style);
        let id = &self.id;
        let place = match self.target.namespace() {
            None => format!("operationresults/{id}"),
            Some(namespace) => {
                let location = utf8_percent_encode(&self.location, NON_ALPHANUMERIC);
                let segment = match (style, self.manner.operations) {
                    (Style::Async, segment) | (Style::Location, segment @ "asyncoperations") => {
                        segment
                    }
                    (Style::Location, _) => "operationResults",
                };
                format!("providers/{namespace}/locations/{location}/{segment}/{id}")
            }
        };
        let subscription = &self.target.subscription;
        let version = &self.api_version;
        let certificate = "MII".repeat(CERTIFICATE_LENGTH / 3);
        format!(
            "{endpoint}/subscriptions/{subscription}/{place}?api-version={version}&t={at}\
             &c={certificate}&s={}&h={}",
            signature(&self.id, at, "s"),
            signature(&self.id, at, "h"),
        )
    }

    /// The style of the URL with these parameters, if its signature is right.
    pub fn style(&self, parameter: impl Fn(&str) -> Option<String>) -> Option<Style> {
        let at: usize = parameter("t")?.parse().ok()?;
        let style = *self.urls.get(at)?;
        let complete = parameter("c")?.len() == CERTIFICATE_LENGTH;
        let signed = ["s", "h"]
            .into_iter()
            .all(|part| parameter(part).as_deref() == Some(&signature(&self.id, at, part)));
        (complete && signed).then_some(style)
    }

    /// The document of `Azure-AsyncOperation`.
    pub fn document(&self) -> Value {
        let mut document =
            json!({"name": self.id, "startTime": jiff::Timestamp::now().to_string()});
        let beside = self.manner.error_in_progress;
        let beside = beside.map(|code| json!({"code": code, "message": null}));
        let (status, error) = match &self.outcome {
            None => (self.word(), beside),
            Some(Outcome::Succeeded) => {
                let error = beside.filter(|_| self.manner.error_on_success);
                (self.manner.succeeded, error)
            }
            Some(Outcome::Failed(error)) => ("Failed", Some(error.clone())),
            Some(Outcome::Canceled(error)) => ("Canceled", Some(error.clone())),
        };
        document["status"] = json!(status);
        if let Some(error) = error {
            document["error"] = error;
        }
        document
    }
}

fn signature(id: &str, at: usize, part: &str) -> String {
    let bytes = digest(&SHA256, format!("{id} {at} {part}").as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

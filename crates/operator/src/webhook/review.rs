//! The common form of admission and conversion reviews.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// A review as it arrives. The request is parsed after its kind is known.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "apiVersion", default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(borrow)]
    request: Option<&'a RawValue>,
}

/// Parses the request of a review of this API version and kind. The error is a message for the
/// caller.
pub(super) fn request<T: DeserializeOwned>(
    body: &[u8],
    api_version: &str,
    kind: &str,
) -> Result<T, String> {
    let envelope: Envelope<'_> =
        serde_json::from_slice(body).map_err(|error| format!("the body is no {kind}: {error}"))?;
    if (envelope.api_version.as_str(), envelope.kind.as_str()) != (api_version, kind) {
        let Envelope {
            api_version: got_version,
            kind: got_kind,
            ..
        } = envelope;
        return Err(format!(
            "expected {api_version}, Kind={kind}, got {got_version:?}, Kind={got_kind:?}"
        ));
    }
    let request = envelope
        .request
        .ok_or_else(|| format!("the {kind} has no request"))?;
    serde_json::from_str(request.get())
        .map_err(|error| format!("the request of the {kind} is invalid: {error}"))
}

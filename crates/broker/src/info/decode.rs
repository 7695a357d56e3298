//! Decoding of a broker info.
//!
//! Go's JSON decoder ignores the case of keys, so that files exist with other spellings.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::{BrokerInfo, Malformed};
use crate::component::SERVICE_DISCOVERY;

/// Padding is removed before decoding; trailing bits are ignored.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

pub(super) fn decode(text: &[u8]) -> Result<BrokerInfo, Malformed> {
    let json = bytes(text).ok_or(Malformed::NotBase64)?;
    // serde's own message would quote the content.
    let fields: Fields = serde_json::from_slice(&json).map_err(|_| Malformed::NotJson)?;
    let mut components: BTreeSet<String> = strings(&fields, "Components")?.into_iter().collect();
    if flag(&fields, "ServiceDiscovery")? {
        components.insert(SERVICE_DISCOVERY.to_owned());
    }
    Ok(BrokerInfo {
        url: string(&fields, "brokerURL")?.unwrap_or_default(),
        client_token: secret(&fields, "ClientToken")?,
        ipsec_psk: secret(&fields, "IPSecPSK")?,
        components,
        custom_domains: strings(&fields, "CustomDomains")?,
        namespace: string(&fields, "namespace")?.filter(|name| !name.is_empty()),
    })
}

/// Decodes base64 of either alphabet, with or without line breaks and padding.
fn bytes(text: &[u8]) -> Option<Vec<u8>> {
    let encoded = text.iter().filter(|sign| !sign.is_ascii_whitespace());
    let mut encoded: Vec<u8> = encoded
        .map(|sign| match sign {
            b'+' => b'-',
            b'/' => b'_',
            sign => *sign,
        })
        .collect();
    while encoded.last() == Some(&b'=') {
        encoded.pop();
    }
    LENIENT.decode(encoded).ok()
}

/// The fields of an object in their order, duplicates included.
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// Case-insensitive lookup of fields.
trait Lookup {
    fn entries(&self) -> impl Iterator<Item = (&str, &Value)>;

    /// Returns the field; null counts as absent.
    fn find(&self, field: &'static str) -> Result<Option<&Value>, Malformed> {
        let name = field.rsplit('.').next().unwrap_or(field);
        let mut found = self
            .entries()
            .filter(|(key, value)| key.eq_ignore_ascii_case(name) && !value.is_null());
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => Err(Malformed::Duplicate { field }),
            (first, _) => Ok(first.map(|(_, value)| value)),
        }
    }
}

impl Lookup for Fields {
    fn entries(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }
}

impl Lookup for Map<String, Value> {
    fn entries(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.iter().map(|(key, value)| (key.as_str(), value))
    }
}

fn wrong_type(field: &'static str, expected: &'static str) -> Malformed {
    Malformed::Field { field, expected }
}

fn flag(fields: &impl Lookup, field: &'static str) -> Result<bool, Malformed> {
    let found = fields.find(field)?;
    let flag = found.map(|value| value.as_bool().ok_or(wrong_type(field, "true or false")));
    Ok(flag.transpose()?.unwrap_or_default())
}

fn string(fields: &impl Lookup, field: &'static str) -> Result<Option<String>, Malformed> {
    let found = fields.find(field)?;
    found
        .map(|value| value.as_str().ok_or(wrong_type(field, "a string")))
        .transpose()
        .map(|text| text.map(str::to_owned))
}

fn strings(fields: &impl Lookup, field: &'static str) -> Result<Vec<String>, Malformed> {
    const EXPECTED: &str = "a list of strings";
    let Some(found) = fields.find(field)? else {
        return Ok(Vec::new());
    };
    let list = found.as_array().ok_or(wrong_type(field, EXPECTED))?;
    let texts = list
        .iter()
        .map(|item| item.as_str().ok_or(wrong_type(field, EXPECTED)));
    texts.map(|text| text.map(str::to_owned)).collect()
}

fn map(
    fields: &impl Lookup,
    field: &'static str,
) -> Result<Option<BTreeMap<String, String>>, Malformed> {
    const EXPECTED: &str = "an object of strings";
    let Some(found) = fields.find(field)? else {
        return Ok(None);
    };
    let object = found.as_object().ok_or(wrong_type(field, EXPECTED))?;
    let texts = object.iter().map(|(key, value)| {
        let text = value.as_str().ok_or(wrong_type(field, EXPECTED))?;
        Ok((key.clone(), text.to_owned()))
    });
    texts.collect::<Result<_, _>>().map(Some)
}

fn object<'a>(
    fields: &'a impl Lookup,
    field: &'static str,
) -> Result<Option<&'a Map<String, Value>>, Malformed> {
    let found = fields.find(field)?;
    found
        .map(|value| value.as_object().ok_or(wrong_type(field, "an object")))
        .transpose()
}

fn secret(fields: &Fields, field: &'static str) -> Result<Option<Secret>, Malformed> {
    let Some(found) = object(fields, field)? else {
        return Ok(None);
    };
    let metadata = match object(found, "metadata")? {
        Some(metadata) => decode_metadata(metadata)?,
        None => ObjectMeta::default(),
    };
    let data = map(found, "data")?.map(|data| {
        let decoded = data.into_iter().map(|(key, text)| {
            let bytes = bytes(text.as_bytes()).ok_or(wrong_type("data", "base64"))?;
            Ok((key, ByteString(bytes)))
        });
        decoded.collect::<Result<_, Malformed>>()
    });
    Ok(Some(Secret {
        metadata,
        data: data.transpose()?,
        type_: string(found, "type")?,
        ..Secret::default()
    }))
}

/// Decodes the metadata that files keep; versions and owners are dropped.
fn decode_metadata(metadata: &Map<String, Value>) -> Result<ObjectMeta, Malformed> {
    const CREATED: &str = "metadata.creationTimestamp";
    let created = string(metadata, CREATED)?;
    let created = created.map(|text| text.parse().map_err(|_| wrong_type(CREATED, "a time")));
    Ok(ObjectMeta {
        name: string(metadata, "metadata.name")?,
        namespace: string(metadata, "metadata.namespace")?,
        uid: string(metadata, "metadata.uid")?,
        creation_timestamp: created.transpose()?.map(Time),
        labels: map(metadata, "metadata.labels")?,
        annotations: map(metadata, "metadata.annotations")?,
        ..ObjectMeta::default()
    })
}

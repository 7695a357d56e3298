//! Conversion of values to JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map as Members, Number, Value as Json};

use super::{Map, Value};
use crate::error::EvalError;

impl Value<'_> {
    /// Returns the value as JSON. Timestamps, durations and bytes become strings.
    pub fn to_json(&self) -> Result<Json, EvalError> {
        Ok(match self {
            Self::Null | Self::Optional(None) => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Int(value) => Json::from(*value),
            Self::Uint(value) => Json::from(*value),
            Self::Double(value) => Number::from_f64(*value).map_or(Json::Null, Json::Number),
            Self::String(text) => Json::from(&**text),
            Self::Bytes(bytes) => Json::from(STANDARD.encode(bytes)),
            Self::Type(name) => Json::from(&**name),
            Self::Timestamp(_) | Self::Duration(_) => Json::from(self.to_string()),
            Self::Optional(Some(value)) => value.to_json()?,
            Self::List(list) => {
                let items = list.iter().map(|value| value?.to_json());
                Json::Array(items.collect::<Result<_, _>>()?)
            }
            Self::Map(Map::Dynamic(members) | Map::Typed(members, _) | Map::Object(members, _)) => {
                Json::Object((*members).clone())
            }
            Self::Map(map) => members(map)?,
            Self::Struct(made) => {
                let field = |(name, value): &(std::sync::Arc<str>, Value<'_>)| {
                    Ok((name.to_string(), value.to_json()?))
                };
                let fields = made.fields.iter().map(field);
                Json::Object(fields.collect::<Result<_, EvalError>>()?)
            }
            Self::Opaque(_) => Json::from(self.to_string()),
        })
    }
}

fn members(map: &Map<'_>) -> Result<Json, EvalError> {
    let mut members = Members::new();
    for key in map.keys() {
        if let Some(value) = map.find(&key) {
            members.insert(key.to_string(), value?.to_json()?);
        }
    }
    Ok(Json::Object(members))
}

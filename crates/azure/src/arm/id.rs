//! Ids of resources: parsed, composed and compared.
//!
//! An id is a path such as
//! `/subscriptions/S/resourceGroups/G/providers/Microsoft.Network/virtualNetworks/V/subnets/N`.
//! Azure writes parts of the ids of a resource in different cases, so ids are compared without
//! regard to case.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

const SUBSCRIPTIONS: &str = "subscriptions";
const RESOURCE_GROUPS: &str = "resourceGroups";
const PROVIDERS: &str = "providers";
/// The provider and type of resource groups, which have no provider in their ids.
const RESOURCE_GROUP_TYPE: &str = "Microsoft.Resources/resourceGroups";
const SUBSCRIPTION_TYPE: &str = "Microsoft.Resources/subscriptions";
/// The maximum length of an id in bytes.
const MAX_ID_BYTES: usize = 4096;

/// The characters that are encoded in a segment of a URL.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b',')
    .remove(b':')
    .remove(b'@');

/// The id of a resource, a resource group, a subscription or a management group.
#[derive(Clone, Debug)]
pub struct ResourceId(String);

/// The type of a resource: a provider and one or several types, such as
/// `Microsoft.Network/virtualNetworks/subnets`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceType {
    provider: String,
    types: Vec<String>,
}

/// Why a text is not an id, or the parts do not compose one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidId {
    /// The text is not an id.
    #[error("{0:?} is not an ARM id")]
    Malformed(String),
    /// A name cannot be part of an id.
    #[error("{0:?} cannot be a name in Azure")]
    Name(String),
    /// The text is not the type of a resource.
    #[error("{0:?} is not an ARM resource type")]
    Type(String),
    /// The type has more or fewer parts than there are names.
    #[error("the type {of} needs {expected} names, and there are {given}")]
    NameCount {
        /// The type.
        of: String,
        /// The number of names that it needs.
        expected: usize,
        /// The number of names that were given.
        given: usize,
    },
}

impl ResourceType {
    /// Returns the provider, such as `Microsoft.Network`.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Returns the types below the provider, such as `virtualNetworks` and `subnets`.
    pub fn types(&self) -> &[String] {
        &self.types
    }

    fn pairs(&self, names: &[&str]) -> Result<String, InvalidId> {
        if names.len() != self.types.len() {
            return Err(InvalidId::NameCount {
                of: self.to_string(),
                expected: self.types.len(),
                given: names.len(),
            });
        }
        let mut path = String::new();
        for (kind, name) in self.types.iter().zip(names) {
            path.push_str(&pair(kind, name)?);
        }
        Ok(path)
    }
}

impl FromStr for ResourceType {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let mut parts = text.split('/').map(str::to_owned);
        let provider = parts.next().unwrap_or_default();
        let types: Vec<String> = parts.collect();
        let is_valid = |part: &String| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            !part.is_empty() && part.bytes().all(allowed) && !is_dots(part)
        };
        match is_valid(&provider) && !types.is_empty() && types.iter().all(is_valid) {
            true => Ok(Self { provider, types }),
            false => Err(InvalidId::Type(text.to_owned())),
        }
    }
}

impl fmt::Display for ResourceType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.provider, self.types.join("/"))
    }
}

impl ResourceId {
    /// Returns the id of a subscription.
    ///
    /// # Errors
    ///
    /// If the text cannot be part of an id.
    pub fn of_subscription(subscription: &str) -> Result<Self, InvalidId> {
        Ok(Self(pair(SUBSCRIPTIONS, subscription)?))
    }

    /// Returns the id of a resource group.
    ///
    /// # Errors
    ///
    /// If a name cannot be part of an id.
    pub fn of_resource_group(subscription: &str, group: &str) -> Result<Self, InvalidId> {
        let group = pair(RESOURCE_GROUPS, group)?;
        Ok(Self(pair(SUBSCRIPTIONS, subscription)? + &group))
    }

    /// Returns the id of a resource of the Entra tenant, without a subscription.
    ///
    /// # Errors
    ///
    /// If the names do not fit the type, or one cannot be part of an id.
    pub fn of_tenant(kind: &ResourceType, names: &[&str]) -> Result<Self, InvalidId> {
        let path = format!("/{PROVIDERS}/{}{}", kind.provider, kind.pairs(names)?);
        Ok(Self(path))
    }

    /// Returns the id of a resource in this scope, or of an extension of this resource: it has a
    /// provider of its own.
    ///
    /// # Errors
    ///
    /// If the names do not fit the type, or one cannot be part of an id.
    pub fn extension(&self, kind: &ResourceType, names: &[&str]) -> Result<Self, InvalidId> {
        let (provider, pairs) = (&kind.provider, kind.pairs(names)?);
        Ok(Self(format!("{}/{PROVIDERS}/{provider}{pairs}", self.0)))
    }

    /// Returns the id of a child, such as `subnets` and a name below a virtual network.
    ///
    /// # Errors
    ///
    /// If the name cannot be part of an id.
    pub fn child(&self, kind: &str, name: &str) -> Result<Self, InvalidId> {
        Ok(Self(format!("{}{}", self.0, pair(kind, name)?)))
    }

    /// Returns the id of a resource below an owner that users name by its id. The names are those
    /// that the owner's id does not have. The provider is added unless the owner is of the same
    /// one.
    ///
    /// # Errors
    ///
    /// If the type has fewer parts than there are names, or a name cannot be part of an id.
    pub fn below_owner(
        owner: &Self,
        kind: &ResourceType,
        names: &[&str],
    ) -> Result<Self, InvalidId> {
        let Some(skipped) = kind.types.len().checked_sub(names.len()) else {
            return Err(InvalidId::NameCount {
                of: kind.to_string(),
                expected: kind.types.len(),
                given: names.len(),
            });
        };
        let rest = ResourceType {
            provider: kind.provider.clone(),
            types: kind.types[skipped..].to_vec(),
        };
        if !owner.has_provider(&kind.provider) {
            return owner.extension(&rest, names);
        }
        Ok(Self(format!("{}{}", owner.0, rest.pairs(names)?)))
    }

    /// Returns whether a resource in the path is of this provider.
    pub fn has_provider(&self, provider: &str) -> bool {
        let segments: Vec<_> = self.segments().collect();
        let resources = resources(&segments).unwrap_or_default();
        let mut providers = resources.iter().filter_map(|resource| resource.first());
        providers.any(|own| own.eq_ignore_ascii_case(provider))
    }

    /// Returns the subscription, unless the resource is outside of all subscriptions.
    pub fn subscription(&self) -> Option<&str> {
        let mut segments = self.segments();
        let first = segments.next()?;
        first
            .eq_ignore_ascii_case(SUBSCRIPTIONS)
            .then(|| segments.next())?
    }

    /// Returns the name of the resource group, if the resource is in one.
    pub fn resource_group(&self) -> Option<&str> {
        let mut segments = self.segments().skip(2);
        self.subscription()?;
        let third = segments.next()?;
        third
            .eq_ignore_ascii_case(RESOURCE_GROUPS)
            .then(|| segments.next())?
    }

    /// Returns the name of the resource, which is the last part.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the type of the resource, such as `Microsoft.Network/virtualNetworks/subnets`.
    pub fn resource_type(&self) -> String {
        let segments: Vec<_> = self.segments().collect();
        let resources = resources(&segments).unwrap_or_default();
        match resources.last() {
            Some([provider, pairs @ ..]) => {
                let types = pairs.iter().step_by(2).copied();
                let parts: Vec<&str> = std::iter::once(*provider).chain(types).collect();
                parts.join("/")
            }
            Some([]) | None if segments.len() == 2 => SUBSCRIPTION_TYPE.to_owned(),
            Some([]) | None => RESOURCE_GROUP_TYPE.to_owned(),
        }
    }

    /// Returns whether this is the other resource, or below it.
    pub fn is_within(&self, other: &Self) -> bool {
        let (own, other) = (self.normalized(), other.normalized());
        own == other || own.starts_with(&(other + "/"))
    }

    /// Returns the path of the resource in a URL.
    pub fn url_path(&self) -> String {
        let encode = |segment| format!("/{}", utf8_percent_encode(segment, ENCODED));
        self.segments().map(encode).collect()
    }

    /// Returns the id as the rest of the world writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').skip(1)
    }

    fn normalized(&self) -> String {
        self.0.to_lowercase()
    }
}

impl FromStr for ResourceId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let malformed = || InvalidId::Malformed(text.chars().take(200).collect());
        let path = text.strip_suffix('/').unwrap_or(text);
        let rest = path.strip_prefix('/').ok_or_else(malformed)?;
        let segments: Vec<&str> = rest.split('/').collect();
        let are_names = segments.iter().all(|segment| is_name(segment));
        match path.len() <= MAX_ID_BYTES && are_names && resources(&segments).is_some() {
            true => Ok(Self(path.to_owned())),
            false => Err(malformed()),
        }
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl PartialEq for ResourceId {
    fn eq(&self, other: &Self) -> bool {
        self.normalized() == other.normalized()
    }
}

impl Eq for ResourceId {}

impl Hash for ResourceId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.normalized().hash(state);
    }
}

/// Returns the part of a path for a type and a name.
fn pair(kind: &str, name: &str) -> Result<String, InvalidId> {
    match is_name(name) {
        true => Ok(format!("/{kind}/{name}")),
        false => Err(InvalidId::Name(name.chars().take(100).collect())),
    }
}

/// Returns whether a text is one segment of a path, for every program that reads URLs: a name such
/// as `..` or `a/b` would address another resource.
fn is_name(text: &str) -> bool {
    let is_separator = |char: char| char.is_control() || "/\\?#%".contains(char);
    !text.trim().is_empty() && !text.contains(is_separator) && !is_dots(text.trim())
}

fn is_dots(text: &str) -> bool {
    text.bytes().all(|byte| byte == b'.')
}

/// Splits the segments of an id into its resources, each with the provider and pairs of a type and
/// a name. Returns none if the segments are not those of an id.
fn resources<'a>(segments: &'a [&'a str]) -> Option<Vec<&'a [&'a str]>> {
    let is = |segment: &str, expected: &str| segment.eq_ignore_ascii_case(expected);
    let mut rest = match segments {
        [first, _, third, _, rest @ ..]
            if is(first, SUBSCRIPTIONS) && is(third, RESOURCE_GROUPS) =>
        {
            rest
        }
        [first, _, rest @ ..] if is(first, SUBSCRIPTIONS) => rest,
        [first, ..] if is(first, PROVIDERS) => segments,
        _ => return None,
    };
    let mut resources = Vec::new();
    while let [first, resource @ ..] = rest {
        // A name may be `providers` too, so only types are compared.
        let types = resource.iter().skip(1).step_by(2);
        let pairs = types.take_while(|kind| !is(kind, PROVIDERS)).count();
        let (resource, after) = resource.split_at_checked(1 + 2 * pairs)?;
        if !is(first, PROVIDERS) || pairs == 0 {
            return None;
        }
        resources.push(resource);
        rest = after;
    }
    Some(resources)
}

#[cfg(test)]
mod tests;

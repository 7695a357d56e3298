//! Paths of ARM: ids of resources, and what follows them in a request.

use percent_encoding::percent_decode_str;

/// The id of a subscription, a resource group or a resource. Ids compare by [`ArmId::key`].
#[derive(Clone, Debug)]
pub(super) struct ArmId {
    /// The subscription; empty for resources of the tenant.
    pub subscription: String,
    pub group: Option<String>,
    /// The resource, and before it those that it extends.
    pub provided: Vec<Provided>,
}

/// The part of an id that begins with `/providers/`.
#[derive(Clone, Debug)]
pub(super) struct Provided {
    pub namespace: String,
    /// Types and names, from the outermost to the innermost.
    pub names: Vec<(String, String)>,
}

/// The parsed path of a request.
#[derive(Clone, Debug)]
pub(super) struct ArmPath {
    pub id: ArmId,
    /// The last segment without a name: a collection in a GET, an action in a POST.
    pub tail: Option<String>,
}

impl ArmPath {
    /// Parses a path below `/subscriptions/` or `/providers/`, in any case.
    pub fn parse(path: &str) -> Option<Self> {
        let segments: Vec<String> = path
            .split('/')
            .filter(|part| !part.is_empty())
            .map(decode)
            .collect();
        let mut rest = segments.into_iter().peekable();
        let is_next = |rest: &mut std::iter::Peekable<_>, text: &str| {
            rest.peek()
                .is_some_and(|part: &String| part.eq_ignore_ascii_case(text))
        };
        let subscription = match is_next(&mut rest, "subscriptions") {
            true => rest.nth(1)?,
            false if is_next(&mut rest, "providers") => String::new(),
            false => return None,
        };
        let mut id = ArmId {
            subscription,
            group: None,
            provided: Vec::new(),
        };
        if rest
            .peek()
            .is_some_and(|part| part.eq_ignore_ascii_case("resourceGroups"))
        {
            let tail = rest.next();
            match rest.next() {
                Some(group) => id.group = Some(group),
                None => return Some(Self { id, tail }),
            }
        }
        while let Some(kind) = rest.next() {
            if kind.eq_ignore_ascii_case("providers") {
                let names = Vec::new();
                id.provided.push(Provided {
                    namespace: rest.next()?,
                    names,
                });
                continue;
            }
            let Some(name) = rest.next() else {
                return Some(Self {
                    id,
                    tail: Some(kind),
                });
            };
            match id.provided.last_mut() {
                Some(last) => last.names.push((kind, name)),
                // The operation of a resource group, which is no resource.
                None => {
                    let tail = Some(name);
                    return Some(Self { id, tail });
                }
            }
        }
        Some(Self { id, tail: None })
    }
}

impl ArmId {
    /// Parses an id of a subscription, a resource group or a resource.
    pub fn parse(id: &str) -> Option<Self> {
        ArmPath::parse(id)
            .filter(|path| path.tail.is_none())
            .map(|path| path.id)
    }

    /// The id as Azure spells it.
    pub fn text(&self) -> String {
        self.spelled("resourceGroups")
    }

    /// The id as some resource providers spell it.
    pub fn text_with_lower_case_group(&self) -> String {
        self.spelled("resourcegroups")
    }

    /// The id in lower case, by which ids compare.
    pub fn key(&self) -> String {
        self.text().to_ascii_lowercase()
    }

    /// The type, as in `Microsoft.Network/virtualNetworks/subnets`.
    pub fn resource_type(&self) -> String {
        let Some(last) = self.provided.last() else {
            return match self.group {
                Some(_) => "Microsoft.Resources/resourceGroups".to_owned(),
                None => "Microsoft.Resources/subscriptions".to_owned(),
            };
        };
        format!("{}/{}", last.namespace, self.type_in_namespace())
    }

    /// The type without its namespace, as in `virtualNetworks/subnets`.
    pub fn type_in_namespace(&self) -> String {
        let names = self.provided.last().map(|last| last.names.as_slice());
        let types = names
            .unwrap_or_default()
            .iter()
            .map(|(kind, _)| kind.as_str());
        types.collect::<Vec<_>>().join("/")
    }

    /// The type and names without the namespace's scope, as in
    /// `Microsoft.Network/virtualNetworks/one/subnets/two`.
    pub fn path_in_scope(&self) -> String {
        let Some(last) = self.provided.last() else {
            return self.name().to_owned();
        };
        let names = last
            .names
            .iter()
            .map(|(kind, name)| format!("/{kind}/{name}"));
        format!("{}{}", last.namespace, names.collect::<String>())
    }

    /// The namespace of the resource provider.
    pub fn namespace(&self) -> Option<&str> {
        self.provided.last().map(|last| last.namespace.as_str())
    }

    /// The name of the resource, group or subscription.
    pub fn name(&self) -> &str {
        let of_resource = self.provided.last().and_then(|last| last.names.last());
        let of_group = self.group.as_deref().unwrap_or(&self.subscription);
        of_resource.map_or(of_group, |(_, name)| name)
    }

    /// Whether it is a resource group.
    pub const fn is_group(&self) -> bool {
        self.group.is_some() && self.provided.is_empty()
    }

    /// Whether it is a resource or a group, and not a subscription or a namespace.
    pub fn is_resource(&self) -> bool {
        match self.provided.last() {
            Some(last) => !last.names.is_empty(),
            None => self.group.is_some(),
        }
    }

    /// The resource group.
    pub fn group_id(&self) -> Option<Self> {
        self.group.as_ref()?;
        Some(Self {
            provided: Vec::new(),
            ..self.clone()
        })
    }

    /// The id of a resource or group that must exist before this one.
    pub fn parent(&self) -> Option<Self> {
        let mut parent = self.clone();
        let last = parent.provided.last_mut()?;
        last.names.pop();
        if last.names.is_empty() {
            parent.provided.pop();
        }
        parent.is_resource().then_some(parent)
    }

    /// The scope of a collection: the id without a provider that has no type.
    pub fn scope(&self) -> Self {
        let mut scope = self.clone();
        if scope.provided.last().is_some_and(|it| it.names.is_empty()) {
            scope.provided.pop();
        }
        scope
    }

    /// The id of a child.
    pub fn child(&self, kind: &str, name: &str) -> Self {
        let mut child = self.clone();
        if let Some(last) = child.provided.last_mut() {
            last.names.push((kind.to_owned(), name.to_owned()));
        }
        child
    }

    fn spelled(&self, groups: &str) -> String {
        let mut text = match self.subscription.as_str() {
            "" => String::new(),
            subscription => format!("/subscriptions/{subscription}"),
        };
        if let Some(group) = &self.group {
            text.push_str(&format!("/{groups}/{group}"));
        }
        for provided in &self.provided {
            text.push_str(&format!("/providers/{}", provided.namespace));
            for (kind, name) in &provided.names {
                text.push_str(&format!("/{kind}/{name}"));
            }
        }
        text
    }
}

fn decode(segment: &str) -> String {
    percent_decode_str(segment).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_compare_without_case_and_know_their_parents() {
        let id = "/subscriptions/S/resourcegroups/G/providers/Microsoft.Network/virtualNetworks/v/subnets/s";
        let id = ArmId::parse(id).unwrap();
        assert_eq!(
            id.resource_type(),
            "Microsoft.Network/virtualNetworks/subnets"
        );
        assert_eq!(id.name(), "s");
        let network = id.parent().unwrap();
        let spelled =
            "/SUBSCRIPTIONS/s/ResourceGroups/g/providers/microsoft.network/virtualnetworks/V";
        assert_eq!(network.key(), ArmId::parse(spelled).unwrap().key());
        let group = network.parent().unwrap();
        assert!(group.is_group());
        assert!(group.parent().is_none());
    }

    #[test]
    fn extension_resource_has_the_extended_one_as_its_parent() {
        let storage =
            "/subscriptions/S/resourceGroups/G/providers/Microsoft.Storage/storageAccounts/a";
        let id = format!("{storage}/providers/Microsoft.Authorization/roleAssignments/r");
        let id = ArmId::parse(&id).unwrap();
        assert_eq!(
            id.resource_type(),
            "Microsoft.Authorization/roleAssignments"
        );
        assert_eq!(id.parent().unwrap().text(), storage);
        let id =
            ArmId::parse("/subscriptions/S/providers/Microsoft.Authorization/roleAssignments/r");
        assert!(id.unwrap().parent().is_none());
    }

    #[test]
    fn segment_without_a_name_is_a_collection_or_an_action() {
        let path = "/subscriptions/S/resourceGroups/G/providers/P/kinds/UK%20South/listKeys";
        let path = ArmPath::parse(path).unwrap();
        assert_eq!(path.id.name(), "UK South");
        assert_eq!(path.tail.as_deref(), Some("listKeys"));
        let path = ArmPath::parse("/subscriptions/S/providers/P/register").unwrap();
        assert_eq!(
            (path.id.namespace(), path.tail.as_deref()),
            (Some("P"), Some("register"))
        );
        assert!(ArmPath::parse("/tenants").is_none());
    }

    #[test]
    fn resource_of_the_tenant_has_no_subscription() {
        let alias = "/providers/Microsoft.Subscription/aliases/a";
        let id = ArmId::parse(alias).unwrap();
        assert_eq!((id.text().as_str(), id.subscription.as_str()), (alias, ""));
        assert_eq!(id.resource_type(), "Microsoft.Subscription/aliases");
        assert!(id.is_resource() && id.parent().is_none());
    }
}

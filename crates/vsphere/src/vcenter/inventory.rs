//! Lookup of inventory objects by name, path or ID.

use super::element::Element;
use super::properties::{ObjectContent, PropertySpec, RETRIEVE};
use super::{Error, Object, Session};

/// The maximum depth of an inventory, and the maximum number of objects that are read.
const MAX_DEPTH: usize = 64;
const MAX_OBJECTS: usize = 100_000;
/// How often a lookup is repeated when an object disappears meanwhile.
const MAX_ATTEMPTS: usize = 3;
/// How many candidates an ambiguous lookup lists.
const MAX_CANDIDATES: usize = 5;

/// The type of an object in a datacenter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A folder of virtual machines.
    Folder,
    /// A resource pool.
    ResourcePool,
    /// A datastore.
    Datastore,
    /// A network of any type.
    Network,
    /// A cluster of hosts.
    ComputeCluster,
    /// A virtual machine or a template.
    VirtualMachine,
}

/// Why a lookup failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotLocated {
    /// No object matches.
    #[error("there is no {what} {text:?}")]
    Missing {
        /// The type of the object.
        what: &'static str,
        /// The text that was looked up.
        text: String,
    },
    /// Several objects match.
    #[error("{what} {text:?} may be any of {found}")]
    Ambiguous {
        /// The type of the object.
        what: &'static str,
        /// The text that was looked up.
        text: String,
        /// Some of the candidates.
        found: String,
    },
    /// A call to the vCenter failed.
    #[error(transparent)]
    Error(#[from] Error),
}

impl Place {
    const fn what(self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::ResourcePool => "resource pool",
            Self::Datastore => "datastore",
            Self::Network => "network",
            Self::ComputeCluster => "compute cluster",
            Self::VirtualMachine => "virtual machine",
        }
    }

    /// Returns the datacenter's folder for this type: its property and its name.
    const fn base(self) -> (&'static str, &'static str) {
        match self {
            Self::Folder | Self::VirtualMachine => ("vmFolder", "vm"),
            Self::ResourcePool | Self::ComputeCluster => ("hostFolder", "host"),
            Self::Datastore => ("datastoreFolder", "datastore"),
            Self::Network => ("networkFolder", "network"),
        }
    }

    const fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::Folder => &["Folder"],
            Self::ResourcePool => &["ResourcePool", "VirtualApp"],
            Self::Datastore => &["Datastore"],
            Self::Network => &["Network", "DistributedVirtualPortgroup", "OpaqueNetwork"],
            Self::ComputeCluster => &["ClusterComputeResource"],
            Self::VirtualMachine => &["VirtualMachine"],
        }
    }
}

/// Types with a root resource pool.
const COMPUTE: &[&str] = &["ComputeResource", "ClusterComputeResource"];

/// A lookup of a text.
struct Search<'a> {
    what: &'static str,
    kinds: &'static [&'static str],
    text: Option<&'a str>,
}

/// A candidate.
struct Candidate {
    object: Object,
    name: String,
}

impl Session {
    /// Looks up a folder, pool, datastore, network, cluster or virtual machine of a datacenter. The
    /// text may be an absolute inventory path, a path relative to the datacenter's folder of that
    /// type, a name that is unique there, a managed object reference, or missing (or `*`) for the
    /// only one. A virtual machine may also be given by its instance UUID; a missing folder is the
    /// root folder of all virtual machines.
    pub async fn locate(
        &self,
        what: Place,
        within: &Object,
        text: Option<&str>,
    ) -> Result<Object, NotLocated> {
        for _ in 1..MAX_ATTEMPTS {
            match self.locate_once(what, within, text).await {
                Err(NotLocated::Error(Error::Gone(gone))) if gone != within.to_string() => {}
                located => return located,
            }
        }
        self.locate_once(what, within, text).await
    }

    /// Looks up a datacenter by absolute path, unique name or managed object reference; without a
    /// text (or with `*`), the only one.
    pub async fn datacenter(&self, text: Option<&str>) -> Result<Object, NotLocated> {
        let search = Search::new("datacenter", &["Datacenter"], text);
        if let Some(found) = self.resolve_reference(&search).await? {
            return Ok(found);
        }
        let root = self.services().root_folder.clone();
        match search.text {
            Some(text) => self.resolve_text(&search, text, "", root).await,
            None => search.choose(self.list_below(root, search.kinds).await?),
        }
    }

    async fn locate_once(
        &self,
        what: Place,
        within: &Object,
        text: Option<&str>,
    ) -> Result<Object, NotLocated> {
        let search = Search::new(what.what(), what.kinds(), text);
        if let Some(found) = self.resolve_reference(&search).await? {
            return Ok(found);
        }
        if let (Place::VirtualMachine, Some(text)) = (what, search.text)
            && uuid::Uuid::try_parse(text).is_ok()
            && let Some(found) = self.find_vm_by_instance_uuid(text).await?
        {
            return Ok(found);
        }
        if let Some(path) = search.text.filter(|text| text.starts_with('/')) {
            let root = self.services().root_folder.clone();
            return self.resolve_text(&search, path, "", root).await;
        }
        let (path, base) = self.base(what, within).await?;
        match (search.text, what) {
            (Some(text), _) => self.resolve_text(&search, text, &path, base).await,
            (None, Place::Folder) => Ok(base),
            (None, Place::ResourcePool) => search.choose(self.root_pools(base).await?),
            (None, _) => search.choose(self.list_below(base, search.kinds).await?),
        }
    }

    /// Looks up a text below a folder with this path: a path, a path of patterns, or a name or
    /// pattern at any depth.
    async fn resolve_text(
        &self,
        search: &Search<'_>,
        text: &str,
        path: &str,
        folder: Object,
    ) -> Result<Object, NotLocated> {
        let whole = format!("{path}/{}", text.trim_matches('/'));
        if let Some(found) = self.resolve_path(search, &whole).await? {
            return Ok(found);
        }
        match (text.contains('/'), is_pattern(text)) {
            (true, false) => Err(search.missing()),
            (true, true) => search.only(self.match_path(folder, text, search.kinds).await?),
            (false, _) => search.choose(self.list_below(folder, search.kinds).await?),
        }
    }

    /// Looks up a managed object reference.
    async fn resolve_reference(&self, search: &Search<'_>) -> Result<Option<Object>, NotLocated> {
        let object = search.text.and_then(|text| text.parse::<Object>().ok());
        let Some(object) = object.filter(|object| search.kinds.contains(&object.kind.as_str()))
        else {
            return Ok(None);
        };
        match self.retrieve_one(&object, &["name"]).await {
            Ok(Some(_)) => Ok(Some(object)),
            Ok(None) | Err(Error::Gone(_)) => Err(search.missing()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the object at a path, if it is of the right type. The path of a host or cluster
    /// stands for its root resource pool.
    async fn resolve_path(&self, search: &Search<'_>, path: &str) -> Result<Option<Object>, Error> {
        let Some(found) = self.find_by_path(path).await? else {
            return Ok(None);
        };
        if search.kinds.contains(&found.kind.as_str()) {
            return Ok(Some(found));
        }
        if search.kinds.contains(&"ResourcePool") && found.kind.ends_with("ComputeResource") {
            let pool = self.retrieve_one(&found, &["resourcePool"]).await?;
            return Ok(pool.and_then(|found| found.object("resourcePool")));
        }
        Ok(None)
    }

    /// Returns the datacenter's folder for a type of object, and its path.
    async fn base(&self, what: Place, datacenter: &Object) -> Result<(String, Object), Error> {
        let (property, last) = what.base();
        let mut path = format!("/{last}");
        let mut base = None;
        let mut place = datacenter.clone();
        for _ in 0..MAX_DEPTH {
            let paths: &[&str] = if base.is_none() {
                &["name", "parent", property]
            } else {
                &["name", "parent"]
            };
            let found = self.retrieve_one(&place, paths).await?;
            let found = found.ok_or_else(|| Error::Gone(place.to_string()))?;
            let base = match &base {
                Some(base) => base,
                None => base.insert(found.object(property).ok_or_else(|| {
                    Error::unexpected(RETRIEVE, format!("a datacenter has no {property}"))
                })?),
            };
            path = format!("/{}{path}", found.text("name").unwrap_or_default());
            match found.object("parent") {
                Some(parent) if parent != self.services().root_folder => place = parent,
                _ => return Ok((path, base.clone())),
            }
        }
        Err(too_large())
    }

    /// Returns the root resource pools of hosts and clusters, each with the name of its host.
    async fn root_pools(&self, hosts: Object) -> Result<Vec<Candidate>, Error> {
        let owners = self.list_below(hosts, COMPUTE).await?;
        let owners: Vec<_> = owners.into_iter().map(|seen| seen.object).collect();
        let found = self.children_of(&owners).await?;
        let pools = found.iter().filter_map(|found| {
            let object = found.object("resourcePool")?;
            Some(Candidate {
                object,
                name: Candidate::of(found).name,
            })
        });
        Ok(pools.collect())
    }

    /// Reads the names of objects, and their children.
    async fn children_of(&self, level: &[Object]) -> Result<Vec<ObjectContent>, Error> {
        self.retrieve(level, &wanted(level), None).await
    }

    /// Returns all objects that match a path of patterns.
    async fn match_path(
        &self,
        start: Object,
        path: &str,
        kinds: &[&str],
    ) -> Result<Vec<Candidate>, Error> {
        let mut level = vec![start];
        let mut found = self.children_of(&level).await?;
        for pattern in path
            .split('/')
            .filter(|pattern| !pattern.is_empty())
            .take(MAX_DEPTH)
        {
            level = found.iter().flat_map(children).collect();
            if level.len() > MAX_OBJECTS {
                return Err(too_large());
            }
            found = self.children_of(&level).await?;
            found.retain(|found| matches_pattern(pattern, found.text("name").unwrap_or_default()));
        }
        found.retain(|found| kinds.contains(&found.object.kind.as_str()));
        Ok(found.iter().map(Candidate::of).collect())
    }

    /// Returns all objects of these types below a folder, level by level.
    async fn list_below(&self, folder: Object, kinds: &[&str]) -> Result<Vec<Candidate>, Error> {
        let mut level = vec![folder];
        let mut seen = Vec::new();
        let mut looked_at = 0;
        for depth in 0..MAX_DEPTH {
            looked_at += level.len();
            if level.is_empty() {
                return Ok(seen);
            }
            if looked_at > MAX_OBJECTS {
                break;
            }
            let found = self.children_of(&level).await?;
            if depth > 0 {
                let matching = found
                    .iter()
                    .filter(|found| kinds.contains(&found.object.kind.as_str()));
                seen.extend(matching.map(Candidate::of));
            }
            level = found
                .iter()
                .flat_map(children)
                .filter(|child| may_contain(child, kinds))
                .collect();
        }
        Err(too_large())
    }
}

impl<'a> Search<'a> {
    fn new(what: &'static str, kinds: &'static [&'static str], text: Option<&'a str>) -> Self {
        let text = text.filter(|text| !text.is_empty() && *text != "*");
        Self { what, kinds, text }
    }

    /// Returns the only candidate that matches the text.
    fn choose(&self, mut seen: Vec<Candidate>) -> Result<Object, NotLocated> {
        seen.retain(|seen| {
            self.text
                .is_none_or(|text| matches_pattern(text, &seen.name))
        });
        self.only(seen)
    }

    fn only(&self, mut found: Vec<Candidate>) -> Result<Object, NotLocated> {
        match found.len() {
            0 => Err(self.missing()),
            1 => Ok(found.swap_remove(0).object),
            _ => {
                found.sort_by_cached_key(|seen| (seen.name.clone(), seen.object.clone()));
                Err(self.ambiguous(&found))
            }
        }
    }

    fn missing(&self) -> NotLocated {
        NotLocated::Missing {
            what: self.what,
            text: self.display_text(),
        }
    }

    fn ambiguous(&self, found: &[Candidate]) -> NotLocated {
        let names = found.iter().take(MAX_CANDIDATES);
        let names = names.map(|seen| format!("{:?} ({})", seen.name, seen.object));
        let mut names: Vec<_> = names.collect();
        if found.len() > MAX_CANDIDATES {
            names.push(format!("{} more", found.len() - MAX_CANDIDATES));
        }
        NotLocated::Ambiguous {
            what: self.what,
            text: self.display_text(),
            found: names.join(", "),
        }
    }

    fn display_text(&self) -> String {
        self.text.unwrap_or("*").to_owned()
    }
}

impl Candidate {
    fn of(found: &ObjectContent) -> Self {
        let name = found.text("name").unwrap_or_default().to_owned();
        Self {
            object: found.object.clone(),
            name,
        }
    }
}

/// Returns the properties with the children of an object, after its name.
fn paths(kind: &str) -> &'static [&'static str] {
    match kind {
        "Folder" | "StoragePod" => &["name", "childEntity"],
        "ComputeResource" | "ClusterComputeResource" | "ResourcePool" | "VirtualApp" => {
            &["name", "resourcePool"]
        }
        "Datacenter" => &[
            "name",
            "vmFolder",
            "hostFolder",
            "datastoreFolder",
            "networkFolder",
        ],
        _ => &["name"],
    }
}

fn wanted(level: &[Object]) -> Vec<PropertySpec<'_>> {
    let mut kinds: Vec<&str> = level.iter().map(|object| object.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let wanted = kinds.into_iter();
    wanted
        .map(|kind| PropertySpec::new(kind, paths(kind)))
        .collect()
}

fn children(found: &ObjectContent) -> Vec<Object> {
    let below = paths(&found.object.kind).iter().skip(1);
    let values = below.filter_map(|path| found.get(path));
    // A property is a single reference or a list.
    let children = values.flat_map(|value| match value.as_object() {
        Some(child) => vec![child],
        None => value
            .children()
            .iter()
            .filter_map(Element::as_object)
            .collect(),
    });
    children.collect()
}

/// Returns whether an object is of one of these types, or may contain some.
fn may_contain(object: &Object, kinds: &[&str]) -> bool {
    let kind = object.kind.as_str();
    let through = match kind {
        "Folder" => true,
        "StoragePod" => kinds.contains(&"Datastore"),
        "Datacenter" => false,
        _ => kinds.contains(&"ResourcePool") && paths(kind).len() > 1,
    };
    through || kinds.contains(&kind)
}

/// Returns whether a name matches: `*` stands for any text, `?` for one character.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (unescape(pattern), unescape(name));
    if pattern == name || !is_pattern(&pattern) {
        return pattern == name;
    }
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    // On a mismatch, the last star is extended by one character.
    let (mut at, mut read, mut star) = (0, 0, None);
    while read < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || *wanted == name[read] => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((of, from)) = star else {
                    return false;
                };
                star = Some((of, from + 1));
                (at, read) = (of + 1, from + 1);
            }
        }
    }
    pattern[at..].iter().all(|left| *left == '*')
}

fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// Decodes the characters that a vCenter escapes in names.
fn unescape(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find('%') {
        plain.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 3).map(str::to_ascii_lowercase);
        let (character, length) = match code.as_deref() {
            Some("2f") => ('/', 3),
            Some("5c") => ('\\', 3),
            Some("25") => ('%', 3),
            _ => ('%', 1),
        };
        plain.push(character);
        rest = &rest[at + length..];
    }
    plain.push_str(rest);
    plain
}

fn too_large() -> Error {
    Error::unexpected(RETRIEVE, "the inventory does not end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_unescaped() {
        let table = [
            ("a", "a"),
            ("a%2fb", "a/b"),
            ("a%2Fb%5c%25", "a/b\\%"),
            ("%", "%"),
            ("100%", "100%"),
            ("%2", "%2"),
            ("%zz", "%zz"),
            ("%ä", "%ä"),
            ("%252f", "%2f"),
        ];
        for (written, meant) in table {
            assert_eq!(unescape(written), meant, "{written}");
        }
    }

    #[test]
    fn star_matches_any_text_and_question_mark_one_character() {
        let table = [
            ("*", "", true),
            ("*", "a", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abcd", false),
            ("*ab", "aab", true),
            ("?", "ä", true),
            ("?", "", false),
            ("a?", "a", false),
            ("a", "ab", false),
            ("a*b", "a*b", true),
            ("DC?_C*", "DC0_C0", true),
            ("100%25", "100%", true),
        ];
        for (pattern, name, expected) in table {
            assert_eq!(matches_pattern(pattern, name), expected, "{pattern} {name}");
        }
        assert!(!matches_pattern(&"*a".repeat(500), &"a".repeat(400)));
    }

    #[test]
    fn only_possible_ancestors_are_searched() {
        let table = [
            ("Folder", Place::Datastore, true),
            ("StoragePod", Place::Datastore, true),
            ("StoragePod", Place::Network, false),
            ("VmwareDistributedVirtualSwitch", Place::Network, false),
            ("OpaqueNetwork", Place::Network, true),
            ("ComputeResource", Place::ResourcePool, true),
            ("ComputeResource", Place::ComputeCluster, false),
            ("VirtualApp", Place::VirtualMachine, false),
            ("VirtualMachine", Place::Folder, false),
        ];
        for (kind, what, expected) in table {
            let object = Object::new(kind, "1");
            assert_eq!(
                may_contain(&object, what.kinds()),
                expected,
                "{kind} to {what:?}"
            );
        }
    }
}

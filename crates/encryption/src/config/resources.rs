//! Resources as the configuration names them.

/// A resource, or all of a group, or all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourcePattern {
    /// `None` for all groups.
    group: Option<String>,
    /// `None` for all resources of the groups.
    resource: Option<String>,
}

impl ResourcePattern {
    /// Whether the resource is meant.
    pub fn matches(&self, group: &str, resource: &str) -> bool {
        let same =
            |pattern: &Option<String>, name| pattern.as_deref().is_none_or(|own| own == name);
        same(&self.group, group) && same(&self.resource, resource)
    }
}

/// Parses the list of one entry: `secrets`, `widgets.example.com`, `*.apps`, `*.`, `*.*`.
pub fn parse(names: &[String]) -> Result<Vec<ResourcePattern>, String> {
    if names.is_empty() {
        return Err("`resources` is empty".to_owned());
    }
    let mut patterns: Vec<ResourcePattern> = Vec::new();
    for name in names {
        let pattern = pattern(name)?;
        let duplicate = patterns.iter().any(|known| known.overlaps(&pattern));
        if duplicate {
            return Err(format!(
                "`{name}` overlaps with another resource of the same list"
            ));
        }
        patterns.push(pattern);
    }
    Ok(patterns)
}

impl ResourcePattern {
    fn overlaps(&self, other: &Self) -> bool {
        let same = |a: &Option<String>, b: &Option<String>| a.is_none() || b.is_none() || a == b;
        same(&self.group, &other.group) && same(&self.resource, &other.resource)
    }
}

fn pattern(name: &str) -> Result<ResourcePattern, String> {
    let some = |text: &str| Some(text.to_owned());
    let (group, resource) = match name.split_once('.') {
        None if name == "*" => {
            return Err("`*` is not allowed; use `*.` for the core group or `*.*` for all".into());
        }
        None => (some(""), some(name)),
        Some(("*", "*")) => (None, None),
        Some(("*", group)) => (some(group), None),
        Some((resource, group)) => (some(group), some(resource)),
    };
    let is_name = |text: &Option<String>| {
        let allowed =
            |sign: char| sign.is_ascii_lowercase() || sign.is_ascii_digit() || "-.".contains(sign);
        text.as_deref().is_none_or(|text| text.chars().all(allowed))
    };
    let is_empty = resource.as_deref() == Some("");
    if is_empty || !is_name(&group) || !is_name(&resource) {
        return Err(format!("`{name}` is not a resource"));
    }
    Ok(ResourcePattern { group, resource })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_resources_groups_and_everything() {
        let matching = |name: &str| {
            let pattern = &parse(&[name.to_owned()]).unwrap()[0];
            [
                ("", "secrets"),
                ("apps", "deployments"),
                ("example.com", "widgets"),
            ]
            .map(|(group, resource)| pattern.matches(group, resource))
        };
        assert_eq!(matching("secrets"), [true, false, false]);
        assert_eq!(matching("deployments.apps"), [false, true, false]);
        assert_eq!(matching("widgets.example.com"), [false, false, true]);
        assert_eq!(matching("*."), [true, false, false]);
        assert_eq!(matching("*.apps"), [false, true, false]);
        assert_eq!(matching("*.*"), [true, true, true]);
        for bad in ["", "*", ".apps", "Secrets", "secrets/x", "*x"] {
            parse(&[bad.to_owned()]).unwrap_err();
        }
        let overlapping = ["secrets".to_owned(), "*.".to_owned()];
        let error = parse(&overlapping).unwrap_err();
        assert_eq!(
            error,
            "`*.` overlaps with another resource of the same list"
        );
    }
}

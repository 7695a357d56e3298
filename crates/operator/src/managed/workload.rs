//! The comparison of the kinds that an operator is deployed with.

use k8s_openapi::api::apps::v1::Deployment;

use super::kinds::merge;
use super::{Drift, Managed, overlay};

impl Managed for Deployment {
    fn diff(&self, found: &Self) -> Drift<Self> {
        let selector =
            |deployment: &Self| deployment.spec.as_ref().map(|spec| spec.selector.clone());
        if selector(self) != selector(found) {
            return Drift::Recreate;
        }
        merge(self, found, |kept| merge_spec(kept, self))
    }
}

/// Merges the desired spec, since the server fills in many fields. Returns whether anything
/// differed.
fn merge_spec(kept: &mut Deployment, wanted: &Deployment) -> bool {
    let json = |deployment: &Deployment| serde_json::to_value(&deployment.spec);
    let (Ok(found), Ok(wanted_spec)) = (json(kept), json(wanted)) else {
        return false;
    };
    if overlay::covers(&found, &wanted_spec) {
        return false;
    }
    let merged = serde_json::from_value(overlay::merge(&found, &wanted_spec));
    kept.spec = merged.unwrap_or_else(|_| wanted.spec.clone());
    true
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(spec: Value) -> Deployment {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "d", "resourceVersion": "7"}, "spec": spec,
        });
        serde_json::from_value(object).unwrap()
    }

    fn spec(image: &str, container: Value, label: &str) -> Value {
        let container = overlay::merge(&container, &json!({"name": "c", "image": image}));
        json!({
            "selector": {"matchLabels": {"app": label}},
            "template": {
                "metadata": {"labels": {"app": label}},
                "spec": {"containers": [container]},
            },
        })
    }

    #[test]
    fn deployment_keeps_defaults_and_additions() {
        let wanted = deployment(spec("i:1", json!({}), "a"));
        let more = json!({"imagePullPolicy": "IfNotPresent", "env": [{"name": "E", "value": "e"}]});
        let found = deployment(spec("i:1", more.clone(), "a"));
        assert_eq!(wanted.diff(&found), Drift::InSync);
        let old = deployment(spec("i:0", more.clone(), "a"));
        let mended = deployment(spec("i:1", more, "a"));
        assert_eq!(wanted.diff(&old), Drift::Replace(Box::new(mended)));
    }

    #[test]
    fn deployment_with_another_selector_is_recreated() {
        let wanted = deployment(spec("i:1", json!({}), "a"));
        let found = deployment(spec("i:1", json!({}), "b"));
        assert_eq!(wanted.diff(&found), Drift::Recreate);
    }
}

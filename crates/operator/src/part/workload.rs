//! How the kinds are judged that an operator itself is deployed with.

use k8s_openapi::api::apps::v1::Deployment;

use super::judge::settle;
use super::{Part, Verdict, overlay};

impl Part for Deployment {
    fn judge(&self, found: &Self) -> Verdict<Self> {
        let selector =
            |deployment: &Self| deployment.spec.as_ref().map(|spec| spec.selector.clone());
        if selector(self) != selector(found) {
            return Verdict::Recreate;
        }
        settle(self, found, |kept| amend(kept, self))
    }
}

/// Sets what is wanted of the spec; whether something was otherwise. The server fills in a
/// lot that we do not set.
fn amend(kept: &mut Deployment, wanted: &Deployment) -> bool {
    let json = |deployment: &Deployment| serde_json::to_value(&deployment.spec);
    let (Ok(found), Ok(wanted_spec)) = (json(kept), json(wanted)) else {
        return false;
    };
    if overlay::covers(&found, &wanted_spec) {
        return false;
    }
    let laid = serde_json::from_value(overlay::lay(&found, &wanted_spec));
    kept.spec = laid.unwrap_or_else(|_| wanted.spec.clone());
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
        let container = overlay::lay(&container, &json!({"name": "c", "image": image}));
        json!({
            "selector": {"matchLabels": {"app": label}},
            "template": {
                "metadata": {"labels": {"app": label}},
                "spec": {"containers": [container]},
            },
        })
    }

    #[test]
    fn a_deployment_is_right_with_what_the_server_and_others_added() {
        let wanted = deployment(spec("i:1", json!({}), "a"));
        let more = json!({"imagePullPolicy": "IfNotPresent", "env": [{"name": "E", "value": "e"}]});
        let found = deployment(spec("i:1", more.clone(), "a"));
        assert_eq!(wanted.judge(&found), Verdict::Right);
        let old = deployment(spec("i:0", more.clone(), "a"));
        let mended = deployment(spec("i:1", more, "a"));
        assert_eq!(wanted.judge(&old), Verdict::Replace(Box::new(mended)));
    }

    #[test]
    fn a_deployment_of_other_pods_is_made_anew() {
        let wanted = deployment(spec("i:1", json!({}), "a"));
        let found = deployment(spec("i:1", json!({}), "b"));
        assert_eq!(wanted.judge(&found), Verdict::Recreate);
    }
}

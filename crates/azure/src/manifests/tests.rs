use std::collections::BTreeSet;

use super::*;

fn tenant() -> Tenant {
    Tenant {
        name: "acme".to_owned(),
        namespaces: vec!["a".to_owned(), "b".to_owned()],
        image: "i".to_owned(),
        managed_identity: None,
    }
}

fn find<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let of_kind = objects.iter().filter(|object| object["kind"] == kind);
    of_kind.collect()
}

fn env(objects: &[Value]) -> Vec<&Value> {
    let deployment = find(objects, "Deployment")[0];
    let env = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
    env.as_array().unwrap().iter().collect()
}

fn cluster(operators: Operators) -> Vec<Value> {
    manifests(&Settings {
        image: Some("i".to_owned()),
        operators,
        ..Settings::default()
    })
}

#[test]
fn r09_tenant_has_no_cluster_scoped_object_but_the_namespace_of_its_operator() {
    let objects = tenant_manifests(&tenant());
    let scoped = objects.iter().map(|object| {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        (
            text(&object["kind"]),
            text(&object["metadata"]["namespace"]),
        )
    });
    let scoped: Vec<_> = scoped.collect();
    let expected = [
        ("Namespace", "-"),
        ("ServiceAccount", "acme-system"),
        ("Role", "acme-system"),
        ("RoleBinding", "acme-system"),
        ("RoleBinding", "a"),
        ("RoleBinding", "b"),
        ("Deployment", "acme-system"),
    ];
    let expected = expected.map(|(kind, namespace)| (kind.to_owned(), namespace.to_owned()));
    assert_eq!(scoped, expected);
}

#[test]
fn r13_binding_of_a_managed_namespace_is_to_the_tenants_account() {
    let objects = tenant_manifests(&tenant());
    let binding = find(&objects, "RoleBinding")[1];
    assert_eq!(
        binding["metadata"]["name"],
        "azureoperator-manager-rolebinding"
    );
    assert_eq!(binding["roleRef"]["kind"], "ClusterRole");
    assert_eq!(binding["roleRef"]["name"], "azureoperator-manager-role");
    assert_eq!(
        binding["subjects"],
        json!([{
            "kind": "ServiceAccount", "name": "azureoperator-default", "namespace": "acme-system",
        }])
    );
}

#[test]
fn tenant_operator_watches_its_namespaces_with_settings_of_its_secret() {
    let objects = tenant_manifests(&tenant());
    let env = env(&objects);
    let given: Vec<_> = env.iter().filter(|one| one["value"].is_string()).collect();
    assert_eq!(
        json!(given),
        json!([
            {"name": "AZURE_OPERATOR_MODE", "value": "watchers"},
            {"name": "AZURE_TARGET_NAMESPACES", "value": "a,b"},
        ])
    );
    let secret = env.iter().find(|one| one["name"] == "AZURE_CLIENT_SECRET");
    assert_eq!(
        secret.unwrap()["valueFrom"]["secretKeyRef"],
        json!({"name": "azureoperatorsettings", "key": "AZURE_CLIENT_SECRET", "optional": true})
    );
    let names: BTreeSet<_> = env.iter().map(|one| one["name"].to_string()).collect();
    assert_eq!(names.len(), env.len());
    let pod = &find(&objects, "Deployment")[0]["spec"]["template"]["spec"];
    assert_eq!(
        pod["volumes"],
        json!([{
            "name": "azure-identity",
            "projected": {"sources": [{"serviceAccountToken": {
                "path": "azure-identity", "audience": "api://AzureADTokenExchange",
                "expirationSeconds": 3600,
            }}]},
        }])
    );
    assert_eq!(
        pod["containers"][0]["volumeMounts"][0]["mountPath"],
        "/var/run/secrets/tokens"
    );
    assert_eq!(find(&objects, "AzureIdentity").len(), 0);
}

#[test]
fn r15_managed_identity_is_in_the_namespace_of_the_operator() {
    let identity = ManagedIdentity {
        client_id: "c".to_owned(),
        resource_id: Some("/subscriptions/s".to_owned()),
    };
    let objects = tenant_manifests(&Tenant {
        managed_identity: Some(identity),
        ..tenant()
    });
    let identity = find(&objects, "AzureIdentity")[0];
    let binding = find(&objects, "AzureIdentityBinding")[0];
    for object in [identity, binding] {
        assert_eq!(object["apiVersion"], "aadpodidentity.k8s.io/v1");
        assert_eq!(object["metadata"]["namespace"], "acme-system");
    }
    assert_eq!(
        identity["spec"],
        json!({"type": 0, "clientID": "c", "resourceID": "/subscriptions/s"})
    );
    let selector = &binding["spec"]["selector"];
    assert_eq!(
        binding["spec"]["azureIdentity"],
        identity["metadata"]["name"]
    );
    let deployment = find(&objects, "Deployment")[0];
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&labels["aadpodidbinding"], selector);
    let env = env(&objects);
    for (name, value) in [("AZURE_USE_MI", "1"), ("AZURE_CLIENT_ID", "c")] {
        let found: Vec<_> = env.iter().filter(|one| one["name"] == name).collect();
        assert_eq!(json!(found), json!([{"name": name, "value": value}]));
    }
}

#[test]
fn r11_webhooks_of_the_cluster_need_two_variables_and_no_lease() {
    let objects = cluster(Operators::PerTenant);
    let expected = json!([
        {
            "name": "POD_NAMESPACE",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
        },
        {"name": "AZURE_WEBHOOK_ONLY", "value": "1"},
    ]);
    assert_eq!(json!(env(&objects)), expected);
    let container = &find(&objects, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        container["args"],
        json!([
            "operator",
            "azure",
            "--health-addr",
            "0.0.0.0:8080",
            "--webhook-addr",
            "0.0.0.0:9443",
        ])
    );
    let service = find(&objects, "Service")[0];
    assert_eq!(service["metadata"]["name"], "azureoperator-webhook-service");
    assert_eq!(service["metadata"]["namespace"], "azureoperator-system");
    let port = &service["spec"]["ports"][0];
    assert_eq!(
        (&port["port"], &port["targetPort"]),
        (&json!(443), &json!(9443))
    );
    let bindings = find(&objects, "ClusterRoleBinding");
    let roles: Vec<_> = bindings.iter().map(|it| &it["roleRef"]["name"]).collect();
    assert_eq!(roles, ["azureoperator-webhook-role"]);
}

#[test]
fn global_operator_is_bound_in_all_namespaces() {
    let objects = cluster(Operators::Global);
    let bindings = find(&objects, "ClusterRoleBinding");
    let roles: Vec<_> = bindings.iter().map(|it| &it["roleRef"]["name"]).collect();
    assert_eq!(
        roles,
        [
            "azureoperator-webhook-role",
            "azureoperator-all-namespaces-role",
            "azureoperator-manager-role",
        ]
    );
    let mode = json!({"name": "AZURE_OPERATOR_MODE", "value": "watchers-and-webhooks"});
    assert!(env(&objects).contains(&&mode));
}

#[test]
fn operator_in_the_server_gets_no_deployment_and_no_rights_for_a_certificate() {
    let objects = manifests(&Settings {
        operators: Operators::AllSpaces,
        ..Settings::default()
    });
    assert_eq!(find(&objects, "Deployment").len(), 0);
    assert_eq!(find(&objects, "Service").len(), 0);
    let published = |object: &&Value| object["metadata"]["annotations"][PUBLISHED] == "true";
    let definitions = find(&objects, "CustomResourceDefinition");
    assert!(!definitions.is_empty() && definitions.iter().all(published));
    let admits = |object: &&Value| {
        object["metadata"]["annotations"]["multi-tenancy.k8s.io/admit-tenants"] == "true"
    };
    let configurations = find(&objects, "MutatingWebhookConfiguration");
    assert!(!configurations.is_empty() && configurations.iter().all(admits));
    let role = find(&objects, "ClusterRole");
    let role = role
        .iter()
        .find(|it| it["metadata"]["name"] == roles::WEBHOOKS);
    assert_eq!(role.unwrap()["rules"], json!(roles::definitions()));
}

#[test]
fn r10_service_of_another_namespace_is_named_everywhere() {
    let objects = manifests(&Settings {
        image: Some("i".to_owned()),
        service: WebhookService::new("azureserviceoperator-system", "other"),
        ..Settings::default()
    });
    let definition = find(&objects, "CustomResourceDefinition")[0];
    let service = &definition["spec"]["conversion"]["webhook"]["clientConfig"]["service"];
    assert_eq!(service["namespace"], "azureserviceoperator-system");
    assert_eq!(service["name"], "other");
    let deployment = find(&objects, "Deployment")[0];
    assert_eq!(
        deployment["metadata"]["namespace"],
        "azureserviceoperator-system"
    );
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["args"][3], "other");
}

#[test]
fn installed_definitions_can_be_kept_while_webhooks_review_all_kinds() {
    let settings = Settings {
        kinds: ReviewedKinds::All,
        image: Some("i".to_owned()),
        ..Settings::default()
    };
    let all = manifests(&settings);
    let kept = manifests(&Settings {
        without_definitions: true,
        ..settings
    });
    let is_definition = |object: &Value| object["kind"] == "CustomResourceDefinition";
    let mut others = all;
    others.retain(|object| !is_definition(object));
    assert_eq!(kept, others);
    assert!(find(&kept, "MutatingWebhookConfiguration").len() > 40);
}

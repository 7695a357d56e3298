//! Manifests that the tenants apply.

use insula_e2e::kubectl::Kubectl;

/// Writes a small application that contains the tenant's name.
pub fn write_app(tenant: &Kubectl, colour: &str, replicas: u32) {
    let text = APP
        .replace("TENANT", tenant.name())
        .replace("COLOUR", colour)
        .replace("REPLICAS", &replicas.to_string());
    tenant.write("app/web.yaml", &text);
    tenant.write("app/db.yaml", DB);
}

/// The names that `kubectl apply` prints, in the order of the files.
pub const APPLIED: [&str; 6] = [
    "statefulset.apps/db",
    "deployment.apps/web",
    "service/web",
    "configmap/web",
    "secret/web",
    "ingress.networking.k8s.io/web",
];

/// A pod with one container.
pub const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  name: lonely
  labels: {app: lonely, tier: back}
spec:
  containers:
  - {name: main, image: "busybox:1.36", command: [sleep, "1"]}
"#;

const APP: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: TENANT/web:1.0
        ports: [{containerPort: 8080}]
---
apiVersion: v1
kind: Service
metadata:
  name: web
  labels: {app: web}
spec:
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: web
  labels: {app: web}
data:
  colour: COLOUR
  owner: TENANT
---
apiVersion: v1
kind: Secret
metadata:
  name: web
  labels: {app: web}
data:
  password: aHVudGVyMg==
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: web
  labels: {app: web}
spec:
  rules:
  - host: web.example
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: web, port: {name: http}}}}
"#;

const DB: &str = r#"
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: db
  labels: {app: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers:
      - {name: db, image: "postgres:16"}
"#;

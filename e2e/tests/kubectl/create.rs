//! create, run, expose and autoscale.

use insula_e2e::kubectl::Kubectl;
use insula_e2e::two_tenants::TwoTenants;

/// Create commands, the name kubectl prints, and a field to check afterwards.
const CREATED: [(&str, &str, &str, &str); 22] = [
    (
        "configmap settings --from-literal=a=b",
        "configmap/settings",
        "{.data.a}",
        "b",
    ),
    (
        "secret generic login --from-literal=p=hunter2",
        "secret/login",
        "{.data.p}",
        "aHVudGVyMg==",
    ),
    (
        "secret docker-registry pull --docker-server=r.example --docker-username=u --docker-password=p",
        "secret/pull",
        "{.type}",
        "kubernetes.io/dockerconfigjson",
    ),
    (
        "deployment web --image=nginx:1.25 --replicas=2 --port=80",
        "deployment.apps/web",
        "{.spec.replicas} {.spec.strategy.type}",
        "2 RollingUpdate",
    ),
    (
        "service clusterip inner --tcp=80:8080",
        "service/inner",
        "{.spec.type} {.spec.ports[0].targetPort}",
        "ClusterIP 8080",
    ),
    (
        "service nodeport outer --tcp=80 --node-port=30123",
        "service/outer",
        "{.spec.ports[0].nodePort}",
        "30123",
    ),
    (
        "service externalname far --external-name=far.example",
        "service/far",
        "{.spec.externalName}{.spec.clusterIP}",
        "far.example",
    ),
    (
        "service loadbalancer front --tcp=443:8443",
        "service/front",
        "{.spec.allocateLoadBalancerNodePorts}",
        "true",
    ),
    (
        "job once --image=busybox -- date",
        "job.batch/once",
        "{.spec.completions} {.spec.backoffLimit}",
        "1 6",
    ),
    (
        "cronjob often --image=busybox --schedule='*/5 * * * *' -- date",
        "cronjob.batch/often",
        "{.spec.schedule} {.spec.concurrencyPolicy}",
        "*/5 * * * * Allow",
    ),
    (
        "job again --from=cronjob/often",
        "job.batch/again",
        "{.metadata.ownerReferences[0].name} {.metadata.annotations.cronjob\\.kubernetes\\.io/instantiate}",
        "often manual",
    ),
    (
        "serviceaccount robot",
        "serviceaccount/robot",
        "{.kind}",
        "ServiceAccount",
    ),
    (
        "role reader --verb=get,list --resource=pods,configmaps",
        "role.rbac.authorization.k8s.io/reader",
        "{.rules[0].resources}",
        "[\"pods\",\"configmaps\"]",
    ),
    (
        "rolebinding readers --role=reader --serviceaccount=team:robot",
        "rolebinding.rbac.authorization.k8s.io/readers",
        "{.roleRef.name} {.subjects[0].name}",
        "reader robot",
    ),
    (
        "clusterrole viewer --verb=get --resource=namespaces",
        "clusterrole.rbac.authorization.k8s.io/viewer",
        "{.rules[0].verbs}",
        "[\"get\"]",
    ),
    (
        "clusterrolebinding viewers --clusterrole=viewer --group=people",
        "clusterrolebinding.rbac.authorization.k8s.io/viewers",
        "{.subjects[0].kind} {.subjects[0].apiGroup}",
        "Group rbac.authorization.k8s.io",
    ),
    (
        "quota little --hard=pods=5,cpu=2",
        "resourcequota/little",
        "{.spec.hard}",
        "{\"cpu\":\"2\",\"pods\":\"5\"}",
    ),
    (
        "poddisruptionbudget one-stays --selector=app=web --min-available=1",
        "poddisruptionbudget.policy/one-stays",
        "{.spec.minAvailable}",
        "1",
    ),
    (
        "ingress way-in --rule=web.example/path*=inner:80 --class=some",
        "ingress.networking.k8s.io/way-in",
        "{.spec.rules[0].http.paths[0].pathType}",
        "Prefix",
    ),
    (
        "priorityclass urgent --value=1000 --description=soon",
        "priorityclass.scheduling.k8s.io/urgent",
        "{.value} {.preemptionPolicy}",
        "1000 PreemptLowerPriority",
    ),
    (
        "deployment sleeper --image=busybox -- sleep 1",
        "deployment.apps/sleeper",
        "{.spec.template.spec.containers[0].command}",
        "[\"sleep\",\"1\"]",
    ),
    (
        "namespace other",
        "namespace/other",
        "{.status.phase} {.metadata.labels}",
        "Active {\"kubernetes.io/metadata.name\":\"other\"}",
    ),
];

#[test]
fn every_create_command_works() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        tenant.prints("create namespace team", "namespace/team created");
        for (what, name, field, value) in CREATED {
            tenant.prints(
                &format!("-n team create {what}"),
                &format!("{name} created"),
            );
            let fields = format!("get {name} -n team -o jsonpath='{field}|{{.metadata.tenant}}'");
            tenant.prints(&fields, &format!("{value}|{}", tenant.name()));
        }
        tenant.refuses(
            "create configmap settings -n team",
            "configmaps \"settings\" already exists",
        );
        tenant.refuses(
            "create namespace team",
            "namespaces \"team\" already exists",
        );
        tenant.refuses(
            "create configmap x -n nowhere",
            "namespaces \"nowhere\" not found",
        );
        token(tenant);
    });
    two_tenants.sees_both("/api/v1/tenants/all/services");
    two_tenants.sees_both("/apis/rbac.authorization.k8s.io/v1/tenants/all/clusterroles");
}

/// Asserts a JWT with three parts and an expiry.
fn token(tenant: &Kubectl) {
    let token = tenant.get("create token robot -n team --duration=1h");
    assert_eq!(token.trim_end().split('.').count(), 3, "{token}");
    tenant.refuses(
        "create token missing -n team",
        "serviceaccounts \"missing\" not found",
    );
}

#[test]
fn run_expose_and_autoscale_work() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        tenant.prints(
            "run shell --image=busybox --labels=app=shell --env=A=b -- sleep 1",
            "pod/shell created",
        );
        tenant.shows(
            "get pods --show-labels",
            &[
                "NAME READY STATUS RESTARTS AGE LABELS",
                "shell 0/1 Pending 0",
            ],
        );
        tenant.prints(
            "get pod shell -o jsonpath='{.spec.containers[0].args} {.spec.containers[0].env[0].value} {.status.qosClass} {.spec.serviceAccountName}'",
            "[\"sleep\",\"1\"] b BestEffort default",
        );
        tenant.get("create deployment web --image=nginx:1.25");
        tenant.prints(
            "expose deployment web --port=80 --target-port=8080",
            "service/web exposed",
        );
        tenant.prints(
            "get svc web -o jsonpath='{.spec.selector} {.spec.ports[0].targetPort}'",
            "{\"app\":\"web\"} 8080",
        );
        tenant.shows(
            "autoscale deployment web --min=2 --max=5 --cpu-percent=70",
            &["horizontalpodautoscaler.autoscaling/web autoscaled"],
        );
        tenant.shows(
            "get hpa",
            &[
                "NAME REFERENCE TARGETS MINPODS MAXPODS REPLICAS AGE",
                "web Deployment/web cpu: <unknown>/70% 2 5 0",
            ],
        );
        tenant.shows(
            "run dry --image=busybox --dry-run=server -o yaml",
            &["kind: Pod", "uid:", "terminationGracePeriodSeconds: 30"],
        );
        tenant.refuses("get pod dry", "pods \"dry\" not found");
    });
    two_tenants.sees_both("/api/v1/tenants/all/pods");
}

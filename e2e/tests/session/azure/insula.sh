# `insula` in a session on a Kubernetes that is no Insula: one operator works in namespaces of the
# cluster, and a tenant is a namespace in which its account may do everything.
set -eu
case "$*" in
"operator azure manifests --tenants --without-deployment")
    exec "$insula" operator azure manifests --global
    ;;
"tenant create "*)
    name=$3 file=$5
    # The operator is started when its Deployment is created, and then answers for all resources.
    until kubectl apply --dry-run=server -f docs/azure/network.yaml -f docs/azure/storage.yaml; do
        sleep 0.2
    done >/dev/null 2>&1
    kubectl create namespace "$name"
    kubectl create serviceaccount -n "$name" administrator
    kubectl create rolebinding -n "$name" administrator --clusterrole cluster-admin \
        --serviceaccount "$name:administrator"
    token=$(kubectl create token -n "$name" administrator)
    cluster=$(kubectl config view --raw --flatten --minify -o jsonpath='{.clusters[0].cluster}')
    cat >"$file" <<END
apiVersion: v1
kind: Config
current-context: tenant
contexts:
- {name: tenant, context: {cluster: cluster, user: administrator, namespace: $name}}
clusters:
- {name: cluster, cluster: $cluster}
users:
- {name: administrator, user: {token: $token}}
END
    ;;
*)
    exec "$insula" "$@"
    ;;
esac

"""Exercises the official Python client against a cluster.

Two tenants run it concurrently under the same names. It prints the name of each check that
passed and exits at the first failure. Arguments: the tenant, a manifest to create.
"""

import os
import sys
import threading
import time

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import NotFoundError
from kubernetes.informer import SharedInformer
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

WHO, MANIFEST = sys.argv[1:]
NS = "python"
TIMEOUT = 60

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def same(found, wanted):
    if found != wanted:
        raise AssertionError(f"{found!r} is not {wanted!r}")


def refused(code, reason, act, *args, **kwargs):
    """The act is refused with this code and reason; gives what was said."""
    try:
        act(*args, **kwargs)
    except ApiException as error:
        same(error.status, code)
        body = client.ApiClient().deserialize(error.body, "V1Status", "application/json")
        same(body.reason, reason)
        return body.message
    raise AssertionError(f"not refused: {act}")


def until(what, condition):
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"never: {what}")
        time.sleep(0.02)


def config_map(name, **data):
    return client.V1ConfigMap(
        metadata=client.V1ObjectMeta(name=name, labels={"app": name}), data=data
    )


def deployment(name):
    labels = {"app": name}
    container = client.V1Container(
        name="main", image="web:1", env=[client.V1EnvVar(name="WHO", value=WHO)]
    )
    return client.V1Deployment(
        metadata=client.V1ObjectMeta(name=name),
        spec=client.V1DeploymentSpec(
            replicas=2,
            selector=client.V1LabelSelector(match_labels=labels),
            template=client.V1PodTemplateSpec(
                metadata=client.V1ObjectMeta(labels=labels),
                spec=client.V1PodSpec(containers=[container]),
            ),
        ),
    )


@check
def objects_are_created_read_listed_replaced_and_deleted():
    core = client.CoreV1Api()
    made = core.create_namespaced_config_map(NS, config_map("a", who=WHO))
    same(core.read_namespaced_config_map("a", NS).data, {"who": WHO})
    core.create_namespaced_config_map(NS, config_map("b", who=WHO))
    found = core.list_namespaced_config_map(NS, label_selector="app in (a,b)")
    same([item.metadata.name for item in found.items], ["a", "b"])
    page = core.list_namespaced_config_map(NS, label_selector="app", limit=1)
    same((len(page.items), page.metadata.remaining_item_count), (1, None))
    rest = core.list_namespaced_config_map(
        NS, label_selector="app", limit=9, _continue=page.metadata._continue
    )
    same([item.metadata.name for item in rest.items], ["b"])
    named = core.list_config_map_for_all_namespaces(field_selector="metadata.name=a")
    same([item.metadata.uid for item in named.items], [made.metadata.uid])
    made.data = {"who": WHO, "more": "1"}
    core.replace_namespaced_config_map("a", NS, made)
    said = refused(409, "Conflict", core.replace_namespaced_config_map, "a", NS, made)
    same("the object has been modified" in said, True)
    gone = core.delete_namespaced_config_map("a", NS)
    same((gone["status"], gone["details"]["name"]), ("Success", "a"))
    said = refused(404, "NotFound", core.read_namespaced_config_map, "a", NS)
    same(said, 'configmaps "a" not found')
    said = refused(409, "AlreadyExists", core.create_namespaced_config_map, NS, config_map("b"))
    same(said, 'configmaps "b" already exists')
    core.delete_collection_namespaced_config_map(NS, label_selector="app=b")
    left = core.list_namespaced_config_map(NS, label_selector="app")
    same(left.items, [])


@check
def every_patch_type_works():
    apps = client.AppsV1Api()
    apps.create_namespaced_deployment(NS, deployment("web"))

    def patch(body, content_type, **more):
        return apps.patch_namespaced_deployment(
            "web", NS, body, _content_type=content_type, **more
        )

    found = patch([{"op": "replace", "path": "/spec/replicas", "value": 3}], JSON_PATCH)
    same((found.spec.replicas, found.metadata.generation), (3, 2))
    found = patch({"metadata": {"annotations": {"who": WHO}}}, MERGE_PATCH)
    # Annotations of a Deployment go on to its ReplicaSets, so they count as a change.
    same((found.metadata.annotations["who"], found.metadata.generation), (WHO, 3))
    sidecar = {"name": "side", "image": "side:1"}
    template = {"spec": {"containers": [sidecar]}}
    found = patch({"spec": {"template": template}}, STRATEGIC_PATCH)
    names = [container.name for container in found.spec.template.spec.containers]
    same(names, ["side", "main"])
    main = {"name": "main", "image": "web:2"}
    applied = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"containers": [main]}}},
    }
    said = None
    try:
        patch(applied, APPLY_PATCH, field_manager="py")
    except ApiException as error:
        said = error
    same(said is not None and said.status, 409)
    found = patch(applied, APPLY_PATCH, field_manager="py", force=True)
    images = {one.name: one.image for one in found.spec.template.spec.containers}
    same(images, {"main": "web:2", "side": "side:1"})
    managers = [entry.manager for entry in found.metadata.managed_fields if entry.operation == "Apply"]
    same(managers, ["py"])
    status = {"status": {"observedGeneration": found.metadata.generation, "replicas": 3}}
    found = apps.patch_namespaced_deployment_status("web", NS, status, _content_type=MERGE_PATCH)
    same((found.status.replicas, found.spec.replicas), (3, 3))
    found = apps.patch_namespaced_deployment_scale(
        "web", NS, {"spec": {"replicas": 5}}, _content_type=MERGE_PATCH
    )
    same(found.spec.replicas, 5)
    same(apps.read_namespaced_deployment_scale("web", NS).spec.replicas, 5)
    dry = apps.patch_namespaced_deployment(
        "web", NS, {"spec": {"replicas": 9}}, _content_type=MERGE_PATCH, dry_run="All"
    )
    same(dry.spec.replicas, 9)
    same(apps.read_namespaced_deployment("web", NS).spec.replicas, 5)


@check
def watches_deliver_the_namespaces_events_only():
    core = client.CoreV1Api()
    begun = core.list_namespaced_config_map(NS).metadata.resource_version
    core.create_namespaced_config_map(NS, config_map("seen", step="1"))
    body = {"data": {"step": "2"}}
    core.patch_namespaced_config_map("seen", NS, body, _content_type=MERGE_PATCH)
    core.create_namespaced_config_map(NS, config_map("other"))
    core.delete_namespaced_config_map("seen", NS)
    told = []
    events = watch.Watch()
    for event in events.stream(
        core.list_namespaced_config_map,
        NS,
        label_selector="app=seen",
        resource_version=begun,
        timeout_seconds=TIMEOUT,
    ):
        told.append((event["type"], event["object"].data["step"]))
        if event["type"] == "DELETED":
            events.stop()
    same(told, [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")])
    core.delete_namespaced_config_map("other", NS)


@check
def informers_follow_changes():
    core = client.CoreV1Api()
    informer = SharedInformer(core.list_namespaced_secret, namespace=NS)
    seen = []
    for kind in ("ADDED", "MODIFIED", "DELETED"):
        informer.add_event_handler(
            kind, lambda object, kind=kind: seen.append((kind, object.metadata.name))
        )
    informer.start()
    try:
        metadata = client.V1ObjectMeta(name="followed")
        body = client.V1Secret(metadata=metadata, string_data={"who": WHO})
        core.create_namespaced_secret(NS, body)
        until("the secret is seen", lambda: ("ADDED", "followed") in seen)
        labels = {"metadata": {"labels": {"a": "b"}}}
        core.patch_namespaced_secret("followed", NS, labels, _content_type=MERGE_PATCH)
        until("its change is seen", lambda: ("MODIFIED", "followed") in seen)
        core.delete_namespaced_secret("followed", NS)
        until("its end is seen", lambda: ("DELETED", "followed") in seen)
    finally:
        informer.stop()


def define():
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"size": {"type": "integer", "minimum": 1}},
            },
            "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
        },
    }
    version = client.V1CustomResourceDefinitionVersion(
        name="v1",
        served=True,
        storage=True,
        subresources=client.V1CustomResourceSubresources(status={}),
        schema=client.V1CustomResourceValidation(open_apiv3_schema=schema),
    )
    names = client.V1CustomResourceDefinitionNames(kind="Boat", plural="boats", singular="boat")
    spec = client.V1CustomResourceDefinitionSpec(
        group="py.example", scope="Namespaced", names=names, versions=[version]
    )
    extensions = client.ApiextensionsV1Api()
    metadata = client.V1ObjectMeta(name="boats.py.example")
    extensions.create_custom_resource_definition(
        client.V1CustomResourceDefinition(metadata=metadata, spec=spec)
    )

    def established():
        read = extensions.read_custom_resource_definition("boats.py.example")
        conditions = (read.status and read.status.conditions) or []
        return any(one.type == "Established" and one.status == "True" for one in conditions)

    until("the kind is served", established)


@check
def custom_resources_work_without_types():
    define()
    custom = client.CustomObjectsApi()
    place = {"group": "py.example", "version": "v1", "namespace": NS, "plural": "boats"}
    boat = {
        "apiVersion": "py.example/v1",
        "kind": "Boat",
        "metadata": {"name": "ark"},
        "spec": {"size": 3},
    }
    custom.create_namespaced_custom_object(body=boat, **place)
    found = custom.get_namespaced_custom_object(name="ark", **place)
    same(found["spec"], {"size": 3})
    found = custom.patch_namespaced_custom_object(
        name="ark", body={"spec": {"size": 4}}, _content_type=MERGE_PATCH, **place
    )
    same((found["spec"], found["metadata"]["generation"]), ({"size": 4}, 2))
    found = custom.patch_namespaced_custom_object_status(
        name="ark", body={"status": {"ready": True}}, _content_type=MERGE_PATCH, **place
    )
    same((found["status"], found["metadata"]["generation"]), ({"ready": True}, 2))
    bad = {**boat, "metadata": {"name": "raft"}, "spec": {"size": 0}}
    said = refused(422, "Invalid", custom.create_namespaced_custom_object, body=bad, **place)
    same("spec.size in body should be greater than or equal to 1" in said, True)
    listed = custom.list_namespaced_custom_object(**place)
    same([one["metadata"]["name"] for one in listed["items"]], ["ark"])


@check
def the_dynamic_client_discovers_and_uses_kinds():
    dyn = dynamic.DynamicClient(client.ApiClient())
    boats = dyn.resources.get(api_version="py.example/v1", kind="Boat")
    same((boats.namespaced, boats.name), (True, "boats"))
    same(boats.get(name="ark", namespace=NS).spec.size, 4)
    body = {
        "apiVersion": "py.example/v1",
        "kind": "Boat",
        "metadata": {"name": "canoe"},
        "spec": {"size": 1},
    }
    made = boats.server_side_apply(
        body=body, name="canoe", namespace=NS, field_manager="dyn"
    )
    same((made.spec.size, made.metadata.managedFields[0].operation), (1, "Apply"))
    body["spec"] = {}
    made = boats.server_side_apply(
        body=body, name="canoe", namespace=NS, field_manager="dyn"
    )
    same(made.to_dict().get("spec", {}), {})
    patched = boats.patch(
        body={"metadata": {"name": "canoe"}, "spec": {"size": 2}},
        namespace=NS,
        content_type=MERGE_PATCH,
    )
    same(patched.spec.size, 2)
    pods = dyn.resources.get(api_version="v1", kind="Pod")
    same(pods.get(namespace=NS).items, [])
    boats.delete(name="canoe", namespace=NS)
    try:
        boats.get(name="canoe", namespace=NS)
        raise AssertionError("it is still there")
    except NotFoundError:
        pass


@check
def pods_are_evicted_as_their_budget_allows():
    core, policy = client.CoreV1Api(), client.PolicyV1Api()
    container = client.V1Container(name="main", image="web:1")
    for name in ("free", "held"):
        metadata = client.V1ObjectMeta(name=name, labels={"pod": name})
        spec = client.V1PodSpec(containers=[container])
        core.create_namespaced_pod(NS, client.V1Pod(metadata=metadata, spec=spec))
    selector = client.V1LabelSelector(match_labels={"pod": "held"})
    policy.create_namespaced_pod_disruption_budget(
        NS,
        client.V1PodDisruptionBudget(
            metadata=client.V1ObjectMeta(name="hold"),
            spec=client.V1PodDisruptionBudgetSpec(min_available=1, selector=selector),
        ),
    )

    def evict(name):
        metadata = client.V1ObjectMeta(name=name, namespace=NS)
        return core.create_namespaced_pod_eviction(name, NS, client.V1Eviction(metadata=metadata))

    evict("free")
    refused(404, "NotFound", core.read_namespaced_pod, "free", NS)
    # A pod that does not run yet is not what a budget counts.
    running = {"status": {"phase": "Running"}}
    core.patch_namespaced_pod_status("held", NS, running, _content_type=STRATEGIC_PATCH)
    said = refused(429, "TooManyRequests", evict, "held")
    same(said, "Cannot evict pod as it would violate the pod's disruption budget.")
    core.read_namespaced_pod("held", NS)


@check
def access_reviews_and_token_requests_work():
    core, review = client.CoreV1Api(), client.AuthorizationV1Api()
    core.create_namespaced_service_account(
        NS, client.V1ServiceAccount(metadata=client.V1ObjectMeta(name="robot"))
    )
    request = client.AuthenticationV1TokenRequest(
        spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600)
    )
    token = core.create_namespaced_service_account_token("robot", NS, request).status.token
    mine = client.Configuration.get_default_copy()
    robot = client.Configuration(
        host=mine.host,
        api_key={"BearerToken": f"Bearer {token}"},
    )
    robot.ssl_ca_cert = mine.ssl_ca_cert
    reader = client.CoreV1Api(client.ApiClient(robot))
    said = refused(403, "Forbidden", reader.list_namespaced_config_map, NS)
    same(
        said,
        f'configmaps is forbidden: User "system:serviceaccount:{NS}:robot" cannot list '
        f'resource "configmaps" in API group "" in the namespace "{NS}"',
    )
    attributes = client.V1ResourceAttributes(verb="create", resource="pods", namespace=NS)
    asked = client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes)
    )
    same(review.create_self_subject_access_review(asked).status.allowed, True)


@check
def one_of_two_candidates_leads_and_the_other_follows():
    led, stop = [], threading.Event()

    def candidate(name):
        lock = LeaseLock("leader", NS, name)

        def lead():
            led.append(name)
            stop.wait(TIMEOUT)

        settings = electionconfig.Config(
            lock,
            lease_duration=5,
            renew_deadline=4,
            retry_period=1,
            onstarted_leading=lead,
            onstopped_leading=lambda: None,
        )
        leaderelection.LeaderElection(settings).run()

    leases = client.CoordinationV1Api()

    def holder():
        try:
            return leases.read_namespaced_lease("leader", NS).spec.holder_identity
        except ApiException:
            return None

    threading.Thread(target=candidate, args=("first",), daemon=True).start()
    until("somebody leads", lambda: led == ["first"] and holder() == "first")
    begun = leases.read_namespaced_lease("leader", NS)
    threading.Thread(target=candidate, args=("second",), daemon=True).start()

    def renewed():
        lease = leases.read_namespaced_lease("leader", NS)
        return lease.metadata.resource_version != begun.metadata.resource_version

    until("the lease is renewed", renewed)
    same((led, holder()), (["first"], "first"))
    stop.set()


@check
def a_manifest_of_many_kinds_is_created_from_a_file():
    made = utils.create_from_yaml(client.ApiClient(), MANIFEST, namespace=NS)
    kinds = [one.kind for documents in made for one in documents]
    print("created " + " ".join(kinds))


def main():
    config.load_kube_config()
    core = client.CoreV1Api()
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NS)))
    for hold in CHECKS:
        hold()
        print(hold.__name__.replace("_", " "), flush=True)
    client.CoreV1Api().delete_namespace(NS)

    def gone():
        try:
            core.read_namespace(NS)
        except ApiException as error:
            return error.status == 404
        return False

    until("the namespace is gone", gone)
    print("deleting the namespace deletes its content", flush=True)


main()
# The library's own threads, of the informer and of both candidates, can keep the interpreter from
# ending.
os._exit(0)

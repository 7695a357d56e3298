//! The cost of an authorization decision: the same reads in the same space, by a user of
//! `system:masters` and by a user with roles.

use anyhow::Result;
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::client::{Answer, Client};
use super::load::{Shape, load};
use super::server::Server;
use super::subject::{Measured, Subject};
use super::tenants;
use super::writes::Objects;
use crate::figures::Figures;
use crate::report::progress;

#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub tenants: usize,
    pub operations: usize,
    pub rounds: usize,
    /// Half of them are cluster-scoped, half are in a namespace.
    pub roles: usize,
    pub bindings: usize,
}

/// The user with roles, and the group that some of them are bound to.
const USER: &str = "dora";
const GROUP: &str = "devs";

/// One of this many bindings is the user's: a user of a space has some, not all.
const HERS: usize = 50;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Measures with `few` and with `all` tenants.
pub async fn measure(server: &Server, size: Size) -> Result<Figures> {
    let subject = &server.subject;
    let master = subject.connect(Shape::REQUESTS.connections).await?;
    tenants::create(subject, &master, 0, tenants::FEW).await?;
    fill(subject, &master, size).await?;
    let kubeconfig = server.kubeconfig_of(&tenants::name(0), USER, GROUP)?;
    let user = Client::connect(&kubeconfig, Shape::REQUESTS.connections).await?;
    let alone = reads(subject, &master, &user, size).await?;
    tenants::create(subject, &master, tenants::FEW, size.tenants).await?;
    let among = reads(subject, &master, &user, size).await?;
    Ok(alone.under("few").and(among.under("all")))
}

/// Alternates between both users, so that noise of the machine affects both.
async fn reads(subject: &Subject, master: &Client, user: &Client, size: Size) -> Result<Figures> {
    progress("reads by roles");
    let collection = format!("{}/configmaps", tenants::namespace(0));
    let mut objects = Objects {
        subject,
        client: master,
        collection: &collection,
        versions: vec![],
    };
    objects.create(size.operations).await?;
    let by_roles = Objects {
        client: user,
        versions: objects.versions.clone(),
        ..objects
    };
    let (mut free, mut decided) = (vec![], vec![]);
    for _ in 0..size.rounds {
        free.push(objects.get(size.operations).await?);
        decided.push(by_roles.get(size.operations).await?);
    }
    objects.delete().await?;
    let figures = Measured::rounds(free, "free get").and(Measured::rounds(decided, "decided get"));
    let cost = figures
        .get("decided get cpu")
        .zip(figures.get("free get cpu"));
    let cost = cost.map_or(0.0, |(decided, free)| decided - free);
    Ok(figures.with("decision cpu", cost))
}

/// Creates roles and bindings; a few are the user's, and the last of those allows the reads.
async fn fill(subject: &Subject, client: &Client, size: Size) -> Result<()> {
    progress("roles and bindings");
    let roles = (0..size.roles).map(|n| {
        let (path, kind) = place(n, "Role");
        let resources = match n {
            0 | 1 => json!(["configmaps"]),
            _ => json!([format!("things{n}"), format!("others{n}")]),
        };
        let rules = json!([{"apiGroups": [""], "verbs": ["get", "list"], "resources": resources}]);
        (
            path,
            json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind,
            "metadata": {"name": format!("role-{n:04}")}, "rules": rules}),
        )
    });
    let bindings = (0..size.bindings).map(|n| {
        let (path, kind) = place(n, "RoleBinding");
        // Bindings before the user's in the order of names are evaluated first.
        let last = n + 2 >= size.bindings;
        let role = if last {
            n % 2
        } else {
            2 + n % (size.roles - 2)
        };
        let subjects = match () {
            () if last => json!([{"kind": "User", "name": USER}]),
            () if n % HERS < 2 => json!([{"kind": "Group", "name": GROUP}]),
            () => json!([{"kind": "User", "name": format!("user-{n}")}]),
        };
        let (_, of) = place(role, "Role");
        (
            path,
            json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind,
            "metadata": {"name": format!("binding-{n:04}")}, "subjects": subjects,
            "roleRef": {"apiGroup": RBAC, "kind": of, "name": format!("role-{role:04}")}}),
        )
    });
    create(subject, client, roles.chain(bindings).collect()).await
}

/// Even ones are cluster-scoped, odd ones are in the namespace.
fn place(n: usize, kind: &str) -> (String, String) {
    let (tenant, resource) = (tenants::name(0), format!("{}s", kind.to_lowercase()));
    match n % 2 {
        0 => (
            format!("/apis/{RBAC}/v1/tenants/{tenant}/cluster{resource}"),
            format!("Cluster{kind}"),
        ),
        _ => (
            format!("/apis/{RBAC}/v1/tenants/{tenant}/namespaces/default/{resource}"),
            kind.to_owned(),
        ),
    }
}

async fn create(subject: &Subject, client: &Client, all: Vec<(String, Value)>) -> Result<()> {
    let requests = all.into_iter().map(|(path, object)| {
        let body = Some(Bytes::from(object.to_string()));
        client.prepare(Method::POST, &path, body)
    });
    let requests: Result<Vec<_>> = requests.collect();
    let judge = |answer: &Answer| answer.expect(StatusCode::CREATED);
    load(subject, client, Shape::REQUESTS, requests?, judge).await?;
    Ok(())
}

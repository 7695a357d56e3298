//! The access matrix: every route and verb by every sort of caller. The golden file is reviewed like
//! code; `UPDATE_GOLDEN=1` rewrites it.

#[path = "support/golden.rs"]
mod golden;
#[path = "support/principals.rs"]
#[expect(dead_code, reason = "the isolation tests use the rest")]
mod principals;
#[path = "support/routes.rs"]
#[expect(dead_code, reason = "the isolation tests use the rest")]
mod routes;

use futures_util::future::try_join_all;
use golden::assert_golden;
use insula_testkit::server::{Answer, Client, TestServer};
use principals::{bind, server_with, service_account_token, subject, user};
use routes::{DocumentPath, NamespacedName, Operation, UNKNOWN_UID};

/// One sort of caller.
struct Column {
    title: &'static str,
    client: Client,
    /// The space that the paths name; without it, the paths address the caller's own space.
    space: Option<&'static str>,
}

/// The object that operations address, in the namespace of the RoleBindings.
const OBJECT: NamespacedName<'static> = NamespacedName {
    namespace: "default",
    name: "default",
};

const USERS: [&str; 4] = ["bound", "t1/admins", "t1/edits", "t1/views"];

async fn columns(server: &TestServer) -> anyhow::Result<Vec<Column>> {
    let (system, admin) = (server.system().await?, server.tenant("t1").await?);
    let other = server.tenant("t2").await?;
    let everything = "cluster-admin";
    bind(&system, Some("default"), "bound", everything, user("bound")).await?;
    for (name, role) in [("admins", "admin"), ("edits", "edit"), ("views", "view")] {
        bind(&admin, Some("default"), name, role, user(name)).await?;
    }
    let node = subject("system:node:n1", &["system:nodes"], "t1")?;
    let node = server.client_with_certificate(&node, "").await?;
    let robot = service_account_token(&admin, "default", "robot").await?;
    let column = |title, client, space| Column {
        title,
        client,
        space,
    };
    Ok(vec![
        column("system", system.clone(), None),
        column("system>t1", system, Some("t1")),
        column("bound>t1", server.client("bound").await?, Some("t1")),
        column("t1", admin, None),
        column("admin", server.client("t1/admins").await?, None),
        column("edit", server.client("t1/edits").await?, None),
        column("view", server.client("t1/views").await?, None),
        column("account", server.client(&robot).await?, None),
        column("node", node, None),
        column("anonymous", server.client("").await?, Some("t1")),
        column("t2>t1", other, Some("t1")),
    ])
}

const LEGEND: &str = "\
# yes: authorized (possibly refused later for another reason). no: 401 or 403.
# -: not served in that space.
#
# system     a system administrator, in the system space
# system>t1  the same, in the tenant t1
# bound>t1   a user of the system with a RoleBinding to cluster-admin in its namespace
#            default, in the tenant t1
# t1         an administrator of the tenant t1, in t1, like all that follow
# admin      a user with a RoleBinding to the role admin in the namespace default
# edit       the same to edit
# view       the same to view
# account    a service account without bindings
# node       the node n1, without pods; yes also where admission refuses what is not its own
# anonymous  without a credential
# t2>t1      an administrator of the tenant t2, in the tenant t1
#
# list* and watch* are across all namespaces. Objects are named default and are in the
# namespace default.

";

fn cell(answer: &Answer) -> &'static str {
    let absent = "the server could not find the requested resource";
    match answer.status {
        401 | 403 => "no",
        404 if answer.message() == absent || answer.json().is_null() => "-",
        _ => "yes",
    }
}

/// Rows of one resource with equal cells are merged into one line.
#[derive(Default)]
struct Table {
    rows: Vec<(String, Vec<String>, Vec<&'static str>)>,
    began: usize,
}

impl Table {
    fn add(&mut self, label: &str, verb: String, cells: Vec<&'static str>) {
        if self.rows.last().is_none_or(|(last, _, _)| last != label) {
            self.began = self.rows.len();
        }
        let same = |row: &&mut (String, Vec<String>, Vec<&'static str>)| row.2 == cells;
        match self.rows[self.began..].iter_mut().find(same) {
            Some(row) => row.1.push(verb),
            None => self.rows.push((label.to_owned(), vec![verb], cells)),
        }
    }

    fn print(&self, columns: &[Column]) -> String {
        let width = self.rows.iter().map(|row| row.0.len()).max().unwrap_or(0);
        let line = |label: &str, cells: &mut dyn Iterator<Item = &str>, verbs: &str| {
            let mut line = format!("{label:width$}");
            for (cell, column) in cells.zip(columns) {
                let width = column.title.len().max(3);
                line.push_str(&format!("  {cell:width$}"));
            }
            format!("{line}  {verbs}\n")
        };
        let mut text = LEGEND.to_owned();
        let mut titles = columns.iter().map(|column| column.title);
        text.push_str(&line("", &mut titles, "verbs"));
        for (label, verbs, cells) in &self.rows {
            text.push_str(&line(label, &mut cells.iter().copied(), &verbs.join(" ")));
        }
        text
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn access_matrix_matches_the_reviewed_table() -> anyhow::Result<()> {
    let server = server_with(&USERS, false).await?;
    let columns = columns(&server).await?;
    let tenant = server.system().await?.get("/api/v1/tenants/t1").await?;
    let uid = tenant.json()["metadata"]["uid"].clone();
    let uid = uid.as_str().unwrap_or_default();
    let before = server.registry().store().revision().await?;
    let mut table = Table::default();
    for page in DocumentPath::all() {
        let asked = columns.iter().map(|column| {
            // An issuer is found below the prefix of its tenant only.
            let of_issuer = page.path.contains(UNKNOWN_UID).then_some("t1");
            let prefix = column.space.or(of_issuer);
            let prefix = prefix.map(|space| format!("/tenants/{space}"));
            let path = page.path.replace(UNKNOWN_UID, uid);
            let path = format!("{}{path}", prefix.unwrap_or_default());
            async move { column.client.get(&path).await }
        });
        let answers = try_join_all(asked).await?;
        let cells = answers.iter().map(cell).collect();
        table.add(page.pattern, "get".to_owned(), cells);
    }
    for operation in &Operation::all() {
        let asked = columns.iter().map(|column| {
            let mut paths = match column.space {
                None => operation.relative_paths(OBJECT),
                Some(space) => operation.full_paths(space, OBJECT),
            };
            async move { operation.send(&column.client, &paths.swap_remove(0)).await }
        });
        let answers = try_join_all(asked).await?;
        let star = if operation.all_namespaces { "*" } else { "" };
        let cells = answers.iter().map(cell).collect();
        table.add(
            &operation.label(),
            format!("{}{star}", operation.verb),
            cells,
        );
    }
    let after = server.registry().store().revision().await?;
    assert_eq!(before, after, "the store must not change");
    assert_golden("access-matrix.txt", &table.print(&columns))
}

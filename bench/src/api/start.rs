//! The time until a server is ready, with an empty folder and with many objects, and its memory.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, ensure};
use insula_store::embedded::{Embedded, Options};
use insula_store::{At, KeyRange, Store, Transaction};

use super::load::Shape;
use super::server::{self, Program, Server};
use super::{pages, tenants};
use crate::figures::Figures;
use crate::report::{Unit, grouped, progress, table};

const ROUNDS: usize = 3;

/// The names under which the figures of full stores are.
pub const FULL: [&str; 2] = ["start objects", "start tenants"];

/// The contents of full stores.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of objects of one tenant.
    pub objects: usize,
    /// The number of tenants, each with the objects that every tenant has.
    pub tenants: usize,
}

/// Measures the median of several first starts, then a restart with existing data.
pub async fn measure(program: &Program) -> Result<Figures> {
    let mut times = vec![];
    for round in 1..ROUNDS {
        progress(&format!("start, round {round} of {ROUNDS}"));
        let server = program.start()?;
        times.push(server.ready_after.as_secs_f64());
        server.stop()?;
    }
    let server = program.start()?;
    times.push(server.ready_after.as_secs_f64());
    times.sort_by(f64::total_cmp);
    server.subject.wait_until_idle().await?;
    let figures = Figures::default()
        .with("start", times[times.len() / 2])
        .with("idle resident", server.subject.resident()?)
        .maybe("idle proportional", server.subject.proportional());
    let server = server.restart(program)?;
    let again = server.ready_after.as_secs_f64();
    server.stop()?;
    Ok(figures.with("start again", again))
}

/// Measures starts with many objects and with many tenants, which are written past the server.
pub async fn with_contents(program: &Program, size: Size) -> Result<Figures> {
    if program.store != server::Store::Embedded {
        return Ok(Figures::default());
    }
    progress(&format!("start with {} objects", size.objects));
    let server = one_tenant(program).await?;
    let fill = async |folder: &Path| pages::fill(folder, size.objects).await;
    let objects = twice(program, server.restart_after(program, fill).await?).await?;
    progress(&format!("start with {} tenants", size.tenants));
    let server = one_tenant(program).await?;
    let copy = async |folder: &Path| copy_tenant(folder, size.tenants).await;
    let many = twice(program, server.restart_after(program, copy).await?).await?;
    Ok(objects
        .with("count", size.objects as f64)
        .under(FULL[0])
        .and(many.with("count", size.tenants as f64).under(FULL[1])))
}

async fn one_tenant(program: &Program) -> Result<Server> {
    let server = program.start()?;
    let client = server.subject.connect(Shape::REQUESTS.connections).await?;
    tenants::create(&server.subject, &client, 0, 1).await?;
    Ok(server)
}

/// Measures a server with a filled store, and its restart: the first start finds the tables as
/// they were written, the second one as they were merged.
async fn twice(program: &Program, server: Server) -> Result<Figures> {
    let first = server.ready_after.as_secs_f64();
    let cpu = server.subject.cpu()?.as_secs_f64();
    let most = server.subject.most_resident()?;
    server.subject.wait_until_idle().await?;
    let resident = server.subject.resident()?;
    let server = server.restart(program)?;
    let second = server.ready_after.as_secs_f64();
    server.stop()?;
    Ok(Figures::default()
        .with("first", first)
        .with("second", second)
        .with("slower", first.max(second))
        .with("cpu", cpu)
        .with("resident", resident)
        .with("most resident", most))
}

/// Copies what the first tenant has to further ones, with names and UIDs of their own.
async fn copy_tenant(folder: &Path, count: usize) -> Result<()> {
    let store = Embedded::open(folder.join("store"), Options::default()).await?;
    let first = tenants::name(0);
    let page = store.range(&KeyRange::all(), At::Latest, None).await?;
    let mut own = BTreeMap::new();
    for entry in page.entries {
        let key = String::from_utf8(entry.key.to_vec())?;
        if key.split('/').any(|segment| segment == first) {
            own.insert(key, String::from_utf8(entry.value.to_vec())?);
        }
    }
    ensure!(!own.is_empty(), "the first tenant has no objects");
    for n in 1..count {
        let name = tenants::name(n);
        let mut transaction = Transaction::new();
        for (number, (key, value)) in own.iter().enumerate() {
            let value = with_uid(&value.replace(&first, &name), n * own.len() + number);
            transaction = transaction.put(key.replace(&first, &name), value);
        }
        store.commit(transaction).await?;
    }
    store.close().await;
    Ok(())
}

/// Prints the starts of full stores, unless they were not measured.
pub fn print(figures: &Figures) {
    const CELLS: [(&str, Unit); 5] = [
        ("first", Unit::Time),
        ("second", Unit::Time),
        ("cpu", Unit::Time),
        ("resident", Unit::Bytes),
        ("most resident", Unit::Bytes),
    ];
    let rows = FULL.into_iter().zip(["objects", "tenants"]);
    let rows = rows.filter_map(|(prefix, what)| {
        let count = figures.get(&format!("{prefix} count"))?;
        let mut row = vec![format!("{} {what}", grouped(count as usize))];
        row.extend(CELLS.iter().map(|(figure, unit)| {
            let value = figures.get(&format!("{prefix} {figure}"));
            value.map_or_else(|| "-".to_owned(), |value| unit.format(value))
        }));
        Some(row)
    });
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        let columns = [
            "with",
            "first start",
            "next start",
            "CPU",
            "memory",
            "at most",
        ];
        table("From a full store to a ready server", &columns, &rows);
    }
}

/// Returns an object with another UID.
fn with_uid(object: &str, number: usize) -> String {
    const MARK: &str = "\"uid\":\"";
    const FIRST: usize = "6b1f1c0e".len();
    match object.split_once(MARK) {
        Some((before, after)) if after.len() > FIRST => {
            format!("{before}{MARK}{number:08x}{}", &after[FIRST..])
        }
        _ => object.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_uids_of_their_own() {
        let object = r#"{"metadata":{"uid":"6b1f1c0e-5d0c","name":"a"},"uid":"x"}"#;
        let copy = with_uid(object, 0x1234);
        assert_eq!(
            copy,
            r#"{"metadata":{"uid":"00001234-5d0c","name":"a"},"uid":"x"}"#
        );
        assert_eq!(with_uid("{}", 7), "{}");
    }
}

//! Gets on a server with etcd as its store: consistent reads share a request for the revision.

use anyhow::Result;
use http::{Method, StatusCode};

use super::client::Answer;
use super::load::{Shape, load};
use super::objects;
use super::server::{Program, Store};
use super::writes::Objects;
use crate::figures::Figures;
use crate::report::progress;

#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub objects: usize,
    pub gets: usize,
}

/// The names of the figures, and how many gets are under way at once.
pub const STEPS: [(&str, usize); 3] = [
    ("etcd get, 1 at once", 1),
    ("etcd get, 8 at once", 8),
    ("etcd get, 32 at once", 32),
];
const CONNECTIONS: usize = 8;

pub async fn measure(program: &Program, size: Size) -> Result<Figures> {
    let program = Program {
        store: Store::Etcd,
        ..program.clone()
    };
    let server = program.start()?;
    let subject = &server.subject;
    let client = subject.connect(CONNECTIONS).await?;
    subject.namespace(&client, "bench").await?;
    let collection = objects::collection("bench");
    let mut objects = Objects {
        subject,
        client: &client,
        collection: &collection,
        versions: vec![],
    };
    objects.create(size.objects).await?;
    let mut figures = Figures::default();
    for (name, at_once) in STEPS {
        progress(name);
        let shape = Shape {
            connections: CONNECTIONS,
            at_once,
        };
        let requests = (0..size.gets).map(|n| {
            let path = format!("{collection}/{}", objects::name(n % size.objects));
            client.prepare(Method::GET, &path, None)
        });
        let requests: Result<Vec<_>> = requests.collect();
        let judge = |answer: &Answer| answer.expect(StatusCode::OK);
        let loaded = load(subject, &client, shape, requests?, judge).await?;
        figures = figures.and(loaded.measured.figures(name));
    }
    server.stop()?;
    Ok(figures)
}

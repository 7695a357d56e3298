//! Single objects: create, read, update, patch, apply and delete.

use anyhow::Result;
use bytes::Bytes;
use http::{Method, StatusCode};

use super::client::{Answer, Client, Prepared};
use super::load::{Loaded, Shape, load};
use super::objects;
use super::subject::{Measured, Subject};
use crate::figures::Figures;
use crate::report::progress;

/// The operations, in the order of an object's life.
pub const OPERATIONS: [&str; 6] = ["create", "get", "update", "merge patch", "apply", "delete"];

/// The objects of one namespace, and their resource versions.
pub struct Objects<'a> {
    pub subject: &'a Subject,
    pub client: &'a Client,
    pub collection: &'a str,
    pub versions: Vec<u64>,
}

/// Measures all operations, in several rounds with the same names.
pub async fn measure(subject: &Subject, count: usize, rounds: usize) -> Result<Figures> {
    let client = subject.connect(Shape::REQUESTS.connections).await?;
    subject.namespace(&client, "bench").await?;
    let collection = objects::collection("bench");
    let mut measured = vec![vec![]; OPERATIONS.len()];
    for round in 0..rounds {
        progress(&format!("requests, round {} of {rounds}", round + 1));
        let mut objects = Objects {
            subject,
            client: &client,
            collection: &collection,
            versions: vec![],
        };
        let life = [
            objects.create(count).await?,
            objects.get(count).await?,
            objects.update().await?,
            objects.patch().await?,
            objects.apply().await?,
            objects.delete().await?,
        ];
        for (operation, one) in measured.iter_mut().zip(life) {
            operation.push(one);
        }
    }
    let pairs = OPERATIONS.iter().zip(measured);
    Ok(pairs.fold(Figures::default(), |figures, (name, rounds)| {
        figures.and(Measured::rounds(rounds, name))
    }))
}

impl Objects<'_> {
    pub async fn create(&mut self, count: usize) -> Result<Measured> {
        let requests = (0..count).map(|n| {
            let body = Some(objects::configmap(n, None, "-"));
            self.client.prepare(Method::POST, self.collection, body)
        });
        let requests: Result<Vec<_>> = requests.collect();
        let loaded = self.load(requests?, StatusCode::CREATED).await?;
        self.versions = loaded.taken;
        Ok(loaded.measured)
    }

    /// Measures a number of reads, spread over all objects.
    pub async fn get(&self, count: usize) -> Result<Measured> {
        let objects = self.versions.len().max(1);
        let requests = (0..count).map(|n| self.prepare(Method::GET, n % objects, None));
        let requests: Result<Vec<_>> = requests.collect();
        let loaded = self.load(requests?, StatusCode::OK).await?;
        Ok(loaded.measured)
    }

    /// Updates each object, with its resource version.
    pub async fn update(&mut self) -> Result<Measured> {
        let body = |n, version| Some(objects::configmap(n, Some(version), "updated"));
        let loaded = self.each(Method::PUT, body).await?;
        self.versions = loaded.taken;
        Ok(loaded.measured)
    }

    pub async fn patch(&mut self) -> Result<Measured> {
        let body = |n, _| Some(objects::patch(n));
        let loaded = self.each(Method::PATCH, body).await?;
        self.versions = loaded.taken;
        Ok(loaded.measured)
    }

    /// Applies whole objects of another field manager: the most expensive apply of them.
    pub async fn apply(&mut self) -> Result<Measured> {
        let requests = (0..self.versions.len()).map(|n| {
            let path = format!("{}/{}", self.collection, objects::name(n));
            let body = objects::configmap(n, None, "applied");
            self.client.prepare_apply(&path, body)
        });
        let requests: Result<Vec<_>> = requests.collect();
        let loaded = self.load(requests?, StatusCode::OK).await?;
        self.versions = loaded.taken;
        Ok(loaded.measured)
    }

    pub async fn delete(&mut self) -> Result<Measured> {
        let requests = (0..self.versions.len()).map(|n| self.prepare(Method::DELETE, n, None));
        let requests: Result<Vec<_>> = requests.collect();
        let judge = |answer: &Answer| answer.expect(StatusCode::OK);
        let loaded = load(self.subject, self.client, Shape::REQUESTS, requests?, judge).await?;
        self.versions.clear();
        Ok(loaded.measured)
    }

    async fn each(
        &self,
        method: Method,
        body: impl Fn(usize, u64) -> Option<Bytes>,
    ) -> Result<Loaded<u64>> {
        let requests = self.versions.iter().enumerate();
        let requests =
            requests.map(|(n, version)| self.prepare(method.clone(), n, body(n, *version)));
        let requests: Result<Vec<_>> = requests.collect();
        self.load(requests?, StatusCode::OK).await
    }

    async fn load(&self, requests: Vec<Prepared>, status: StatusCode) -> Result<Loaded<u64>> {
        let judge = move |answer: &Answer| {
            answer.expect(status)?;
            answer.version()
        };
        load(self.subject, self.client, Shape::REQUESTS, requests, judge).await
    }

    fn prepare(&self, method: Method, n: usize, body: Option<Bytes>) -> Result<Prepared> {
        let path = format!("{}/{}", self.collection, objects::name(n));
        self.client.prepare(method, &path, body)
    }
}

//! Large lists: whole, by a label, and in pages, and the memory afterwards.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::Method;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::client::{Answer, Client, Sender};
use super::load::{Shape, WAIT_TIMEOUT, all, load};
use super::objects::{self, TENTH};
use super::subject::{Measured, Stopwatch, Subject};
use super::writes::Objects;
use crate::figures::Figures;
use crate::report::progress;

pub const OPERATIONS: [&str; 4] = ["list", "list, 32 at once", "list by label", "page"];
/// The number of pages of a list, and of objects for each that has the label.
const PART: usize = 10;

#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub objects: usize,
    /// The number of all writes before the lists, including those of the objects.
    pub writes: usize,
    pub lists: usize,
}

pub async fn measure(subject: &Subject, size: Size) -> Result<Figures> {
    progress(&format!("filling with {} objects", size.objects));
    let client = subject.connect(Shape::REQUESTS.connections).await?;
    for (namespace, count) in [
        ("bench", size.writes.saturating_sub(size.objects)),
        ("lists", size.objects),
    ] {
        subject.namespace(&client, namespace).await?;
        fill(subject, &client, namespace, count).await?;
    }
    let collection = objects::collection("lists");
    progress("lists");
    let (objects, tenth) = (size.objects, size.objects / PART);
    let few = Shape::LISTS;
    let whole = list(subject, &client, few, &collection, size.lists, objects).await?;
    let figures = whole
        .figures("list")
        .with("memory after", subject.resident()?)
        .with("memory most", subject.most_resident()?);
    let labelled = format!("{collection}?labelSelector={}", TENTH.replace('=', "%3D"));
    let labelled = list(subject, &client, few, &labelled, size.lists * 2, tenth).await?;
    let many = Shape::MANY_LISTS;
    let crowded = list(subject, &client, many, &collection, size.lists, objects).await?;
    let paged = pages(subject, &client, &collection, size).await?;
    Ok(figures
        .and(crowded.figures("list, 32 at once"))
        .and(labelled.figures("list by label"))
        .and(paged.figures("page")))
}

async fn fill(subject: &Subject, client: &Client, namespace: &str, count: usize) -> Result<()> {
    let mut objects = Objects {
        subject,
        client,
        collection: &objects::collection(namespace),
        versions: vec![],
    };
    if count > 0 {
        objects.create(count).await?;
    }
    Ok(())
}

async fn list(
    subject: &Subject,
    client: &Client,
    shape: Shape,
    path: &str,
    count: usize,
    objects: usize,
) -> Result<Measured> {
    let requests = (0..count).map(|_| client.prepare(Method::GET, path, None));
    let requests: Result<Vec<_>> = requests.collect();
    let judge = move |answer: &Answer| answer.expect_list(objects);
    let loaded = load(subject, client, shape, requests?, judge).await?;
    Ok(loaded.measured)
}

/// Measures lists page by page, with the time of each page.
async fn pages(
    subject: &Subject,
    client: &Client,
    collection: &str,
    size: Size,
) -> Result<Measured> {
    let limit = size.objects / PART;
    let first = format!("{collection}?limit={limit}");
    let passes = (size.lists / 5).max(Shape::LISTS.at_once) / Shape::LISTS.at_once;
    let mut workers = JoinSet::new();
    let watch = Stopwatch::start(subject).await?;
    for user in 0..Shape::LISTS.at_once {
        let (sender, first) = (client.sender(user)?, first.clone());
        workers.spawn(async move {
            let mut times = vec![];
            for _ in 0..passes {
                times.extend(pass(&sender, &first, limit).await?);
            }
            Ok(times)
        });
    }
    let times = timeout(WAIT_TIMEOUT, all(workers))
        .await
        .context("the server hangs")??;
    watch.stop(times).await
}

/// Reads the full pages of a list. One more may follow, with the objects that every namespace has.
async fn pass(sender: &Sender, first: &str, limit: usize) -> Result<Vec<Duration>> {
    let mut times = vec![];
    let mut path = Some(first.to_owned());
    while let Some(asked) = path.take().filter(|_| times.len() < PART) {
        let request = sender.prepare(Method::GET, &asked, None)?;
        let begun = Instant::now();
        let answer = sender.send(request).await?;
        times.push(begun.elapsed());
        answer.expect_list(limit)?;
        let next = answer.next_page();
        path = next.map(|next| format!("{first}&continue={next}"));
    }
    ensure!(times.len() == PART, "{} pages and not {PART}", times.len());
    Ok(times)
}

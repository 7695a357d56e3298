//! Floods of ordinary requests.

use anyhow::Result;
use bytes::Bytes;
use http::Method;
use tokio::time::Duration;

use super::{MAPS, Run};
use crate::api::client::{Client, Prepared, Sender, chunk};
use crate::api::objects;

/// The objects that are updated with large values.
pub const LARGE: usize = 16;
/// The size of a large object, below the limit of the store.
const LARGE_BYTES: usize = 900_000;
/// The watches, as many as a space may have, on connections of as many streams as allowed.
const WATCHES: usize = 10_000;
const WATCHES_EACH: usize = 250;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// The time before a worker tries again after its connection broke or it was refused.
const PAUSE: Duration = Duration::from_millis(10);

pub async fn gets(run: &Run) -> Result<()> {
    let path = format!("{MAPS}/{}", objects::name(0));
    repeat(run, 16, 1_600, move |sender, _, _| {
        sender.prepare(Method::GET, &path, None)
    })
    .await
}

pub async fn lists(run: &Run) -> Result<()> {
    repeat(run, 4, 16, |sender, worker, _| {
        if worker.is_multiple_of(2) {
            sender.prepare(Method::GET, MAPS, None)
        } else {
            sender.prepare_accepting(MAPS, TABLE)
        }
    })
    .await
}

pub async fn creates(run: &Run) -> Result<()> {
    repeat(run, 8, 256, |sender, worker, n| {
        let body = objects::configmap(1_000_000 + worker * 100_000 + n, None, "-");
        sender.prepare(Method::POST, MAPS, Some(body))
    })
    .await
}

pub async fn large_updates(run: &Run) -> Result<()> {
    repeat(run, 4, LARGE, |sender, worker, n| {
        let path = format!("{MAPS}/{}", objects::name(worker));
        let value = format!("{n:06}").repeat(LARGE_BYTES / 6);
        let body = Bytes::from(format!("{{\"data\":{{\"value\":\"{value}\"}}}}"));
        sender.prepare(Method::PATCH, &path, Some(body))
    })
    .await
}

/// Opens many watches and reads them, while one object changes all the time.
pub async fn watches(run: &Run) -> Result<()> {
    let writer = run.connect(1).await?;
    let changes = run.clone();
    let mut all = tokio::task::JoinSet::new();
    all.spawn(async move {
        let path = format!("{MAPS}/{}", objects::name(0));
        let sender = writer.sender(0)?;
        for n in 0.. {
            if changes.is_over() {
                break;
            }
            let request = sender.prepare(Method::PATCH, &path, Some(objects::patch(n)))?;
            changes.counts.count(&sender.send(request).await);
        }
        anyhow::Ok(())
    });
    // The tasks of the connections end with their clients.
    let mut clients = vec![];
    for _ in 0..WATCHES / WATCHES_EACH {
        let Ok(client) = run.connect(1).await else {
            run.counts.cut_off();
            continue;
        };
        for _ in 0..WATCHES_EACH {
            let (sender, run) = (client.sender(0)?, run.clone());
            all.spawn(async move { watch(&sender, &run).await });
        }
        clients.push(client);
    }
    while let Some(ended) = all.join_next().await {
        ended??;
    }
    Ok(())
}

async fn watch(sender: &Sender, run: &Run) -> Result<()> {
    let request = sender.prepare(Method::GET, &format!("{MAPS}?watch=true"), None)?;
    let Ok((status, mut stream)) = sender.open(request).await else {
        run.counts.cut_off();
        return Ok(());
    };
    if !status.is_success() {
        run.counts.refused();
        return Ok(());
    }
    run.counts.answered();
    while let Ok(Some(_)) = chunk(&mut stream).await {}
    Ok(())
}

/// Repeats requests with a number of workers on a number of connections.
pub async fn repeat(
    run: &Run,
    connections: usize,
    workers: usize,
    request: impl Fn(&Sender, usize, usize) -> Result<Prepared> + Clone + Send + 'static,
) -> Result<()> {
    let client = run.connect(connections).await?;
    run.workers(workers, |worker, run| {
        let (sender, request) = (client.sender(worker), request.clone());
        async move {
            let mut sender = sender?;
            let mut own: Option<Client> = None;
            for n in 0.. {
                if run.is_over() {
                    break;
                }
                let answer = sender.send(request(&sender, worker, n)?).await;
                run.counts.count(&answer);
                match &answer {
                    Ok(answer) if answer.status.is_success() => {}
                    Ok(_) => tokio::time::sleep(PAUSE).await,
                    // The server closed the connection.
                    Err(_) => {
                        tokio::time::sleep(PAUSE).await;
                        if let Ok(client) = run.connect(1).await {
                            sender = client.sender(0)?;
                            own = Some(client);
                        }
                    }
                }
            }
            drop(own);
            Ok(())
        }
    })
    .await
}

//! Joins that are interrupted at every request.

use std::sync::Arc;
use std::sync::Mutex;

use http::Request;
use insula_broker::globalnet::{Allocations, CLUSTERSET_IP_INFO, GLOBALNET_INFO};
use insula_broker::join::{JoinClients, join};
use insula_broker::names::OPERATOR_NAMESPACE;
use insula_broker::report::Silent;
use insula_broker::token;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::ListParams;
use kube::client::Body;
use kube::{Api, Client};
use tower::{BoxError, service_fn};

use super::stage::*;

/// The requests of both clients in order, and the number of the last one.
#[derive(Clone, Default)]
pub struct Line {
    pub sent: Arc<Mutex<Vec<String>>>,
    pub cut: Option<Cut>,
}

/// The outcome of the last request.
#[derive(Clone, Copy)]
pub enum Cut {
    /// It is not sent.
    Before(usize),
    /// It is executed, and its response is lost.
    After(usize),
}

impl Line {
    /// Wraps a client.
    pub fn through(&self, client: &Client) -> Client {
        let (line, client) = (self.clone(), client.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (line, client) = (line.clone(), client.clone());
            async move {
                let gone = || BoxError::from("the line was cut");
                let number = {
                    let mut sent = line.sent.lock().unwrap();
                    sent.push(format!("{} {}", request.method(), request.uri().path()));
                    sent.len()
                };
                if matches!(line.cut, Some(Cut::Before(last)) if number >= last) {
                    return Err(gone());
                }
                let answer = client.send(request).await?;
                match line.cut {
                    Some(Cut::After(last)) if number >= last => Err(gone()),
                    _ => Ok(answer),
                }
            }
        });
        Client::new(service, "default")
    }

    fn both(&self, both: &JoinClients) -> JoinClients {
        JoinClients {
            broker: self.through(&both.broker),
            joining: self.through(&both.joining),
        }
    }
}

/// One allocation in each ConfigMap, and the cluster's token is valid.
async fn is_whole(stage: &Stage, namespace: &str, joining: &Client) -> anyhow::Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(stage.system()?, namespace);
    for name in [GLOBALNET_INFO, CLUSTERSET_IP_INFO] {
        let allocations = Allocations::read(&maps.get(name).await?)?;
        assert_eq!(allocations.clusters.len(), 1, "{name}");
    }
    let kept: Api<Secret> = Api::namespaced(joining.clone(), OPERATOR_NAMESPACE);
    let kept = kept.get("submariner-broker-secret").await?;
    let own = stage.client(std::str::from_utf8(token::of(&kept).unwrap())?)?;
    let secrets: Api<Secret> = Api::namespaced(own, namespace);
    secrets.list(&ListParams::default()).await?;
    let error_and_hint = object(joining, SUBMARINER, OPERATOR_NAMESPACE, "submariner").await?;
    assert_eq!(
        error_and_hint.unwrap()["spec"]["globalCIDR"],
        "242.0.0.0/16"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn r76_interrupted_join_is_completed_by_the_next() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let mut number = 0;
    for cut in [Cut::Before, Cut::After] {
        for last in 1.. {
            let namespace = format!("n{number}");
            let info = stage.deploy(&namespace, Wanted::default()).await?;
            let both = stage.both(&info, &format!("c{number}")).await?;
            let settings = settings(&info, "east");
            let line = Line {
                cut: Some(cut(last)),
                ..Line::default()
            };
            number += 1;
            let first = join(&line.both(&both), &settings, &Silent).await;
            let was_cut = line.sent.lock().unwrap().len() >= last;
            assert_eq!(first.is_err(), was_cut, "{first:?}");
            join(&both, &settings, &Silent).await?;
            is_whole(&stage, &namespace, &both.joining).await?;
            if !was_cut {
                assert!(last > 15, "there are more requests than that");
                break;
            }
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn r75_join_requests_stay_in_the_brokers_namespace() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let both = stage.both(&info, "c0").await?;
    let line = Line::default();
    let watched = JoinClients {
        broker: line.through(&both.broker),
        joining: both.joining,
    };
    join(&watched, &settings(&info, "east"), &Silent).await?;
    let sent = line.sent.lock().unwrap().clone();
    assert!(sent.len() > 8, "{sent:?}");
    for request in sent {
        assert!(request.contains("/namespaces/n/"), "{request}");
    }
    Ok(())
}

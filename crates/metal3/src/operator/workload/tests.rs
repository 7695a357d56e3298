use std::sync::atomic::{AtomicUsize, Ordering};

use insula_operator::key::GroupKind;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Error};

use super::*;

/// A server that answers, or does not, and counts requests.
#[derive(Clone, Default)]
struct Server {
    requests: Arc<AtomicUsize>,
    answers: Arc<std::sync::atomic::AtomicBool>,
}

impl Server {
    fn client(&self) -> Client {
        let this = self.clone();
        let service = service_fn(move |_: Request<Body>| {
            let this = this.clone();
            async move {
                this.requests.fetch_add(1, Ordering::SeqCst);
                if !this.answers.load(Ordering::SeqCst) {
                    std::future::pending::<()>().await;
                }
                let node = r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}"#;
                Ok::<_, BoxError>(Response::new(Body::from(node.as_bytes().to_vec())))
            }
        });
        Client::new(service, "default")
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

fn key(space: Option<&str>, namespace: &str) -> Key {
    let kind = GroupKind::of::<crate::kinds::machine::Metal3Machine>();
    Key::namespaced(kind, space.map(Arc::from), namespace, "m")
}

/// Requests a node; returns whether it was answered, or why the request was not sent.
async fn get(client: Client) -> Result<(), Option<NotSent>> {
    match Api::<Node>::all(client).get("n").await {
        Ok(_) => Ok(()),
        Err(error @ Error::Service(_)) => Err(NotSent::of(&error)),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn silent_server_is_left_alone_for_longer_each_time_and_then_tried_once() {
    let (mut silent, server) = (SilentServers::default(), Arc::from("s"));
    let mut now = Instant::now();
    assert!(silent.begin(&server, now, REQUEST_TIMEOUT));
    for backoff in [10, 20, 40, 60, 60] {
        now += REQUEST_TIMEOUT;
        silent.end(&server, now, true);
        let until = now + Duration::from_secs(backoff);
        now = until - Duration::from_millis(1);
        assert!(silent.has(&server, now) && !silent.begin(&server, now, REQUEST_TIMEOUT));
        // Another server of the same cluster is another matter.
        assert!(!silent.has("t", now) && silent.begin("t", now, REQUEST_TIMEOUT));
        now = until;
        assert!(!silent.has(&server, now) && silent.begin(&server, now, REQUEST_TIMEOUT));
        assert!(silent.has(&server, now) && !silent.begin(&server, now, REQUEST_TIMEOUT));
    }
    silent.end(&server, now, false);
    assert!(!silent.has(&server, now));
    for _ in 0..2 {
        assert!(silent.begin(&server, now, REQUEST_TIMEOUT));
    }
    // What no caller asks for any more is forgotten.
    silent.end(&server, now, true);
    silent.end(&Arc::from("t"), now + BACKOFF.0 + BACKOFF.1 * 2, true);
    assert_eq!(silent.0.len(), 1);
}

#[tokio::test]
async fn requests_of_a_tenant_that_wait_are_limited_and_those_of_others_are_not() {
    let workloads = Workloads::new(REQUEST_TIMEOUT, 16);
    let (silent, answering) = (Server::default(), Server::default());
    answering.answers.store(true, Ordering::SeqCst);
    let guard = |space: Option<&str>, namespace: &str, server: &Server| {
        let key = key(space, namespace);
        workloads.guard(&key, "s".to_owned(), server.client())
    };
    let waiting: Vec<_> = ["n1", "n2"]
        .map(|namespace| tokio::spawn(get(guard(Some("t1"), namespace, &silent))))
        .into();
    while silent.requests() < waiting.len() {
        tokio::task::yield_now().await;
    }
    let busy = Err(Some(NotSent::Busy));
    assert_eq!(get(guard(Some("t1"), "n3", &answering)).await, busy);
    assert_eq!(get(guard(Some("t2"), "n1", &answering)).await, Ok(()));
    assert_eq!(get(guard(None, "n1", &answering)).await, Ok(()));
    for waiting in waiting {
        waiting.abort();
        assert!(waiting.await.is_err());
    }
    assert_eq!(get(guard(Some("t1"), "n3", &answering)).await, Ok(()));
    assert_eq!((silent.requests(), answering.requests()), (2, 3));
}

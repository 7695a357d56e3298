//! Pools at servers that misbehave.

use std::time::Duration;

use http::{Request, Response};
use insula_operator::outbound::HttpClients;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::timeout;
use tower::{BoxError, service_fn};

use super::memory::Owner;
use super::*;
use insula_identity::session::{Connector, Key};

/// Returns pools of a server that answers with this; never if it is none.
fn pools(answer: impl Fn(&Request<Body>) -> Option<Value> + Send + Sync + 'static) -> Pools {
    let answer = Arc::new(answer);
    let service = service_fn(move |request: Request<Body>| {
        let answer = Arc::clone(&answer);
        async move {
            match answer(&request) {
                Some(answer) => {
                    Ok::<_, BoxError>(Response::new(Body::from(answer.to_string().into_bytes())))
                }
                None => {
                    std::future::pending::<()>().await;
                    // The answer is kept while the request is pending.
                    drop(answer);
                    Err("no answer".into())
                }
            }
        }
    });
    Pools {
        own: Client::new(service, "default"),
        clients: HttpClients::new(Vec::new()),
        requeue: Arc::default(),
        memory: Arc::default(),
    }
}

fn empty_list() -> Value {
    json!({"metadata": {"resourceVersion": "1"}, "items": []})
}

fn key_in(
    space: Option<&str>,
    account: Option<&str>,
) -> (Key, insula_identity::credential::Credential) {
    let credential = in_cluster(space, "n", account).unwrap();
    (Key::of(space.map(Arc::from), &credential), credential)
}

#[tokio::test]
async fn login_that_is_given_up_ends_its_watch() {
    let marker = Arc::new(());
    let held = Arc::clone(&marker);
    let pools = pools(move |request| {
        let _ = &held;
        let is_first = request.uri().query()?.contains("limit=1&")
            || request.uri().query()?.ends_with("limit=1");
        is_first.then(empty_list)
    });
    let (key, credential) = key_in(None, None);
    let opened = timeout(Duration::from_millis(200), pools.log_in(&key, &credential)).await;
    assert!(opened.is_err());
    drop(pools);
    for _ in 0..100 {
        if Arc::strong_count(&marker) == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the watch goes on");
}

#[tokio::test]
async fn hosts_take_no_more_memory_than_their_owner_may_have() {
    let memory = Arc::<HostMemory>::default();
    let pool = |space: &str| {
        let (key, _) = key_in(Some(space), None);
        let memory = PoolMemory::new(Arc::clone(&memory), Owner::of(&key));
        let client = Client::new(
            service_fn(|_: Request<Body>| async { Err::<Response<Body>, BoxError>("".into()) }),
            "default",
        );
        HostPool::new(
            client,
            key.endpoint,
            "n".to_owned(),
            true,
            memory,
            Arc::default(),
        )
    };
    let host = |name: &str, mebibytes: usize| {
        let mut host = BareMetalHost::new(name, crate::kinds::host::BareMetalHostSpec::default());
        let value = "x".repeat(mebibytes << 20);
        host.labels_mut().insert("l".to_owned(), value);
        host
    };
    let (first, second, other) = (pool("acme"), pool("acme"), pool("bmce"));
    assert!(first.observe(host("a", 100)));
    assert!(second.observe(host("b", 100)));
    assert!(!first.observe(host("c", 100)));
    // A host that grows too much is not known any more, and gives its memory back.
    assert!(!second.observe(host("b", 200)));
    assert_eq!(second.seen().len(), 0);
    assert!(first.observe(host("c", 100)));
    // Other tenants have a limit of their own, and a closed pool takes no memory.
    assert!(other.observe(host("d", 200)));
    drop(first);
    assert!(second.observe(host("b", 200)));
}

#[test]
fn no_kubeconfig_names_the_endpoint_of_hosts_of_the_own_server() {
    let (of_operator, _) = key_in(None, None);
    let (acme, _) = key_in(Some("acme"), None);
    let (bmce, _) = key_in(Some("bmce"), None);
    let (as_account, _) = key_in(Some("acme"), Some("capm3"));
    assert_ne!(acme.endpoint, bmce.endpoint);
    assert_ne!(acme.endpoint, of_operator.endpoint);
    assert_ne!(acme, as_account);
    for key in [of_operator, acme, bmce] {
        let text = key.endpoint.to_string();
        assert!(Endpoint::parse(&text, 443).is_err(), "{text}");
    }
}

#[tokio::test]
async fn o08_hosts_next_to_machines_are_used_as_the_account_of_the_namespace() {
    let users = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&users);
    let pools = pools(move |request| {
        let headers = request.headers();
        let text = |name: &str| {
            let value = headers.get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        seen.lock()
            .unwrap()
            .push((text("impersonate-user"), text("impersonate-group")));
        (!request.uri().query()?.contains("watch=true")).then(empty_list)
    });
    for (account, expected) in [
        (None, (None, None)),
        (
            Some("capm3"),
            (
                Some("system:serviceaccount:n:capm3".to_owned()),
                Some("tenant:acme".to_owned()),
            ),
        ),
    ] {
        users.lock().unwrap().clear();
        let (key, credential) = key_in(Some("acme"), account);
        let pool = pools.log_in(&key, &credential).await.unwrap();
        drop(pool);
        let users = users.lock().unwrap();
        assert!(
            !users.is_empty() && users.iter().all(|user| *user == expected),
            "{users:?}"
        );
    }
}

#[tokio::test]
async fn failing_watch_is_known_until_it_works_again() {
    let pools = pools(|request| (!request.uri().query()?.contains("watch=true")).then(empty_list));
    let (key, credential) = key_in(None, None);
    let pool = pools.log_in(&key, &credential).await.unwrap();
    let mut keys = Box::pin(Arc::clone(&pools.requeue).keys());
    pool.follow_access("cluster".into());
    for _ in 0..2 {
        pool.observe_failing(true);
    }
    assert!(pool.is_watch_failing());
    let mut next =
        || futures_util::FutureExt::now_or_never(futures_util::StreamExt::next(&mut keys));
    assert_eq!(next(), Some(Some("cluster".into())));
    assert_eq!(next(), None);
    pool.observe_failing(false);
    assert!(!pool.is_watch_failing());
}

//! The vCenter client: against vcsim where it is installed, against the testkit's vCenter, and
//! against servers with invalid responses.

mod addresses;
mod certificates;
mod hostile;
mod inventory;
mod lifecycle;
mod login;
mod stub;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use insula_identity::credential::{Credential, Hidden};
use insula_identity::endpoint::{Endpoint, Trust};
use insula_identity::session::{Connector, Key, LoginError};
use insula_vsphere::vcenter::{Object, Session, Task, VCenters};

/// The timeout where an answer is expected.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The timeout where none is.
const SHORT_TIMEOUT: Duration = Duration::from_millis(300);

fn endpoint(text: &str) -> Endpoint {
    Endpoint::parse(text, 443).expect("an endpoint")
}

fn credential(username: &str, password: &str) -> Credential {
    let pairs = [("username", username), ("password", password)];
    let pairs = pairs.map(|(key, value)| (key.to_owned(), Hidden::new(value)));
    let content = BTreeMap::from(pairs);
    Credential::of_operator(content, endpoint("unused"))
}

/// Logs in at an endpoint with this trust.
trait LogInAt {
    async fn log_in_at(
        &self,
        endpoint: &Endpoint,
        trust: &Trust,
        credential: &Credential,
    ) -> Result<Session, LoginError>;
}

impl LogInAt for VCenters {
    async fn log_in_at(
        &self,
        endpoint: &Endpoint,
        trust: &Trust,
        credential: &Credential,
    ) -> Result<Session, LoginError> {
        let (endpoint, trust) = (endpoint.clone(), trust.clone());
        let key = Key {
            endpoint,
            trust,
            ..Key::of(None, credential)
        };
        self.log_in(&key, credential).await
    }
}

async fn log_in(
    address: &str,
    trust: &Trust,
    username: &str,
    password: &str,
) -> Result<Session, LoginError> {
    let vcenters = VCenters::new(TIMEOUT, Vec::new());
    let credential = credential(username, password);
    vcenters
        .log_in_at(&endpoint(address), trust, &credential)
        .await
}

async fn log_out(session: &Session) {
    VCenters::new(TIMEOUT, Vec::new()).log_out(session).await;
}

/// Waits for the end of a task.
async fn outcome(session: &Session, task: &Object) -> Task {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match session.task(task).await.expect("a task is known") {
            Task::Running if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Task::Running => panic!("{task} still runs"),
            over => return over,
        }
    }
}

async fn done(session: &Session, task: &Object) -> Option<Object> {
    match outcome(session, task).await {
        Task::Done(result) => result,
        other => panic!("{task}: {other:?}"),
    }
}

//! One etcd cluster: its members, and requests that are sent to one that answers.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use insula_core::Revision;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

use super::backoff::Backoff;
use super::errors::{Failure, message};
use super::options::{ConnectError, Options};
use super::version::{MIN_VERSION, Version};
use super::wire::etcdserverpb::kv_client::KvClient;
use super::wire::etcdserverpb::maintenance_client::MaintenanceClient;
use super::wire::etcdserverpb::{
    CompactionRequest, RangeRequest, RangeResponse, StatusRequest, TxnRequest, TxnResponse,
};
use super::wire::header_revision;

/// The largest accepted page of a range. Pages are meant to be a quarter of it; a page that is
/// larger is requested again in parts.
pub(super) const PAGE_BYTES: usize = 16 << 20;

/// The answer to a transaction can hold a value for each of its 128 checks, 1.5 MiB each.
const ANSWER_BYTES: usize = 256 << 20;

/// The timeout of one attempt, for requests that may be sent to another member.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);

/// The members of a cluster.
#[derive(Debug)]
pub(super) struct Client {
    members: Vec<Member>,
    /// The index of the member that is asked first: the last one that answered.
    preferred: AtomicUsize,
    /// The largest revision in any answer.
    seen: AtomicU64,
    timeout: Duration,
}

#[derive(Debug)]
struct Member {
    endpoint: Endpoint,
    /// For everything but watches.
    channel: Channel,
}

/// The status of a member.
struct MemberStatus {
    version: Version,
    revision: Revision,
}

impl Client {
    /// Connects to these endpoints, if at least one answers and none that answers is too old.
    pub(super) async fn connect(options: &Options) -> Result<Self, ConnectError> {
        let connect = |endpoint: Endpoint| Member {
            channel: endpoint.connect_lazy(),
            endpoint,
        };
        let client = Self {
            members: options.parse()?.into_iter().map(connect).collect(),
            preferred: AtomicUsize::new(0),
            seen: AtomicU64::new(0),
            timeout: options.timeout,
        };
        client.check_versions().await?;
        Ok(client)
    }

    async fn check_versions(&self) -> Result<(), ConnectError> {
        let mut unreachable = None;
        let mut answered = None;
        for (index, member) in self.members.iter().enumerate() {
            match member.status().await {
                Ok(status) if status.version < MIN_VERSION => {
                    let (endpoint, version) = (member.address(), status.version);
                    return Err(ConnectError::TooOld { endpoint, version });
                }
                Ok(status) => {
                    self.observe(status.revision);
                    answered = answered.or(Some(index));
                }
                Err(reason) => unreachable = unreachable.or(Some((member.address(), reason))),
            }
        }
        match (answered, unreachable) {
            (Some(index), _) => self.preferred.store(index, Ordering::Relaxed),
            (None, None) => return Err(ConnectError::NoEndpoint),
            (None, Some((endpoint, reason))) => {
                return Err(ConnectError::Unreachable { endpoint, reason });
            }
        }
        Ok(())
    }

    /// The largest revision that is known to exist.
    pub(super) fn seen(&self) -> Revision {
        Revision::new(self.seen.load(Ordering::Acquire))
    }

    /// Reads a range.
    pub(super) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Failure> {
        let read = |channel| {
            let mut kv = KvClient::new(channel).max_decoding_message_size(PAGE_BYTES);
            let request = request.clone();
            async move { kv.range(request).await }
        };
        let answer = self
            .call(Self::is_repeatable, ATTEMPT_TIMEOUT, read)
            .await?;
        self.observe(header_revision(answer.header.as_ref()));
        Ok(answer)
    }

    /// Sends a transaction. It is never sent again once it may have been applied.
    pub(super) async fn write(&self, request: TxnRequest) -> Result<TxnResponse, Failure> {
        let not_sent = |failure: &Failure| matches!(failure, Failure::NotSent(_));
        self.txn(request, not_sent, self.timeout).await
    }

    /// Sends a read-only transaction.
    pub(super) async fn read_txn(&self, request: TxnRequest) -> Result<TxnResponse, Failure> {
        self.txn(request, Self::is_repeatable, ATTEMPT_TIMEOUT)
            .await
    }

    async fn txn(
        &self,
        request: TxnRequest,
        again: impl Fn(&Failure) -> bool,
        attempt_timeout: Duration,
    ) -> Result<TxnResponse, Failure> {
        let txn = |channel| {
            let mut kv = KvClient::new(channel).max_decoding_message_size(ANSWER_BYTES);
            let request = request.clone();
            async move { kv.txn(request).await }
        };
        let answer = self.call(again, attempt_timeout, txn).await?;
        self.observe(header_revision(answer.header.as_ref()));
        Ok(answer)
    }

    /// Compacts. The request is idempotent.
    pub(super) async fn compact(&self, revision: i64) -> Result<(), Failure> {
        let request = CompactionRequest {
            revision,
            physical: false,
        };
        let compact = |channel| async move { KvClient::new(channel).compact(request).await };
        self.call(Self::is_repeatable, ATTEMPT_TIMEOUT, compact)
            .await?;
        Ok(())
    }

    /// Opens a dedicated connection to the member for the `nth` attempt of a watch: a watcher that
    /// does not read must not exhaust the window of a shared connection.
    pub(super) async fn dedicated(&self, nth: usize) -> Result<Channel, Status> {
        let first = self.preferred.load(Ordering::Relaxed);
        let member = self.member(first.wrapping_add(nth));
        let unavailable = |error| Status::from_error(Box::new(error));
        member.endpoint.connect().await.map_err(unavailable)
    }

    const fn is_repeatable(failure: &Failure) -> bool {
        failure.is_transient()
    }

    /// Sends a request to the preferred member. On a failure that `again` allows, sends it to the
    /// next one, and so on round all members until the deadline.
    async fn call<T, F>(
        &self,
        again: impl Fn(&Failure) -> bool,
        attempt_timeout: Duration,
        request: impl Fn(Channel) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let deadline = Instant::now() + self.timeout;
        let mut backoff = Backoff::new();
        for attempt in 1_usize.. {
            let index = self.preferred.load(Ordering::Relaxed);
            let channel = self.member(index).channel.clone();
            let until = deadline.min(Instant::now() + attempt_timeout);
            let failure = match timeout_at(until, request(channel)).await {
                Ok(Ok(answer)) => return Ok(answer.into_inner()),
                Ok(Err(status)) => Failure::from(status),
                Err(_) => Failure::Indeterminate("etcd did not answer in time".into()),
            };
            if failure.is_transient() {
                self.prefer_next(index);
            }
            let round = attempt.is_multiple_of(self.members.len());
            let wait = if round {
                backoff.next_delay()
            } else {
                Duration::ZERO
            };
            if !again(&failure) || Instant::now() + wait >= deadline {
                return Err(failure);
            }
            sleep(wait).await;
        }
        Err(Failure::NotSent("no attempt was made".into()))
    }

    /// Prefers the next member, unless another request has done so already.
    fn prefer_next(&self, index: usize) {
        let next = index.wrapping_add(1);
        // A lost race means that another request has switched already.
        let _ = self
            .preferred
            .compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// There is at least one: `Options::parse` rejects an empty list.
    fn member(&self, index: usize) -> &Member {
        &self.members[index % self.members.len()]
    }

    fn observe(&self, revision: Revision) {
        self.seen.fetch_max(revision.get(), Ordering::AcqRel);
    }
}

impl Member {
    async fn status(&self) -> Result<MemberStatus, String> {
        let mut maintenance = MaintenanceClient::new(self.channel.clone());
        let until = Instant::now() + ATTEMPT_TIMEOUT;
        match timeout_at(until, maintenance.status(StatusRequest {})).await {
            Ok(Ok(answer)) => {
                let answer = answer.into_inner();
                let unknown = || format!("{:?} is not a version of etcd", answer.version);
                Ok(MemberStatus {
                    version: Version::parse(&answer.version).ok_or_else(unknown)?,
                    revision: header_revision(answer.header.as_ref()),
                })
            }
            Ok(Err(status)) => Err(message(&status)),
            Err(_) => Err("it does not answer".into()),
        }
    }

    fn address(&self) -> String {
        self.endpoint.uri().to_string()
    }
}

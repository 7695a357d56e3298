//! One watch stream: one connection to one member, from one revision on.

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::{Request, Status, Streaming};

use super::client::Client;
use super::wire::Span;
use super::wire::etcdserverpb::watch_client::WatchClient;
use super::wire::etcdserverpb::watch_request::RequestUnion;
use super::wire::etcdserverpb::{
    WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};

/// A response is split at etcd's request limit, unless it is a single event. The limit is 1.5 MiB
/// by default and configurable.
const RESPONSE_BYTES: usize = 64 << 20;

/// An open stream.
pub(super) struct Stream {
    requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl Stream {
    /// Watches `span` from the revision `start` on, inclusive.
    pub(super) async fn open(
        client: &Client,
        nth: usize,
        span: &Span,
        start: i64,
    ) -> Result<Self, Status> {
        let (requests, receiver) = mpsc::channel(4);
        let create = RequestUnion::CreateRequest(WatchCreateRequest {
            key: span.key.clone(),
            range_end: span.range_end.clone(),
            start_revision: start,
            progress_notify: true,
            fragment: true,
        });
        // The channel is new and its receiver is still here: there is room.
        let _ = requests.try_send(request(create));
        let mut create = Request::new(ReceiverStream::new(receiver));
        // A member that has lost its leader ends the stream instead of staying silent.
        let metadata = create.metadata_mut();
        metadata.insert("hasleader", MetadataValue::from_static("true"));
        let channel = client.dedicated(nth).await?;
        let mut watch = WatchClient::new(channel).max_decoding_message_size(RESPONSE_BYTES);
        let responses = watch.watch(create).await?.into_inner();
        Ok(Self {
            requests,
            responses,
        })
    }

    /// Returns the next response. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<WatchResponse, Status> {
        let ended = || Status::unavailable("etcd ended the stream");
        self.responses.message().await?.ok_or_else(ended)
    }

    /// Requests progress. etcd does not answer while the watch is behind.
    pub(super) fn request_progress(&self) {
        let request_progress = RequestUnion::ProgressRequest(WatchProgressRequest {});
        // A full channel means that earlier requests are still on their way; the end of the stream
        // is noticed by its reader.
        let _ = self.requests.try_send(request(request_progress));
    }
}

const fn request(union: RequestUnion) -> WatchRequest {
    WatchRequest {
        request_union: Some(union),
    }
}

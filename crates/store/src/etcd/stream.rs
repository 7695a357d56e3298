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

/// A response is cut at etcd's request limit, unless it is a single event. The limit is
/// 1.5 MiB by default and can be raised by whoever runs it.
const RESPONSE_BYTES: usize = 64 << 20;

/// An open stream.
pub(super) struct Stream {
    requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl Stream {
    /// Watches `span` from the revision `start` on, that one included.
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
        // The channel is new and its other end is here: there is room.
        let _ = requests.try_send(request(create));
        let mut create = Request::new(ReceiverStream::new(receiver));
        // A member that has lost its leader ends the stream, instead of staying silent.
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

    /// The next response. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<WatchResponse, Status> {
        let ended = || Status::unavailable("etcd ended the stream");
        self.responses.message().await?.ok_or_else(ended)
    }

    /// Asks how far the watch is. etcd does not answer while it is behind.
    pub(super) fn ask(&self) {
        let ask = RequestUnion::ProgressRequest(WatchProgressRequest {});
        // No room means that earlier questions are still on their way; a stream that is
        // over tells so where it is read.
        let _ = self.requests.try_send(request(ask));
    }
}

const fn request(union: RequestUnion) -> WatchRequest {
    WatchRequest {
        request_union: Some(union),
    }
}

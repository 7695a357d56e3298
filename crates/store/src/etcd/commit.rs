//! Commits a transaction: one `Txn`, compared by modification revision.

use prost::Message;

use super::client::Client;
use super::errors::Failure;
use super::wire::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use super::wire::etcdserverpb::request_op::Request;
use super::wire::etcdserverpb::response_op::Response;
use super::wire::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, TxnResponse,
};
use super::wire::{header_revision, number};
use crate::{
    Change, Check, Conflict, Entry, Error, Expect, Key, Outcome, Result, Revision, Transaction,
};

/// etcd's default request limit is 1.5 MiB; this leaves room for its own framing.
const REQUEST_BYTES: usize = (3 << 19) - (8 << 10);

/// How often a transaction is retried if its conflict has disappeared when it is read.
const ATTEMPTS: usize = 8;

/// No key is ever modified at this revision.
const NEVER: i64 = i64::MAX;

/// Applies the transaction's changes if its checks hold.
pub(super) async fn commit(client: &Client, transaction: &Transaction) -> Result<Outcome> {
    transaction.validate()?;
    for _ in 0..ATTEMPTS {
        let before = client.seen();
        let request = request(transaction);
        let bytes = request.encoded_len();
        let answer = match client.write(request).await {
            Ok(answer) => answer,
            Err(Failure::Full) => return Err(full(client, transaction, before).await),
            Err(failure) => return Err(failure.of_commit(bytes)),
        };
        if answer.succeeded {
            return Ok(success(&answer));
        }
        // etcd reported a failed check, so nothing was changed and the request may be repeated.
        if let Some(conflict) = conflict(client, transaction, answer).await? {
            return Ok(Outcome::Conflict(conflict));
        }
    }
    let busy = "the checked keys change faster than they can be looked at";
    Err(Error::Unavailable(busy.into()))
}

/// The request, which also reads the checked keys if a check fails.
///
/// Only a transaction close to the size limit with long checked keys has no room for these reads
/// and is sent without.
fn request(transaction: &Transaction) -> TxnRequest {
    let changes = transaction.changes().iter();
    let mut request = TxnRequest {
        compare: transaction.checks().iter().map(compare).collect(),
        success: changes.map(operation).collect(),
        failure: reads(transaction.checks().iter().map(|check| &check.key)),
    };
    if request.encoded_len() > REQUEST_BYTES {
        request.failure.clear();
    }
    request
}

fn compare(check: &Check) -> Compare {
    let revision = match check.expect {
        Expect::Absent => 0,
        // To etcd the revision of a missing key is zero; no existing key has it.
        Expect::At(Revision::ZERO) => NEVER,
        Expect::At(revision) => number(revision),
    };
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Mod.into(),
        key: check.key.clone(),
        target_union: Some(TargetUnion::ModRevision(revision)),
    }
}

fn operation(change: &Change) -> RequestOp {
    let request = match change.clone() {
        Change::Put { key, value } => Request::RequestPut(PutRequest { key, value }),
        Change::Delete { key } => Request::RequestDeleteRange(DeleteRangeRequest { key }),
    };
    RequestOp {
        request: Some(request),
    }
}

fn reads<'a>(keys: impl Iterator<Item = &'a Key>) -> Vec<RequestOp> {
    let read_keys = |key: &Key| RequestOp {
        request: Some(Request::RequestRange(RangeRequest {
            key: key.clone(),
            ..RangeRequest::default()
        })),
    };
    keys.map(read_keys).collect()
}

/// A put always changes a key, a deletion only an existing one.
fn success(answer: &TxnResponse) -> Outcome {
    let revision = header_revision(answer.header.as_ref());
    let changed = answer.responses.iter().any(|one| match &one.response {
        Some(Response::ResponsePut(_)) => true,
        Some(Response::ResponseDeleteRange(deletion)) => deletion.deleted > 0,
        Some(Response::ResponseRange(_)) | None => false,
    });
    if changed {
        Outcome::Committed(revision)
    } else {
        Outcome::Unchanged(revision)
    }
}

/// The first check that does not hold; `None` if all hold by the time the keys are read.
async fn conflict(
    client: &Client,
    transaction: &Transaction,
    mut answer: TxnResponse,
) -> Result<Option<Conflict>> {
    let checks = transaction.checks();
    if answer.responses.len() < checks.len() {
        answer = read_keys(client, checks.iter().map(|check| &check.key)).await?;
    }
    let revision = header_revision(answer.header.as_ref());
    let found = found(answer);
    let failed = checks.iter().zip(found).enumerate();
    let mut failed = failed.filter(|(_, (check, found))| !holds(check.expect, found.as_ref()));
    Ok(failed.next().map(|(check, (_, found))| Conflict {
        check,
        found,
        revision,
    }))
}

fn holds(expect: Expect, found: Option<&Entry>) -> bool {
    match expect {
        Expect::Absent => found.is_none(),
        Expect::At(revision) => found.is_some_and(|entry| entry.modified == revision),
    }
}

/// Reads some keys, all as of one revision.
async fn read_keys(client: &Client, keys: impl Iterator<Item = &Key>) -> Result<TxnResponse> {
    let request = TxnRequest {
        success: reads(keys),
        ..TxnRequest::default()
    };
    client.read_txn(request).await.map_err(Failure::of_read)
}

/// The entry that each read found, in the order of the reads.
fn found(answer: TxnResponse) -> Vec<Option<Entry>> {
    let found = answer.responses.into_iter().map(|one| match one.response {
        Some(Response::ResponseRange(range)) => range.kvs.into_iter().next().map(Entry::from),
        _ => None,
    });
    found.collect()
}

/// The error of a transaction that etcd answered with "no space".
///
/// In most cases etcd rejected it. But one in flight while the quota is exceeded is written *and*
/// answered so. One of its puts tells which: if it was written, the key is newer than every
/// revision known `before` and every checked one, unless another client has already deleted it
/// again, and then none of it is left.
async fn full(client: &Client, transaction: &Transaction, before: Revision) -> Error {
    let checked = transaction.checks().iter().map(|check| match check.expect {
        Expect::At(revision) => revision,
        Expect::Absent => Revision::ZERO,
    });
    let before = checked.fold(before, Revision::max);
    let puts = transaction
        .changes()
        .iter()
        .filter_map(|change| match change {
            Change::Put { key, .. } => Some(key),
            Change::Delete { .. } => None,
        });
    let read = read_keys(client, puts.take(1)).await.map(found);
    let old = |entry: &Option<Entry>| entry.as_ref().is_none_or(|entry| entry.modified <= before);
    match read {
        Ok(entries) if entries.first().is_some_and(old) => Error::Full(
            "etcd has used up its quota; compact and defragment it, or raise the quota, \
             and disarm its alarm"
                .into(),
        ),
        _ => Error::Indeterminate("etcd ran out of space while writing".into()),
    }
}

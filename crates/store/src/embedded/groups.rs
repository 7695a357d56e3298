//! Which waiting requests form the next group.
//!
//! A group takes as long as its bytes take to reach the disk. So a large transaction has a group of
//! its own, and small ones go before it: a small one waits for one large one at most, however many
//! wait. Groups of small transactions and large ones alternate, so large ones are not passed over
//! either. All of these requests wait at the same time, so any order of them is a correct one.

use std::collections::VecDeque;

use tokio::sync::mpsc;

use super::sequencer::Request;

/// The waiting requests.
pub(super) struct Groups {
    incoming: mpsc::Receiver<Request>,
    /// Large transactions that small ones go before.
    large: VecDeque<Request>,
    /// Whether the group before was one of small transactions.
    is_turn_of_large: bool,
    /// Whether the group has a large transaction, and so no room for others.
    is_complete: bool,
    /// The request that ends the store, after the large transactions that came before it.
    close: Option<Request>,
}

/// The size from which a transaction is large. Writing it takes about as long as a sync.
const LARGE_BYTES: usize = 64 << 10;

/// The most large transactions that are taken off the channel: a full channel keeps senders
/// waiting.
const MAX_LARGE: usize = 64;

impl Groups {
    pub fn new(incoming: mpsc::Receiver<Request>) -> Self {
        Self {
            incoming,
            large: VecDeque::new(),
            is_turn_of_large: false,
            is_complete: false,
            close: None,
        }
    }

    /// Begins a group with a request, and waits for one if need be. `None` if no more can come.
    pub fn begin(&mut self) -> Option<Request> {
        self.is_complete = false;
        let request = self.waiting().or_else(|| self.incoming.blocking_recv())?;
        self.is_complete = is_large(&request);
        self.is_turn_of_large = !self.is_complete;
        Some(request)
    }

    /// Returns a waiting request that belongs to the group, if there is one.
    pub fn add(&mut self) -> Option<Request> {
        while !self.is_complete && self.close.is_none() && self.large.len() < MAX_LARGE {
            match self.incoming.try_recv().ok()? {
                close @ Request::Close => self.close = Some(close),
                large if is_large(&large) => self.large.push_back(large),
                small => return Some(small),
            }
        }
        None
    }

    /// Returns the waiting request that begins the next group.
    fn waiting(&mut self) -> Option<Request> {
        if self.is_turn_of_large
            && let Some(large) = self.large.pop_front()
        {
            return Some(large);
        }
        self.add()
            .or_else(|| self.large.pop_front())
            .or_else(|| self.close.take())
    }
}

fn is_large(request: &Request) -> bool {
    match request {
        Request::Commit { transaction, .. } => transaction.value_bytes() >= LARGE_BYTES,
        Request::Compact { .. } | Request::Seal | Request::Close => false,
    }
}

#[cfg(test)]
mod tests {
    use insula_core::Revision;
    use tokio::sync::oneshot;

    use super::*;
    use crate::{Key, Transaction};

    fn commit(name: &str, bytes: usize) -> Request {
        let key = Key::from(name.as_bytes().to_vec());
        Request::Commit {
            transaction: Transaction::new().put(key, vec![0; bytes]),
            growth: None,
            reply: oneshot::channel().0,
        }
    }

    fn small(name: &str) -> Request {
        commit(name, 100)
    }

    fn large(name: &str) -> Request {
        commit(name, LARGE_BYTES)
    }

    fn name(request: Request) -> String {
        match request {
            Request::Commit { transaction, .. } => {
                String::from_utf8(transaction.changes()[0].key().to_vec()).unwrap()
            }
            Request::Compact { .. } => "compact".to_owned(),
            Request::Seal => "seal".to_owned(),
            Request::Close => "close".to_owned(),
        }
    }

    /// Returns the names of the requests of each group, until the store is closed.
    fn groups(requests: Vec<Request>) -> Vec<String> {
        let (send, incoming) = mpsc::channel(requests.len().max(1));
        for request in requests {
            send.try_send(request).ok().unwrap();
        }
        drop(send);
        let mut groups = Groups::new(incoming);
        let mut names = Vec::new();
        while let Some(first) = groups.begin() {
            let mut group = name(first);
            while let Some(next) = groups.add() {
                group = format!("{group} {}", name(next));
            }
            names.push(group);
        }
        names
    }

    #[test]
    fn small_transactions_go_before_large_ones() {
        let waiting = vec![
            large("L1"),
            large("L2"),
            small("a"),
            large("L3"),
            small("b"),
            Request::Seal,
            Request::Close,
        ];
        assert_eq!(groups(waiting), ["a b seal", "L1", "L2", "L3", "close"]);
    }

    #[test]
    fn groups_of_small_and_large_transactions_alternate() {
        let (send, incoming) = mpsc::channel(16);
        let mut groups = Groups::new(incoming);
        for request in [large("L1"), large("L2"), small("a")] {
            send.try_send(request).ok().unwrap();
        }
        assert_eq!(name(groups.begin().unwrap()), "a");
        assert!(groups.add().is_none());
        send.try_send(small("b")).ok().unwrap();
        assert_eq!(name(groups.begin().unwrap()), "L1");
        assert!(groups.add().is_none(), "a large transaction is alone");
        assert_eq!(name(groups.begin().unwrap()), "b");
        send.try_send(small("c")).ok().unwrap();
        assert_eq!(name(groups.begin().unwrap()), "L2");
        assert_eq!(name(groups.begin().unwrap()), "c");
    }

    #[test]
    fn requests_of_other_sorts_are_small() {
        let (reply, _) = oneshot::channel();
        let floor = Revision::ZERO;
        let waiting = vec![large("L"), Request::Compact { floor, reply }, small("a")];
        assert_eq!(groups(waiting), ["compact a", "L"]);
    }

    #[test]
    fn many_large_transactions_stay_on_the_channel() {
        let (send, incoming) = mpsc::channel(MAX_LARGE + 8);
        for number in 0..MAX_LARGE + 4 {
            let request = large(&number.to_string());
            send.try_send(request).ok().unwrap();
        }
        let mut groups = Groups::new(incoming);
        assert_eq!(name(groups.begin().unwrap()), "0");
        assert_eq!(groups.incoming.len(), 4);
    }
}

//! Who holds how many unsent bytes.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use insula_core::Space;

use super::OutgoingResponse;

/// The unsent bytes of every space, by response.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    total: usize,
    /// The part of it that belongs to responses which were cut off and are being dropped.
    ending: usize,
    accounts: HashMap<Option<Space>, Account>,
    next_number: u64,
}

/// The responses of one space.
#[derive(Debug, Default)]
struct Account {
    bytes: usize,
    /// The part of it that is in bodies, and was not handed to the transport.
    held: usize,
    ending: usize,
    responses: HashMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    response: Weak<OutgoingResponse>,
    bytes: usize,
    held: usize,
    is_ending: bool,
}

impl Accounts {
    /// Adds a response without bytes.
    pub fn insert(
        &mut self,
        payer: Option<Space>,
        response: impl FnOnce(u64) -> Arc<OutgoingResponse>,
    ) -> Arc<OutgoingResponse> {
        let number = self.next_number;
        self.next_number += 1;
        let response = response(number);
        let entry = Entry {
            response: Arc::downgrade(&response),
            bytes: 0,
            held: 0,
            is_ending: false,
        };
        let account = self.accounts.entry(payer).or_default();
        account.responses.insert(number, entry);
        response
    }

    /// Whether there is no response.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// Returns all bytes.
    pub const fn total(&self) -> usize {
        self.total
    }

    /// Returns the spaces that hold bytes, and these.
    pub fn by_space(&self) -> Vec<(Option<Space>, usize)> {
        let accounts = self.accounts.iter();
        let held = accounts.map(|(space, account)| (space.clone(), account.bytes));
        held.filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// Returns the responses of a space that hold bytes and are not cut off.
    pub fn holding(&self, payer: &Option<Space>) -> Vec<(u64, Arc<OutgoingResponse>)> {
        let account = self.accounts.get(payer);
        let entries = account.into_iter().flat_map(|account| &account.responses);
        let holding = entries.filter(|(_, entry)| entry.bytes > 0 && !entry.is_ending);
        holding
            .filter_map(|(number, entry)| Some((*number, entry.response.upgrade()?)))
            .collect()
    }

    /// Returns the bytes of responses that are not cut off.
    pub const fn staying(&self) -> usize {
        self.total.saturating_sub(self.ending)
    }

    /// Returns the same of one space.
    pub fn staying_of(&self, payer: &Option<Space>) -> usize {
        self.accounts.get(payer).map_or(0, Account::staying)
    }

    /// Returns the bytes of a space that were handed to the transport.
    pub fn produced_of(&self, payer: &Option<Space>) -> usize {
        let account = self.accounts.get(payer);
        account.map_or(0, |account| account.bytes - account.held)
    }

    /// Returns the spaces, those with the most bytes last.
    pub fn by_bytes(&self) -> Vec<Option<Space>> {
        let mut spaces: Vec<_> = self.accounts.keys().cloned().collect();
        spaces.sort_by_key(|space| self.staying_of(space));
        spaces
    }

    /// Replaces the bytes that a response holds in its body. Returns those it held before.
    pub fn set_held(&mut self, payer: &Option<Space>, number: u64, held: usize) -> usize {
        let Some(account) = self.accounts.get_mut(payer) else {
            return 0;
        };
        let Some(entry) = account.responses.get_mut(&number) else {
            return 0;
        };
        let before = std::mem::replace(&mut entry.held, held);
        account.held = account.held + held - before;
        match held.checked_sub(before) {
            Some(more) => self.add(payer, number, more),
            None => self.subtract(payer, number, before - held),
        }
        before
    }

    /// Charges bytes to a response.
    pub fn add(&mut self, payer: &Option<Space>, number: u64, bytes: usize) {
        let Some(account) = self.accounts.get_mut(payer) else {
            return;
        };
        let Some(entry) = account.responses.get_mut(&number) else {
            return;
        };
        entry.bytes += bytes;
        account.bytes += bytes;
        self.total += bytes;
        if entry.is_ending {
            account.ending += bytes;
            self.ending += bytes;
        }
    }

    /// Releases bytes of a response.
    pub fn subtract(&mut self, payer: &Option<Space>, number: u64, bytes: usize) {
        let Some(account) = self.accounts.get_mut(payer) else {
            return;
        };
        let Some(entry) = account.responses.get_mut(&number) else {
            return;
        };
        entry.bytes -= bytes;
        account.bytes -= bytes;
        self.total -= bytes;
        if entry.is_ending {
            account.ending -= bytes;
            self.ending -= bytes;
        }
    }

    /// Removes a response with all its bytes.
    pub fn remove(&mut self, payer: &Option<Space>, number: u64) {
        self.set_held(payer, number, 0);
        let entry = self
            .accounts
            .get(payer)
            .and_then(|account| account.responses.get(&number));
        let bytes = entry.map_or(0, |entry| entry.bytes);
        self.subtract(payer, number, bytes);
        if let Some(account) = self.accounts.get_mut(payer) {
            account.responses.remove(&number);
            if account.responses.is_empty() {
                self.accounts.remove(payer);
            }
        }
    }

    /// Notes that a response was cut off.
    pub fn mark_ending(&mut self, payer: &Option<Space>, number: u64) {
        let Some(account) = self.accounts.get_mut(payer) else {
            return;
        };
        let Some(entry) = account.responses.get_mut(&number) else {
            return;
        };
        if !entry.is_ending {
            entry.is_ending = true;
            account.ending += entry.bytes;
            self.ending += entry.bytes;
        }
    }
}

impl Account {
    const fn staying(&self) -> usize {
        self.bytes.saturating_sub(self.ending)
    }
}

//! Merges rows from memory and disk.

use std::iter::Peekable;

use bytes::Bytes;

use super::memory::Row;
use crate::Result;

type InMemory<'a> = Peekable<Box<dyn Iterator<Item = Row> + 'a>>;
type OnDisk<'a> = Peekable<Box<dyn Iterator<Item = Result<(Bytes, Bytes)>> + 'a>>;

/// The rows of all sources in order. Of several rows with the same key the newest wins; a removal
/// hides the older ones.
pub(super) struct Merge<'a> {
    /// Newest first.
    memories: Vec<InMemory<'a>>,
    tree: OnDisk<'a>,
}

impl<'a> Merge<'a> {
    pub fn new(
        newest_first: Vec<Box<dyn Iterator<Item = Row> + 'a>>,
        tree: Box<dyn Iterator<Item = Result<(Bytes, Bytes)>> + 'a>,
    ) -> Self {
        Self {
            memories: newest_first.into_iter().map(Iterator::peekable).collect(),
            tree: tree.peekable(),
        }
    }

    /// The smallest next key of all sources.
    fn next_key(&mut self) -> Result<Option<Bytes>> {
        let mut least = match self.tree.peek() {
            Some(Ok((key, _))) => Some(key.clone()),
            Some(Err(error)) => return Err(error.clone()),
            None => None,
        };
        for memory in &mut self.memories {
            if let Some((key, _)) = memory.peek()
                && least.as_ref().is_none_or(|least| key < least)
            {
                least = Some(key.clone());
            }
        }
        Ok(least)
    }

    /// Takes the row with this key from every source; the newest wins.
    fn take(&mut self, key: &Bytes) -> Option<Bytes> {
        let mut found: Option<Option<Bytes>> = None;
        for memory in &mut self.memories {
            if let Some((_, row)) = memory.next_if(|(next, _)| next == key) {
                found.get_or_insert(row);
            }
        }
        let on_disk = |next: &Result<(Bytes, Bytes)>| matches!(next, Ok((next, _)) if next == key);
        if let Some(Ok((_, row))) = self.tree.next_if(on_disk) {
            found.get_or_insert(Some(row));
        }
        found.flatten()
    }
}

impl Iterator for Merge<'_> {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let key = match self.next_key() {
                Ok(key) => key?,
                Err(error) => return Some(Err(error)),
            };
            if let Some(row) = self.take(&key) {
                return Some(Ok((key, row)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    fn row(key: &'static str, value: &'static str) -> (Bytes, Bytes) {
        (Bytes::from(key), Bytes::from(value))
    }

    fn put(key: &'static str, value: &'static str) -> Row {
        (Bytes::from(key), Some(Bytes::from(value)))
    }

    fn merge<'a>(memories: Vec<Vec<Row>>, tree: Vec<Result<(Bytes, Bytes)>>) -> Merge<'a> {
        let boxed = |rows: Vec<Row>| Box::new(rows.into_iter()) as Box<dyn Iterator<Item = Row>>;
        Merge::new(
            memories.into_iter().map(boxed).collect(),
            Box::new(tree.into_iter()),
        )
    }

    #[test]
    fn newest_row_wins_and_a_removal_hides_older_ones() {
        let newest = vec![put("b", "3"), (Bytes::from("d"), None)];
        let older = vec![put("a", "2"), put("b", "2"), put("d", "2")];
        let tree = vec![Ok(row("b", "1")), Ok(row("c", "1")), Ok(row("d", "1"))];
        let merged: Result<Vec<_>> = merge(vec![newest, older], tree).collect();
        assert_eq!(
            merged,
            Ok(vec![row("a", "2"), row("b", "3"), row("c", "1")])
        );
    }

    #[test]
    fn disk_error_is_returned_in_order() {
        let failure = Error::Unavailable("x".to_owned());
        let tree = vec![Ok(row("a", "1")), Err(failure.clone())];
        let mut merged = merge(vec![vec![put("b", "2")]], tree);
        assert_eq!(merged.next(), Some(Ok(row("a", "1"))));
        assert_eq!(merged.next(), Some(Err(failure)));
    }
}

//! Parsing of protocol lines.

use std::str::{FromStr, SplitAsciiWhitespace};
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use insula_store::{Changed, Conflict, Entry, Expect, Key, Outcome, Revision, Transaction};

use super::{Line, Opened};
use crate::content::Content;

impl FromStr for Line {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
        let mut words = Words(rest.split_ascii_whitespace());
        let line = match kind {
            "opened" => Self::Opened(Opened {
                revision: words.next()?,
                floor: words.next()?,
                took: Duration::from_micros(words.next()?),
            }),
            "watching" => Self::Watching {
                watcher: words.next()?,
                after: words.next()?,
            },
            "request" => Self::Request {
                call: words.next()?,
                transaction: words.transaction()?,
            },
            "response" => Self::Response {
                call: words.next()?,
                outcome: words.outcome()?,
            },
            "event" => Self::Event {
                watcher: words.next()?,
                revision: words.next()?,
                changes: words.0.by_ref().map(changed).collect::<Result<_, _>>()?,
            },
            "compacting" => Self::Compacting(words.next()?),
            "compacted" => Self::Compacted(words.next()?),
            "failed" => return Ok(Self::Failed(rest.to_owned())),
            _ => bail!("{kind:?} is nothing a writer says"),
        };
        match words.0.next() {
            None => Ok(line),
            Some(word) => bail!("{word:?} is one word too many"),
        }
    }
}

/// The unread words of a line.
struct Words<'a>(SplitAsciiWhitespace<'a>);

impl Words<'_> {
    fn next<T>(&mut self) -> anyhow::Result<T>
    where
        T: FromStr<Err: std::error::Error + Send + Sync + 'static>,
    {
        let word = self.0.next().context("the line is too short")?;
        word.parse().with_context(|| format!("in {word:?}"))
    }

    fn transaction(&mut self) -> anyhow::Result<Transaction> {
        let mut transaction = Transaction::new();
        for word in self.0.by_ref() {
            transaction = match word.split_at(1) {
                ("?", check) => {
                    let (name, expect) = split_once(check, '@')?;
                    let expect = match expect {
                        "absent" => Expect::Absent,
                        revision => Expect::At(revision.parse()?),
                    };
                    transaction.check(key(name), expect)
                }
                ("+", put) => {
                    let (name, content) = split_once(put, '=')?;
                    transaction.put(key(name), content.parse::<Content>()?.bytes())
                }
                ("-", name) => transaction.delete(key(name)),
                _ => bail!("{word:?} is neither check nor change"),
            };
        }
        Ok(transaction)
    }

    fn outcome(&mut self) -> anyhow::Result<Outcome> {
        let kind: String = self.next()?;
        Ok(match kind.as_str() {
            "committed" => Outcome::Committed(self.next()?),
            "unchanged" => Outcome::Unchanged(self.next()?),
            "conflict" => Outcome::Conflict(Conflict {
                check: self.next()?,
                revision: self.next()?,
                found: self.0.next().map(entry).transpose()?,
            }),
            _ => bail!("{kind:?} is no answer"),
        })
    }
}

fn changed(word: &str) -> anyhow::Result<Changed> {
    match word.split_at(1) {
        ("+", put) => Ok(Changed::Put(entry(put)?)),
        ("-", name) => Ok(Changed::Deleted(key(name))),
        _ => bail!("{word:?} is no change"),
    }
}

fn entry(word: &str) -> anyhow::Result<Entry> {
    let (place, content) = split_once(word, '=')?;
    let (name, times) = split_once(place, '@')?;
    let (created, modified) = split_once(times, '@')?;
    Ok(Entry {
        key: key(name),
        value: content.parse::<Content>()?.bytes(),
        created: created.parse::<Revision>()?,
        modified: modified.parse::<Revision>()?,
    })
}

fn split_once(text: &str, at: char) -> anyhow::Result<(&str, &str)> {
    text.split_once(at)
        .with_context(|| format!("{text:?} has no {at:?}"))
}

fn key(name: &str) -> Key {
    Bytes::copy_from_slice(name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_round_trip() {
        for text in [
            "opened 812 640 3150",
            "watching 1 812",
            "request 7 ?/crash/1@absent ?/crash/2@17 +/crash/1=9f1c.20 -/crash/2",
            "request 8",
            "response 7 committed 813",
            "response 8 unchanged 813",
            "response 9 conflict 1 813",
            "response 9 conflict 0 813 /crash/1@800@813=9f1c.20480",
            "event 0 813 +/crash/1@800@813=9f1c.20 -/crash/2",
            "compacting 700",
            "compacted 700",
            "failed for a reason",
        ] {
            let line: Line = text.parse().unwrap();
            assert_eq!(line.to_string(), text);
        }
    }

    #[test]
    fn truncated_lines_are_refused() {
        for (text, why) in [
            ("", "is nothing a writer says"),
            ("opened 812 640", "too short"),
            ("compacted 700 700", "one word too many"),
            ("compacted 0700", "in \"0700\""),
            ("event 0 813 /crash/1", "is no change"),
            ("event 0 813 +/crash/1@800@813", "has no '='"),
            (
                "event 0 813 +/crash/1@800@813=damaged-20-bytes",
                "no value that was ever written",
            ),
        ] {
            let error = text.parse::<Line>().unwrap_err();
            assert!(format!("{error:#}").contains(why), "{text:?}: {error:#}");
        }
    }
}

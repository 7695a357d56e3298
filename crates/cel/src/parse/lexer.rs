//! The lexer.
//!
//! At each position every kind of token is tried, and the longest match wins. Without a match, the
//! error quotes the longest prefix of a token, and the character that ended it.

use super::token::{Kind, Token};

/// Reads tokens from a text.
pub(crate) struct Lexer<'a> {
    text: &'a [char],
    at: usize,
}

/// Characters that are no token, from `start` up to `end`.
#[derive(Clone, Copy)]
pub(crate) struct Unreadable {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// How far a kind of token matches: the end of the longest match, and of the longest prefix.
#[derive(Clone, Copy, Default)]
struct Reach {
    whole: Option<usize>,
    alive: usize,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a [char]) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the next token. At the end it is [`Kind::End`], repeatedly.
    pub(crate) fn next(&mut self) -> Result<Token, Unreadable> {
        loop {
            let start = self.at;
            let Some(&first) = self.text.get(start) else {
                return Ok(Token {
                    kind: Kind::End,
                    start,
                    end: start,
                });
            };
            if matches!(first, '\t' | ' ' | '\r' | '\n' | '\u{c}') {
                self.at += 1;
                continue;
            }
            if first == '/' && self.text.get(start + 1) == Some(&'/') {
                self.at = self.scan(start, |c| c != '\n');
                continue;
            }
            return self.word(start, first);
        }
    }

    fn word(&mut self, start: usize, first: char) -> Result<Token, Unreadable> {
        let mut best: Option<(Kind, usize)> = None;
        let mut alive = start;
        for (kind, reach) in self.candidates(start, first) {
            alive = alive.max(reach.alive);
            if let Some(end) = reach.whole
                && best.is_none_or(|(_, longest)| end > longest)
            {
                best = Some((kind, end));
            }
        }
        let Some((kind, end)) = best else {
            let end = self.text.len().min(alive + 1);
            self.at = end;
            return Err(Unreadable { start, end });
        };
        self.at = end;
        let kind = match kind {
            Kind::Ident => keyword(&self.text[start..end]),
            kind => kind,
        };
        Ok(Token { kind, start, end })
    }

    /// Returns the kinds that may begin with this character. Of matches of equal length the first
    /// wins.
    fn candidates(&self, start: usize, first: char) -> Vec<(Kind, Reach)> {
        let mut found = Vec::with_capacity(3);
        if let Some(reach) = self.symbol(start, first) {
            found.push(reach);
        }
        if first.is_ascii_digit() || first == '.' {
            found.push((Kind::Float, self.float(start)));
        }
        if first.is_ascii_digit() {
            let (int, uint) = self.integer(start);
            found.push((Kind::Int, int));
            found.push((Kind::Uint, uint));
        }
        found.push((Kind::String, self.string(start)));
        if matches!(first, 'b' | 'B') {
            let mut bytes = self.string(start + 1);
            bytes.alive = bytes.alive.max(start + 1);
            found.push((Kind::Bytes, bytes));
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let end = self.scan(start, |c| c.is_ascii_alphanumeric() || c == '_');
            found.push((
                Kind::Ident,
                Reach {
                    whole: Some(end),
                    alive: end,
                },
            ));
        }
        if first == '`' {
            found.push((Kind::EscapedIdent, self.escaped(start)));
        }
        found
    }

    fn symbol(&self, start: usize, first: char) -> Option<(Kind, Reach)> {
        let second = self.text.get(start + 1).copied();
        let (kind, length) = match (first, second) {
            ('=', Some('=')) => (Kind::Equals, 2),
            ('!', Some('=')) => (Kind::NotEquals, 2),
            ('<', Some('=')) => (Kind::LessEquals, 2),
            ('>', Some('=')) => (Kind::GreaterEquals, 2),
            ('&', Some('&')) => (Kind::And, 2),
            ('|', Some('|')) => (Kind::Or, 2),
            ('<', _) => (Kind::Less, 1),
            ('>', _) => (Kind::Greater, 1),
            ('[', _) => (Kind::LeftBracket, 1),
            (']', _) => (Kind::RightBracket, 1),
            ('{', _) => (Kind::LeftBrace, 1),
            ('}', _) => (Kind::RightBrace, 1),
            ('(', _) => (Kind::LeftParen, 1),
            (')', _) => (Kind::RightParen, 1),
            ('.', _) => (Kind::Dot, 1),
            (',', _) => (Kind::Comma, 1),
            ('-', _) => (Kind::Minus, 1),
            ('!', _) => (Kind::Exclam, 1),
            ('?', _) => (Kind::Question, 1),
            (':', _) => (Kind::Colon, 1),
            ('+', _) => (Kind::Plus, 1),
            ('*', _) => (Kind::Star, 1),
            ('/', _) => (Kind::Slash, 1),
            ('%', _) => (Kind::Percent, 1),
            ('=' | '&' | '|', _) => {
                return Some((
                    Kind::End,
                    Reach {
                        whole: None,
                        alive: start + 1,
                    },
                ));
            }
            _ => return None,
        };
        let end = start + length;
        Some((
            kind,
            Reach {
                whole: Some(end),
                alive: end,
            },
        ))
    }

    fn float(&self, start: usize) -> Reach {
        let whole_part = self.digits(start);
        let mut reach = Reach {
            whole: None,
            alive: whole_part,
        };
        let mut at = whole_part;
        if self.text.get(at) == Some(&'.') {
            reach.alive = at + 1;
            let fraction = self.digits(at + 1);
            if fraction == at + 1 {
                return reach;
            }
            at = fraction;
            reach = Reach {
                whole: Some(at),
                alive: at,
            };
        }
        if matches!(self.text.get(at), Some('e' | 'E')) {
            let signed = matches!(self.text.get(at + 1), Some('+' | '-'));
            let digits = at + 1 + usize::from(signed);
            let end = self.digits(digits);
            reach.alive = end;
            if end > digits {
                reach.whole = Some(end);
            }
        }
        reach
    }

    /// Matches a number without and with the suffix `u` of unsigned ones.
    fn integer(&self, start: usize) -> (Reach, Reach) {
        let mut end = self.digits(start);
        let mut alive = end;
        if end == start + 1 && self.text[start] == '0' && self.text.get(end) == Some(&'x') {
            let hex = self.scan(end + 1, |c| c.is_ascii_hexdigit());
            alive = hex;
            if hex > end + 1 {
                end = hex;
            }
        }
        let int = Reach {
            whole: Some(end),
            alive,
        };
        let uint = match self.text.get(end) {
            Some('u' | 'U') => Reach {
                whole: Some(end + 1),
                alive: end + 1,
            },
            _ => Reach { whole: None, alive },
        };
        (int, uint)
    }

    fn string(&self, start: usize) -> Reach {
        let raw = matches!(self.text.get(start), Some('r' | 'R'));
        let open = start + usize::from(raw);
        let Some(&quote @ ('"' | '\'')) = self.text.get(open) else {
            return Reach {
                whole: None,
                alive: if raw { open } else { start },
            };
        };
        let short = self.quoted(open + 1, raw, |c| c == quote, |c| matches!(c, '\n' | '\r'));
        let mut reach = short;
        if self.text.get(open + 1) == Some(&quote) && self.text.get(open + 2) == Some(&quote) {
            let long = self.triple(open + 3, raw, quote);
            reach.alive = reach.alive.max(long.alive);
            reach.whole = reach.whole.max(long.whole);
        }
        reach
    }

    fn quoted(
        &self,
        mut at: usize,
        raw: bool,
        closes: impl Fn(char) -> bool,
        breaks: impl Fn(char) -> bool,
    ) -> Reach {
        while let Some(&c) = self.text.get(at) {
            if closes(c) {
                return Reach {
                    whole: Some(at + 1),
                    alive: at + 1,
                };
            }
            if breaks(c) {
                break;
            }
            match self.character(at, raw) {
                Ok(next) => at = next,
                Err(alive) => return Reach { whole: None, alive },
            }
        }
        Reach {
            whole: None,
            alive: at,
        }
    }

    fn triple(&self, mut at: usize, raw: bool, quote: char) -> Reach {
        while at < self.text.len() {
            if self.text[at..].starts_with(&[quote, quote, quote]) {
                return Reach {
                    whole: Some(at + 3),
                    alive: at + 3,
                };
            }
            match self.character(at, raw) {
                Ok(next) => at = next,
                Err(alive) => return Reach { whole: None, alive },
            }
        }
        Reach {
            whole: None,
            alive: at,
        }
    }

    /// Returns the end of a character of a string, or of the longest prefix of its escape.
    fn character(&self, at: usize, raw: bool) -> Result<usize, usize> {
        if raw || self.text[at] != '\\' {
            return Ok(at + 1);
        }
        let (count, digit): (usize, fn(&char) -> bool) = match self.text.get(at + 1) {
            Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`') => {
                return Ok(at + 2);
            }
            Some('x' | 'X') => (2, char::is_ascii_hexdigit),
            Some('u') => (4, char::is_ascii_hexdigit),
            Some('U') => (8, char::is_ascii_hexdigit),
            Some('0'..='3') => (2, |c| matches!(c, '0'..='7')),
            _ => return Err(at + 1),
        };
        let first = at + 2;
        let good = self.text[first..]
            .iter()
            .take(count)
            .take_while(|c| digit(c))
            .count();
        if good == count {
            Ok(first + count)
        } else {
            Err(first + good)
        }
    }

    fn escaped(&self, start: usize) -> Reach {
        let end = self.scan(start + 1, |c| {
            c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ')
        });
        let closed = end > start + 1 && self.text.get(end) == Some(&'`');
        Reach {
            whole: closed.then_some(end + 1),
            alive: end + usize::from(closed),
        }
    }

    fn digits(&self, from: usize) -> usize {
        self.scan(from, |c| c.is_ascii_digit())
    }

    fn scan(&self, from: usize, accepts: impl Fn(char) -> bool) -> usize {
        let rest = self.text.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|c| accepts(**c)).count()
    }
}

fn keyword(word: &[char]) -> Kind {
    let is = |text: &str| word.len() == text.len() && word.iter().copied().eq(text.chars());
    match word.first() {
        Some('i') if is("in") => Kind::In,
        Some('t') if is("true") => Kind::True,
        Some('f') if is("false") => Kind::False,
        Some('n') if is("null") => Kind::Null,
        _ => Kind::Ident,
    }
}

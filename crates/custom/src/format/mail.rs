//! Email addresses as in RFC 5322 and Go: `a@b.c`, `A <a@b.c>`.

use std::net::IpAddr;

/// Reports whether it is exactly one address.
pub(super) fn is_address(text: &str) -> bool {
    let mut reader = Reader { rest: text };
    let count = reader.address(true);
    count == Some(1) && reader.skip_comments().is_some() && reader.rest.is_empty()
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// Reads an address or, at the top level, a group. Returns the number of addresses.
    fn address(&mut self, top: bool) -> Option<usize> {
        self.skip_space();
        if self.rest.is_empty() {
            return None;
        }
        if self.spec().is_some() {
            self.skip_space();
            if self.take('(') {
                self.comment()?;
            }
            return Some(1);
        }
        if !self.rest.starts_with('<') {
            self.phrase()?;
        }
        self.skip_space();
        if top && self.take(':') {
            return self.group();
        }
        (self.take('<') && self.spec().is_some() && self.take('>')).then_some(1)
    }

    fn group(&mut self) -> Option<usize> {
        self.skip_space();
        let mut count = 0;
        if self.take(';') {
            self.skip_comments()?;
            return Some(count);
        }
        loop {
            self.skip_space();
            count += self.address(false)?;
            self.skip_comments()?;
            if self.take(';') {
                self.skip_comments()?;
                return Some(count);
            }
            if !self.take(',') {
                return None;
            }
        }
    }

    /// Reads `local@domain`; consumes nothing on failure.
    fn spec(&mut self) -> Option<()> {
        let start = self.rest;
        let read = self.local_and_domain();
        if read.is_none() {
            self.rest = start;
        }
        read
    }

    fn local_and_domain(&mut self) -> Option<()> {
        self.skip_space();
        if self.rest.starts_with('"') {
            self.quoted().filter(|length| *length > 0)?;
        } else {
            self.atom(is_dotted)?;
        }
        if !self.take('@') {
            return None;
        }
        self.skip_space();
        if self.take('[') {
            let (address, rest) = self.rest.split_once(']')?;
            address.parse::<IpAddr>().ok()?;
            self.rest = rest;
            return Some(());
        }
        self.atom(is_dotted).map(|_| ())
    }

    /// Reads the display name before an address in angle brackets.
    fn phrase(&mut self) -> Option<()> {
        let mut words = 0;
        loop {
            if words > 0 {
                self.skip_comments()?;
            }
            self.skip_space();
            if self.rest.is_empty() {
                return Some(());
            }
            let word = if self.rest.starts_with('"') {
                self.quoted().map(|_| ())
            } else {
                self.atom(|_| true).map(|_| ())
            };
            match word {
                Some(()) => words += 1,
                None => return (words > 0).then_some(()),
            }
        }
    }

    /// Reads a quoted string, and returns its length in characters.
    fn quoted(&mut self) -> Option<usize> {
        let mut letters = self.rest.get(1..)?.char_indices();
        let mut escaped = false;
        let mut length = 0;
        loop {
            let (index, letter) = letters.next()?;
            match letter {
                letter if escaped => {
                    if !is_visible(letter) && !is_space(letter) {
                        return None;
                    }
                    escaped = false;
                    length += 1;
                }
                '"' => {
                    self.rest = &self.rest[index + 2..];
                    return Some(length);
                }
                '\\' => escaped = true,
                letter if is_visible(letter) || is_space(letter) => length += 1,
                _ => return None,
            }
        }
    }

    /// Reads an unquoted word. It is consumed even if rejected.
    fn atom(&mut self, fits: fn(&str) -> bool) -> Option<&'a str> {
        let end = self.rest.find(|letter| !is_atom(letter));
        let (atom, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        if atom.is_empty() {
            return None;
        }
        self.rest = rest;
        fits(atom).then_some(atom)
    }

    fn skip_comments(&mut self) -> Option<()> {
        self.skip_space();
        while self.take('(') {
            self.comment()?;
            self.skip_space();
        }
        Some(())
    }

    /// Reads the rest of a comment, which may contain nested ones.
    fn comment(&mut self) -> Option<()> {
        let mut depth = 1;
        let bytes = self.rest.as_bytes();
        let mut index = 0;
        while index < bytes.len() && depth > 0 {
            match bytes[index] {
                b'\\' if index + 1 < bytes.len() => index += 1,
                b'(' => depth += 1,
                b')' => depth -= 1,
                _ => {}
            }
            index += 1;
        }
        // An escaped character may have several bytes.
        while !self.rest.is_char_boundary(index) {
            index += 1;
        }
        self.rest = &self.rest[index..];
        (depth == 0).then_some(())
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches(is_space);
    }

    fn take(&mut self, letter: char) -> bool {
        match self.rest.strip_prefix(letter) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
}

fn is_dotted(atom: &str) -> bool {
    !atom.starts_with('.') && !atom.ends_with('.') && !atom.contains("..")
}

fn is_atom(letter: char) -> bool {
    is_visible(letter)
        && !matches!(letter, '(' | ')' | '<' | '>' | '[' | ']')
        && !matches!(letter, ':' | ';' | '@' | '\\' | ',' | '"')
}

fn is_visible(letter: char) -> bool {
    matches!(letter, '!'..='~') || !letter.is_ascii()
}

fn is_space(letter: char) -> bool {
    matches!(letter, ' ' | '\t')
}

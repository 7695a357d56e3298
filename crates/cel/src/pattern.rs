//! Whether Go would read a text as a regular expression, and what it says if not.
//!
//! Only the syntax is judged here, in the words of the reference; nothing is matched.

use std::fmt;

use regex::Regex;

/// A count may be no greater than this, and neither may the product of counts inside each other.
const MOST_REPEATS: u64 = 1000;

/// How deep groups may be inside each other.
const DEEPEST: usize = 998;

/// Why a text is no regular expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    problem: &'static str,
    part: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error parsing regexp: {}: `{}`", self.problem, self.part)
    }
}

impl std::error::Error for Fault {}

/// Judges a regular expression.
///
/// # Errors
///
/// What is wrong with it, as Go says it.
pub fn check(text: &str) -> Result<(), Fault> {
    let mut reader = Reader {
        whole: text,
        rest: text,
        groups: vec![Group::default()],
        repeated: None,
    };
    while let Some(c) = reader.peek() {
        let before = reader.repeated.take();
        reader.piece(c, before)?;
    }
    if reader.groups.len() > 1 {
        return Err(fault("missing closing )", text));
    }
    Ok(())
}

struct Reader<'a> {
    whole: &'a str,
    rest: &'a str,
    groups: Vec<Group>,
    /// What was left to read where the repetition begins that was just read.
    repeated: Option<&'a str>,
}

/// A group that is still open.
#[derive(Default)]
struct Group {
    /// The greatest product of counts in it.
    worst: u64,
    /// That of the last piece; none if there is nothing to repeat.
    last: Option<u64>,
}

fn fault(problem: &'static str, part: &str) -> Fault {
    Fault {
        problem,
        part: part.to_owned(),
    }
}

impl<'a> Reader<'a> {
    fn piece(&mut self, c: char, before: Option<&'a str>) -> Result<(), Fault> {
        match c {
            '(' => return self.open(),
            ')' => return self.close(),
            '|' => {
                self.skip(1);
                self.group().last = None;
                return Ok(());
            }
            '*' | '+' | '?' => return self.repeat(&self.rest[1..], None, before),
            '{' => {
                if let Some((counts, after)) = counts(self.rest) {
                    return self.repeat(after, Some(counts), before);
                }
                self.skip(1);
            }
            '[' => self.class()?,
            '\\' => {
                if !self.backslash()? {
                    return Ok(());
                }
            }
            other => self.skip(other.len_utf8()),
        }
        self.atom(1);
        Ok(())
    }

    /// Counts a piece that can be repeated.
    fn atom(&mut self, worst: u64) {
        let group = self.group();
        group.worst = group.worst.max(worst);
        group.last = Some(worst);
    }

    fn group(&mut self) -> &mut Group {
        if self.groups.is_empty() {
            self.groups.push(Group::default());
        }
        let last = self.groups.len() - 1;
        &mut self.groups[last]
    }

    fn open(&mut self) -> Result<(), Fault> {
        if self.rest.starts_with("(?") {
            return self.extended();
        }
        self.skip(1);
        self.begin()
    }

    fn begin(&mut self) -> Result<(), Fault> {
        if self.groups.len() > DEEPEST {
            return Err(fault("expression nests too deeply", self.whole));
        }
        self.groups.push(Group::default());
        Ok(())
    }

    fn close(&mut self) -> Result<(), Fault> {
        if self.groups.len() < 2 {
            return Err(fault("unexpected )", self.whole));
        }
        let worst = self.groups.pop().map_or(1, |group| group.worst.max(1));
        self.skip(1);
        self.atom(worst);
        Ok(())
    }

    /// `(?P<name>`, `(?<name>`, `(?flags)` and `(?flags:`.
    fn extended(&mut self) -> Result<(), Fault> {
        let start = self.rest;
        let named = ["(?P<", "(?<"]
            .iter()
            .find(|prefix| start.starts_with(**prefix) && start.len() > prefix.len());
        if let Some(prefix) = named {
            let Some(end) = start.find('>') else {
                return Err(fault("invalid named capture", start));
            };
            let name = &start[prefix.len()..end];
            if name.is_empty() || !name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()) {
                return Err(fault("invalid named capture", &start[..=end]));
            }
            self.skip(end + 1);
            return self.begin();
        }
        self.skip(2);
        let (mut negated, mut flags) = (false, 0);
        while let Some(c) = self.next() {
            match c {
                'i' | 'm' | 's' | 'U' => flags += 1,
                '-' if !negated => (negated, flags) = (true, 0),
                ':' | ')' if negated && flags == 0 => break,
                ':' => return self.begin(),
                ')' => return Ok(()),
                _ => break,
            }
        }
        Err(fault(
            "invalid or unsupported Perl syntax",
            self.since(start),
        ))
    }

    fn repeat(
        &mut self,
        after: &'a str,
        counts: Option<Counts>,
        before: Option<&'a str>,
    ) -> Result<(), Fault> {
        let start = self.rest;
        if let Some(Counts { least, most }) = counts {
            let bad = most.is_some_and(|most| most > MOST_REPEATS || least > most);
            if bad || least > MOST_REPEATS {
                self.rest = after;
                return Err(fault("invalid repeat count", self.since(start)));
            }
        }
        self.rest = after.strip_prefix('?').unwrap_or(after);
        if let Some(before) = before {
            return Err(fault(
                "invalid nested repetition operator",
                self.since(before),
            ));
        }
        let Some(last) = self.group().last else {
            let part = self.since(start);
            return Err(fault("missing argument to repetition operator", part));
        };
        let worst = counts.map_or(last, |counts| counts.times(last));
        if worst > MOST_REPEATS {
            return Err(fault("invalid repeat count", self.since(start)));
        }
        self.atom(worst);
        self.repeated = Some(start);
        Ok(())
    }

    /// Reads what begins with a backslash, and says whether it is a piece: an empty quotation is none.
    fn backslash(&mut self) -> Result<bool, Fault> {
        let mut characters = self.rest[1..].chars();
        match characters.next() {
            Some('A' | 'b' | 'B' | 'z') => self.skip(2),
            Some('C') => return Err(fault("invalid escape sequence", &self.rest[..2])),
            Some('Q') => {
                let (quoted, after) = self.rest[2..]
                    .split_once("\\E")
                    .unwrap_or((&self.rest[2..], ""));
                self.rest = after;
                return Ok(!quoted.is_empty());
            }
            _ if self.named_set()? => {}
            _ => {
                self.escape()?;
            }
        }
        Ok(true)
    }

    /// `\d`, `\pL` and the like.
    fn named_set(&mut self) -> Result<bool, Fault> {
        match self.rest.get(1..2) {
            Some("d" | "D" | "s" | "S" | "w" | "W") if self.rest.starts_with('\\') => {
                self.skip(2);
                Ok(true)
            }
            Some("p" | "P") if self.rest.starts_with('\\') => self.unicode_set(),
            _ => Ok(false),
        }
    }

    fn unicode_set(&mut self) -> Result<bool, Fault> {
        let start = self.rest;
        let end = match start[2..].chars().next() {
            Some('{') => match start.find('}') {
                Some(end) => end + 1,
                None => return Err(fault("invalid character class range", start)),
            },
            Some(c) => 2 + c.len_utf8(),
            None => 2,
        };
        let name = start[2..end].trim_start_matches('{').trim_end_matches('}');
        let name = name.strip_prefix('^').unwrap_or(name);
        let plain = name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' '));
        if name.is_empty() || !plain || Regex::new(&format!("\\p{{{name}}}")).is_err() {
            return Err(fault("invalid character class range", &start[..end]));
        }
        self.skip(end);
        Ok(true)
    }

    /// The character that an escape stands for.
    fn escape(&mut self) -> Result<u32, Fault> {
        let start = self.rest;
        self.skip(1);
        let Some(c) = self.next() else {
            return Err(fault("trailing backslash at end of expression", ""));
        };
        let octal = |c: char| matches!(c, '0'..='7');
        let value = match c {
            '1'..='7' if !self.peek().is_some_and(octal) => None,
            '0'..='7' => {
                let mut value = c.to_digit(8).unwrap_or_default();
                for _ in 0..2 {
                    let Some(digit) = self.peek().and_then(|c| c.to_digit(8)) else {
                        break;
                    };
                    value = value * 8 + digit;
                    self.skip(1);
                }
                Some(value)
            }
            'x' => self.hex(),
            'a' => Some(7),
            'f' => Some(12),
            'n' => Some(10),
            'r' => Some(13),
            't' => Some(9),
            'v' => Some(11),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c.into()),
            _ => None,
        };
        value.ok_or_else(|| fault("invalid escape sequence", self.since(start)))
    }

    fn hex(&mut self) -> Option<u32> {
        let first = self.next()?;
        if first != '{' {
            let second = self.next();
            return Some(first.to_digit(16)? * 16 + second?.to_digit(16)?);
        }
        let (mut value, mut digits) = (0_u32, 0);
        loop {
            let c = self.next()?;
            if c == '}' {
                return (digits > 0).then_some(value);
            }
            value = value * 16 + c.to_digit(16)?;
            digits += 1;
            if value > u32::from(char::MAX) {
                return None;
            }
        }
    }

    /// `[…]`.
    fn class(&mut self) -> Result<(), Fault> {
        let start = self.rest;
        self.skip(1);
        if self.peek() == Some('^') {
            self.skip(1);
        }
        let mut first = true;
        while first || self.peek() != Some(']') {
            first = false;
            if self.posix()? || self.named_set()? {
                continue;
            }
            let range = self.rest;
            let low = self.class_character(start)?;
            if self.rest.starts_with('-') && self.rest.len() > 1 && !self.rest.starts_with("-]") {
                self.skip(1);
                if self.class_character(start)? < low {
                    return Err(fault("invalid character class range", self.since(range)));
                }
            }
        }
        self.skip(1);
        Ok(())
    }

    fn class_character(&mut self, class: &str) -> Result<u32, Fault> {
        match self.peek() {
            None => Err(fault("missing closing ]", class)),
            Some('\\') => self.escape(),
            Some(c) => {
                self.skip(c.len_utf8());
                Ok(c.into())
            }
        }
    }

    /// `[:alpha:]` inside of a class.
    fn posix(&mut self) -> Result<bool, Fault> {
        let Some(inside) = self.rest.strip_prefix("[:") else {
            return Ok(false);
        };
        let Some(end) = inside.find(":]") else {
            return Ok(false);
        };
        let name = inside[..end].strip_prefix('^').unwrap_or(&inside[..end]);
        if !POSIX.contains(&name) {
            return Err(fault(
                "invalid character class range",
                &self.rest[..end + 4],
            ));
        }
        self.skip(end + 4);
        Ok(true)
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.skip(c.len_utf8());
        Some(c)
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    /// What was read since then.
    fn since<'b>(&self, start: &'b str) -> &'b str {
        &start[..start.len() - self.rest.len()]
    }
}

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

#[derive(Clone, Copy)]
struct Counts {
    least: u64,
    most: Option<u64>,
}

impl Counts {
    /// The product with what is repeated. Nothing and one do not make it more.
    fn times(self, inside: u64) -> u64 {
        if self.most == Some(0) || (self.least < 2 && self.most.is_none_or(|most| most < 2)) {
            return inside;
        }
        inside.saturating_mul(self.most.unwrap_or(self.least).max(1))
    }
}

/// `{2}`, `{2,}` and `{2,3}`, and what comes after it. Any other brace is a character.
fn counts(text: &str) -> Option<(Counts, &str)> {
    let (least, rest) = count(text.strip_prefix('{')?)?;
    let (most, rest) = match rest.strip_prefix(',') {
        None => (Some(least), rest),
        Some(rest) if rest.starts_with('}') => (None, rest),
        Some(rest) => {
            let (most, rest) = count(rest)?;
            (Some(most), rest)
        }
    };
    Some((Counts { least, most }, rest.strip_prefix('}')?))
}

fn count(text: &str) -> Option<(u64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    Some((digits.parse().unwrap_or(u64::MAX), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_told_as_go_tells_them() {
        for (text, said) in [
            ("(", "missing closing ): `(`"),
            ("a)", "unexpected ): `a)`"),
            ("x[a", "missing closing ]: `[a`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("(a{100}){11}", "invalid repeat count: `{11}`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?<n-m>a)", "invalid named capture: `(?<n-m>`"),
            ("\\Z", "invalid escape sequence: `\\Z`"),
            ("a\\", "trailing backslash at end of expression: ``"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
            (
                "\\p{sc=Greek}",
                "invalid character class range: `\\p{sc=Greek}`",
            ),
        ] {
            let fault = check(text).expect_err(text);
            assert_eq!(fault.to_string(), format!("error parsing regexp: {said}"));
        }
        for good in [
            "",
            "a{,5}",
            "[]a]",
            "\\Q(\\E",
            "(?i)a",
            "(?P<n>a)",
            "\\p{Greek}",
            "a{2}?",
            "x{",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
    }
}

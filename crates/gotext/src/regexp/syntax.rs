//! Checks the syntax of a regular expression and its limits, without building anything: of
//! each expression only its extent is kept, because Go refuses expressions that become too
//! large or too deep.

use super::{SyntaxError, class};

/// The most repetitions of an expression, by all repetitions around it together.
const MAX_REPEATS: u64 = 1000;
/// The most levels of an expression.
const MAX_HEIGHT: u32 = 1000;
/// The most instructions that an expression may become: 128 MiB of 40 bytes each.
const MAX_SIZE: u64 = (128 << 20) / 40;

/// Checks an expression.
pub(super) fn check(pattern: &str) -> Result<(), SyntaxError> {
    let mut parser = Parser {
        whole: pattern,
        open: Vec::new(),
        here: Group::default(),
    };
    let mut rest = pattern;
    let mut last_repeat = "";
    while let Some(first) = rest.chars().next() {
        let before = rest;
        let (after, repeats) = parser.step(first, rest, last_repeat)?;
        last_repeat = if repeats { before } else { "" };
        rest = after;
    }
    if parser.open.is_empty() {
        parser.here.finish(pattern).map(|_| ())
    } else {
        Err(SyntaxError::new("missing closing )", pattern))
    }
}

struct Parser<'a> {
    whole: &'a str,
    /// The groups around [`Self::here`].
    open: Vec<Group>,
    here: Group,
}

/// The part of a group that was read.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    captures: bool,
    /// The alternatives before the last `|`.
    before: Option<Extent>,
    /// The expressions after it, except for the last one.
    done: Option<Extent>,
    /// The last expression, which can be repeated.
    last: Option<Extent>,
}

/// The size of an expression, which Go limits.
#[derive(Clone, Copy, Debug)]
struct Extent {
    size: u64,
    height: u32,
    repeats: u64,
    /// Whether it is a literal. Adjacent literals are one, and do not add to the height.
    literal: bool,
}

impl Extent {
    const ONE: Self = Self {
        size: 1,
        height: 1,
        repeats: 1,
        literal: false,
    };

    const LITERAL: Self = Self {
        literal: true,
        ..Self::ONE
    };

    /// The extent of an expression around this one, which adds `size` instructions.
    fn within(self, size: u64) -> Self {
        Self {
            size: self.size.saturating_add(size),
            height: self.height.saturating_add(1),
            literal: false,
            ..self
        }
    }

    /// The extent of both expressions, one after the other.
    fn then(self, next: Self) -> Self {
        let literal = self.literal && next.literal;
        let height = self.height.max(next.height.saturating_add(1));
        Self {
            size: self.size.saturating_add(next.size),
            height: if literal { 1 } else { height.max(2) },
            repeats: self.repeats.max(next.repeats),
            literal,
        }
    }

    fn bounded(self, whole: &str) -> Result<Self, SyntaxError> {
        if self.size > MAX_SIZE {
            Err(SyntaxError::new("expression too large", whole))
        } else if self.height > MAX_HEIGHT {
            Err(SyntaxError::new("expression nests too deeply", whole))
        } else {
            Ok(self)
        }
    }
}

impl Group {
    /// Adds an expression.
    fn push(&mut self, extent: Extent) {
        if let Some(last) = self.last.replace(extent) {
            self.done = Some(self.done.map_or(last, |done| done.then(last)));
        }
    }

    /// Begins an alternative, at a `|`.
    fn alternate(&mut self, whole: &str) -> Result<(), SyntaxError> {
        self.before = Some(self.finish(whole)?);
        (self.done, self.last) = (None, None);
        Ok(())
    }

    /// The extent of the whole group.
    fn finish(&self, whole: &str) -> Result<Extent, SyntaxError> {
        let last = self.last.unwrap_or(Extent::ONE);
        let all = self.done.map_or(last, |done| done.then(last));
        let all = match self.before {
            Some(before) => {
                let all = before.then(all);
                Extent {
                    size: all.size.saturating_add(1),
                    literal: false,
                    ..all
                }
            }
            None => all,
        };
        all.bounded(whole)
    }
}

impl<'a> Parser<'a> {
    /// Reads the next element; returns the text after it, and whether it was a repetition.
    fn step(
        &mut self,
        first: char,
        rest: &'a str,
        last_repeat: &'a str,
    ) -> Result<(&'a str, bool), SyntaxError> {
        let after = &rest[first.len_utf8()..];
        match first {
            '(' if after.starts_with('?') => return Ok((self.flags(rest)?, false)),
            '(' => self.enter(true),
            '|' => self.here.alternate(self.whole)?,
            ')' => self.leave()?,
            '^' | '$' | '.' => self.here.push(Extent::ONE),
            '[' => {
                let after = class::class(rest)?;
                self.here.push(Extent::ONE);
                return Ok((after, false));
            }
            '*' => return self.repeat(2, rest, after, last_repeat),
            '+' | '?' => return self.repeat(1, rest, after, last_repeat),
            '{' => {
                if let Some((min, max, after)) = bounds(rest) {
                    return self.count(min, max, rest, after, last_repeat);
                }
                self.here.push(Extent::LITERAL);
            }
            '\\' => return Ok((self.escape(rest)?, false)),
            _ => self.here.push(Extent::LITERAL),
        }
        Ok((after, false))
    }

    fn enter(&mut self, captures: bool) {
        let inner = Group {
            captures,
            ..Group::default()
        };
        self.open.push(std::mem::replace(&mut self.here, inner));
    }

    fn leave(&mut self) -> Result<(), SyntaxError> {
        let inner = self.here.finish(self.whole)?;
        let captures = self.here.captures;
        let Some(outer) = self.open.pop() else {
            return Err(SyntaxError::new("unexpected )", self.whole));
        };
        self.here = outer;
        let inner = if captures { inner.within(2) } else { inner };
        self.here.push(inner.bounded(self.whole)?);
        Ok(())
    }

    /// Reads `*`, `+` or `?` after an expression.
    fn repeat(
        &mut self,
        size: u64,
        before: &'a str,
        after: &'a str,
        last_repeat: &'a str,
    ) -> Result<(&'a str, bool), SyntaxError> {
        let (operand, after) = self.operand(before, after, last_repeat)?;
        self.here.last = Some(operand.within(size).bounded(self.whole)?);
        Ok((after, true))
    }

    /// Reads `{n}`, `{n,}` or `{n,m}` after an expression.
    fn count(
        &mut self,
        min: Option<u64>,
        max: Option<u64>,
        before: &'a str,
        after: &'a str,
        last_repeat: &'a str,
    ) -> Result<(&'a str, bool), SyntaxError> {
        let refuse = |after: &str| {
            let at = &before[..before.len() - after.len()];
            Err(SyntaxError::new("invalid repeat count", at))
        };
        let Some(min) = min.filter(|min| *min <= MAX_REPEATS) else {
            return refuse(after);
        };
        if max.is_some_and(|max| max > MAX_REPEATS || max < min) {
            return refuse(after);
        }
        let (operand, after) = self.operand(before, after, last_repeat)?;
        let times = max.unwrap_or(min);
        let repeats = match max {
            Some(0) => 1,
            _ => operand.repeats.saturating_mul(times.max(1)),
        };
        let size = match max {
            Some(max) => operand.size.saturating_mul(max) + (max - min),
            None if min == 0 => operand.size + 2,
            None => operand.size.saturating_mul(min) + 1,
        };
        let repeated = Extent {
            size: size.max(1),
            repeats,
            ..operand.within(0)
        };
        self.here.last = Some(repeated.bounded(self.whole)?);
        if times >= 2 && repeats > MAX_REPEATS {
            return refuse(after);
        }
        Ok((after, true))
    }

    /// The repeated expression, and the text after the operator and the `?` of a lazy one.
    fn operand(
        &self,
        before: &'a str,
        after: &'a str,
        last_repeat: &'a str,
    ) -> Result<(Extent, &'a str), SyntaxError> {
        let after = after.strip_prefix('?').unwrap_or(after);
        if !last_repeat.is_empty() {
            let at = &last_repeat[..last_repeat.len() - after.len()];
            return Err(SyntaxError::new("invalid nested repetition operator", at));
        }
        let at = &before[..before.len() - after.len()];
        let operand = self.here.last;
        let operand = operand
            .ok_or_else(|| SyntaxError::new("missing argument to repetition operator", at))?;
        Ok((operand, after))
    }

    /// Reads `(?P<name>`, `(?i)`, `(?i:` and the like.
    fn flags(&mut self, rest: &'a str) -> Result<&'a str, SyntaxError> {
        for prefix in ["(?P<", "(?<"] {
            if rest.starts_with(prefix) && rest.len() > prefix.len() {
                return self.name(rest, prefix.len());
            }
        }
        let (mut negated, mut any) = (false, false);
        for (at, letter) in rest.char_indices().skip(2) {
            let after = &rest[at + letter.len_utf8()..];
            match letter {
                'i' | 'm' | 's' | 'U' => any = true,
                '-' if !negated => (negated, any) = (true, false),
                ':' if !negated || any => {
                    self.enter(false);
                    return Ok(after);
                }
                ')' if !negated || any => return Ok(after),
                _ => {
                    let at = &rest[..rest.len() - after.len()];
                    return Err(SyntaxError::new(PERL, at));
                }
            }
        }
        Err(SyntaxError::new(PERL, rest))
    }

    fn name(&mut self, rest: &'a str, start: usize) -> Result<&'a str, SyntaxError> {
        let Some(end) = rest.find('>') else {
            return Err(SyntaxError::new("invalid named capture", rest));
        };
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let name = rest.get(start..end).unwrap_or_default();
        if name.is_empty() || !name.bytes().all(allowed) {
            return Err(SyntaxError::new("invalid named capture", &rest[..=end]));
        }
        self.enter(true);
        Ok(&rest[end + 1..])
    }

    fn escape(&mut self, rest: &'a str) -> Result<&'a str, SyntaxError> {
        match rest.chars().nth(1) {
            Some('A' | 'b' | 'B' | 'z') => {
                self.here.push(Extent::ONE);
                return Ok(&rest[2..]);
            }
            Some('C') => return Err(SyntaxError::new(class::ESCAPE, &rest[..2])),
            Some('Q') => {
                let (literal, after) = rest[2..].split_once("\\E").unwrap_or((&rest[2..], ""));
                for _ in literal.chars() {
                    self.here.push(Extent::LITERAL);
                }
                return Ok(after);
            }
            _ => {}
        }
        if let Some(after) = class::named(rest)? {
            self.here.push(Extent::ONE);
            return Ok(after);
        }
        let (_, after) = class::escape(rest)?;
        self.here.push(Extent::LITERAL);
        Ok(after)
    }
}

const PERL: &str = "invalid or unsupported Perl syntax";

/// Reads `{n}`, `{n,}` or `{n,m}` at the beginning; returns minimum, maximum and the text after
/// it. Braces of another form are literal. A number that is too large is `None`; if it is the
/// maximum, both are, because a maximum of `None` means that there is none.
fn bounds(rest: &str) -> Option<(Option<u64>, Option<u64>, &str)> {
    let (min, after) = number(rest.strip_prefix('{')?)?;
    let Some(after) = after.strip_prefix(',') else {
        return Some((min, min, after.strip_prefix('}')?));
    };
    if let Some(after) = after.strip_prefix('}') {
        return Some((min, None, after));
    }
    let (max, after) = number(after)?;
    let after = after.strip_prefix('}')?;
    Some((min.filter(|_| max.is_some()), max, after))
}

/// Reads a number without leading zeros. One of too many digits is `None`.
fn number(text: &str) -> Option<(Option<u64>, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, after) = text.split_at(digits);
    if digits.is_empty() || digits.len() > 1 && digits.starts_with('0') {
        return None;
    }
    let value = if digits.len() <= 9 {
        digits.parse().ok()
    } else {
        None
    };
    Some((value, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_checked_as_go_checks_them() {
        let vectors = include_str!("../../tests/data/go-regexp.jsonl");
        let mut count = 0;
        for line in vectors.lines() {
            let (pattern, wanted): (String, String) = serde_json::from_str(line).unwrap();
            let got = check(&pattern).err().map(|error| error.to_string());
            assert_eq!(got.unwrap_or_default(), wanted, "{pattern}");
            count += 1;
        }
        assert!(count > 300, "{count}");
    }

    #[test]
    fn an_expression_of_megabytes_is_checked_in_time_and_on_a_small_stack() {
        for pattern in [
            "(".repeat(1 << 20),
            "(?:".repeat(1 << 20),
            "[".repeat(1 << 20),
            "a|".repeat(1 << 20),
            "(a)".repeat(1 << 20),
            "\\p{Greek}".repeat(1 << 18),
            "a{1000}".repeat(1 << 18),
        ] {
            let checked = std::thread::Builder::new()
                .stack_size(128 << 10)
                .spawn(move || check(&pattern).is_ok());
            checked.unwrap().join().unwrap();
        }
    }
}

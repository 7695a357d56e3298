//! Is a pattern one that Go's `regexp` compiles? What is wrong with it is told in Go's
//! words, because users see them.
//!
//! Nothing is built here: of every expression only its size matters, because Go refuses
//! what would become too large or too deep.

mod class;

use std::fmt;

/// How often something may be repeated, by all repetitions around it together.
const MOST_REPEATS: u64 = 1000;
/// How deep expressions may nest.
const MOST_HEIGHT: u32 = 1000;
/// How many instructions an expression may become: 128 MiB of 40 bytes each.
const MOST_SIZE: u64 = (128 << 20) / 40;

/// What is wrong with a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    what: &'static str,
    at: String,
}

impl Fault {
    fn new(what: &'static str, at: &str) -> Self {
        Self {
            what,
            at: at.to_owned(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error parsing regexp: {}: `{}`", self.what, self.at)
    }
}

/// Says what is wrong with the pattern, if anything is.
pub(crate) fn check(pattern: &str) -> Result<(), Fault> {
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
        Err(Fault::new("missing closing )", pattern))
    }
}

struct Parser<'a> {
    whole: &'a str,
    /// The groups around [`Self::here`].
    open: Vec<Group>,
    here: Group,
}

/// What stands between two parentheses, as far as it was read.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    captures: bool,
    /// What stands before the last `|`.
    before: Option<Extent>,
    /// What stands after it, but for the last expression.
    done: Option<Extent>,
    /// The last expression, which can be repeated.
    last: Option<Extent>,
}

/// How much an expression amounts to.
#[derive(Clone, Copy, Debug)]
struct Extent {
    size: u64,
    height: u32,
    repeats: u64,
    /// One letter after another is one literal, and adds nothing to the height.
    literal: bool,
}

impl Extent {
    const ONE: Self = Self {
        size: 1,
        height: 1,
        repeats: 1,
        literal: false,
    };

    const LETTER: Self = Self {
        literal: true,
        ..Self::ONE
    };

    /// The expression within another, which adds `size` instructions.
    fn within(self, size: u64) -> Self {
        Self {
            size: self.size.saturating_add(size),
            height: self.height.saturating_add(1),
            literal: false,
            ..self
        }
    }

    /// Both, one after the other.
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

    fn judge(self, whole: &str) -> Result<Self, Fault> {
        if self.size > MOST_SIZE {
            Err(Fault::new("expression too large", whole))
        } else if self.height > MOST_HEIGHT {
            Err(Fault::new("expression nests too deeply", whole))
        } else {
            Ok(self)
        }
    }
}

impl Group {
    /// One more expression.
    fn push(&mut self, extent: Extent) {
        if let Some(last) = self.last.replace(extent) {
            self.done = Some(self.done.map_or(last, |done| done.then(last)));
        }
    }

    /// A `|`.
    fn alternate(&mut self, whole: &str) -> Result<(), Fault> {
        self.before = Some(self.finish(whole)?);
        (self.done, self.last) = (None, None);
        Ok(())
    }

    /// All of it.
    fn finish(&self, whole: &str) -> Result<Extent, Fault> {
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
        all.judge(whole)
    }
}

impl<'a> Parser<'a> {
    /// Reads what comes next; says what follows, and whether it was a repetition.
    fn step(
        &mut self,
        first: char,
        rest: &'a str,
        last_repeat: &'a str,
    ) -> Result<(&'a str, bool), Fault> {
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
                if let Some((least, most, after)) = bounds(rest) {
                    return self.count(least, most, rest, after, last_repeat);
                }
                self.here.push(Extent::LETTER);
            }
            '\\' => return Ok((self.escape(rest)?, false)),
            _ => self.here.push(Extent::LETTER),
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

    fn leave(&mut self) -> Result<(), Fault> {
        let inner = self.here.finish(self.whole)?;
        let captures = self.here.captures;
        let Some(outer) = self.open.pop() else {
            return Err(Fault::new("unexpected )", self.whole));
        };
        self.here = outer;
        let inner = if captures { inner.within(2) } else { inner };
        self.here.push(inner.judge(self.whole)?);
        Ok(())
    }

    /// `*`, `+` or `?` after an expression.
    fn repeat(
        &mut self,
        size: u64,
        before: &'a str,
        after: &'a str,
        last_repeat: &'a str,
    ) -> Result<(&'a str, bool), Fault> {
        let (operand, after) = self.operand(before, after, last_repeat)?;
        self.here.last = Some(operand.within(size).judge(self.whole)?);
        Ok((after, true))
    }

    /// `{n}`, `{n,}` or `{n,m}` after an expression.
    fn count(
        &mut self,
        least: Option<u64>,
        most: Option<u64>,
        before: &'a str,
        after: &'a str,
        last_repeat: &'a str,
    ) -> Result<(&'a str, bool), Fault> {
        let refuse = |after: &str| {
            let at = &before[..before.len() - after.len()];
            Err(Fault::new("invalid repeat count", at))
        };
        let Some(least) = least.filter(|least| *least <= MOST_REPEATS) else {
            return refuse(after);
        };
        if most.is_some_and(|most| most > MOST_REPEATS || most < least) {
            return refuse(after);
        }
        let (operand, after) = self.operand(before, after, last_repeat)?;
        let times = most.unwrap_or(least);
        let repeats = match most {
            Some(0) => 1,
            _ => operand.repeats.saturating_mul(times.max(1)),
        };
        let size = match most {
            Some(most) => operand.size.saturating_mul(most) + (most - least),
            None if least == 0 => operand.size + 2,
            None => operand.size.saturating_mul(least) + 1,
        };
        let repeated = Extent {
            size: size.max(1),
            repeats,
            ..operand.within(0)
        };
        self.here.last = Some(repeated.judge(self.whole)?);
        if times >= 2 && repeats > MOST_REPEATS {
            return refuse(after);
        }
        Ok((after, true))
    }

    /// What is repeated, and what follows the operator; `?` makes it lazy.
    fn operand(
        &self,
        before: &'a str,
        after: &'a str,
        last_repeat: &'a str,
    ) -> Result<(Extent, &'a str), Fault> {
        let after = after.strip_prefix('?').unwrap_or(after);
        if !last_repeat.is_empty() {
            let at = &last_repeat[..last_repeat.len() - after.len()];
            return Err(Fault::new("invalid nested repetition operator", at));
        }
        let at = &before[..before.len() - after.len()];
        let operand = self.here.last;
        let operand =
            operand.ok_or_else(|| Fault::new("missing argument to repetition operator", at))?;
        Ok((operand, after))
    }

    /// `(?P<name>`, `(?i)`, `(?i:` and the like.
    fn flags(&mut self, rest: &'a str) -> Result<&'a str, Fault> {
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
                    return Err(Fault::new(PERL, at));
                }
            }
        }
        Err(Fault::new(PERL, rest))
    }

    fn name(&mut self, rest: &'a str, start: usize) -> Result<&'a str, Fault> {
        let Some(end) = rest.find('>') else {
            return Err(Fault::new("invalid named capture", rest));
        };
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let name = rest.get(start..end).unwrap_or_default();
        if name.is_empty() || !name.bytes().all(allowed) {
            return Err(Fault::new("invalid named capture", &rest[..=end]));
        }
        self.enter(true);
        Ok(&rest[end + 1..])
    }

    fn escape(&mut self, rest: &'a str) -> Result<&'a str, Fault> {
        match rest.chars().nth(1) {
            Some('A' | 'b' | 'B' | 'z') => {
                self.here.push(Extent::ONE);
                return Ok(&rest[2..]);
            }
            Some('C') => return Err(Fault::new(class::ESCAPE, &rest[..2])),
            Some('Q') => {
                let (literal, after) = rest[2..].split_once("\\E").unwrap_or((&rest[2..], ""));
                for _ in literal.chars() {
                    self.here.push(Extent::LETTER);
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
        self.here.push(Extent::LETTER);
        Ok(after)
    }
}

const PERL: &str = "invalid or unsupported Perl syntax";

/// `{n}`, `{n,}` or `{n,m}` at the beginning: least and most, and what follows. A number
/// that is too large is none, and what has another form is a letter. Without a most there
/// is no bound; where the most is too large, the least is said to be.
fn bounds(rest: &str) -> Option<(Option<u64>, Option<u64>, &str)> {
    let (least, after) = number(rest.strip_prefix('{')?)?;
    let Some(after) = after.strip_prefix(',') else {
        return Some((least, least, after.strip_prefix('}')?));
    };
    if let Some(after) = after.strip_prefix('}') {
        return Some((least, None, after));
    }
    let (most, after) = number(after)?;
    let after = after.strip_prefix('}')?;
    Some((least.filter(|_| most.is_some()), most, after))
}

/// A number without leading zeros; one of many digits is none.
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
    fn patterns_are_judged_as_go_judges_them() {
        let vectors = include_str!("../../tests/data/go-regexp.jsonl");
        let mut count = 0;
        for line in vectors.lines() {
            let (pattern, wanted): (String, String) = serde_json::from_str(line).unwrap();
            let got = check(&pattern).err().map(|fault| fault.to_string());
            assert_eq!(got.unwrap_or_default(), wanted, "{pattern}");
            count += 1;
        }
        assert!(count > 300, "{count}");
    }

    #[test]
    fn a_pattern_of_megabytes_is_judged_in_time_and_on_a_small_stack() {
        for pattern in [
            "(".repeat(1 << 20),
            "(?:".repeat(1 << 20),
            "[".repeat(1 << 20),
            "a|".repeat(1 << 20),
            "(a)".repeat(1 << 20),
            "\\p{Greek}".repeat(1 << 18),
            "a{1000}".repeat(1 << 18),
        ] {
            let judged = std::thread::Builder::new()
                .stack_size(128 << 10)
                .spawn(move || check(&pattern).is_ok());
            judged.unwrap().join().unwrap();
        }
    }
}

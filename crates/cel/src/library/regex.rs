//! The functions of regular expressions.

use std::collections::VecDeque;
use std::sync::Arc;

use insula_gotext::regexp::{SyntaxError, compile};
use regex::Regex;

use super::{Body, Scope, no_overload};
use crate::error::EvalError;
use crate::value::{Outcome, Text, Value};

/// The maximum number of computed patterns that are cached in one evaluation.
const MAX_KEPT: usize = 16;

/// A cache of computed patterns, so that loops do not compile them again.
#[derive(Debug, Default)]
pub struct Regexes(VecDeque<(Arc<str>, Arc<Regex>)>);

impl Regexes {
    fn get(&mut self, pattern: &str) -> Result<Arc<Regex>, SyntaxError> {
        if let Some((_, known)) = self.0.iter().find(|(known, _)| **known == *pattern) {
            return Ok(known.clone());
        }
        let compiled = Arc::new(compile(pattern)?);
        if self.0.len() == MAX_KEPT {
            self.0.pop_front();
        }
        self.0.push_back((pattern.into(), compiled.clone()));
        Ok(compiled)
    }
}

/// A function with a constant pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    regex: Regex,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Matches,
    Find,
    FindAll,
}

impl Pattern {
    pub(crate) fn new(function: &str, pattern: &str) -> Result<Self, EvalError> {
        let regex = compile(pattern).map_err(|error| EvalError::new(error.to_string()))?;
        let kind = match function {
            "matches" => Kind::Matches,
            "find" => Kind::Find,
            _ => Kind::FindAll,
        };
        Ok(Self { regex, kind })
    }

    pub(crate) fn apply<'a>(&self, _: &mut Scope, arguments: Vec<Value<'a>>) -> Outcome<'a> {
        match arguments.first() {
            Some(Value::String(_)) => run(self.kind, &self.regex, &arguments),
            _ => Err(EvalError::no_such_overload()),
        }
    }
}

pub(super) fn body(function: &str, arguments: usize) -> Option<Body> {
    Some(match (function, arguments) {
        ("matches", 2) => Body::Two(|scope, one, two| call(scope, Kind::Matches, vec![one, two])),
        ("find", 2) => Body::Two(|scope, one, two| call(scope, Kind::Find, vec![one, two])),
        ("findAll", 2) => Body::Two(|scope, one, two| call(scope, Kind::FindAll, vec![one, two])),
        ("findAll", 3) => Body::Many(|scope, arguments| call(scope, Kind::FindAll, arguments)),
        _ => return None,
    })
}

fn call<'a>(scope: &mut Scope, kind: Kind, arguments: Vec<Value<'a>>) -> Outcome<'a> {
    let Some(Value::String(pattern)) = arguments.get(1) else {
        return Err(no_overload_of(kind, &arguments));
    };
    let regex = scope.regexes.get(pattern).map_err(|error| match kind {
        Kind::Matches => EvalError::new(error.to_string()),
        _ => EvalError::new(format!("Illegal regex: {error}")),
    })?;
    run(kind, &regex, &arguments)
}

fn run<'a>(kind: Kind, regex: &Regex, arguments: &[Value<'a>]) -> Outcome<'a> {
    let Some(Value::String(text)) = arguments.first() else {
        return Err(no_overload_of(kind, arguments));
    };
    match kind {
        Kind::Matches => Ok(Value::Bool(regex.is_match(text))),
        Kind::Find => Ok(Value::String(match regex.find(text) {
            Some(found) => text.part(|_| found.range()),
            None => Text::Borrowed(""),
        })),
        Kind::FindAll => {
            let limit = match arguments.get(2) {
                None => usize::MAX,
                // A negative number means no limit.
                Some(Value::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
                Some(_) => return Err(no_overload_of(kind, arguments)),
            };
            let found = matches(regex, text).into_iter().take(limit);
            let found = found.map(|range| Value::String(text.part(|_| range)));
            Ok(found.collect::<Vec<_>>().into())
        }
    }
}

/// Returns all matches. Unlike Rust, Go skips an empty match right after another one.
fn matches(regex: &Regex, text: &str) -> Vec<std::ops::Range<usize>> {
    let mut found: Vec<std::ops::Range<usize>> = Vec::new();
    for next in regex.find_iter(text) {
        let range = next.range();
        let after = found.last().is_some_and(|last| last.end == range.start);
        if !(range.is_empty() && after) {
            found.push(range);
        }
    }
    found
}

fn no_overload_of(kind: Kind, arguments: &[Value<'_>]) -> EvalError {
    let arguments: Vec<_> = arguments.iter().collect();
    match kind {
        Kind::Matches => EvalError::no_such_overload(),
        Kind::Find => no_overload("find", &arguments),
        Kind::FindAll => no_overload("findAll", &arguments),
    }
}

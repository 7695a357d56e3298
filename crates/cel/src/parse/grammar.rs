//! The parser, by recursive descent.
//!
//! ```text
//! expr     = or ['?' or ':' expr]
//! or       = and {'||' and}
//! and      = relation {'&&' relation}
//! relation = calc {relop calc}
//! calc     = unary {op unary}, '*' '/' '%' before '+' '-'
//! unary    = {'!'} member | {'-'} member
//! member   = primary {'.' ['?'] name | '.' name '(' args ')' | '[' ['?'] expr ']'}
//! primary  = name | name '(' args ')' | '(' expr ')' | list | map | struct | literal
//! ```
//!
//! Nodes are numbered in the order in which the reference implementation visits them. State numbers
//! identify the points at which a rule can fail; they only have to differ.

mod primary;

use std::sync::Arc;

use super::Parsed;
use super::build::{Builder, balance};
use super::expand::{Expansion, expand};
use super::recover::{SyntaxError, TokenStream};
use super::token::{Kind, Set, Token};
use crate::ast::{Expr, Id, Literal, Node};
use crate::issue::Issue;

/// The maximum recursion of a rule, and the maximum depth of the tree.
const MAX_DEPTH: usize = 250;

const LITERAL: Set = Set::of(&[
    Kind::True,
    Kind::False,
    Kind::Null,
    Kind::Float,
    Kind::Int,
    Kind::Uint,
    Kind::String,
    Kind::Bytes,
    Kind::Minus,
]);
const MEMBER: Set = LITERAL.or(Set::of(&[
    Kind::LeftBracket,
    Kind::LeftBrace,
    Kind::LeftParen,
    Kind::Dot,
    Kind::Ident,
]));
const EXPR: Set = MEMBER.or(Set::of(&[Kind::Exclam]));
const OPT_EXPR: Set = EXPR.or(Set::of(&[Kind::Question]));
const NAME: Set = Set::of(&[Kind::Ident, Kind::EscapedIdent]);
const RELATION: Set = Set::of(&[
    Kind::Less,
    Kind::LessEquals,
    Kind::GreaterEquals,
    Kind::Greater,
    Kind::Equals,
    Kind::NotEquals,
    Kind::In,
]);
const PRODUCT: Set = Set::of(&[Kind::Star, Kind::Slash, Kind::Percent]);
const SUM: Set = Set::of(&[Kind::Plus, Kind::Minus]);
const SUFFIX: Set = Set::of(&[Kind::Dot, Kind::LeftBracket]);
const NOTHING: Set = Set::of(&[]).or_nothing();

/// The parser of an expression.
pub(crate) struct Parser<'a> {
    words: TokenStream<'a>,
    build: Builder,
    /// The recursion depths of `expr`, `relation` and `calc`.
    depths: [usize; 3],
}

/// A subtree and its depth, counted as in the reference implementation.
struct Part {
    expr: Expr,
    height: usize,
}

impl Part {
    /// A subtree around others. One that is too deep is refused in the end; it is dropped here,
    /// because dropping a tree recurses into it.
    fn around(expr: Expr, height: usize) -> Self {
        let height = height + 1;
        let expr = if height > MAX_DEPTH { nothing() } else { expr };
        Self { expr, height }
    }
}

type Rule = Result<Part, SyntaxError>;

impl<'a> Parser<'a> {
    pub(crate) fn new(text: &'a [char]) -> Self {
        Self {
            words: TokenStream::new(text),
            build: Builder::new(),
            depths: [0; 3],
        }
    }

    pub(crate) fn parse(mut self) -> Result<Parsed, Vec<Issue>> {
        let part = self.start();
        let mut issues = std::mem::take(&mut self.words.issues);
        let overflowed = self.build.overflowed();
        let (mistakes, places) = self.build.finish();
        issues.extend(mistakes);
        match part {
            Some(part) if part.height > MAX_DEPTH => {
                issues.push(overall("max recursion depth exceeded"));
            }
            _ if overflowed => issues.push(overall("expression is too large with macros expanded")),
            Some(part) if issues.is_empty() => {
                return Ok(Parsed {
                    expr: part.expr,
                    places,
                });
            }
            _ => {}
        }
        Err(issues)
    }

    fn start(&mut self) -> Option<Part> {
        let part = self.expr(Set::of(&[Kind::End]), 1).ok()?;
        if let Err(error) = self.words.take(Kind::End, NOTHING, 2) {
            self.words.enter(Set::of(&[]));
            self.words.leave(Some(error), 0).ok()?;
        }
        Some(part)
    }

    fn expr(&mut self, follow: Set, site: u8) -> Rule {
        self.deeper(0)?;
        self.words.enter(follow);
        let result = self.expr_body();
        self.depths[0] -= 1;
        self.finish(result, site)
    }

    fn expr_body(&mut self) -> Rule {
        let condition = self.logic(Kind::Or, Set::of(&[Kind::Question]).or_nothing(), 3)?;
        if self.words.kind() != Kind::Question {
            return Ok(condition);
        }
        let operator = self.words.take(Kind::Question, EXPR, 4)?;
        let id = self.build.id(operator.start);
        let then = self.logic(Kind::Or, Set::of(&[Kind::Colon]), 5)?;
        self.words.take(Kind::Colon, EXPR, 6)?;
        let otherwise = self.expr(NOTHING, 7)?;
        let height = condition.height.max(then.height).max(otherwise.height);
        let args = vec![condition.expr, then.expr, otherwise.expr];
        Ok(Part::around(call(id, "_?_:_", args), height))
    }

    /// Parses `or` and `and`, which differ in operator and operands.
    fn logic(&mut self, operator: Kind, follow: Set, site: u8) -> Rule {
        self.words.enter(follow);
        let result = self.logic_body(operator);
        self.finish(result, site)
    }

    fn logic_body(&mut self, operator: Kind) -> Rule {
        let first = self.term(operator)?;
        if self.words.kind() != operator {
            return Ok(first);
        }
        let mut height = first.height;
        let mut terms = vec![first.expr];
        let mut operators = Vec::new();
        while self.words.kind() == operator {
            let token = self.words.take_any();
            let term = self.term(operator)?;
            operators.push(self.build.id(token.start));
            height = height.max(term.height);
            terms.push(term.expr);
        }
        let function: Arc<str> = if operator == Kind::Or { "_||_" } else { "_&&_" }.into();
        Ok(Part {
            expr: balance(&function, terms, &operators),
            height,
        })
    }

    fn term(&mut self, operator: Kind) -> Rule {
        let follow = Set::of(&[operator]).or_nothing();
        match operator {
            Kind::Or => self.logic(Kind::And, follow, 8),
            _ => self.relation(0, follow, 9),
        }
    }

    fn relation(&mut self, precedence: u8, follow: Set, site: u8) -> Rule {
        self.deeper(1)?;
        self.words.enter(follow);
        let result = self.relation_body(precedence);
        self.depths[1] -= 1;
        self.finish(result, site)
    }

    fn relation_body(&mut self, precedence: u8) -> Rule {
        let mut left = self.calc(0, RELATION.or_nothing(), 10)?;
        while precedence == 0 && RELATION.has(self.words.kind()) {
            let operator = self.words.take_any();
            let id = self.build.id(operator.start);
            let right = self.relation(1, RELATION.or_nothing(), 11)?;
            left = binary(id, operator, left, right);
        }
        Ok(left)
    }

    fn calc(&mut self, precedence: u8, follow: Set, site: u8) -> Rule {
        self.deeper(2)?;
        self.words.enter(follow);
        let result = self.calc_body(precedence);
        self.depths[2] -= 1;
        self.finish(result, site)
    }

    fn calc_body(&mut self, precedence: u8) -> Rule {
        let follow = PRODUCT.or(SUM).or_nothing();
        let mut left = self.unary(follow, 12)?;
        loop {
            let kind = self.words.kind();
            let binds = match kind {
                kind if PRODUCT.has(kind) => 2,
                kind if SUM.has(kind) => 1,
                _ => return Ok(left),
            };
            if binds < precedence {
                return Ok(left);
            }
            let operator = self.words.take_any();
            let id = self.build.id(operator.start);
            let right = self.calc(binds + 1, follow, 13 + binds)?;
            left = binary(id, operator, left, right);
        }
    }

    fn unary(&mut self, follow: Set, site: u8) -> Rule {
        self.words.enter(follow);
        let result = self.unary_body();
        self.finish(result, site)
    }

    fn unary_body(&mut self) -> Rule {
        self.words.sync(EXPR, 16)?;
        match self.words.kind() {
            Kind::Exclam => {
                let (first, count) = self.signs(Kind::Exclam, 17)?;
                self.signed(first, count, "!_")
            }
            Kind::Minus if self.negates()? => {
                let (first, count) = self.signs(Kind::Minus, 18)?;
                self.signed(first, count, "-_")
            }
            _ => self.member(19),
        }
    }

    /// Returns whether the minus here is a negation, or the sign of a number.
    fn negates(&mut self) -> Result<bool, SyntaxError> {
        let (first, second) = (self.words.ahead(0), self.words.ahead(1));
        match second.kind {
            Kind::Int | Kind::Float => Ok(false),
            kind if MEMBER.has(kind) => Ok(true),
            _ => Err(SyntaxError::NoViable {
                first,
                offending: second,
            }),
        }
    }

    fn signs(&mut self, kind: Kind, state: u8) -> Result<(Token, usize), SyntaxError> {
        let first = self.words.take_any();
        let mut count = 1;
        loop {
            self.words.sync_again(MEMBER.or(Set::of(&[kind])), state)?;
            if self.words.kind() != kind {
                return Ok((first, count));
            }
            if kind == Kind::Minus && !self.sign_follows()? {
                return Ok((first, count));
            }
            self.words.take_any();
            count += 1;
        }
    }

    /// Returns whether another minus is one more sign. It is, unless the syntax is wrong anyway.
    fn sign_follows(&mut self) -> Result<bool, SyntaxError> {
        let (first, second) = (self.words.ahead(0), self.words.ahead(1));
        if MEMBER.has(second.kind) {
            return Ok(true);
        }
        Err(SyntaxError::NoViable {
            first,
            offending: second,
        })
    }

    fn signed(&mut self, first: Token, count: usize, function: &str) -> Rule {
        if count.is_multiple_of(2) {
            return self.member(19);
        }
        let id = self.build.id(first.start);
        let member = self.member(19)?;
        let args = vec![member.expr];
        Ok(Part {
            expr: call(id, function, args),
            height: member.height,
        })
    }

    fn member(&mut self, site: u8) -> Rule {
        self.words.enter(NOTHING);
        match self.member_body() {
            // The part before the error stands for the whole.
            Ok((part, error)) => {
                self.words.leave(error, site)?;
                Ok(part)
            }
            Err(error) => self.finish(Err(error), site),
        }
    }

    fn member_body(&mut self) -> Result<(Part, Option<SyntaxError>), SyntaxError> {
        let mut operand = self.primary(20)?;
        loop {
            operand = match self.words.kind() {
                Kind::Dot => {
                    if let Some(error) = self.selects_nothing() {
                        return Ok((operand, Some(error)));
                    }
                    self.select(operand)?
                }
                Kind::LeftBracket => self.index(operand)?,
                _ => return Ok((operand, None)),
            };
        }
    }

    /// Returns an error if the token after the dot cannot be selected.
    fn selects_nothing(&mut self) -> Option<SyntaxError> {
        let (first, offending) = (self.words.ahead(0), self.words.ahead(1));
        self.words.state = 21;
        let fits = offending.kind == Kind::Question || NAME.has(offending.kind);
        (!fits).then_some(SyntaxError::NoViable { first, offending })
    }

    fn select(&mut self, operand: Part) -> Rule {
        let (dot, next) = (self.words.ahead(0), self.words.ahead(1));
        if next.kind == Kind::Ident && self.words.ahead(2).kind == Kind::LeftParen {
            return self.member_call(operand);
        }
        self.words.take_any();
        let optional = next.kind == Kind::Question;
        if optional {
            self.words.take_any();
        }
        let begin = self.words.ahead(0).start;
        let name = self.name(SUFFIX.or_nothing(), 22)?;
        let height = operand.height;
        let Some((place, name)) = name else {
            let expr = self.build.report(begin, "unsupported ident kind");
            return Ok(Part::around(expr, height));
        };
        let expr = if optional {
            let field = self.node(place, Node::Literal(Literal::String(name)));
            call(self.build.id(dot.start), "_?._", vec![operand.expr, field])
        } else {
            let operand = Box::new(operand.expr);
            self.node(
                dot.start,
                Node::Select {
                    operand,
                    field: name,
                    test: false,
                },
            )
        };
        Ok(Part::around(expr, height))
    }

    fn member_call(&mut self, operand: Part) -> Rule {
        self.words.take_any();
        let name = self.words.take_any();
        let open = self.words.take_any();
        let id = self.build.id(open.start);
        let (args, height) = self.arguments(23)?;
        let height = operand.height.max(height);
        let function = self.words.text_of(name);
        let expr = self.call_or_macro(id, &function, Some(operand.expr), args);
        Ok(Part::around(expr, height))
    }

    fn index(&mut self, operand: Part) -> Rule {
        let open = self.words.take_any();
        let id = self.build.id(open.start);
        self.words.sync(OPT_EXPR, 24)?;
        let optional = self.words.kind() == Kind::Question;
        if optional {
            self.words.take_any();
        }
        let index = self.expr(Set::of(&[Kind::RightBracket]), 25)?;
        self.words
            .take(Kind::RightBracket, SUFFIX.or_nothing(), 26)?;
        let height = operand.height.max(index.height);
        let function = if optional { "_[?_]" } else { "_[_]" };
        Ok(Part::around(
            call(id, function, vec![operand.expr, index.expr]),
            height,
        ))
    }

    /// Parses arguments up to the closing parenthesis.
    fn arguments(&mut self, state: u8) -> Result<(Vec<Expr>, usize), SyntaxError> {
        self.words
            .sync(EXPR.or(Set::of(&[Kind::RightParen])), state)?;
        let mut found = (Vec::new(), 0);
        if EXPR.has(self.words.kind()) {
            self.words.enter(Set::of(&[Kind::RightParen]));
            let result = self.expressions(&mut found);
            self.words.leave(result.err(), 27)?;
        }
        let after = if state == 23 {
            SUFFIX.or_nothing()
        } else {
            NOTHING
        };
        self.words.take(Kind::RightParen, after, 28)?;
        Ok(found)
    }

    fn expressions(&mut self, found: &mut (Vec<Expr>, usize)) -> Result<(), SyntaxError> {
        loop {
            let part = self.expr(Set::of(&[Kind::Comma]).or_nothing(), 29)?;
            found.0.push(part.expr);
            found.1 = found.1.max(part.height);
            if self.words.kind() != Kind::Comma {
                return Ok(());
            }
            self.words.take_any();
        }
    }

    /// Parses a name after a dot or in a struct; returns its position and text.
    fn name(&mut self, follow: Set, site: u8) -> Result<Option<(usize, Arc<str>)>, SyntaxError> {
        self.words.enter(follow);
        let result = self.words.sync(NAME, 30).map(|()| self.words.ahead(0));
        let token = match result {
            Ok(token) if NAME.has(token.kind) => self.words.take_any(),
            Ok(token) => {
                let error = SyntaxError::NoViable {
                    first: token,
                    offending: token,
                };
                self.words.leave(Some(error), site)?;
                return Ok(None);
            }
            Err(error) => {
                self.words.leave(Some(error), site)?;
                return Ok(None);
            }
        };
        self.words.leave(None, site)?;
        if token.kind == Kind::EscapedIdent {
            self.build.report(token.start, "unsupported syntax: '`'");
        }
        Ok(Some((token.start, self.words.text_of(token).into())))
    }

    fn call_or_macro(
        &mut self,
        id: Id,
        function: &str,
        target: Option<Expr>,
        args: Vec<Expr>,
    ) -> Expr {
        match expand(&mut self.build, id, function, target, args) {
            Expansion::Done(expr) => expr,
            Expansion::Wrong(place, message) => self.build.report(place, message),
            Expansion::WrongName(place, message) => self.build.report(place, message),
            Expansion::Call(target, args) => {
                let target = target.map(Box::new);
                Expr {
                    id,
                    node: Node::Call {
                        target,
                        function: function.into(),
                        args,
                    },
                }
            }
        }
    }

    fn node(&mut self, place: usize, node: Node) -> Expr {
        Expr {
            id: self.build.id(place),
            node,
        }
    }

    fn deeper(&mut self, rule: usize) -> Result<(), SyntaxError> {
        self.depths[rule] += 1;
        if self.depths[rule] > MAX_DEPTH {
            let message = format!("expression recursion limit exceeded: {MAX_DEPTH}");
            self.words.issues.push(overall(&message));
            return Err(SyntaxError::Halt);
        }
        Ok(())
    }

    /// Ends a rule. After an error, which was reported, a placeholder allows the outer rule to
    /// continue.
    fn finish(&mut self, result: Rule, site: u8) -> Rule {
        match result {
            Ok(part) => {
                self.words.leave(None, site)?;
                Ok(part)
            }
            Err(error) => {
                self.words.leave(Some(error), site)?;
                Ok(Part {
                    expr: nothing(),
                    height: 0,
                })
            }
        }
    }
}

fn overall(message: &str) -> Issue {
    Issue {
        offset: None,
        message: message.to_owned(),
    }
}

fn call(id: Id, function: &str, args: Vec<Expr>) -> Expr {
    Expr {
        id,
        node: Node::Call {
            target: None,
            function: function.into(),
            args,
        },
    }
}

fn binary(id: Id, operator: Token, left: Part, right: Part) -> Part {
    let height = left.height.max(right.height);
    let function = operator.kind.operator().unwrap_or_default();
    Part::around(call(id, function, vec![left.expr, right.expr]), height)
}

/// The placeholder of an expression that could not be parsed.
fn nothing() -> Expr {
    Expr {
        id: 0,
        node: Node::Literal(Literal::Null),
    }
}

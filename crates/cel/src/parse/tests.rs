//! Trees and node numbers are those of the reference implementation.

use std::fmt::Write;

use super::*;
use crate::ast::{Entry, Literal, Node};

#[test]
fn nodes_are_numbered_and_macros_expanded_as_the_reference_does() {
    let mut compared = 0;
    for line in include_str!("../../tests/data/vectors.jsonl")
        .lines()
        .skip(1)
    {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let Some(tree) = line["tree"].as_str() else {
            continue;
        };
        let rule = line["rule"].as_str().expect("a rule");
        let Ok(parsed) = parse(&Source::new(rule)) else {
            panic!("{rule}")
        };
        let mut shown = String::new();
        show(&mut shown, &parsed.expr);
        assert_eq!(shown, tree, "{rule}");
        compared += 1;
    }
    assert!(compared > 200, "{compared}");
}

fn show(to: &mut String, expr: &Expr) {
    write!(to, "{}:", expr.id).expect("a string");
    match &expr.node {
        Node::Literal(literal) => to.push_str(&literal_text(literal)),
        Node::Ident(name) => to.push_str(name),
        Node::Select {
            operand,
            field,
            test,
        } => {
            to.push_str(if *test { "(has " } else { "(" });
            show(to, operand);
            write!(to, ".{field})").expect("a string");
        }
        Node::Call {
            target,
            function,
            args,
        } => {
            write!(to, "{function}(").expect("a string");
            if let Some(target) = target {
                to.push_str("this ");
                show_all(to, [&**target]);
            }
            show_all(to, args);
            to.push(')');
        }
        Node::List { elements, optional } => {
            to.push('[');
            for (at, element) in elements.iter().enumerate() {
                to.push_str(if optional.contains(&at) { "?" } else { "" });
                show_all(to, [element]);
            }
            to.push(']');
        }
        Node::Map(entries) => show_entries(to, "", entries),
        Node::Struct { name, entries } => show_entries(to, name, entries),
        Node::Comprehension(it) => {
            let second = it.second.as_deref().unwrap_or_default();
            write!(to, "loop({},{second},{} ", it.variable, it.accumulator).expect("a string");
            show_all(
                to,
                [&it.range, &it.init, &it.condition, &it.step, &it.result],
            );
            to.push(')');
        }
    }
}

fn show_all<'a>(to: &mut String, exprs: impl IntoIterator<Item = &'a Expr>) {
    for expr in exprs {
        show(to, expr);
        to.push(' ');
    }
}

fn show_entries(to: &mut String, name: &str, entries: &[Entry]) {
    write!(to, "{name}{{").expect("a string");
    for entry in entries {
        write!(to, "{}:{}", entry.id, if entry.optional { "?" } else { "" }).expect("a string");
        match &entry.key.node {
            Node::Literal(field) if !name.is_empty() => to.push_str(&literal_text(field)),
            _ => show(to, &entry.key),
        }
        to.push('=');
        show_all(to, [&entry.value]);
    }
    to.push('}');
}

fn literal_text(literal: &Literal) -> String {
    match literal {
        Literal::Null => "NULL_VALUE".to_owned(),
        Literal::Bool(value) => value.to_string(),
        Literal::Int(value) => value.to_string(),
        Literal::Uint(value) => value.to_string(),
        Literal::Double(value) => value.to_string(),
        Literal::String(value) => value.to_string(),
        Literal::Bytes(bytes) => {
            let bytes: Vec<_> = bytes.iter().map(u8::to_string).collect();
            format!("[{}]", bytes.join(" "))
        }
    }
}

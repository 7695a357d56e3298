//! The table of functions.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::types::Type;

static TABLE: &str = include_str!("../data/functions.txt");

static FUNCTIONS: LazyLock<HashMap<&'static str, Function>> = LazyLock::new(read);

/// A function and its overloads.
#[derive(Debug)]
pub struct Function {
    /// The name of the function.
    pub name: &'static str,
    /// The overloads, in the order of resolution.
    pub overloads: Vec<Overload>,
}

/// An overload of a function.
#[derive(Debug)]
pub struct Overload {
    /// The unique name of the overload.
    pub id: &'static str,
    /// Whether it is called as `x.f(y)`, with x as the first argument, or as `f(x, y)`.
    pub member: bool,
    /// The types of the arguments.
    pub args: Vec<Type>,
    /// The type of the result.
    pub result: Type,
    /// The type parameters of the signature.
    pub params: Vec<std::sync::Arc<str>>,
}

/// Returns the function of this name.
#[must_use]
pub fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.get(name)
}

fn read() -> HashMap<&'static str, Function> {
    let mut functions = HashMap::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let mut columns = line.split(" | ").map(str::trim);
        let mut column = || columns.next().unwrap_or_default();
        let (name, id, style, args, result) = (column(), column(), column(), column(), column());
        let Some(result) = Type::read(result) else {
            continue;
        };
        let args: Vec<_> = args.split_terminator(';').filter_map(Type::read).collect();
        let mut params = Vec::new();
        args.iter()
            .chain([&result])
            .for_each(|of| collect(of, &mut params));
        let member = style == "member";
        functions
            .entry(name)
            .or_insert_with(|| Function {
                name,
                overloads: Vec::new(),
            })
            .overloads
            .push(Overload {
                id,
                member,
                args,
                result,
                params,
            });
    }
    functions
}

fn collect(of: &Type, params: &mut Vec<std::sync::Arc<str>>) {
    match of {
        Type::Param(name) if !params.contains(name) => params.push(name.clone()),
        Type::List(of) | Type::Optional(of) | Type::Meta(of) => collect(of, params),
        Type::Map(key, value) => {
            collect(key, params);
            collect(value, params);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_an_overload() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
        for line in lines.clone() {
            let columns: Vec<_> = line.split(" | ").collect();
            assert_eq!(columns.len(), 5, "{line}");
            assert!(Type::read(columns[4]).is_some(), "{line}");
            let args: Vec<_> = columns[3]
                .split(';')
                .filter(|arg| !arg.trim().is_empty())
                .collect();
            let overload = &function(columns[0].trim()).expect(line).overloads;
            let overload = overload
                .iter()
                .find(|of| of.id == columns[1].trim())
                .expect(line);
            assert_eq!(overload.args.len(), args.len(), "{line}");
        }
        assert_eq!(
            lines.count(),
            FUNCTIONS
                .values()
                .map(|of| of.overloads.len())
                .sum::<usize>()
        );
    }
}

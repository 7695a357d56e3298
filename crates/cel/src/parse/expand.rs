//! Macro expansion.

use std::sync::Arc;

use super::build::Builder;
use crate::ast::{Comprehension, Entry, Expr, Id, Literal, Node};

/// The name of a loop's accumulator, which cannot occur in a source text.
const ACCUMULATOR: &str = "@result";

/// The former name of the accumulator, which is still reserved.
const OLD_ACCUMULATOR: &str = "__result__";

/// The variable of a loop that only binds another.
const UNUSED: &str = "#unused";

/// The result of expanding a call.
pub(crate) enum Expansion {
    /// The expansion of a macro.
    Done(Expr),
    /// A macro with invalid arguments: position and message.
    Wrong(usize, &'static str),
    /// The same, with a message that depends on the arguments.
    WrongName(usize, String),
    /// An ordinary call.
    Call(Option<Expr>, Vec<Expr>),
}

/// Expands a call, if it is a macro.
pub(crate) fn expand(
    build: &mut Builder,
    id: Id,
    function: &str,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Expansion {
    let mut make = Expander {
        place: build.place(id),
        origin: id,
        build,
    };
    let result = match (function, target.is_some(), args.len()) {
        ("has", false, 1) => make.has(args),
        ("all" | "exists" | "exists_one", true, 2) => make.quantify(function, target, args),
        ("all" | "exists" | "exists_one" | "existsOne", true, 3) => {
            make.quantify(function, target, args)
        }
        ("map", true, 2 | 3) => make.map(target, args),
        ("filter", true, 2) => make.filter(target, args),
        ("transformList" | "transformMap" | "transformMapEntry", true, 3 | 4) => {
            make.transform(function, target, args)
        }
        ("optMap", true, 2) => make.optional(target, args, true),
        ("optFlatMap", true, 2) => make.optional(target, args, false),
        ("sortBy", true, 2) => make.sort_by(target, args),
        _ => return Expansion::Call(target, args),
    };
    match result {
        Ok(expr) => Expansion::Done(expr),
        Err(Wrong {
            at,
            why: Why::Fixed(message),
        }) => Expansion::Wrong(build.place(at), message),
        Err(Wrong {
            at,
            why: Why::Twice(name),
        }) => {
            let message = format!("duplicate variable name: {name}");
            Expansion::WrongName(build.place(at), message)
        }
    }
}

struct Wrong {
    at: Id,
    why: Why,
}

enum Why {
    Fixed(&'static str),
    Twice(Arc<str>),
}

impl Wrong {
    fn at(expr: &Expr, message: &'static str) -> Self {
        Self {
            at: expr.id,
            why: Why::Fixed(message),
        }
    }
}

/// Creates the nodes of an expansion, all at the position of the macro.
struct Expander<'a> {
    place: usize,
    origin: Id,
    build: &'a mut Builder,
}

/// The parts of a loop other than its range.
struct LoopBody {
    init: Expr,
    condition: Expr,
    step: Expr,
    result: Expr,
}

impl Expander<'_> {
    fn has(&mut self, args: Vec<Expr>) -> Result<Expr, Wrong> {
        let Ok([argument]) = <[Expr; 1]>::try_from(args) else {
            return Ok(self.literal(Literal::Null));
        };
        match argument.node {
            Node::Select { operand, field, .. } => Ok(self.node(Node::Select {
                operand,
                field,
                test: true,
            })),
            _ => Err(Wrong::at(&argument, "invalid argument to has() macro")),
        }
    }

    fn quantify(
        &mut self,
        kind: &str,
        target: Option<Expr>,
        args: Vec<Expr>,
    ) -> Result<Expr, Wrong> {
        let names = if args.len() == 2 {
            (variable(&args[0], "argument must be a simple name")?, None)
        } else {
            pair(&args)?
        };
        let predicate = last(args);
        let body = match kind {
            "all" => self.for_all(predicate),
            "exists" => self.for_some(predicate),
            _ => self.for_one(predicate),
        };
        Ok(self.comprehension(target, names, body))
    }

    fn for_all(&mut self, predicate: Expr) -> LoopBody {
        let init = self.literal(Literal::Bool(true));
        let so_far = self.accumulator();
        let condition = self.call("@not_strictly_false", vec![so_far]);
        let so_far = self.accumulator();
        let step = self.call("_&&_", vec![so_far, predicate]);
        LoopBody {
            init,
            condition,
            step,
            result: self.accumulator(),
        }
    }

    fn for_some(&mut self, predicate: Expr) -> LoopBody {
        let init = self.literal(Literal::Bool(false));
        let so_far = self.accumulator();
        let not_yet = self.call("!_", vec![so_far]);
        let condition = self.call("@not_strictly_false", vec![not_yet]);
        let so_far = self.accumulator();
        let step = self.call("_||_", vec![so_far, predicate]);
        LoopBody {
            init,
            condition,
            step,
            result: self.accumulator(),
        }
    }

    fn for_one(&mut self, predicate: Expr) -> LoopBody {
        let init = self.literal(Literal::Int(0));
        let condition = self.literal(Literal::Bool(true));
        let so_far = self.accumulator();
        let one = self.literal(Literal::Int(1));
        let more = self.call("_+_", vec![so_far, one]);
        let same = self.accumulator();
        let step = self.call("_?_:_", vec![predicate, more, same]);
        let found = self.accumulator();
        let one = self.literal(Literal::Int(1));
        let result = self.call("_==_", vec![found, one]);
        LoopBody {
            init,
            condition,
            step,
            result,
        }
    }

    fn map(&mut self, target: Option<Expr>, mut args: Vec<Expr>) -> Result<Expr, Wrong> {
        let name = variable(&args[0], "argument is not an identifier")?;
        let predicate = (args.len() == 3).then(|| args.remove(1));
        let transform = last(args);
        let init = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(true));
        let mut step = self.append(transform);
        if let Some(predicate) = predicate {
            step = self.only_if(predicate, step);
        }
        let body = LoopBody {
            init,
            condition,
            step,
            result: self.accumulator(),
        };
        Ok(self.comprehension(target, (name, None), body))
    }

    fn filter(&mut self, target: Option<Expr>, mut args: Vec<Expr>) -> Result<Expr, Wrong> {
        let name = variable(&args[0], "argument is not an identifier")?;
        let predicate = args.remove(1);
        let element = last(args);
        let init = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(true));
        let step = self.append(element);
        let step = self.only_if(predicate, step);
        let body = LoopBody {
            init,
            condition,
            step,
            result: self.accumulator(),
        };
        Ok(self.comprehension(target, (name, None), body))
    }

    fn transform(
        &mut self,
        kind: &str,
        target: Option<Expr>,
        mut args: Vec<Expr>,
    ) -> Result<Expr, Wrong> {
        let names = pair(&args)?;
        let predicate = (args.len() == 4).then(|| args.remove(2));
        let transform = last(args);
        let mut step = match kind {
            "transformList" => self.append(transform),
            "transformMap" => {
                let so_far = self.accumulator();
                let key = self.ident(names.0.clone());
                self.call("cel.@mapInsert", vec![so_far, key, transform])
            }
            _ => {
                let so_far = self.accumulator();
                self.call("cel.@mapInsert", vec![so_far, transform])
            }
        };
        if let Some(predicate) = predicate {
            step = self.only_if(predicate, step);
        }
        let init = match kind {
            "transformList" => self.list(Vec::new()),
            _ => self.node(Node::Map(Vec::<Entry>::new())),
        };
        let condition = self.literal(Literal::Bool(true));
        let body = LoopBody {
            init,
            condition,
            step,
            result: self.accumulator(),
        };
        Ok(self.comprehension(target, names, body))
    }

    /// Expands `optMap`, which wraps its result into an optional, and `optFlatMap`, which does not.
    fn optional(
        &mut self,
        target: Option<Expr>,
        args: Vec<Expr>,
        wrap: bool,
    ) -> Result<Expr, Wrong> {
        let Node::Ident(name) = &args[0].node else {
            return Err(Wrong::at(
                &args[0],
                if wrap {
                    "optMap() variable name must be a simple identifier"
                } else {
                    "optFlatMap() variable name must be a simple identifier"
                },
            ));
        };
        let name = name.clone();
        let transform = last(args);
        let target = target.unwrap_or_else(|| self.literal(Literal::Null));
        let asked = self.build.id(self.place);
        let range = self.list(Vec::new());
        let copy = self.build.copy(&target, self.origin);
        let init = self.member("value", copy, Vec::new());
        let condition = self.literal(Literal::Bool(false));
        let step = self.ident(name.clone());
        let mut value = self.bind(
            range,
            name,
            LoopBody {
                init,
                condition,
                step,
                result: transform,
            },
        );
        if wrap {
            value = self.call("optional.of", vec![value]);
        }
        let none = self.call("optional.none", Vec::new());
        let target = Some(Box::new(target));
        let node = Node::Call {
            target,
            function: "hasValue".into(),
            args: Vec::new(),
        };
        Ok(self.call("_?_:_", vec![Expr { id: asked, node }, value, none]))
    }

    fn sort_by(&mut self, target: Option<Expr>, args: Vec<Expr>) -> Result<Expr, Wrong> {
        let input: Arc<str> = "@__sortBy_input__".into();
        let step = self.ident(input.clone());
        let target = target.unwrap_or_else(|| self.literal(Literal::Null));
        if matches!(
            target.node,
            Node::Literal(_) | Node::Map(_) | Node::Struct { .. }
        ) {
            return Err(Wrong::at(
                &target,
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
            ));
        }
        let keys_of = self.build.copy(&step, self.origin);
        let keys = self.map(Some(keys_of), args)?;
        let sorted = self.build.copy(&step, self.origin);
        let result = self.member("@sortByAssociatedKeys", sorted, vec![keys]);
        let range = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(false));
        Ok(self.bind(
            range,
            input,
            LoopBody {
                init: target,
                condition,
                step,
                result,
            },
        ))
    }

    fn append(&mut self, element: Expr) -> Expr {
        let so_far = self.accumulator();
        let element = self.list(vec![element]);
        self.call("_+_", vec![so_far, element])
    }

    fn only_if(&mut self, predicate: Expr, step: Expr) -> Expr {
        let same = self.accumulator();
        self.call("_?_:_", vec![predicate, step, same])
    }

    fn comprehension(
        &mut self,
        target: Option<Expr>,
        names: (Arc<str>, Option<Arc<str>>),
        body: LoopBody,
    ) -> Expr {
        let range = target.unwrap_or_else(|| self.literal(Literal::Null));
        self.node(Node::Comprehension(Box::new(Comprehension {
            range,
            variable: names.0,
            second: names.1,
            accumulator: ACCUMULATOR.into(),
            init: body.init,
            condition: body.condition,
            step: body.step,
            result: body.result,
        })))
    }

    /// Creates a loop without iterations that binds its accumulator for the result.
    fn bind(&mut self, range: Expr, name: Arc<str>, body: LoopBody) -> Expr {
        self.node(Node::Comprehension(Box::new(Comprehension {
            range,
            variable: UNUSED.into(),
            second: None,
            accumulator: name,
            init: body.init,
            condition: body.condition,
            step: body.step,
            result: body.result,
        })))
    }

    fn node(&mut self, node: Node) -> Expr {
        Expr {
            id: self.build.id(self.place),
            node,
        }
    }

    fn literal(&mut self, value: Literal) -> Expr {
        self.node(Node::Literal(value))
    }

    fn ident(&mut self, name: Arc<str>) -> Expr {
        self.node(Node::Ident(name))
    }

    fn accumulator(&mut self) -> Expr {
        self.ident(ACCUMULATOR.into())
    }

    fn list(&mut self, elements: Vec<Expr>) -> Expr {
        self.node(Node::List {
            elements,
            optional: Vec::new(),
        })
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.node(Node::Call {
            target: None,
            function: function.into(),
            args,
        })
    }

    fn member(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        let target = Some(Box::new(target));
        self.node(Node::Call {
            target,
            function: function.into(),
            args,
        })
    }
}

fn variable(argument: &Expr, otherwise: &'static str) -> Result<Arc<str>, Wrong> {
    let Node::Ident(name) = &argument.node else {
        return Err(Wrong::at(argument, otherwise));
    };
    free(argument, name)?;
    Ok(name.clone())
}

fn pair(args: &[Expr]) -> Result<(Arc<str>, Option<Arc<str>>), Wrong> {
    let simple = |argument: &Expr| match &argument.node {
        Node::Ident(name) => Ok(name.clone()),
        _ => Err(Wrong::at(argument, "argument must be a simple name")),
    };
    let (first, second) = (simple(&args[0])?, simple(&args[1])?);
    if first == second {
        return Err(Wrong {
            at: args[1].id,
            why: Why::Twice(first),
        });
    }
    free(&args[0], &first)?;
    free(&args[1], &second)?;
    Ok((first, Some(second)))
}

fn free(argument: &Expr, name: &str) -> Result<(), Wrong> {
    if name == ACCUMULATOR || name == OLD_ACCUMULATOR {
        let message = "iteration variable overwrites accumulator variable";
        return Err(Wrong::at(argument, message));
    }
    Ok(())
}

fn last(mut args: Vec<Expr>) -> Expr {
    args.pop()
        .expect("a macro is expanded only with the number of arguments it takes")
}

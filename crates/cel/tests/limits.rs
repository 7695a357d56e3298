//! Expressions of users exhaust neither the stack nor memory nor time.

use insula_cel::{Environment, Program, Type, estimate};

fn compile(source: &str) -> Result<Program, String> {
    let environment = Environment::new().with("self", Type::Dyn);
    Program::compile(&environment, source).map_err(|issues| issues.to_string())
}

fn refused(source: &str) -> String {
    let text = compile(source).err().unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn nesting_is_accepted_up_to_250_and_refused_beyond() {
    let nested = |open: &str, close: &str, depth: usize| {
        format!("{}true{}", open.repeat(depth), close.repeat(depth))
    };
    for (open, close, deepest) in [
        ("(", ")", 249),
        ("[", "][0]", 249),
        ("dyn(", ")", 249),
        ("{1:", "}", 249),
    ] {
        let program = compile(&nested(open, close, deepest)).expect("it is not too deep");
        let cost = estimate(&program, None);
        assert!(cost.min <= cost.max, "{open}");
        let too_deep = "ERROR: <input>:-1:0: expression recursion limit exceeded: 250";
        assert_eq!(refused(&nested(open, close, deepest + 1)), too_deep);
        assert_eq!(refused(&nested(open, close, 10_000)), too_deep);
    }
    for repeated in [".a", "[0]", " + 1", " == 1", ".f()", ".map(x, x)"] {
        let too_deep = "ERROR: <input>:-1:0: max recursion depth exceeded";
        assert_eq!(refused(&format!("self{}", repeated.repeat(251))), too_deep);
        let long = repeated.repeat(99_000 / repeated.len());
        assert_eq!(refused(&format!("self{long}")), too_deep);
        assert_ne!(refused(&format!("self{}", repeated.repeat(250))), too_deep);
    }
}

#[test]
fn long_chains_of_and_and_or_become_shallow_trees() {
    let program = compile(&format!("true{}", " && true".repeat(10_000))).expect("it is long");
    assert_eq!(program.depth(), 15);
    assert_eq!(estimate(&program, None).max, 0);
}

#[test]
fn nested_loops_of_any_depth_can_be_walked() {
    let depth = 124;
    for call in [
        "self.all(x, ",
        "self.map(x, true, ",
        "self.exists(x, ",
        "self.optMap(x, ",
    ] {
        let source = format!("{}true{}", call.repeat(depth), ")".repeat(depth));
        let program = compile(&source).expect("it is not too deep");
        assert!(program.depth() > depth, "{call}");
        assert!(estimate(&program, None).max > 0, "{call}");
    }
}

#[test]
fn expressions_are_limited_to_100000_characters() {
    let long = |length: usize| format!("'{}' == ''", "é".repeat(length - 8));
    assert!(compile(&long(100_000)).is_ok());
    assert_eq!(
        refused(&long(100_001)),
        "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100001, limit 100000"
    );
}

#[test]
fn macros_that_copy_their_target_are_limited_in_nodes() {
    let source = format!("optional.of(1){}", ".optMap(x, x)".repeat(200));
    let expected = "ERROR: <input>:-1:0: expression is too large with macros expanded";
    assert_eq!(refused(&source), expected);
}

#[test]
fn types_are_limited_in_size_and_depth() {
    let expected = "ERROR: <input>:-1:0: types of the expression are too large";
    let doubling = format!("[1]{}", ".map(x, {x: x})".repeat(100));
    assert_eq!(refused(&doubling), expected);
    let deepening = format!(
        "[1]{}",
        format!(".map(x, {}x{})", "[".repeat(150), "]".repeat(150)).repeat(100)
    );
    assert_eq!(refused(&deepening), expected);
}

#[test]
fn error_recovery_terminates() {
    let text = compile(&"(a b c) + ".repeat(60))
        .expect_err("nonsense")
        .to_string();
    assert!(
        text.contains("Syntax error: error recovery attempt limit exceeded: 30"),
        "{text}"
    );
    let text = compile(&"a ".repeat(300)).expect_err("nonsense");
    assert!(
        text.contains("error recovery token lookahead limit exceeded: 256"),
        "{text}"
    );
    let text = compile(&"#".repeat(100_000)).expect_err("nonsense");
    assert!(text.ends_with("\n1 more errors were truncated"), "{text}");
}

#[test]
fn arbitrary_text_is_compiled_or_refused_without_a_panic() {
    let pieces = [
        "self",
        ".",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        "?",
        ":",
        "'",
        "\"",
        "'''",
        "\\",
        "b'",
        "r\"",
        "1",
        "0x",
        "1e",
        "u",
        "-",
        "!",
        "&&",
        "|",
        "in",
        "true",
        "`",
        "é",
        "\u{0}",
        "\n",
        "\r",
        "//",
        "has(",
        ".all(x,",
        ".map(",
        ".optMap(x,",
        ".sortBy(",
        "%s'.format([",
        "\\u12",
        "\\377",
    ];
    // A deterministic generator, so that all runs are the same.
    let mut state: u64 = 42;
    for _ in 0..20_000 {
        let mut source = String::new();
        for _ in 0..8 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            source.push_str(pieces[(state >> 33) as usize % pieces.len()]);
        }
        if let Ok(program) = compile(&source) {
            let cost = estimate(&program, None);
            assert!(cost.min <= cost.max, "{source}");
        }
    }
}

#[test]
fn programs_are_shared_between_threads() {
    fn shared<T: Send + Sync + Clone + 'static>(_: &T) {}
    shared(&compile("true").expect("a program"));
}

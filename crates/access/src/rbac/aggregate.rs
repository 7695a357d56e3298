//! The rules of roles that are made of others.

use std::collections::HashMap;
use std::sync::Arc;

use super::object::{ClusterRole, Source};
use super::rule::{Rule, RuleList};
use super::selector::Selector;

/// How many steps it takes at most to aggregate all roles of a space: a role held against a
/// requirement of a selector, a selected role or a rule of it come by.
///
/// A few thousand roles that all select each other would take minutes and gigabytes. This
/// much takes some milliseconds, and does for a thousand roles of which a few hundred are
/// aggregated.
const MOST_STEPS: usize = 1 << 19;

/// The roles of a space: its own, and those below that they do not replace.
#[derive(Clone, Copy, Debug)]
pub struct Roles<'a> {
    pub own: &'a ByName,
    pub below: &'a ByName,
}

/// Roles by their names.
pub type ByName = HashMap<Box<str>, ClusterRole>;

/// The rules of aggregated roles, by their names.
pub type Aggregated = HashMap<Box<str>, RuleList>;

impl<'a> Roles<'a> {
    /// The role of this name.
    pub fn get(self, name: &str) -> Option<&'a ClusterRole> {
        self.own.get(name).or_else(|| self.below.get(name))
    }

    /// The rules of every aggregated role.
    ///
    /// They are those of the roles that its selectors select, selector by selector and in
    /// the order of names; a selected role that is aggregated itself stands for its own
    /// selection. Each rule is there once. The role itself is left out, and a role that
    /// was come by before adds nothing, so circles end.
    ///
    /// After too many steps nothing is added any more: what is left out is not allowed.
    pub fn aggregate(self) -> Aggregated {
        let roles = self.sorted();
        let mut steps = Steps(MOST_STEPS);
        let graph = Graph::new(&roles, &mut steps);
        let mut walk = Walk::new(&graph, &mut steps);
        let aggregated = roles.iter().enumerate().filter_map(|(at, (name, role))| {
            let is_aggregated = matches!(role.source, Source::Aggregated(_));
            is_aggregated.then(|| ((*name).into(), walk.from(at)))
        });
        aggregated.collect()
    }

    fn sorted(self) -> Vec<(&'a str, &'a ClusterRole)> {
        let below = self.below.iter();
        let below = below.filter(|(name, _)| !self.own.contains_key(*name));
        let mut roles: Vec<_> = self.own.iter().chain(below).collect();
        roles.sort_unstable_by_key(|(name, _)| *name);
        roles
            .into_iter()
            .map(|(name, role)| (&**name, role))
            .collect()
    }
}

/// The steps that are left.
struct Steps(usize);

impl Steps {
    /// Whether there are as many more.
    fn take(&mut self, count: usize) -> bool {
        let rest = self.0.checked_sub(count);
        self.0 = rest.unwrap_or(0);
        rest.is_some()
    }
}

/// Roles by their places in the order of names, and rules by numbers: equal ones have one.
struct Graph<'a> {
    nodes: Vec<Node>,
    rules: Vec<&'a Arc<Rule>>,
}

enum Node {
    /// A role with these rules.
    Own(Vec<usize>),
    /// A role that is made of these roles.
    MadeOf(Vec<usize>),
}

impl<'a> Graph<'a> {
    fn new(roles: &[(&'a str, &'a ClusterRole)], steps: &mut Steps) -> Self {
        let mut numbers: HashMap<&Rule, usize> = HashMap::new();
        let mut rules = Vec::new();
        let mut number = |rule: &'a Arc<Rule>| {
            *numbers.entry(rule).or_insert_with(|| {
                rules.push(rule);
                rules.len() - 1
            })
        };
        let nodes = roles.iter().map(|(_, role)| match &role.source {
            Source::Own(rules) => Node::Own(rules.iter().map(&mut number).collect()),
            Source::Aggregated(selectors) => Node::MadeOf(select(roles, selectors, steps)),
        });
        let nodes = nodes.collect();
        Self { nodes, rules }
    }
}

fn select(roles: &[(&str, &ClusterRole)], selectors: &[Selector], steps: &mut Steps) -> Vec<usize> {
    let pairs = selectors.iter().flat_map(|selector| {
        let roles = roles.iter().enumerate();
        roles.map(move |(at, (_, role))| (at, selector, &role.labels))
    });
    let pairs = pairs.take_while(|(_, selector, _)| steps.take(selector.size()));
    let selected = pairs.filter(|(_, selector, labels)| selector.selects(labels));
    selected.map(|(at, ..)| at).collect()
}

/// Ways through the graph. Whatever was come by bears the number of the way.
struct Walk<'a> {
    graph: &'a Graph<'a>,
    steps: &'a mut Steps,
    way: usize,
    seen: Vec<usize>,
    known: Vec<usize>,
}

impl<'a> Walk<'a> {
    fn new(graph: &'a Graph<'a>, steps: &'a mut Steps) -> Self {
        Self {
            graph,
            steps,
            way: 0,
            seen: vec![0; graph.nodes.len()],
            known: vec![0; graph.rules.len()],
        }
    }

    /// The rules that one comes by from a role, in the order in which one does.
    fn from(&mut self, role: usize) -> RuleList {
        self.way += 1;
        let mut rules = Vec::new();
        // A stack of its own: a chain may be longer than the thread's stack is deep.
        let mut stack = vec![std::slice::from_ref(&role).iter()];
        while let Some(roles) = stack.last_mut() {
            let Some(&role) = roles.next() else {
                stack.pop();
                continue;
            };
            if !self.steps.take(1) {
                break;
            }
            if std::mem::replace(&mut self.seen[role], self.way) == self.way {
                continue;
            }
            match &self.graph.nodes[role] {
                Node::MadeOf(roles) => stack.push(roles.iter()),
                Node::Own(own) => self.add(own, &mut rules),
            }
        }
        rules.into()
    }

    fn add(&mut self, own: &[usize], rules: &mut Vec<Arc<Rule>>) {
        for &rule in own {
            if self.steps.take(1) && self.known[rule] != self.way {
                self.known[rule] = self.way;
                rules.push(Arc::clone(self.graph.rules[rule]));
            }
        }
    }
}

//! Aggregated cluster roles.

use std::collections::HashMap;
use std::sync::Arc;

use super::object::{ClusterRole, Source};
use super::rule::{Rule, RuleList};
use super::selector::Selector;

/// Upper bound on the steps taken to aggregate all roles of a space. A step is one role
/// compared with one requirement of a selector, or one selected role or rule visited.
///
/// A few thousand roles that all select each other would take minutes and gigabytes. This
/// bound takes some milliseconds, and suffices for a thousand roles of which a few hundred
/// are aggregated.
const MAX_STEPS: usize = 1 << 19;

/// The cluster roles of a space: its own, and the built-in ones that they do not replace.
#[derive(Clone, Copy, Debug)]
pub struct Roles<'a> {
    pub own: &'a ByName,
    pub built_in: &'a ByName,
}

/// Cluster roles by name.
pub type ByName = HashMap<Box<str>, ClusterRole>;

/// The rules of aggregated roles, by name.
pub type Aggregated = HashMap<Box<str>, RuleList>;

impl<'a> Roles<'a> {
    /// The role of this name.
    pub fn get(self, name: &str) -> Option<&'a ClusterRole> {
        self.own.get(name).or_else(|| self.built_in.get(name))
    }

    /// Computes the rules of every aggregated role.
    ///
    /// They are the rules of the roles that its selectors match, selector by selector and in
    /// the order of names. A matched role that is aggregated itself contributes the roles that
    /// it matches. Each rule appears once. A role is visited once, so cycles terminate.
    ///
    /// When the step budget is used up, no more rules are added: aggregation fails closed.
    pub fn aggregate(self) -> Aggregated {
        let roles = self.sorted();
        let mut steps = Steps(MAX_STEPS);
        let graph = Graph::new(&roles, &mut steps);
        let mut traversal = Traversal::new(&graph, &mut steps);
        let aggregated = roles.iter().enumerate().filter_map(|(at, (name, role))| {
            let is_aggregated = matches!(role.source, Source::Aggregated(_));
            is_aggregated.then(|| ((*name).into(), traversal.from(at)))
        });
        aggregated.collect()
    }

    fn sorted(self) -> Vec<(&'a str, &'a ClusterRole)> {
        let built_in = self.built_in.iter();
        let built_in = built_in.filter(|(name, _)| !self.own.contains_key(*name));
        let mut roles: Vec<_> = self.own.iter().chain(built_in).collect();
        roles.sort_unstable_by_key(|(name, _)| *name);
        roles
            .into_iter()
            .map(|(name, role)| (&**name, role))
            .collect()
    }
}

/// The remaining budget of steps.
struct Steps(usize);

impl Steps {
    /// Takes `count` steps, and reports whether that many were left.
    fn take(&mut self, count: usize) -> bool {
        let rest = self.0.checked_sub(count);
        self.0 = rest.unwrap_or(0);
        rest.is_some()
    }
}

/// Roles by their position in the order of names, and rules by number: equal rules share one.
struct Graph<'a> {
    nodes: Vec<Node>,
    rules: Vec<&'a Arc<Rule>>,
}

enum Node {
    /// A role with rules of its own.
    Own(Vec<usize>),
    /// A role that aggregates these roles.
    Aggregated(Vec<usize>),
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
            Source::Aggregated(selectors) => Node::Aggregated(select(roles, selectors, steps)),
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

/// Traversals of the graph. Visited roles and rules are marked with the traversal's number.
struct Traversal<'a> {
    graph: &'a Graph<'a>,
    steps: &'a mut Steps,
    round: usize,
    seen: Vec<usize>,
    known: Vec<usize>,
}

impl<'a> Traversal<'a> {
    fn new(graph: &'a Graph<'a>, steps: &'a mut Steps) -> Self {
        Self {
            graph,
            steps,
            round: 0,
            seen: vec![0; graph.nodes.len()],
            known: vec![0; graph.rules.len()],
        }
    }

    /// Collects the rules reachable from a role, in the order of the traversal.
    fn from(&mut self, role: usize) -> RuleList {
        self.round += 1;
        let mut rules = Vec::new();
        // An explicit stack: a chain of roles may be longer than the thread's stack allows.
        let mut stack = vec![std::slice::from_ref(&role).iter()];
        while let Some(roles) = stack.last_mut() {
            let Some(&role) = roles.next() else {
                stack.pop();
                continue;
            };
            if !self.steps.take(1) {
                break;
            }
            if std::mem::replace(&mut self.seen[role], self.round) == self.round {
                continue;
            }
            match &self.graph.nodes[role] {
                Node::Aggregated(roles) => stack.push(roles.iter()),
                Node::Own(own) => self.add(own, &mut rules),
            }
        }
        rules.into()
    }

    fn add(&mut self, own: &[usize], rules: &mut Vec<Arc<Rule>>) {
        for &rule in own {
            if self.steps.take(1) && self.known[rule] != self.round {
                self.known[rule] = self.round;
                rules.push(Arc::clone(self.graph.rules[rule]));
            }
        }
    }
}

use insula_store::embedded::Statistics;

use super::*;

/// Two writers: the first is killed while the answer to its second commit is on its way.
const FIRST_RUN: &str = "\
    opened 1 0 900\n\
    watching 0 1\n\
    request 0 ?a@absent +a=7.10\n\
    event 0 2 +a@2@2=7.10\n\
    response 0 committed 2\n\
    request 1 ?a@2 +a=8.10 +b=9.20\n\
    event 0 3 +a@2@3=8.10 +b@3@3=9.20";
const SECOND_RUN: &str = "\
    opened 3 0 900\n\
    watching 0 3\n\
    watching 1 1\n\
    event 1 2 +a@2@2=7.10\n\
    event 1 3 +a@2@3=8.10 +b@3@3=9.20\n\
    request 0 ?b@3 -b\n\
    event 0 4 -b\n\
    response 0 committed 4\n\
    compacting 2\n\
    compacted 2\n\
    request 1 ?b@3 -b\n\
    response 1 conflict 0 4";
/// The recovered log and states.
const LOG: &str = "\
    event 0 3 +a@2@3=8.10 +b@3@3=9.20\n\
    event 0 4 -b";
const STATES: &str = "\
    event 0 2 +a@2@2=7.10\n\
    event 0 4 +a@2@3=8.10";

/// The input of one check.
#[derive(Clone)]
struct Case {
    runs: [String; 2],
    log: String,
    states: String,
    floor: u64,
    took: Duration,
    log_bytes: u64,
}

impl Case {
    fn valid() -> Self {
        Self {
            runs: [FIRST_RUN.to_owned(), SECOND_RUN.to_owned()],
            log: LOG.to_owned(),
            states: STATES.to_owned(),
            floor: 2,
            took: Duration::from_millis(5),
            log_bytes: 4 << 20,
        }
    }

    fn check(&self, checker: &mut Checker) -> Result<(), String> {
        let runs = self.runs.each_ref().map(|life| run(life));
        let log = parse_log(&self.log);
        let entries = |changes: Vec<Changed>| changes.into_iter().filter_map(put).collect();
        let states = parse_log(&self.states).into_iter();
        let found = Inspection {
            took: self.took,
            revision: log.last().unwrap().0,
            statistics: Statistics {
                log_bytes: self.log_bytes,
                table_bytes: 0,
                syncs: 0,
                floor: Revision::new(self.floor),
                swept: Revision::new(self.floor),
            },
            log,
            states: states
                .map(|(revision, changes)| (revision, entries(changes)))
                .collect(),
        };
        let error = checker.check(&runs, &found);
        error.map_err(|error| format!("{error:#}"))
    }
}

fn run(text: &str) -> Run {
    let number = |(index, line)| format!("{} {line}", index + 1);
    let lines: Vec<_> = text.lines().enumerate().map(number).collect();
    Run::read(&lines).unwrap()
}

fn parse_log(text: &str) -> Log {
    let parse_log = |line: &str| match line.parse().unwrap() {
        Line::Event {
            revision, changes, ..
        } => (revision, changes),
        other => panic!("{other}"),
    };
    text.lines().map(parse_log).collect()
}

fn put(change: Changed) -> Option<Entry> {
    match change {
        Changed::Put(entry) => Some(entry),
        Changed::Deleted(_) => None,
    }
}

#[test]
fn valid_runs_are_accepted_and_counted() {
    let mut checker = Checker::default();
    assert_eq!(Case::valid().check(&mut checker), Ok(()));
    let expected = Totals {
        writers: 2,
        acknowledged: 2,
        in_doubt: 1,
        applied: 1,
        events: 5,
        max_opening: Duration::from_millis(5),
        max_log_bytes: 4 << 20,
        max_table_bytes: 0,
    };
    assert_eq!(*checker.totals(), expected);
    assert_eq!((checker.floor().get(), checker.revision().get()), (2, 4));
}

/// Each case changes one line of the valid input.
#[test]
fn each_violation_is_detected() {
    for (old, new, why) in [
        // A writer lost or invented something.
        (
            "response 0 committed 2",
            "response 0 committed 9",
            "after 9 was known",
        ),
        (
            "request 1 ?a@2 +a=8.10 +b=9.20",
            "request 1 ?a@2 +a=8.10",
            "no call wrote",
        ),
        ("request 0 ?b@3 -b", "request 0 ?b@2 -b", "did not hold"),
        (
            "response 1 conflict 0 4",
            "response 1 conflict 0 1",
            "was known",
        ),
        (
            "response 1 conflict 0 4",
            "response 1 conflict 0 4 b@3@3=9.20",
            "where there was",
        ),
        // A watcher saw a wrong, incomplete or premature event.
        ("event 0 2 +a@2@2=7.10", "event 0 2 +a@2@2=6.10", "is now"),
        ("event 1 2 +a@2@2=7.10\n", "", "3 comes after 1"),
        (
            "event 0 4 -b\n",
            "event 0 4 -b\nevent 0 4 -b\n",
            "4 comes after 4",
        ),
        (
            "event 0 4 -b\n",
            "event 0 4 -b\nevent 0 5 -c\n",
            "after 5 was known",
        ),
        // An opening went back.
        ("opened 3 0 900", "opened 2 0 900", "after 3 was known"),
        ("opened 3 0 900", "opened 3 2 900", "set to between 0 and 0"),
        ("opened 3 0 900", "opened 3 0 2000001", "opening took"),
    ] {
        let mut case = Case::valid();
        let in_first = case.runs[0].contains(old);
        let life = &mut case.runs[usize::from(!in_first)];
        assert!(life.contains(old), "{old}");
        *life = life.replacen(old, new, 1);
        expect(&case, why, new);
    }
}

#[test]
fn recovered_state_must_match_known_history() {
    let valid = Case::valid();
    let found = |old: &str, new: &str| Case {
        log: valid.log.replace(old, new),
        states: valid.states.replace(old, new),
        ..valid.clone()
    };
    let fresh = |floor, log_bytes, took| Case {
        floor,
        log_bytes,
        took,
        ..valid.clone()
    };
    let Case {
        log_bytes, took, ..
    } = valid;
    for (name, case, why) in [
        ("lost", found("\nevent 0 4 -b", ""), "after 4 was known"),
        (
            "gap",
            found("event 0 3 +a@2@3=8.10 +b@3@3=9.20\n", ""),
            "4 comes after 2",
        ),
        ("reused", found("event 0 4 -b", "event 0 4 -c"), "is now"),
        (
            "old state",
            found("event 0 2 +a@2@2=7.10", "event 0 2"),
            "the state at 2",
        ),
        (
            "state",
            found("event 0 4 +a@2@3=8.10", "event 0 4"),
            "the state at 4",
        ),
        ("floor down", fresh(1, log_bytes, took), "between 2 and 2"),
        ("floor up", fresh(3, log_bytes, took), "between 2 and 2"),
        ("large", fresh(2, 1 << 30, took), "the log takes"),
        (
            "slow",
            fresh(2, log_bytes, Duration::from_secs(3)),
            "opening took 3s",
        ),
    ] {
        expect(&case, why, name);
    }
}

#[test]
fn revision_content_is_remembered_across_rounds() {
    let mut checker = Checker::default();
    Case::valid().check(&mut checker).unwrap();
    let no_output = || [String::new(), String::new()];
    let mut later = Case {
        runs: no_output(),
        ..Case::valid()
    };
    assert_eq!(later.check(&mut checker), Ok(()));
    later.log = later.log.replace("=9.20", "=9.21");
    let error = later.check(&mut checker).unwrap_err();
    assert!(error.contains("is now"), "{error}");
}

fn expect(case: &Case, why: &str, name: &str) {
    let error = case.check(&mut Checker::default()).expect_err(name);
    assert!(error.contains(why), "{name}: {error}");
}

use insula_store::embedded::Statistics;

use super::*;

/// Two writers: the first is killed while the answer to its second commit is on its way.
const FIRST_LIFE: &str = "\
    opened 1 0 900\n\
    watching 0 1\n\
    asked 0 ?a@absent +a=7.10\n\
    told 0 2 +a@2@2=7.10\n\
    answered 0 committed 2\n\
    asked 1 ?a@2 +a=8.10 +b=9.20\n\
    told 0 3 +a@2@3=8.10 +b@3@3=9.20";
const SECOND_LIFE: &str = "\
    opened 3 0 900\n\
    watching 0 3\n\
    watching 1 1\n\
    told 1 2 +a@2@2=7.10\n\
    told 1 3 +a@2@3=8.10 +b@3@3=9.20\n\
    asked 0 ?b@3 -b\n\
    told 0 4 -b\n\
    answered 0 committed 4\n\
    raising 2\n\
    raised 2\n\
    asked 1 ?b@3 -b\n\
    answered 1 conflict 0 4";
/// The recovered log and states.
const LOG: &str = "\
    told 0 3 +a@2@3=8.10 +b@3@3=9.20\n\
    told 0 4 -b";
const STATES: &str = "\
    told 0 2 +a@2@2=7.10\n\
    told 0 4 +a@2@3=8.10";

/// The input of one check.
#[derive(Clone)]
struct Case {
    lives: [String; 2],
    log: String,
    states: String,
    floor: u64,
    took: Duration,
    log_bytes: u64,
}

impl Case {
    fn sound() -> Self {
        Self {
            lives: [FIRST_LIFE.to_owned(), SECOND_LIFE.to_owned()],
            log: LOG.to_owned(),
            states: STATES.to_owned(),
            floor: 2,
            took: Duration::from_millis(5),
            log_bytes: 4 << 20,
        }
    }

    fn judge(&self, judge: &mut Judge) -> Result<(), String> {
        let runs = self.lives.each_ref().map(|life| run(life));
        let log = told(&self.log);
        let entries = |changes: Vec<Changed>| changes.into_iter().filter_map(put).collect();
        let states = told(&self.states).into_iter();
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
        let judged = judge.judge(&runs, &found);
        judged.map_err(|error| format!("{error:#}"))
    }
}

fn run(text: &str) -> Run {
    let number = |(index, line)| format!("{} {line}", index + 1);
    let lines: Vec<_> = text.lines().enumerate().map(number).collect();
    Run::read(&lines).unwrap()
}

fn told(text: &str) -> Log {
    let told = |line: &str| match line.parse().unwrap() {
        Line::Told {
            revision, changes, ..
        } => (revision, changes),
        other => panic!("{other}"),
    };
    text.lines().map(told).collect()
}

fn put(change: Changed) -> Option<Entry> {
    match change {
        Changed::Put(entry) => Some(entry),
        Changed::Deleted(_) => None,
    }
}

#[test]
fn sound_lives_are_accepted_and_counted() {
    let mut judge = Judge::default();
    assert_eq!(Case::sound().judge(&mut judge), Ok(()));
    let expected = Tally {
        writers: 2,
        acknowledged: 2,
        in_doubt: 1,
        happened: 1,
        told: 5,
        longest_opening: Duration::from_millis(5),
        most_log_bytes: 4 << 20,
        most_table_bytes: 0,
    };
    assert_eq!(*judge.tally(), expected);
    assert_eq!((judge.floor().get(), judge.revision().get()), (2, 4));
}

/// Each case changes one line of the valid input.
#[test]
fn each_kind_of_broken_promise_is_found() {
    for (old, new, why) in [
        // A writer lost or invented something.
        (
            "answered 0 committed 2",
            "answered 0 committed 9",
            "after 9 was known",
        ),
        (
            "asked 1 ?a@2 +a=8.10 +b=9.20",
            "asked 1 ?a@2 +a=8.10",
            "nobody asked",
        ),
        ("asked 0 ?b@3 -b", "asked 0 ?b@2 -b", "did not hold"),
        (
            "answered 1 conflict 0 4",
            "answered 1 conflict 0 1",
            "was known",
        ),
        (
            "answered 1 conflict 0 4",
            "answered 1 conflict 0 4 b@3@3=9.20",
            "where there was",
        ),
        // A watcher saw a wrong, incomplete or premature event.
        ("told 0 2 +a@2@2=7.10", "told 0 2 +a@2@2=6.10", "is now"),
        ("told 1 2 +a@2@2=7.10\n", "", "3 comes after 1"),
        (
            "told 0 4 -b\n",
            "told 0 4 -b\ntold 0 4 -b\n",
            "4 comes after 4",
        ),
        (
            "told 0 4 -b\n",
            "told 0 4 -b\ntold 0 5 -c\n",
            "after 5 was known",
        ),
        // An opening went back.
        ("opened 3 0 900", "opened 2 0 900", "after 3 was known"),
        ("opened 3 0 900", "opened 3 2 900", "set to between 0 and 0"),
        ("opened 3 0 900", "opened 3 0 2000001", "opening took"),
    ] {
        let mut case = Case::sound();
        let in_first = case.lives[0].contains(old);
        let life = &mut case.lives[usize::from(!in_first)];
        assert!(life.contains(old), "{old}");
        *life = life.replacen(old, new, 1);
        expect(&case, why, new);
    }
}

#[test]
fn what_is_found_must_be_what_was_known() {
    let sound = Case::sound();
    let found = |old: &str, new: &str| Case {
        log: sound.log.replace(old, new),
        states: sound.states.replace(old, new),
        ..sound.clone()
    };
    let fresh = |floor, log_bytes, took| Case {
        floor,
        log_bytes,
        took,
        ..sound.clone()
    };
    let Case {
        log_bytes, took, ..
    } = sound;
    for (name, case, why) in [
        ("lost", found("\ntold 0 4 -b", ""), "after 4 was known"),
        (
            "gap",
            found("told 0 3 +a@2@3=8.10 +b@3@3=9.20\n", ""),
            "4 comes after 2",
        ),
        ("reused", found("told 0 4 -b", "told 0 4 -c"), "is now"),
        (
            "old state",
            found("told 0 2 +a@2@2=7.10", "told 0 2"),
            "the state at 2",
        ),
        (
            "state",
            found("told 0 4 +a@2@3=8.10", "told 0 4"),
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
fn a_revision_keeps_its_content_into_the_next_round() {
    let mut judge = Judge::default();
    Case::sound().judge(&mut judge).unwrap();
    let nobody = || [String::new(), String::new()];
    let mut later = Case {
        lives: nobody(),
        ..Case::sound()
    };
    assert_eq!(later.judge(&mut judge), Ok(()));
    later.log = later.log.replace("=9.20", "=9.21");
    let judged = later.judge(&mut judge).unwrap_err();
    assert!(judged.contains("is now"), "{judged}");
}

fn expect(case: &Case, why: &str, name: &str) {
    let judged = case.judge(&mut Judge::default()).expect_err(name);
    assert!(judged.contains(why), "{name}: {judged}");
}

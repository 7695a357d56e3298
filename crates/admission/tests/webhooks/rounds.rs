use insula_admission::webhook::Rounds;

#[test]
fn who_saw_the_object_before_it_changed_is_asked_once_more() {
    let mut rounds = Rounds::default();
    for (index, reinvoked, changed) in [(0, true, false), (1, false, true), (2, true, false)] {
        assert!(rounds.asks(index));
        rounds.asked(index, reinvoked, changed);
    }
    assert!(rounds.go_again());
    assert_eq!(rounds.round(), 1);
    // The first has not seen what the second did; the third has.
    assert_eq!(
        [0, 1, 2].map(|index| rounds.asks(index)),
        [true, false, false]
    );
    // What the first changes now the third has not seen, either.
    rounds.asked(0, true, true);
    assert!(rounds.asks(2));
    assert!(!rounds.go_again(), "there are two rounds at most");
}

#[test]
fn nothing_is_asked_again_if_nothing_changed() {
    let mut rounds = Rounds::default();
    rounds.asked(0, true, false);
    rounds.asked(1, true, false);
    assert!(!rounds.go_again());
    assert_eq!(rounds.round(), 0);
}

#[test]
fn who_was_not_asked_first_is_not_asked_second() {
    let mut rounds = Rounds::default();
    rounds.asked(1, true, true);
    assert!(rounds.go_again());
    assert!(!rounds.asks(0));
    assert!(!rounds.asks(1), "it has seen its own change");
    rounds.changed();
    assert!(rounds.asks(1), "it has not seen that of a policy");
}

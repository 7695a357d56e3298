use insula_admission::webhook::Rounds;

#[test]
fn webhook_is_called_again_if_a_later_one_changed_the_object() {
    let mut rounds = Rounds::default();
    for (index, reinvoked, changed) in [(0, true, false), (1, false, true), (2, true, false)] {
        assert!(rounds.includes(index));
        rounds.record_call(index, reinvoked, changed);
    }
    assert!(rounds.start_second());
    assert_eq!(rounds.round(), 1);
    // The first webhook ran before the second one's change; the third ran after it.
    assert_eq!(
        [0, 1, 2].map(|index| rounds.includes(index)),
        [true, false, false]
    );
    // The third has not seen the change that the first makes now.
    rounds.record_call(0, true, true);
    assert!(rounds.includes(2));
    assert!(!rounds.start_second(), "there are at most two rounds");
}

#[test]
fn no_second_round_without_a_change() {
    let mut rounds = Rounds::default();
    rounds.record_call(0, true, false);
    rounds.record_call(1, true, false);
    assert!(!rounds.start_second());
    assert_eq!(rounds.round(), 0);
}

#[test]
fn webhook_that_was_not_called_first_is_not_called_again() {
    let mut rounds = Rounds::default();
    rounds.record_call(1, true, true);
    assert!(rounds.start_second());
    assert!(!rounds.includes(0));
    assert!(!rounds.includes(1), "its own change causes no reinvocation");
    rounds.record_change();
    assert!(
        rounds.includes(1),
        "a change by a policy causes reinvocation"
    );
}

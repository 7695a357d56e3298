use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

fn bash(script: &str) -> Running {
    let mut command = Command::new("bash");
    Running::start(script.to_owned(), command.arg("-c").arg(script), "")
}

/// Returns the message of a panic.
fn panic_of<T>(does: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(does)).err();
    let message = panic.and_then(|panic| panic.downcast::<String>().ok());
    message.map_or_else(String::new, |message| *message)
}

/// Waits until a process does not exist, or has exited and is not waited for by its parent.
fn await_end(pid: &str) {
    let deadline = Instant::now() + TIMEOUT;
    let status = format!("/proc/{pid}/status");
    let lives = || {
        let status = std::fs::read_to_string(&status);
        status.is_ok_and(|status| !status.contains("State:\tZ"))
    };
    while lives() {
        assert!(Instant::now() < deadline, "process {pid} lives on");
        thread::sleep(POLL_INTERVAL);
    }
}

#[test]
fn quotes_keep_words_together() {
    assert_eq!(words(" a  b=c "), ["a", "b=c"]);
    assert_eq!(words("x='a b' '' 'c'"), ["x=a b", "", "c"]);
}

#[test]
fn command_returns_its_output_and_exit_code() {
    let said = bash("cat; echo out; echo err >&2; exit 3").finish();
    assert_eq!(said.code, Some(3));
    assert_eq!((&*said.out, &*said.err), ("out\n", "err\n"));
}

#[test]
fn background_jobs_that_keep_stderr_open_end_with_the_command() {
    let begun = Instant::now();
    let said = bash("echo first >&2; sleep 1000 >/dev/null & echo $!").finish();
    assert_eq!(said.code, Some(0));
    assert_eq!(said.err, "first\n");
    assert!(begun.elapsed() < EXIT_TIMEOUT);
    await_end(said.out.trim());
}

#[test]
fn background_jobs_end_when_the_command_is_dropped() {
    let mut running = bash("sleep 1000 & echo job $!; wait");
    let job = running.await_line("job ");
    drop(running);
    await_end(job.trim_start_matches("job ").trim());
}

#[test]
fn killed_command_returns_its_output() {
    let mut running = bash("sleep 1000 & echo job $!; wait");
    let job = running.await_line("job ");
    let said = running.kill();
    assert_eq!((said.code, said.out), (None, job));
}

#[test]
fn session_that_prints_forever_ends_in_time() {
    let mut running = bash("while echo more; do sleep 0.01; done");
    running.await_line("more");
    let (line, session) = (TIMEOUT, Duration::from_millis(300));
    let message = panic_of(|| running.finish_session(line, session));
    assert!(
        message.contains("takes too long and said\nmore\n"),
        "{message}"
    );
}

#[test]
fn session_that_prints_nothing_ends_in_time() {
    let mut running = bash("echo once; sleep 1000");
    running.await_line("once");
    let (line, session) = (Duration::from_millis(300), TIMEOUT);
    let message = panic_of(|| running.finish_session(line, session));
    assert!(
        message.ends_with("takes too long and said\nonce\n"),
        "{message}"
    );
}

//! `insula serve` as a user sees it.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn insula(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_insula"));
    command.args(arguments).env_remove("RUST_LOG");
    command
}

fn run(arguments: &[&str]) -> Output {
    insula(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A server that has said that its store is open.
struct Serving {
    child: Child,
    said: String,
}

impl Serving {
    fn start(data: &Path) -> Self {
        let mut child = insula(&["serve", "--data-dir", data.to_str().unwrap()])
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        lines.read_line(&mut said).unwrap();
        Self { child, said }
    }

    fn stop(mut self, signal: Signal) -> Option<i32> {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        kill(pid, signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

#[test]
fn it_opens_its_store_and_ends_cleanly_when_told_to() {
    let data = tempfile::tempdir().unwrap();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let serving = Serving::start(data.path());
        assert!(
            serving.said.starts_with("store open at revision 1"),
            "{}",
            serving.said
        );
        assert_eq!(serving.stop(signal), Some(0));
    }
    assert!(data.path().join("store/format").is_file());
}

#[test]
fn a_second_server_on_the_same_data_is_refused_with_a_hint() {
    let data = tempfile::tempdir().unwrap();
    let serving = Serving::start(data.path());
    let second = run(&["serve", "--data-dir", data.path().to_str().unwrap()]);
    assert_eq!(second.status.code(), Some(1));
    let store = data.path().join("store");
    let expected = format!(
        "error: cannot open the store: {} is in use by another process\n\
         hint: stop the other insula, or choose another --data-dir\n",
        store.display()
    );
    assert_eq!(stderr(&second), expected);
    assert_eq!(serving.stop(Signal::SIGTERM), Some(0), "the first goes on");
}

#[test]
fn damage_is_refused_with_a_hint_and_left_alone() {
    let data = tempfile::tempdir().unwrap();
    assert_eq!(Serving::start(data.path()).stop(Signal::SIGTERM), Some(0));
    let format = data.path().join("store/format");
    std::fs::write(&format, "insula store, format 9\n").unwrap();
    let refused = run(&["serve", "--data-dir", data.path().to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    let said = stderr(&refused);
    assert!(said.contains("newer version"), "{said}");
    assert!(said.ends_with("or move it away to begin anew\n"), "{said}");
    assert_eq!(
        std::fs::read_to_string(&format).unwrap(),
        "insula store, format 9\n"
    );
}

#[test]
fn an_etcd_that_is_not_there_is_named() {
    let refused = run(&[
        "serve",
        "--store",
        "etcd",
        "--etcd-servers",
        "http://127.0.0.1:1",
    ]);
    assert_eq!(refused.status.code(), Some(1));
    let said = stderr(&refused);
    assert!(
        said.starts_with("error: cannot use etcd: no etcd endpoint answers; http://127.0.0.1:1"),
        "{said}"
    );
    assert!(said.contains("\nhint: check --etcd-servers"), "{said}");
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    for wrong in [
        &["serve", "--store", "etcd"][..],
        &["serve", "--nonsense"],
        &["nonsense"],
        &[],
    ] {
        assert_eq!(run(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn help_is_as_it_was_reviewed() {
    for (arguments, golden) in [
        (&["--help"][..], include_str!("golden/help.txt")),
        (&["serve", "--help"], include_str!("golden/serve-help.txt")),
    ] {
        let help = String::from_utf8(run(arguments).stdout).unwrap();
        assert_eq!(help, golden, "insula {}", arguments.join(" "));
    }
}
